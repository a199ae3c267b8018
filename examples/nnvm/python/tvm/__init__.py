"""The parts of TVM 0.5 that programs for NNVM use, over Kernpack: arrays, contexts, targets, modules, the graph runtime."""

from . import contrib, module, nd, target, testing
from .nd import context, cpu, gpu

float16, float32, float64 = "float16", "float32", "float64"
int8, int16, int32, int64 = "int8", "int16", "int32", "int64"
uint8, uint16, uint32, uint64 = "uint8", "uint16", "uint32", "uint64"

__all__ = ["context", "contrib", "cpu", "gpu", "module", "nd", "target", "testing"]
