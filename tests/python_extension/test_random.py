"""Random calls of the functions of the library on two ways, imported and through the package tvm_ffi: the same results, the same errors.

RANDOM_ROUNDS is the number of calls (a few thousand without it), RANDOM_SEED where they begin; a failure names its seed.
"""

import json
import os
import random
import re
from collections.abc import MutableMapping, MutableSequence

import pytest

pytestmark = pytest.mark.needs("tvm_ffi")
# Many calls overflow on purpose; a panic prints where it was only, not the whole stack.
os.environ["RUST_BACKTRACE"] = "0"
ROUNDS = int(os.environ.get("RANDOM_ROUNDS", "4000"))
SEED = int(os.environ.get("RANDOM_SEED", "18"))
# Functions with effects that outlast a call, or that stop the process in one of the two.
# `wait` and `copy_function` take as long as they are told to, `integers`, `repeated` and `rows` as much memory, and errors of the system have kinds that the package tvm_ffi does not know.
LEFT_OUT = {"copy_function", "file_size", "file_text", "rename_file", "integers", "repeated", "rows", "wait", "wait_here", "filter", "visit", "keep", "keep_tensor", "call_kept", "call_kept_on_a_thread", "sums_of_bytes", "panics", "nest", "on_a_thread", "explain", "fail", "fail_with_causes"}
# Types that the two convert differently: texts that name devices and types, containers in place of
# tensors, members of enums by name, types of Python's standard library, Python objects.
OWN_RULES = {
    "Device",
    "DataType",
    "ffi.Tensor",
    "DLTensor*",
    "ffi.Module",
    "ffi.Function",
    "ffi.OpaquePyObject",
    "objects.Color",
    "objects.Hue",
    "complex",
    "datetime.datetime",
    "datetime.timedelta",
    "ipaddress.IPv4Address",
    "ipaddress.IPv6Address",
    "ipaddress.ip_address",
    "pathlib.Path",
    "set",
}


def keys(schema):
    return {schema["type"]}.union(*(keys(of) for of in schema.get("args", [])))


class Values:
    """Random values, most of them of the type of a parameter."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self):
        letters = ["a", "b", " ", "ä", "€", "\U0001f600", "x" * 9]
        return "".join(self.random.choice(letters) for _ in range(self.random.randrange(6)))

    def integer(self):
        edges = [0, 1, -1, 127, 128, 255, 256, -129, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**63 - 1, -(2**63)]
        return self.random.choice([*edges, self.random.randrange(-100, 100)])

    def number(self):
        return self.random.choice([0.0, -0.0, 1.5, -2.25, 1e308, 5e-324, float("inf"), self.random.uniform(-9, 9)])

    def anything(self, depth=2):
        kinds = [lambda: None, lambda: self.random.random() < 0.5, self.integer, self.number, self.text]
        kinds.append(lambda: self.random.randbytes(self.random.randrange(12)))
        if depth:
            kinds.append(lambda: [self.anything(depth - 1) for _ in range(self.random.randrange(4))])
            kinds.append(lambda: {self.text(): self.anything(depth - 1) for _ in range(self.random.randrange(3))})
        return self.random.choice(kinds)()

    def of(self, schema):
        if self.random.random() < 0.12:
            return self.anything()
        key, args = schema["type"], schema.get("args", [])
        many = range(self.random.randrange(5))
        match key:
            case "int":
                return self.integer()
            case "float":
                return self.random.choice([self.number, self.integer])()
            case "bool":
                return self.random.random() < 0.5
            case "ffi.String":
                return self.text()
            case "ffi.Bytes":
                return self.random.randbytes(self.random.randrange(12))
            case "None":
                return None
            case "Optional":
                return None if self.random.random() < 0.3 else self.of(args[0])
            case "ffi.Array" | "ffi.List":
                return [self.of(args[0]) if args else self.anything(1) for _ in many]
            case "ffi.Map" | "ffi.Dict":
                return {self.key(args): self.of(args[1]) if args else self.anything(1) for _ in many}
            case "Tuple":
                return tuple(map(self.of, args))
            case "ffi.Shape":
                return [self.random.randrange(9) for _ in many]
            case _:
                return self.anything()

    def key(self, args):
        return self.integer() if args and args[0]["type"] == "int" else self.text()


def plain(value):
    """A result as a text in which the two ways can be compared."""
    import tvm_ffi

    if isinstance(value, (tvm_ffi.Array, tvm_ffi.List, tvm_ffi.Shape, MutableSequence, list, tuple)) and not isinstance(
        value, bytearray
    ):
        return "[" + ", ".join(map(plain, value)) + "]"
    if isinstance(value, (tvm_ffi.Map, tvm_ffi.Dict, MutableMapping, dict)):
        return "{" + ", ".join(sorted(plain(key) + ": " + plain(of) for key, of in value.items())) + "}"
    if isinstance(value, bool) or value is None:
        return repr(value)
    for kind in (int, float, str, bytes, bytearray):
        if isinstance(value, kind):
            return kind.__name__ + repr(kind(value))
    return "object"


def outcome(function, arguments):
    try:
        return plain(function(*arguments))
    except Exception as error:
        # A kind that Python does not have is a class of its own with one module, and its base class
        # with the other.
        kind = next(of for of in type(error).__mro__ if of.__module__ == "builtins")
        return f"{kind_of_range(kind, error)}: {error}"


def kind_of_range(kind, error):
    """The name of the kind of an error. A number out of range is an OverflowError in the extension module, and a ValueError through tvm_ffi, which has no such kind."""
    is_of_range = kind is OverflowError and re.search("is out of range for|does not fit into|is too large for", str(error))
    return "ValueError" if is_of_range else kind.__name__


@pytest.fixture(scope="module")
def functions(extmod):
    import tvm_ffi

    library = tvm_ffi.load_module(extmod.__file__)
    found = []
    for name in sorted(set(dir(extmod)) - LEFT_OUT):
        function = getattr(extmod, name)
        if name.startswith("_") or isinstance(function, type) or not callable(function):
            continue
        metadata = library.get_function_metadata(name)
        # tvm_ffi does not bind arguments by a declared signature.
        if not metadata or "arg_kinds" in metadata:
            continue
        schema = json.loads(metadata["type_schema"])
        named = schema["named_args"]
        params = named["params"]
        if not any(keys(of) & OWN_RULES for of in params + named["return"]):
            found.append((name, function, getattr(library, name), params))
    return found


def test_most_functions_are_called(functions):
    assert len(functions) >= 50, [name for name, *_ in functions]


def test_both_ways_agree(functions):
    for round in range(ROUNDS):
        seed = SEED * 1_000_003 + round
        values = Values(seed)
        name, ours, theirs, params = values.random.choice(functions)
        arguments = [values.of(param) for param in params]
        if values.random.random() < 0.03:
            arguments = arguments[:-1] if values.random.random() < 0.5 else [*arguments, None]
        left, right = outcome(ours, arguments), outcome(theirs, arguments)
        assert left == right, f"RANDOM_SEED={SEED}, round {round}: {name}{tuple(arguments)}"
