"""Random programs over the registered types on two ways, imported and through the package tvm_ffi: constructors, fields, methods and functions give
the same, and objects that come out of one step go into later ones.

RANDOM_PROGRAMS is the number of programs, RANDOM_SEED where they begin; a failure names its seed and the steps of the program.
"""

import enum
import json
import os

import pytest
from test_random import OWN_RULES, Values, keys, kind_of_range

pytestmark = pytest.mark.needs("tvm_ffi")

PROGRAMS = int(os.environ.get("RANDOM_PROGRAMS", "150"))
SEED = int(os.environ.get("RANDOM_SEED", "18"))
STEPS = 30
# Types that the two intentionally convert differently: names of devices and element types.
LEFT_OUT_TYPES = {"Device", "DataType", "ffi.Module"}
# Functions with effects that outlast a call, and counts of live objects.
LEFT_OUT = {"keep", "keep_tensor", "call_kept", "on_a_thread", "explain", "panics", "panic", "alive", "track", "hit", "set_turn", "Maker"}


def key_of_class(module, cls):
    """The type key behind a class of the module."""
    path = cls.__qualname__
    return path if "." in path else f"{module}.{path}"


class Types:
    """The descriptions of each type on the two sides."""

    def __init__(self, extmod, library):
        import tvm_ffi

        self.extmod, self.library = extmod, library
        self.ours, self.theirs, self.enums = {}, {}, {}
        places = [extmod, extmod.objects, extmod.conversions]
        classes = [cls for place in places for cls in vars(place).values() if isinstance(cls, type) and not issubclass(cls, Exception)]
        # Bases first.
        for cls in sorted(classes, key=lambda cls: (len(cls.__mro__), cls.__qualname__)):
            key = key_of_class("extmod", cls)
            if issubclass(cls, enum.Enum):
                self.enums[key] = cls
            elif key not in self.ours:
                base = self.theirs.get(key_of_class("extmod", cls.__base__), tvm_ffi.Object)
                self.ours[key] = cls
                self.theirs[key] = tvm_ffi.register_object(key)(type(cls.__name__, (base,), {}))

    def info(self, key):
        return self.theirs[key].__tvm_ffi_type_info__

    def lineage(self, key):
        info = self.info(key)
        while info is not None:
            yield info
            info = info.parent_type_info


def refuses(*_):
    raise ValueError("refused")


def schema(metadata):
    return json.loads(metadata["type_schema"])


class Program:
    """Steps on two sides; every object is a pair with the objects of both."""

    def __init__(self, types, seed):
        self.types = types
        self.values = Values(seed)
        self.random = self.values.random
        self.pool = []
        self.log = []

    def both(self, of):
        """A value for a parameter, on both sides."""
        key, args = of["type"], of.get("args", [])
        if key in self.types.ours or key == "ffi.Object":
            fitting = [pair for pair in self.pool if key == "ffi.Object" or self.is_a(pair, key)]
            if fitting and self.random.random() < 0.95:
                return self.random.choice(fitting)
            return self.random.choice([(None, None), (5, 5), *self.pool[:3]])
        if key in self.types.enums:
            value = self.random.choice(list(self.types.enums[key])).value
            return value, value
        if key == "Optional" and self.random.random() < 0.7:
            return self.both(args[0])
        if key in ("ffi.Array", "ffi.List", "Tuple") and args:
            elements = args if key == "Tuple" else args * self.random.randrange(4)
            pairs = [self.both(element) for element in elements]
            return [left for left, _ in pairs], [right for _, right in pairs]
        if key in ("ffi.Map", "ffi.Dict") and args:
            pairs = {self.values.key(args): self.both(args[1]) for _ in range(self.random.randrange(3))}
            return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}
        if key == "ffi.Function":
            function = self.random.choice([lambda *numbers: sum(numbers), lambda *_: "text", refuses])
            return function, function
        value = self.values.of(of)
        return value, value

    def is_a(self, pair, key):
        return isinstance(pair[0], self.types.ours[key])

    def many(self, params, needed):
        count = self.random.randrange(needed, len(params) + 1)
        if self.random.random() < 0.03:
            count = self.random.randrange(len(params) + 2)
        pairs = [self.both(param) for param in (params + [{"type": "int"}])[:count]]
        return [left for left, _ in pairs], [right for _, right in pairs]

    def compare(self, left, right):
        """Returns true if the two results are the same; objects in them are kept for later steps."""
        import tvm_ffi

        if isinstance(left, enum.Enum):
            right = right if isinstance(right, (int, str)) else right.value
            return left.value == right
        if isinstance(left, (list, tuple)):
            return len(left) == len(right) and all(map(self.compare, left, right))
        if isinstance(left, dict):
            theirs = {self.plain(key): value for key, value in right.items()}
            return {self.plain(key) for key in left} == set(theirs) and all(
                self.compare(value, theirs[self.plain(key)]) for key, value in left.items()
            )
        if type(left).__name__ == "Tensor":
            return (left.shape, left.dtype) == (tuple(right.shape), str(right.dtype))
        if type(left) in self.types.ours.values():
            key = key_of_class("extmod", type(left))
            if not isinstance(right, tvm_ffi.Object) or type(right).__tvm_ffi_type_info__.type_key != key:
                return False
            self.pool.append((left, right))
            return True
        if callable(left):
            return callable(right)
        return self.plain(left) == self.plain(right)

    @staticmethod
    def plain(value):
        for kind in (bool, int, float, str, bytes):
            if isinstance(value, kind):
                return kind, repr(kind(value))
        return repr(value)

    def step(self, what, ours, theirs):
        """Performs one step on both sides."""
        results = []
        for call in (ours, theirs):
            try:
                results.append((call(), None))
            except Exception as error:
                kind = next(of for of in type(error).__mro__ if of.__module__ == "builtins")
                results.append((None, f"{kind_of_range(kind, error)}: {error}"))
        (left, left_error), (right, right_error) = results
        self.log.append(f"{what} -> {left!r}, {right!r}, {left_error}, {right_error}"[:300])
        # Python itself counts the arguments of a method without parameters.
        if left_error and "takes no arguments" in left_error and "expected 1 argument, got" in str(right_error):
            return
        assert left_error == right_error and self.compare(left, right), "\n".join(self.log[-8:])

    def construct(self):
        key = self.random.choice(sorted(self.types.ours))
        info = self.types.info(key)
        init = next((method for method in info.methods if method.name == "__ffi_init__" and method.metadata), None)
        # tvm_ffi does not bind arguments by a declared signature.
        if init is None or "type_schema" not in init.metadata or "arg_kinds" in init.metadata:
            return
        params = schema(init.metadata)["named_args"]["params"]
        if any(keys(param) & LEFT_OUT_TYPES for param in params):
            return
        left, right = self.many(params, len(params) - len(init.metadata.get("arg_defaults", [])))
        self.step(f"{key}({left})", lambda: self.types.ours[key](*left), lambda: self.types.theirs[key](*right))

    def field(self):
        ours, theirs = self.random.choice(self.pool)
        fields = [field for info in self.types.lineage(key_of_class("extmod", type(ours))) for field in info.fields or []]
        fields = [field for field in fields if field.metadata and not keys(schema(field.metadata)) & LEFT_OUT_TYPES]
        if fields:
            name = self.random.choice(fields).name
            self.step(f"{ours!r}.{name}", lambda: getattr(ours, name), lambda: getattr(theirs, name))

    def method(self):
        ours, theirs = self.random.choice(self.pool)
        methods = [method for info in self.types.lineage(key_of_class("extmod", type(ours))) for method in info.methods or []]
        methods = [method for method in methods if not method.name.startswith("__") and method.name not in LEFT_OUT and method.metadata]
        methods = [method for method in methods if not {"arg_kinds", "constant"} & method.metadata.keys()]
        if not methods:
            return
        method = self.random.choice(methods)
        params = schema(method.metadata)["named_args"]["params"][0 if method.is_static else 1 :]
        left, right = self.many(params, len(params) - len(method.metadata.get("arg_defaults", [])))
        name = method.name
        if "setter" in method.metadata:
            # An attribute on one way, and a method on the other.
            if len(left) == 1:
                attribute = name.removeprefix("set_")
                self.step(f"{ours!r}.{attribute} = {left}", lambda: setattr(ours, attribute, left[0]), lambda: getattr(theirs, name)(*right))
            return
        self.step(f"{ours!r}.{name}({left})", lambda: getattr(ours, name)(*left), lambda: getattr(theirs, name)(*right))

    def function(self):
        name, params, needed = self.random.choice(self.types.functions)
        left, right = self.many(params, needed)
        extmod, library = self.types.extmod, self.types.library
        self.step(f"{name}({left})", lambda: getattr(extmod, name)(*left), lambda: getattr(library, name)(*right))

    def text(self):
        ours, theirs = self.random.choice(self.pool)
        self.step(f"repr of {type(ours)}", lambda: repr(ours), lambda: repr(theirs))

    def run(self):
        for _ in range(STEPS):
            actions = [self.construct, self.construct, self.function]
            if self.pool:
                actions += [self.field, self.field, self.method, self.method, self.method, self.text]
            self.random.choice(actions)()
        return len(self.log)


@pytest.fixture(scope="module")
def types(extmod):
    import tvm_ffi

    types = Types(extmod, tvm_ffi.load_module(extmod.__file__))
    types.functions = []
    for name in sorted(set(dir(extmod)) - LEFT_OUT):
        metadata = not name.startswith("_") and types.library.get_function_metadata(name)
        if not metadata or "type_schema" not in metadata or "arg_kinds" in metadata:
            continue
        named = schema(metadata)["named_args"]
        used = set().union(*(keys(of) for of in named["params"] + named["return"]))
        # Functions of objects; those of plain values are called by test_random.py.
        if used & types.ours.keys() and not used & (OWN_RULES - types.enums.keys() - {"ffi.Function"}):
            needed = len(named["params"]) - len(metadata.get("arg_defaults", []))
            types.functions.append((name, named["params"], needed))
    return types


def test_types_and_functions_take_part(types):
    assert len(types.ours) >= 25 and len(types.functions) >= 8, (sorted(types.ours), types.functions)


def test_both_ways_agree(types):
    steps = 0
    for number in range(PROGRAMS):
        seed = SEED * 1_000_003 + number
        program = Program(types, seed)
        try:
            steps += program.run()
        except AssertionError as error:
            raise AssertionError(f"program {number} of RANDOM_SEED={SEED}:\n{error}") from None
    assert steps >= 10 * PROGRAMS
