"""The two libraries in Python: their types as classes, their functions as functions.

EXPR_LIBRARY and EXTENSION_LIBRARY name the libraries; EXTENSION_FIRST=1 loads them the other way round.
"""

import os

import tvm_ffi


def _load(variable):
    path = os.environ.get(variable)
    if not path:
        raise ImportError(f"set {variable} to the path of the library")
    return tvm_ffi.load_module(path)


_order = ["EXPR_LIBRARY", "EXTENSION_LIBRARY"]
if os.environ.get("EXTENSION_FIRST"):
    _order.reverse()
_libraries = {variable: _load(variable) for variable in _order}
expr, library = _libraries["EXPR_LIBRARY"], _libraries["EXTENSION_LIBRARY"]


@tvm_ffi.register_object("extension.IntVector")
class IntVector(tvm_ffi.Object):
    """A vector of integers, which lives in Rust and is shared by whoever holds it."""

    def __init__(self, values=()):
        self.__init_handle_by_constructor__(library.ivec_create, list(values))

    def __len__(self):
        return library.ivec_len(self)

    def __getitem__(self, index):
        return library.ivec_get(self, index)

    def __setitem__(self, index, value):
        library.ivec_set(self, index, value)


@tvm_ffi.register_object("expr.Expr")
class Expr(tvm_ffi.Object):
    """An expression; `+` and `str` work as for numbers."""

    def __add__(self, other):
        return expr.add(self, other)

    def __str__(self):
        return expr.text(self)


@tvm_ffi.register_object("expr.Var")
class Var(Expr):
    """A variable."""

    def __init__(self, name, dtype="int32"):
        self.__init_handle_by_constructor__(expr.var, name, dtype)


@tvm_ffi.register_object("expr.IntImm")
class IntImm(Expr):
    """An integer constant."""

    def __init__(self, value, dtype="int32"):
        self.__init_handle_by_constructor__(expr.int_imm, value, dtype)


@tvm_ffi.register_object("expr.Add")
class Add(Expr):
    """A sum."""


bind_add = library.bind_add
map_vector = library.map_vector
sym_add = library.sym_add
variables = library.variables
placeholder = library.placeholder
add_one = library.add_one
op_name = library.op_name
to_device = library.to_device
ext_dev_add_one = library.ext_dev_add_one
total = library.total
