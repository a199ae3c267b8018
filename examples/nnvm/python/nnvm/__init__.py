"""NNVM's Python interface over Kernpack's graph compiler.

Programs that were written for NNVM 0.5 run with it: symbols, graphs, passes, `nnvm.compiler.build`. The package `tvm` beside it has the parts
of TVM that such programs use: arrays, contexts, targets, the graph runtime.
"""

from . import symbol
from . import symbol as sym
from . import attribute, frontend, graph, name
from ._base import NNVMError

__all__ = ["NNVMError", "attribute", "frontend", "graph", "name", "sym", "symbol"]
