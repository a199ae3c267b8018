"""Symbols: outputs of nodes, from which graphs are made. Each operator is a function of this module."""

import sys
import types

import numpy as np

from ._base import NNVMError, _all_var_init, call, text_of
from .attribute import AttrScope
from .name import NameManager


class Symbol:
    """Outputs of nodes. `handle` is the object `kernpack.graph.Graph`; `initial` are initial values, by the nodes of variables."""

    # Numbers of NumPy leave operators to the symbol.
    __array_ufunc__ = None

    def __init__(self, handle, initial=None):
        self.handle = handle
        self._initial = initial or {}

    # Operators.

    def __add__(self, other):
        return _arithmetic("add", self, other)

    __radd__ = __add__

    def __sub__(self, other):
        return _arithmetic("sub", self, other)

    def __rsub__(self, other):
        return _apply("__rsub_scalar__", [self], scalar=other)

    def __mul__(self, other):
        return _arithmetic("mul", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return _arithmetic("div", self, other)

    __div__ = __truediv__

    def __rtruediv__(self, other):
        return _apply("__rdiv_scalar__", [self], scalar=other)

    __rdiv__ = __rtruediv__

    def __pow__(self, other):
        return _arithmetic("pow", self, other)

    def __rpow__(self, other):
        return _apply("__rpow_scalar__", [self], scalar=other)

    def __lshift__(self, other):
        return _arithmetic("lshift", self, other)

    def __rshift__(self, other):
        return _arithmetic("rshift", self, other)

    def __neg__(self):
        return self * -1.0

    # Outputs.

    def __len__(self):
        return len(self.handle.outputs)

    def __iter__(self):
        return (self[number] for number in range(len(self)))

    def __getitem__(self, which):
        """One output, by number or by name."""
        if not isinstance(which, (int, str)):
            raise TypeError(f"an output is chosen by its number or name, not by {type(which).__name__}")
        if isinstance(which, int) and not -len(self) <= which < len(self):
            raise IndexError(f"output {which} of {len(self)}")
        which = which % len(self) if isinstance(which, int) else which
        return Symbol(call("output", self.handle, which), self._initial)

    def __copy__(self):
        return Symbol(self.handle, self._initial)

    def __deepcopy__(self, _memo):
        return Symbol(self.handle, self._initial)

    def __repr__(self):
        return f"<Symbol {', '.join(self.list_output_names())}>"

    def __call__(self, *positional, **named):
        """The symbol with variables replaced: by their order, or by their names. `name` is left to the replaced nodes."""
        named.pop("name", None)
        if positional and named:
            raise TypeError("variables are replaced by position or by name, not both")
        if positional:
            names = self.list_input_names()
            if len(positional) > len(names):
                raise NNVMError(f"{len(positional)} symbols for {len(names)} variables")
            named = dict(zip(names, positional))
        for key, value in named.items():
            _expect_symbol(value, f"variable `{key}`")
        composed = call("compose", self.handle, {key: value.handle for key, value in named.items()})
        return Symbol(composed, _merged([self, *named.values()]))

    # Names and attributes.

    def list_input_names(self, option="all"):
        """Names of the variables: all, those that are only read ("read_only"), those that are written ("aux_state")."""
        return [str(name) for name in call("list_input_names", self.handle, option)]

    def list_input_variables(self, option="all"):
        """The variables as symbols, in the order of `list_input_names`."""
        internals = call("internals", self.handle)
        numbers = {}
        for number, entry in enumerate(internals.outputs):
            if entry.node.op is None:
                numbers.setdefault(str(entry.node.name), number)
        return [Symbol(call("output", internals, numbers[name]), self._initial) for name in self.list_input_names(option)]

    def list_output_names(self):
        """Names of the outputs: that of the node, and that of its output."""
        return [str(name) for name in call("list_output_names", self.handle)]

    def attr(self, key):
        """An attribute of the node; also "name" and "op_name". None if it is not set."""
        node = self._node()
        if key == "name":
            return str(node.name)
        if key == "op_name":
            return "null" if node.op is None else str(node.op)
        value = node.attrs.get(key)
        return None if value is None else str(value)

    def list_attr(self, recursive=False):
        """All attributes of the node; with `recursive` those of all nodes before it, under `<node>$<attribute>`."""
        if not recursive:
            return {str(key): str(value) for key, value in self._node().attrs.items()}
        nodes = {str(entry.node.name): entry.node for entry in call("internals", self.handle).outputs}
        return {f"{name}${key}": str(value) for name, node in nodes.items() for key, value in node.attrs.items()}

    def _set_attr(self, **attrs):
        before = self._node()
        self.handle = call("set_node_attrs", self.handle, _texts(attrs))
        if before in self._initial:
            self._initial = {**self._initial, self._node(): self._initial[before]}

    def _initial_values(self):
        """The initial values of its variables, by name: symbols, or arrays of NumPy."""
        if not self._initial:
            return {}
        nodes = [entry.node for entry in call("internals", self.handle).outputs]
        return {str(node.name): self._initial[node] for node in nodes if node in self._initial}

    def _node(self):
        if len(self) != 1:
            raise NNVMError(f"a symbol of {len(self)} outputs has no attributes: take one output first")
        return self.handle.outputs[0].node

    # Graphs.

    def get_internals(self):
        """All entries of the graph as one symbol."""
        return Symbol(call("internals", self.handle), self._initial)

    def get_children(self):
        """The inputs of the node as one symbol; None for a variable."""
        children = call("children", self.handle)
        return Symbol(children, self._initial) if len(children.outputs) else None

    def debug_str(self):
        """The graph as text, a line for each node."""
        return str(call("print", self.handle))


def Variable(name, init=None, **attrs):
    """A variable.

    `shape=` and `dtype=` (a number of `nnvm.compiler.graph_attr.DTYPE_TO_TCODE`, or a name) are where inference begins. `init` is the
    value that `nnvm.compiler.build` returns as a parameter: a symbol or an array; the name of an initializer is kept as an attribute.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a variable is a string, not {type(name).__name__}")
    if hasattr(init, "asnumpy"):
        init = init.asnumpy()
    if isinstance(init, np.ndarray):
        init = init.copy()  # the caller may change the array later
    has_value = isinstance(init, (Symbol, np.ndarray))
    if init is not None and not has_value:
        attrs["init"] = init
    symbol = Symbol(call("variable", name, AttrScope.current.get(_texts(attrs))))
    if has_value:
        symbol._initial = {symbol._node(): init}
        _all_var_init[name] = init
    return symbol


def Group(symbols):
    """The outputs of several symbols as one."""
    symbols = [_expect_symbol(symbol, "an element of a group") for symbol in symbols]
    return Symbol(call("group", [symbol.handle for symbol in symbols]), _merged(symbols))


def pow(base, exponent):
    """`base` to the power of `exponent`: symbols or numbers, one of them a symbol."""
    if isinstance(base, Symbol) or isinstance(exponent, Symbol):
        return base**exponent
    raise TypeError("pow: neither the base nor the exponent is a symbol")


_BROADCAST = {
    "add": "broadcast_add", "sub": "broadcast_sub", "mul": "broadcast_mul", "div": "broadcast_div", "pow": "broadcast_pow",
    "lshift": "broadcast_left_shift", "rshift": "broadcast_right_shift",
}  # fmt: skip


def _arithmetic(name, left, right):
    if isinstance(right, Symbol):
        return _apply(_BROADCAST[name], [left, right])
    if isinstance(right, (int, float)) or hasattr(right, "__float__"):
        return _apply(f"__{name}_scalar__", [left], scalar=right)
    return NotImplemented


def _expect_symbol(value, what):
    if not isinstance(value, Symbol):
        raise TypeError(f"{what} is to be a Symbol, got {type(value).__name__}")
    return value


def _merged(symbols):
    """The initial values of the variables of several symbols. Equal ones are shared, not copied."""
    merged = {}
    for symbol in symbols:
        if not merged:
            merged = symbol._initial
        elif symbol._initial and symbol._initial is not merged:
            merged = {**merged, **symbol._initial}
    return merged


def _texts(attrs):
    return {key: text_of(value) for key, value in attrs.items()}


def _apply(op, positional, name=None, attr=None, **named):
    """A node: symbols by position or name are inputs, other values are attributes."""
    symbols = {key: value.handle for key, value in named.items() if isinstance(value, Symbol)}
    attrs = _texts({key: value for key, value in named.items() if not isinstance(value, Symbol) and value is not None})
    attrs = {**AttrScope.current.get(_texts(attr or {})), **attrs}
    inputs = [_expect_symbol(value, f"{op}: input {number}").handle for number, value in enumerate(positional)]
    initial = _merged([*positional, *(value for value in named.values() if isinstance(value, Symbol))])
    operator = call("op", op)
    arguments = [str(argument.name if hasattr(argument, "name") else argument) for argument in operator.arguments]
    if arguments == ["lhs", "rhs"] and len(inputs) + len(symbols) < 2:
        raise NNVMError(f"{op}: expected 2 inputs, lhs and rhs, got {len(inputs) + len(symbols)}")
    return Symbol(call("apply_op", op, NameManager.current.get(name, op.strip("_")), inputs, symbols, attrs), initial)


def _function(op):
    def function(*inputs, **named):
        return _apply(op, inputs, **named)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = _documentation(op)
    return function


def _documentation(op):
    operator = call("op", op)
    lines = [str(operator.description or "")]
    for group in ("arguments", "params"):
        values = getattr(operator, group)
        lines.extend(["", group.capitalize()] + [f"    {value}" for value in values] if len(values) else [])
    return "\n".join(lines).strip()


def _functions():
    """Adds a function for each operator: public ones here, those that begin with an underscore to `_internal`."""
    for op in map(str, call("op_names")):
        setattr(_internal if op.startswith("_") else sys.modules[__name__], op, _function(op))


def __getattr__(name):
    """Operators that were registered after this module was imported."""
    if not name.startswith("__") and name in map(str, call("op_names")):
        function = _function(name)
        globals()[name] = function
        return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_internal = types.ModuleType("nnvm._symbol_internal")
sys.modules[_internal.__name__] = _internal
_functions()
