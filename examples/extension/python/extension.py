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
    """A vector of integers, which lives in Rust and is shared by all its references."""


@tvm_ffi.register_object("expr.Expr")
class Expr(tvm_ffi.Object):
    """An expression."""


@tvm_ffi.register_object("expr.Var")
class Var(Expr):
    """A variable."""


@tvm_ffi.register_object("expr.IntImm")
class IntImm(Expr):
    """An integer constant."""


@tvm_ffi.register_object("expr.Add")
class Add(Expr):
    """A sum."""


# The functions of the library: bind_add, sym_add, placeholder, to_device, ...
tvm_ffi.init_ffi_api("extension", __name__)
