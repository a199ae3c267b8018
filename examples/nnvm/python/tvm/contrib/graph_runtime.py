"""Executors of compiled graphs."""

import numpy as np
import tvm_ffi

from .. import module
from .. import ndarray as nd


class GraphModule:
    """A compiled graph with its memory. `module` has the functions `set_input`, `run`, `get_output` and others."""

    def __init__(self, handle, ctx):
        self.module = module.Module(handle)
        self.ctx = ctx

    def set_input(self, key=None, value=None, **params):
        """Sets one input by name or number, and others by name. Arrays are copied; their element type is converted, as NNVM did."""
        if key is not None:
            self._set(key, value)
        for name, array in params.items():
            self._set(name, array)

    def _set(self, key, value):
        own = self.handle("get_input")(key)
        given = np.asarray(value)
        if str(given.dtype) != str(own.dtype):
            given = given.astype(str(own.dtype))
        self.handle("set_input")(key, nd.array(given).handle)

    def handle(self, name):
        """A function of the executor."""
        return self.module.get_function(name)

    def run(self, **inputs):
        """Sets inputs and computes the outputs."""
        self.set_input(**inputs)
        self.handle("run")()

    def get_num_outputs(self):
        return self.handle("get_num_outputs")()

    def get_input(self, index, out=None):
        """An input by name or number; copied to `out` if it is given."""
        return self._result(self.handle("get_input")(index), out)

    def get_output(self, index, out=None):
        """An output by number; copied to `out` if it is given."""
        return self._result(self.handle("get_output")(index), out)

    def debug_get_output(self, node, out):
        """The output of a node by name or number, copied to `out`."""
        self.handle("debug_get_output")(node, out.handle)
        return out

    def load_params(self, params_bytes):
        """Sets the parameters of a file."""
        self.handle("load_params")(bytes(params_bytes))

    @staticmethod
    def _result(tensor, out):
        array = nd.NDArray(tensor)
        return array if out is None else array.copyto(out)

    def __getitem__(self, name):
        """A function of the executor, which takes and returns arrays."""
        function = self.handle(name)
        if name in ("get_output", "get_input"):
            return lambda index, out=None: self._result(function(index), out)
        return lambda *arguments: function(*(value.handle if isinstance(value, nd.NDArray) else _plain(value) for value in arguments))


def _plain(value):
    return bytes(value) if isinstance(value, bytearray) else value


def create(graph_json_str, libmod, ctx):
    """An executor of a compiled graph (a `nnvm.graph.Graph` or its JSON) with its library, on a device."""
    if isinstance(ctx, (list, tuple)):
        ctx, *others = ctx
        if others:
            raise ValueError("graphs with parts on several devices are not supported")
    if ctx.device_type != "cpu":
        raise ValueError(f"the graph runtime runs on tvm.cpu(), got {ctx}")
    graph = graph_json_str if isinstance(graph_json_str, str) else graph_json_str.handle
    make = tvm_ffi.get_global_func("kernpack.graph.executor.create")
    return GraphModule(make(graph, libmod.handle), ctx)
