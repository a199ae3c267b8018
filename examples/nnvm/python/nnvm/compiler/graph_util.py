"""Inference, comparison and gradients of graphs."""

from .. import graph as _graph
from .._base import NNVMError, call
from ..symbol import Group, Symbol
from . import graph_attr


def infer_shape(graph, **shape):
    """Shapes of the variables and of the outputs, as two lists; `shape` has shapes of variables by name."""
    graph = graph_attr.set_shape_inputs(graph, shape).apply("InferShape")
    return _of(graph, graph.json_attr("shape"))


def infer_dtype(graph, **dtype):
    """Element types of the variables and of the outputs, as two lists of names."""
    graph = graph_attr.set_dtype_inputs(graph, dtype).apply("InferType")
    return _of(graph, [graph_attr.TCODE_TO_DTYPE[code] for code in graph.json_attr("dtype")])


def _of(graph, entries):
    index = graph.index
    inputs = [entries[index.entry_id(name)] for name in index.input_names]
    return inputs, [entries[index.entry_id(entry)] for entry in index.output_entries]


def check_graph_equal(grapha, graphb, compare_variable_attrs=False):
    """Raises a `ValueError` with the first difference between two graphs: operators, values of their parameters, edges, outputs."""
    difference = call("difference", grapha.symbol.handle, graphb.symbol.handle, False)
    if difference is not None:
        raise ValueError(f"Graph compare error: {difference}")
    if compare_variable_attrs:
        for a, b in zip(grapha.symbol.list_input_variables(), graphb.symbol.list_input_variables()):
            if a.list_attr() != b.list_attr():
                raise ValueError(f"Graph compare error: attributes of {a.attr('name')}: {a.list_attr()}, {b.list_attr()}")


def get_gradient_graph(ys, xs, grad_ys=None):
    """A graph whose outputs are the gradients of `ys` by `xs`; `grad_ys` are the gradients of `ys`, by default ones."""
    ys, xs = _symbols(ys), _symbols(xs)
    graph = _graph.create(ys)
    graph._set_symbol_list_attr("grad_ys", ys)
    graph._set_symbol_list_attr("grad_xs", xs)
    if grad_ys is not None:
        heads = _symbols(grad_ys)
        if len(heads) != len(ys):
            raise NNVMError(f"there are {len(heads)} gradients for {len(ys)} outputs")
        graph._set_symbol_list_attr("grad_ys_out_grad", heads)
    return graph.apply("Gradient")


def gradients(ys, xs, grad_ys=None):
    """The gradients of `ys` by `xs`, as a list of symbols."""
    return list(get_gradient_graph(ys, xs, grad_ys).symbol)


def _symbols(symbols):
    return symbols if isinstance(symbols, Symbol) else Group(symbols)
