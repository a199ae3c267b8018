"""Attributes that all symbols of a scope get."""

from ._base import ScopeType, text_of


class AttrScope(metaclass=ScopeType):
    """Adds attributes to the symbols that a thread creates in a `with` block; scopes nest, and the inner one wins.

    Names in double underscores pass every operator; others have to be parameters of the operators in the block.
    """

    def __init__(self, **attrs):
        self._attrs = {key: text_of(value) for key, value in attrs.items()}

    def get(self, attrs):
        """The attributes of the scope, replaced by those that are given."""
        return {**self._attrs, **(attrs or {})}

    def __enter__(self):
        inner = AttrScope()
        inner._attrs = AttrScope.current.get(self._attrs)
        AttrScope._enter(inner)
        return self

    def __exit__(self, *_):
        AttrScope._leave()
