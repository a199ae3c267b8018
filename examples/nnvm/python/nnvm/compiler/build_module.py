"""Builds: from a symbol to a graph, a library and parameters."""

import numpy as np
import tvm
import tvm_ffi
from tvm.contrib import graph_runtime

from .. import graph as _graph
from .._base import NNVMError, call
from ..symbol import Symbol, initial_values
from . import graph_attr, graph_util

OPT_PASS_LEVEL = {
    "SimplifyInference": 0,
    "PrecomputePrune": 2,
    "OpFusion": 1,
    "FoldScaleAxis": 3,
    "AlterOpLayout": 3,
}


class BuildConfig:
    """The options of builds: `opt_level` (0 to 3) and `add_pass`, names of passes that run at any level."""

    current = None
    defaults = {"opt_level": 2, "add_pass": None, "fallback_device": None, "op_name_device": None}

    def __init__(self, **options):
        unknown = set(options) - set(self.defaults)
        if unknown:
            raise ValueError(f"unknown option {', '.join(sorted(unknown))}: the options are {', '.join(self.defaults)}")
        self._outer = None
        vars(self).update({**self.defaults, **options})

    def __enter__(self):
        self._outer = BuildConfig.current
        BuildConfig.current = self
        return self

    def __exit__(self, *_):
        BuildConfig.current = self._outer

    def pass_enabled(self, pass_name):
        """True if the pass runs with these options."""
        return pass_name in (self.add_pass or ()) or self.opt_level >= OPT_PASS_LEVEL[pass_name]


BuildConfig.current = BuildConfig()


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

    `shape` and `dtype` are those of variables, by name; one `dtype` is that of all. `params` are arrays by name. Returns the compiled
    graph, its library, and the parameters that it takes.
    """
    config = BuildConfig.current
    if config.op_name_device is not None:
        raise NNVMError("op_name_device: graphs with parts on several devices cannot be compiled")
    if target_host is not None and str(target_host) != str(target):
        raise NNVMError("target_host: kernels run on the CPU; give the target alone")
    graph = _graph.create(graph) if isinstance(graph, Symbol) else graph
    graph = _graph.create(graph.symbol)
    if layout:
        graph = graph_attr.set_layout_inputs(graph, layout).apply("CorrectLayout")
    options = {"opt_level": config.opt_level, "add_pass": list(config.add_pass or ())}
    names = graph.symbol.list_input_names()
    shapes = {name: list(of) for name, of in (shape or {}).items() if name in names}
    dtypes = dict(dtype) if isinstance(dtype, dict) else str(dtype)
    has_state = any(name in initial_values for name in names)
    if has_state:
        shapes = _with_state(graph, shapes)
    arrays = {name: tvm.nd.array(value).handle for name, value in (params or {}).items()}
    handle, module, left = call("build_with", graph.handle, str(tvm.target.create(target)), _shapes(shapes), dtypes, arrays, options)
    left = {str(name): tvm.nd.NDArray(value) for name, value in left.items()}
    if has_state:
        left.update(_initial(graph, shapes, dtypes))
    return _graph.Graph(handle), tvm.module.Module(module), left


def _with_state(graph, shapes):
    """The shapes that are given, and those of variables whose initial value has a known shape."""
    names = graph.symbol.list_input_names()
    while True:
        inferred, _ = graph_util.infer_shape(graph, **shapes)
        known = {name: shape for name, shape in zip(names, inferred) if shape and 0 not in shape}
        found = {}
        for name in names:
            if name in initial_values and name not in known:
                value = _graph.create(initial_values[name])
                given = {key: known[key] for key in value.index.input_names if key in known}
                _, [shape] = graph_util.infer_shape(value, **given)
                if shape and 0 not in shape:
                    found[name] = shape
        if not found:
            return shapes
        shapes = {**shapes, **found}


def _initial(graph, shapes, dtypes):
    """The initial values of the variables of a graph."""
    names = graph.symbol.list_input_names()
    types = dtypes if isinstance(dtypes, dict) else dict.fromkeys(names, dtypes)
    ishape, _ = graph_util.infer_shape(graph, **shapes)
    idtype, _ = graph_util.infer_dtype(graph, **types)
    return initialize_variables(dict(zip(names, ishape)), dict(zip(names, idtype)))


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
    """The initial values of variables that have one (`Variable(init=symbol)`), from the shapes and element types of all, by name."""
    values = {}
    for name in ishape:
        if name in initial_values:
            graph = initial_values[name]
            given = {key: np.zeros(tuple(ishape[key]), dtype=idtype[key]) for key in graph.list_input_names()}
            values[name] = _run_graph(graph, given)[0]
    return values


__all__ = ["BuildConfig", "build", "build_config", "graph_runtime", "graph_util", "initialize_variables", "optimize", "precompute_prune"]
