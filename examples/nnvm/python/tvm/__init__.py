"""The parts of TVM 0.5 that programs for NNVM use, over Kernpack: arrays, contexts, targets, modules, the graph runtime."""

import sys

from . import contrib, module, ndarray, target, testing
from . import ndarray as nd
from .ndarray import context, cpu, gpu

# `tvm.nd` is another name of `tvm.ndarray`.
sys.modules[f"{__name__}.nd"] = nd

float16, float32, float64 = "float16", "float32", "float64"
int8, int16, int32, int64 = "int8", "int16", "int32", "int64"
uint8, uint16, uint32, uint64 = "uint8", "uint16", "uint32", "uint64"

__all__ = ["context", "contrib", "cpu", "gpu", "module", "nd", "ndarray", "target", "testing"]
