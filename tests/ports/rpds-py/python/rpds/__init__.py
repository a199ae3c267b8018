"""Persistent containers of the crate rpds."""

from collections import abc

from . import rpds as _library
from .rpds import HashTrieMap, HashTrieSet, List, Queue, Stack

__all__ = ["HashTrieMap", "HashTrieSet", "List", "Queue", "Stack"]

abc.Mapping.register(HashTrieMap)
abc.Set.register(HashTrieSet)
abc.KeysView.register(_library.KeysView)
abc.ValuesView.register(_library.ValuesView)
abc.ItemsView.register(_library.ItemsView)
