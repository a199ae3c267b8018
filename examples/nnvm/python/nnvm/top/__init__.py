"""The registry of operators' attributes."""

from . import registry

__all__ = ["registry"]
