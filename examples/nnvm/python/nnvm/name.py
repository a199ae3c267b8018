"""Names of nodes that a program does not name."""

import itertools

from ._base import ScopeType


class NameManager(metaclass=ScopeType):
    """Numbers nodes by their operator: `conv2d0`, `conv2d1`. A `with` block starts at 0.

    Blocks are those of a thread. Outside of them, all threads count together, so that their names differ.
    """

    def __init__(self):
        self._counts = {}

    def get(self, name, hint):
        """The name if there is one, else the hint with the next number."""
        return name or f"{hint}{next(self._counts.setdefault(hint, itertools.count()))}"

    def __enter__(self):
        NameManager._enter(self)
        return self

    def __exit__(self, *_):
        NameManager._leave()


class Prefix(NameManager):
    """Puts a prefix before all names in a `with` block."""

    def __init__(self, prefix):
        super().__init__()
        self._prefix = prefix

    def get(self, name, hint):
        return self._prefix + super().get(name, hint)
