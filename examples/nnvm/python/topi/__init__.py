"""The part of TVM's `topi` that tests of NNVM's programs use: reference functions in NumPy."""

from . import testing

__all__ = ["testing"]
