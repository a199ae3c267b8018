"""Graphs: symbols with attributes, which passes read and write."""

import json

import tvm_ffi

from ._base import NNVMError, call, plain
from .symbol import Group, Symbol, _merged

_NAMES = {"list_shape": lambda shapes: [tvm_ffi.Shape(tuple(shape)) for shape in shapes]}


class GraphIndex:
    """The nodes of a graph in the order in which they run, and the numbers of their entries."""

    def __init__(self, graph):
        # Attributes of any type may be in the graph, and JSON cannot hold all of them.
        parsed = json.loads(call("save_json", graph.symbol.handle))
        self.nodes = parsed["nodes"]
        self.entry_ptr = parsed["node_row_ptr"]
        self._ids = {node["name"]: number for number, node in enumerate(self.nodes)}
        self.input_names = graph.symbol.list_input_names()
        self.output_entries = parsed["heads"]

    @property
    def num_nodes(self):
        return len(self.entry_ptr) - 1

    @property
    def num_node_entries(self):
        return self.entry_ptr[-1]

    def node_id(self, key):
        """The number of a node, by its name."""
        return self._ids[key]

    def entry_id(self, key, value_index=0):
        """The number of an entry, by the name or number of its node, or by an entry of `nodes[..]["inputs"]`."""
        if isinstance(key, (list, tuple)):
            key, value_index = key[0], key[1]
        return self.entry_ptr[key if isinstance(key, int) else self.node_id(key)] + value_index


class Graph:
    """A graph. `handle` is the object `kernpack.graph.Graph`; attributes that are set replace it."""

    def __init__(self, handle, initial=None):
        self.handle = handle
        self._initial = initial or {}
        self._index = None

    def json_attr(self, key):
        """An attribute as numbers, texts and lists; None if it is not set."""
        return plain(call("attr", self.handle, key)) if call("has_attr", self.handle, key) else None

    def _set_json_attr(self, key, value, type_name=None):
        convert = _NAMES.get(type_name)
        self.handle = call("set_attr", self.handle, key, convert(value) if convert else value)

    def _set_symbol_list_attr(self, key, value):
        symbols = value if isinstance(value, Symbol) else Group(value)
        self.handle = call("set_attr", self.handle, key, symbols.handle.outputs)
        self._initial = _merged([self, symbols])

    def _move_out_module(self, key):
        self.handle, module = call("move_attr", self.handle, key)
        return module

    _move_out_graph = _move_out_module

    @property
    def symbol(self):
        """The outputs as a symbol."""
        return Symbol(call("group", [self.handle]), self._initial)

    @property
    def index(self):
        if self._index is None:
            self._index = GraphIndex(self)
        return self._index

    def json(self):
        """The graph as NNVM's JSON."""
        return str(call("save_json", self.handle))

    def apply(self, passes):
        """The graph after one pass or several, by name."""
        return Graph(call("apply", self.handle, passes if isinstance(passes, str) else list(passes)), self._initial)

    def ir(self, join_entry_attrs=None, join_node_attrs=None):
        """The graph as text, with the attributes of entries and nodes that are named."""
        text = str(call("print", self.handle))
        parts = [(key, self.json_attr(key), True) for key in join_entry_attrs or ()]
        parts += [(key, self.json_attr(key), False) for key in join_node_attrs or ()]
        missing = [key for key, values, _ in parts if values is None]
        if missing:
            raise NNVMError(f"the graph has no attribute {', '.join(missing)}")
        if not parts:
            return text
        lines = text.split("\n")
        rows = self.index.entry_ptr
        for number in range(self.index.num_nodes):
            for key, values, by_entry in parts:
                shown = values[rows[number]:rows[number + 1]] if by_entry else values[number]
                lines[number] += f", {key}={shown}"
        return "\n".join(lines)

    def __repr__(self):
        return self.ir()


def create(symbol):
    """A graph with the outputs of a symbol."""
    if not isinstance(symbol, Symbol):
        raise TypeError(f"graph.create is to get a Symbol, got {type(symbol).__name__}")
    return Graph(symbol.handle, symbol._initial)


def load_json(text):
    """A graph from NNVM's JSON."""
    return Graph(call("load_json", text))
