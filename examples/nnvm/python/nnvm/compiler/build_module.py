"""Builds: from a symbol to a graph, a library and parameters."""

import numpy as np
import tvm
import tvm_ffi
from tvm.contrib import graph_runtime

from .. import graph as _graph
from .._base import NNVMError, ScopeType, _all_var_init, call
from ..symbol import Symbol
from . import graph_attr, graph_util

OPT_PASS_LEVEL = {
    "SimplifyInference": 0,
    "PrecomputePrune": 2,
    "OpFusion": 1,
    "FoldScaleAxis": 3,
    "AlterOpLayout": 3,
}


class BuildConfig(metaclass=ScopeType):
    """The options of the builds of a thread: `opt_level` (0 to 3) and `add_pass`, names of passes that run at any level."""

    defaults = {"opt_level": 2, "add_pass": None, "fallback_device": None, "op_name_device": None}

    def __init__(self, **options):
        unknown = set(options) - set(self.defaults)
        if unknown:
            raise ValueError(f"unknown option {', '.join(sorted(unknown))}: the options are {', '.join(self.defaults)}")
        vars(self).update({**self.defaults, **options})

    def __enter__(self):
        BuildConfig._enter(self)
        return self

    def __exit__(self, *_):
        BuildConfig._leave()

    def pass_enabled(self, pass_name):
        """True if the pass runs with these options."""
        return pass_name in (self.add_pass or ()) or self.opt_level >= OPT_PASS_LEVEL[pass_name]


def build_config(**options):
    """The options of the builds in a `with` block."""
    return BuildConfig(**options)


def optimize(graph, shape, dtype="float32", layout=None):
    """The graph after the passes of the current options that change operators: SimplifyInference, FoldScaleAxis, AlterOpLayout."""
    config = BuildConfig.current
    graph = _described(graph, shape, dtype, layout)
    if config.pass_enabled("AlterOpLayout"):
        graph = graph.apply(["InferShape", "InferType", "AlterOpLayout"])
        graph = _described(graph, shape, dtype, layout).apply("CorrectLayout")
    if config.pass_enabled("SimplifyInference"):
        graph = _described(graph, shape, dtype).apply(["InferShape", "SimplifyInference"])
    if config.pass_enabled("FoldScaleAxis"):
        graph = _described(graph, shape, dtype).apply(["InferShape", "FoldScaleAxis"])
    return graph


def _described(graph, shape, dtype, layout=None):
    graph = _graph.create(graph.symbol)
    graph = graph_attr.set_shape_inputs(graph, shape)
    graph = graph_attr.set_dtype_inputs(graph, dtype)
    return graph_attr.set_layout_inputs(graph, layout) if layout else graph


def build(graph, target=None, shape=None, dtype="float32", params=None, target_host=None, layout=None):
    """Compiles a symbol or graph for a target.

    `shape` and `dtype` are those of variables, by name; one `dtype` is that of all. `params` are arrays by name. `target_host` is
    another text for the CPU: its machine is used if the target does not name one. Returns the compiled graph, its library, and the
    parameters that it takes, with the initial values of variables that have one and are not in `params`.
    """
    config = BuildConfig.current
    if config.op_name_device is not None:
        raise NNVMError("op_name_device: graphs with parts on several devices cannot be compiled")
    target = _cpu_target(target, target_host)
    graph = _graph.create(graph) if isinstance(graph, Symbol) else graph
    graph = _graph.create(graph.symbol)
    if layout:
        graph = graph_attr.set_layout_inputs(graph, layout).apply("CorrectLayout")
    options = {"opt_level": config.opt_level, "add_pass": list(config.add_pass or ())}
    names = graph.symbol.list_input_names()
    shapes = {name: list(of) for name, of in (shape or {}).items() if name in names}
    dtypes = dict(dtype) if isinstance(dtype, dict) else str(dtype)
    values = {name: value for name, value in graph.symbol._initial_values().items() if name not in (params or {})}
    arrays = {name: tvm.nd.array(value).handle for name, value in (params or {}).items()}
    if values:
        given = {name: list(array.shape) for name, array in arrays.items() if name in names}
        shapes = _with_state(graph, {**given, **shapes}, values)
    handle, module, left = call("build_with", graph.handle, target, _shapes(shapes), dtypes, arrays, options)
    left = {str(name): tvm.nd.NDArray(value) for name, value in left.items()}
    if values:
        left.update(_initial(graph, shapes, dtypes, values))
    return _graph.Graph(handle), tvm.module.Module(module), left


def _cpu_target(target, target_host):
    """The target of all code. Kernels and their callers run on the CPU, so both texts have to be of one kind and machine."""
    target = str(tvm.target.create(target))
    if target_host is None:
        return target
    host = str(tvm.target.create(target_host))
    triples = [[word for word in text.split() if word.startswith("-mtriple=")] for text in (target, host)]
    if target.split()[:1] != host.split()[:1] or all(triples) and triples[0] != triples[1]:
        raise NNVMError(f"target_host: kernels run on the CPU: expected the machine of '{target}', got '{host}'; give the target alone")
    return f"{target} {triples[1][0]}" if triples[1] and not triples[0] else target


def _with_state(graph, shapes, values):
    """The shapes that are given, and those of variables whose initial value has a known shape."""
    names = graph.symbol.list_input_names()
    while True:
        inferred, _ = graph_util.infer_shape(graph, **shapes)
        known = {name: shape for name, shape in zip(names, inferred) if shape and 0 not in shape}
        found = {}
        for name in names:
            if name not in values or name in known:
                continue
            if isinstance(values[name], np.ndarray):
                shape = list(values[name].shape)
            else:
                value = _graph.create(values[name])
                given = {key: known[key] for key in value.index.input_names if key in known}
                _, [shape] = graph_util.infer_shape(value, **given)
            if shape and 0 not in shape:
                found[name] = shape
        if not found:
            return shapes
        shapes = {**shapes, **found}


def _initial(graph, shapes, dtypes, values):
    """The initial values of the variables of a graph."""
    names = graph.symbol.list_input_names()
    types = dtypes if isinstance(dtypes, dict) else dict.fromkeys(names, dtypes)
    ishape, _ = graph_util.infer_shape(graph, **shapes)
    idtype, _ = graph_util.infer_dtype(graph, **types)
    return _evaluated(values, dict(zip(names, ishape)), dict(zip(names, idtype)))


def _shapes(shapes):
    return {name: tvm_ffi.Shape(tuple(shape)) for name, shape in shapes.items()}


def _run_graph(graph, params):
    """The outputs of a graph whose variables are all given, computed on the CPU."""
    graph = _graph.create(graph) if isinstance(graph, Symbol) else graph
    results = call("run_graph", graph.symbol.handle, {name: tvm.nd.array(value).handle for name, value in params.items()})
    return [tvm.nd.NDArray(result) for result in results]


def precompute_prune(graph, params):
    """Computes what depends on parameters alone. Returns the graph that is left, and its parameters."""
    graph = graph if isinstance(graph, _graph.Graph) else _graph.create(graph)
    graph = _graph.create(graph.symbol)
    graph._set_json_attr("param_name_list", list(params), "list_str")
    graph = graph.apply("PrecomputePrune")
    params = dict(params)
    if graph.json_attr("output_names"):
        names = graph.json_attr("output_names")
        before = _graph.Graph(call("attr", graph.handle, "precompute_graph"))
        needed = {name: params[name] for name in before.symbol.list_input_names()}
        params.update(zip(names, _run_graph(before, needed)))
    left = graph.symbol.list_input_names()
    return _graph.create(graph.symbol), {name: value for name, value in params.items() if name in left}


def initialize_variables(ishape, idtype):
    """The initial values of variables (`Variable(init=..)`), from the shapes and element types of all, by name.

    As in NNVM, they are those of the last variable of each name in this process. `build` returns those of its own variables.
    """
    return _evaluated({name: _all_var_init[name] for name in ishape if name in _all_var_init}, ishape, idtype)


def _evaluated(values, shapes, dtypes):
    """Initial values as arrays."""
    dtypes = dict.fromkeys(shapes, dtypes) if isinstance(dtypes, str) else dtypes
    arrays = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            arrays[name] = tvm.nd.array(value.astype(dtypes.get(name) or value.dtype))
        else:
            given = {key: np.zeros(tuple(shapes[key]), dtype=dtypes[key]) for key in value.list_input_names()}
            arrays[name] = _run_graph(value, given)[0]
        if arrays[name].shape != tuple(shapes[name]):
            raise NNVMError(f"variable '{name}': expected an initial value of shape {tuple(shapes[name])}, got {arrays[name].shape}")
    return arrays


__all__ = ["BuildConfig", "build", "build_config", "graph_runtime", "graph_util", "initialize_variables", "optimize", "precompute_prune"]
