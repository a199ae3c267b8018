"""The library with the compiler, and calls of its functions `kernpack.graph.*`."""

import os
import threading

import tvm_ffi


class NNVMError(Exception):
    """An error of an operator, a pass or a build."""


_path = os.environ.get("PYTHON_COMPILER_LIBRARY")
if not _path:
    raise ImportError("set PYTHON_COMPILER_LIBRARY to the path of libpython_compiler.so (cargo build -p python-compiler)")
# The initial values of variables: the last one of each name in this process, as in NNVM. Builds use those of their own variables.
_all_var_init = {}
library = tvm_ffi.load_module(_path)


def call(name, *arguments):
    """Calls `kernpack.graph.<name>`; its errors become `NNVMError`."""
    function = tvm_ffi.get_global_func(f"kernpack.graph.{name}")
    try:
        return function(*arguments)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise NNVMError(str(error)) from error


class ScopeType(type):
    """The type of classes whose objects are used as `with` blocks.

    `current` is the object of the innermost block of the calling thread, or the default, which all threads share.
    """

    def __init__(cls, name, bases, namespace):
        super().__init__(name, bases, namespace)
        if not any(isinstance(base, ScopeType) for base in bases):
            cls._thread = threading.local()
            cls._default = cls()

    def _scopes(cls):
        if not hasattr(cls._thread, "scopes"):
            cls._thread.scopes = [cls._default]
        return cls._thread.scopes

    def _enter(cls, scope):
        cls._scopes().append(scope)

    def _leave(cls):
        cls._scopes().pop()

    @property
    def current(cls):
        return cls._scopes()[-1]

    @current.setter
    def current(cls, scope):
        cls._scopes()[-1] = scope


def text_of(value):
    """A value as the text of an attribute: `(3, 3)`, `True`, `0.1`."""
    if isinstance(value, (tuple, list)):
        # Numbers of NumPy in a list print as `np.int64(3)`.
        value = type(value)(one.item() if hasattr(one, "item") else one for one in value)
    return value if isinstance(value, str) else str(value)


def plain(value):
    """A value of the library as a value of Python: lists, dictionaries, numbers, texts."""
    if isinstance(value, (str, bytes, int, float, bool)) or value is None:
        return value
    if type(value).__name__ == "Typed" and hasattr(value, "type_name"):
        return plain(value.value)
    if hasattr(value, "items"):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list, tvm_ffi.Array, tvm_ffi.Shape)):
        return [plain(item) for item in value]
    return value
