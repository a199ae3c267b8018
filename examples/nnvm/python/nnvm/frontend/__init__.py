"""Models of other programs as symbols with parameters."""

from .mxnet import from_mxnet
from .onnx import from_onnx

__all__ = ["from_mxnet", "from_onnx"]
