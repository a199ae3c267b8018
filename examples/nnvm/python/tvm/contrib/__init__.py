"""The graph runtime and temporary folders."""

from . import graph_runtime, util

__all__ = ["graph_runtime", "util"]
