"""Attributes that all symbols of a scope get."""

from ._base import text_of


class AttrScope:
    """Adds attributes to the symbols that are created in a `with` block; scopes nest, and the inner one wins.

    Names in double underscores pass every operator; others have to be parameters of the operators in the block.
    """

    current = None

    def __init__(self, **attrs):
        self._attrs = {key: text_of(value) for key, value in attrs.items()}
        self._outer = None

    def get(self, attrs):
        """The attributes of the scope, replaced by those that are given."""
        return {**self._attrs, **(attrs or {})}

    def __enter__(self):
        self._outer = AttrScope.current
        inner = AttrScope()
        inner._attrs = self._outer.get(self._attrs)
        AttrScope.current = inner
        return self

    def __exit__(self, *_):
        AttrScope.current = self._outer


AttrScope.current = AttrScope()
