"""The compiler in Python: its functions by name, its objects as classes with operators.

No function of the compiler is named here: `te`, `schedule`, `pipeline` and so on have what the library registered under `kernpack.<name>.`, and the classes
have the fields and methods that the library says they have. PYTHON_COMPILER_LIBRARY names the library.
"""

import functools
import os
import sys
import types

import tvm_ffi
from tvm_ffi import dataclasses

_path = os.environ.get("PYTHON_COMPILER_LIBRARY")
if not _path:
    raise ImportError("set PYTHON_COMPILER_LIBRARY to the path of libpython_compiler.so")
library = tvm_ffi.load_module(_path)


def _functions(prefix):
    """Global functions by the part of their name behind a prefix."""
    names = [name for name in tvm_ffi.registry.list_global_func_names() if name.startswith(prefix)]
    return {name[len(prefix) :]: tvm_ffi.get_global_func(name) for name in names}


for _group in ("arith", "graph", "ir", "module", "pipeline", "rules", "schedule", "target", "te"):
    setattr(sys.modules[__name__], _group, types.SimpleNamespace(**_functions(f"kernpack.{_group}.")))
build = tvm_ffi.get_global_func("kernpack.build")


class ByName:
    """A function whose first argument is a name, as attributes: `math.exp(x)` is `te.math("exp", x)`."""

    def __init__(self, function):
        self._function = function

    def __getattr__(self, name):
        return functools.partial(self._function, name)


math, reduce, binary = ByName(te.math), ByName(te.reduce), ByName(te.binary)


class Operators:
    """What expressions and axes do with `+`, `<` and so on. `==` says whether two are the same node; `binary.Eq(a, b)` is the comparison."""

    def __neg__(self):
        return te.binary("Sub", 0, self)

    def __invert__(self):
        return getattr(te, "not")(self)


for _operator, _name in {
    "add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div", "floordiv": "FloorDiv", "mod": "FloorMod", "and": "And", "or": "Or",
    "lt": "Lt", "le": "Le", "gt": "Gt", "ge": "Ge",
}.items():  # fmt: skip
    setattr(Operators, f"__{_operator}__", lambda a, b, name=_name: te.binary(name, a, b))
    if len(_name) > 2 or _name == "Or":
        setattr(Operators, f"__r{_operator}__", lambda b, a, name=_name: te.binary(name, a, b))


class Printed:
    """Programs print as text that `ir.parse` reads."""

    def __str__(self):
        return ir.print(self)


class Indexed:
    """`tensor[i, j]` is the element."""

    def __getitem__(self, indices):
        return te.at(self, indices)


class Scheduled:
    """`schedule[tensor]` is the stage of a tensor; what `kernpack.schedule.*` do to a schedule or a stage are its methods."""

    def __getitem__(self, tensor):
        return schedule.stage(self, tensor)

    def __getattr__(self, name):
        function = getattr(schedule, name, None)
        if function is None:
            raise AttributeError(f"neither a field nor a function kernpack.schedule.{name}")
        return functools.partial(function, self)


_bases = {
    "kernpack.ir.Expr": (Operators, Printed),
    "kernpack.ir.IterVar": (Operators,),
    "kernpack.ir.Stmt": (Printed,),
    "kernpack.ir.Buffer": (Printed,),
    "kernpack.ir.LoweredFunc": (Printed,),
    "kernpack.ir.IrModule": (Printed,),
    "kernpack.te.Tensor": (Indexed,),
    "kernpack.schedule.Schedule": (Scheduled,),
    "kernpack.schedule.Stage": (Scheduled,),
}


_classes = {}


def _class(info):
    """The class of a type, made when it is first asked for, as are those that it derives from.

    `tvm_ffi` makes a class without a constructor where it meets an object first, here the default of a field: such a class is replaced.
    """
    if not info.type_key.startswith("kernpack."):
        return info.type_cls or tvm_ffi.Object
    if info.type_key not in _classes:
        name = info.type_key.rsplit(".", 1)[1]
        if info.parent_type_info.type_key == "ffi.IntEnum":
            _classes[info.type_key] = types.new_class(name, (dataclasses.IntEnum,), {"type_key": info.type_key})
        else:
            parents = (*_bases.get(info.type_key, ()), _class(info.parent_type_info))
            new = type(name, parents, {"__module__": __name__})
            _classes[info.type_key] = tvm_ffi.register_object(info.type_key)(new)
    return _classes[info.type_key]


for _key in map(str, tvm_ffi.get_global_func("ffi.GetRegisteredTypeKeys")()):
    if _key.startswith("kernpack."):
        # `kernpack.ir.Binary` is `ir.Binary`, `kernpack.PassContext` is `PassContext`.
        _place, _, _short = _key[len("kernpack.") :].rpartition(".")
        _holder = getattr(sys.modules[__name__], _place) if _place else sys.modules[__name__]
        setattr(_holder, _short, _class(tvm_ffi.core._lookup_or_register_type_info_from_type_key(_key)))
