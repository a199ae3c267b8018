"""Checks of operators: their values against a function, their gradients against a function or against differences."""

import inspect

import numpy as np
import tvm
from tvm.contrib import graph_runtime

from .. import compiler
from .. import graph as _graph
from .. import symbol as sym
from .._base import NNVMError
from ..compiler import graph_attr, graph_util
from .config import ctx_list


def infer_shapes_dtypes(graph, shape=None, dtype=None, fallback_dtype=None):
    """Infers shapes and element types, given those of some variables (by name or symbol, or one for all).

    Returns the graph, the shapes and types of the variables by name, and those of the outputs. Types that are not known are
    `fallback_dtype`.
    """
    names = graph.symbol.list_input_names()
    shape, dtype = _by_name(shape, names), _by_name(dtype, names)
    dtype = {name: graph_attr.TCODE_TO_DTYPE[of] if isinstance(of, int) else of for name, of in dtype.items()}
    graph = graph_attr.set_shape_inputs(_graph.create(graph.symbol), {name: of for name, of in shape.items() if name in names})
    graph = graph_attr.set_dtype_inputs(graph, {name: of for name, of in dtype.items() if name in names})
    graph = graph.apply(["InferShape", "InferType"])
    index = graph.index
    shapes = [tuple(of) for of in graph.json_attr("shape")]
    types = [graph_attr.TCODE_TO_DTYPE[code] for code in graph.json_attr("dtype")]
    if fallback_dtype is not None and any(types[index.entry_id(name)] is None for name in names):
        known = {name: types[index.entry_id(name)] or fallback_dtype for name in names}
        return infer_shapes_dtypes(graph, shape, known)
    for name in names:
        shape[name], dtype[name] = shapes[index.entry_id(name)], types[index.entry_id(name)]
    outputs = [index.entry_id(entry) for entry in index.output_entries]
    return graph, shape, dtype, [shapes[entry] for entry in outputs], [types[entry] for entry in outputs]


def _by_name(given, names):
    if given is None:
        return {}
    if not isinstance(given, dict):
        return dict.fromkeys(names, given)
    return {key.attr("name") if isinstance(key, sym.Symbol) else key: value for key, value in given.items()}


def graph_to_function(graph, target, ctx, shape=None, dtype=None):
    """Compiles a graph to a function: arrays of NumPy by name to a list of arrays."""
    graph, shape, dtype, out_shapes, out_dtypes = infer_shapes_dtypes(graph, shape, dtype)
    names = graph.symbol.list_input_names()
    unknown = [name for name in names if not shape[name] or dtype[name] is None]
    if unknown:
        raise ValueError(f"the shape or type of {', '.join(unknown)} is not known")
    own = {name: shape[name] for name in names}
    compiled, library, params = compiler.build(graph, target, shape=own, dtype={name: dtype[name] for name in names})
    module = graph_runtime.create(compiled, library, ctx)
    module.set_input(**params)
    left = compiled.symbol.list_input_names()

    def run(**values):
        module.run(**{name: value for name, value in values.items() if name in left})
        return [
            module.get_output(number, tvm.nd.empty(of, kind)).asnumpy() for number, (of, kind) in enumerate(zip(out_shapes, out_dtypes))
        ]

    return run


def check_function(
    symbol, forward=None, backward=None, grad_input_vars=None, shape=None, dtype=None, in_range=None, values=None,
    exclude_targets=None, only_targets=None, additional_params=None, numerical_grads=None, numerical_grads_params=None,
    atol=1e-5, rtol=1e-5, quiet=False,
):  # fmt: skip
    """Checks a symbol on random inputs; raises an `AssertionError` if a value differs.

    `forward` computes the outputs from arrays by name. `backward` also takes `head_grads` (one array, or a list for several outputs) and
    returns the gradients: by name, or a list in the order of `grad_input_vars` (by default all variables, sorted by name).
    `numerical_grads` compares the gradients with differences: True, False, or "if_possible" (the default: not if an operator has no
    gradient). `shape`, `dtype`, `in_range` and `values` are by name or symbol, or one for all variables; the inputs `head_grads_<n>` are
    those of the gradients of the outputs.
    """
    if forward is None and backward is None and numerical_grads is None:
        raise ValueError("nothing to check: give forward or backward, or numerical_grads=True")
    numerical_grads = "if_possible" if numerical_grads is None else numerical_grads
    if numerical_grads not in (True, False, "if_possible"):
        raise ValueError(f'numerical_grads is to be True, False or "if_possible", got {numerical_grads!r}')
    variables = symbol.list_input_variables()
    wanted = sorted(variables, key=lambda one: one.attr("name"))
    if grad_input_vars is not None:
        by_name = {one.attr("name"): one for one in variables}
        wanted = [by_name[one] if isinstance(one, str) else one for one in grad_input_vars]
    wanted_names = [one.attr("name") for one in wanted]
    graph, shape, dtype, out_shapes, out_dtypes = infer_shapes_dtypes(_graph.create(symbol), shape, dtype, "float32")
    if not all(out_shapes) or not all(out_dtypes):
        raise ValueError(f"shapes or types of outputs are not known: {out_shapes}, {out_dtypes}")
    heads = [f"head_grads_{number}" for number in range(len(out_shapes))]
    gradients = None
    if backward is not None or numerical_grads:
        gradients = _gradients(symbol, wanted, heads, out_shapes, out_dtypes, numerical_grads == "if_possible" and backward is None)
    names = [one.attr("name") for one in variables]
    for name, of, kind in zip(heads, out_shapes, out_dtypes):
        shape[name], dtype[name] = of, kind
    inputs = _inputs(names + (heads if gradients is not None else []), shape, dtype, in_range, values)
    data = {name: inputs[name] for name in names}
    extra = additional_params or {}
    for target, ctx in ctx_list():
        if target in (exclude_targets or ()) or only_targets is not None and target not in only_targets:
            continue
        run = graph_to_function(graph, target, ctx, shape, dtype)
        if forward is not None:
            expected = _list(_called(forward, {**data, **extra}))
            _compare("output", symbol.list_output_names(), run(**data), expected, atol, rtol)
        if gradients is None:
            continue
        given = [inputs[name] for name in heads]
        of_inputs = graph_to_function(gradients, target, ctx, shape, dtype)(**inputs)
        if backward is not None:
            expected = _called(backward, {**data, **extra, "head_grads": given if len(given) > 1 else given[0]})
            if isinstance(expected, dict):
                found = dict(zip(wanted_names, of_inputs))
                _compare("gradient of", list(expected), [found[name] for name in expected], list(expected.values()), atol, rtol)
            else:
                _compare("gradient of", wanted_names, of_inputs, _list(expected), atol, rtol)
        if numerical_grads:
            total = lambda **values: sum(np.sum(head * value) for head, value in zip(given, run(**values)))  # noqa: E731
            options = numerical_grads_params or {}
            check_numerical_grads(total, data, dict(zip(wanted_names, of_inputs)), **options)


def _gradients(symbol, wanted, heads, shapes, dtypes, may_lack):
    variables = [
        sym.Variable(name, shape=of, dtype=graph_attr.DTYPE_TO_TCODE[kind]) for name, of, kind in zip(heads, shapes, dtypes)
    ]
    try:
        parts = graph_util.gradients(symbol, wanted, grad_ys=variables)
    except NNVMError:
        if may_lack:
            return None
        raise
    return _graph.create(sym.Group(parts))


def _inputs(names, shape, dtype, in_range, values):
    in_range, values = _by_name(in_range, names), _by_name(values, names)
    inputs = {}
    for name in names:
        if name in values:
            inputs[name] = np.asarray(values[name], dtype=dtype[name])
        else:
            low, high = in_range.get(name, (-1.0, 1.0))
            inputs[name] = np.random.uniform(low, high, shape[name]).astype(dtype[name])
    return inputs


def _called(function, values):
    """Calls a function with the arguments that it takes."""
    parameters = inspect.signature(function).parameters
    if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        values = {name: value for name, value in values.items() if name in parameters}
    return function(**values)


def _list(values):
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _compare(what, names, found, expected, atol, rtol):
    if len(found) != len(expected):
        raise ValueError(f"there are {len(expected)} expected values for {', '.join(names)}")
    for name, ours, theirs in zip(names, found, expected):
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        if theirs.size != ours.size and theirs.ndim:
            raise AssertionError(f"{what} {name} has shape {ours.shape}, expected {theirs.shape}")
        theirs = np.broadcast_to(theirs if theirs.size != ours.size else theirs.reshape(ours.shape), ours.shape)
        np.testing.assert_allclose(ours, theirs, atol=atol, rtol=rtol, err_msg=f"{what} {name}")


def check_numerical_grads(function, input_values, grad_values, function_value=None, delta=1e-3, atol=1e-2, rtol=0.1):
    """Compares gradients of a function of arrays by name with differences; raises an `AssertionError`.

    Each element is moved by `delta` to both sides. The norm of the error may be `atol` times the root of the number of elements, plus
    `rtol` times the norm of the gradient. Values that are not finite are a `ValueError`.
    """
    for name, gradient in grad_values.items():
        base = input_values[name]
        numeric = np.zeros(base.shape, dtype="float64")
        for place in np.ndindex(*base.shape):
            ends = []
            for side in (delta, -delta):
                moved = base.astype("float64")
                moved[place] += side
                ends.append(float(function(**{**input_values, name: moved.astype(base.dtype)})))
            numeric[place] = (ends[0] - ends[1]) / (2 * delta)
        if not np.isfinite(numeric).all() or not np.isfinite(gradient).all():
            raise ValueError(f"the gradient by {name} is not finite: {gradient}, by differences {numeric}")
        error = np.linalg.norm(gradient - numeric)
        limit = atol * np.sqrt(gradient.size) + rtol * np.linalg.norm(numeric)
        if error > limit:
            raise AssertionError(f"the gradient by {name} is {gradient}, by differences {numeric}: the error {error} is above {limit}")
