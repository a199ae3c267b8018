"""The table of types and operations, tests/data/objects.json, and how stock Python runs it. tests/tests/object/table.rs
and tests/c/objects_table.cc run the same rows from Rust and C++.

`types` lists what is registered for each type: its parent, its documentation, its fields (type, documentation), which of
them are writable, its methods. `samples` has objects, what is read from them, and how they are printed; every operation
runs on each. `rows` has values and their results or errors (kind and message).

A value of the table is a JSON value that stands for itself, or an object:

    {"new": type key, "args": [...], "kwargs": {...}}       a new object of a type
    {"call": name, "args": [...]}                           a function of the library
    {"method": name, "of": value, "args": [...]}            a method of an object; {"static": name, "type": key} one of a type
    {"get": field, "of": value}                             the value of a field
    {"set": field, "of": value, "to": value}                the object, after its field was set
    {"op": name, "args": [...]}                             an operation, see OPERATIONS
    {"var": name}                                           what "let" of the row gives this name
    {"bytes": hex digits}  {"map": [[key, value], ...]}  {"dtype": name}  {"device": name}  {"shape": [...]}
    {"function": name}                                      a function of the library itself

Results are JSON values, or {"object": type key, "fields": {...}}, {"enum": type key, "value": ...}, and the forms above.
"""

import copy
import json
import os
import pickle
from pathlib import Path

import tvm_ffi
from tvm_ffi import core
from tvm_ffi import dataclasses as dc
from tvm_ffi import structural_equal, structural_hash

TABLE = json.loads((Path(__file__).parent.parent / "data" / "objects.json").read_text())

PATH = os.environ.get("OBJECTS_LIBRARY")
assert PATH, "set OBJECTS_LIBRARY to the path of libobjects.so (cargo build -p objects)"
LIBRARY = tvm_ffi.load_module(PATH)


class Hue(dc.IntEnum, type_key="objects.Hue"):
    pass


class Mode(dc.StrEnum, type_key="objects.Mode"):
    pass


def class_name(key):
    return key.removeprefix("objects.").replace(".", "")


def bind(decorator):
    """A Python class for each type of the table, by type key. A class is found by its name in this module, as pickle requires."""
    classes = {"ffi.Object": tvm_ffi.Object, "objects.Hue": Hue, "objects.Mode": Mode}
    for row in TABLE["types"]:
        parent = classes[row.get("parent", "ffi.Object")]
        body = {"__module__": __name__, "__annotations__": {name: "object" for name in row["fields"]}}
        cls = type(parent)(class_name(row["key"]), (parent,), body)
        classes[row["key"]] = decorator(row["key"])(cls)
        globals()[class_name(row["key"])] = cls
    return classes


def as_dataclass(key):
    return dc.c_class(key, eq=True, order=True, unsafe_hash=True)


# The plain classes belong to another program: a type has one class at a time.
PLAIN = __name__ == "__main__"
CLASSES = bind(tvm_ffi.register_object if PLAIN else as_dataclass)


def info(cls):
    return cls.__tvm_ffi_type_info__


def lineage(cls):
    """The descriptions of a type and its ancestors, the root first."""
    chain, current = [], info(cls)
    while current is not None:
        chain.insert(0, current)
        current = current.parent_type_info
    return chain


def field_names(cls):
    return [field.name for part in lineage(cls) for field in part.fields]


# The operations in Python.
OPERATIONS = {
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "hash_equal": lambda a, b: hash(a) == hash(b),
    "repr": repr,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "json": lambda a: tvm_ffi.serialization.from_json_graph_str(tvm_ffi.serialization.to_json_graph_str(a)),
    "pickle": lambda a: pickle.loads(pickle.dumps(a)),
    "same": lambda a, b: a.same_as(b),
    "is": lambda a, key: isinstance(a, CLASSES[key]),
    "structural_equal": structural_equal,
    "structural_equal_mapped": lambda a, b: structural_equal(a, b, map_free_vars=True),
    "structural_hash_equal": lambda a, b: structural_hash(a) == structural_hash(b),
}
if PLAIN:
    # Plain classes leave `==` and the other operators to Python.
    OPERATIONS |= {
        "eq": tvm_ffi.get_global_func("ffi.RecursiveEq"),
        "lt": tvm_ffi.get_global_func("ffi.RecursiveLt"),
        "le": tvm_ffi.get_global_func("ffi.RecursiveLe"),
        "hash_equal": lambda a, b: recursive_hash(a) == recursive_hash(b),
        "copy": lambda a: core._lookup_type_attr(info(type(a)).type_index, "__ffi_shallow_copy__")(a),
        "deepcopy": tvm_ffi.get_global_func("ffi.DeepCopy"),
    }
    recursive_hash = tvm_ffi.get_global_func("ffi.RecursiveHash")


def evaluate(value, names=()):
    """The Python value of a value in the table."""
    if isinstance(value, list):
        return [evaluate(element, names) for element in value]
    if not isinstance(value, dict):
        return value

    def of():
        return evaluate(value["of"], names)

    def args():
        return evaluate(value.get("args", []), names)

    tag = next(iter(value))
    content = value[tag]
    if tag == "new":
        return CLASSES[content](*args(), **{key: evaluate(arg, names) for key, arg in value.get("kwargs", {}).items()})
    if tag == "call":
        return LIBRARY[content](*args())
    if tag == "method":
        return getattr(of(), content)(*args())
    if tag == "static":
        return getattr(CLASSES[value["type"]], content)(*args())
    if tag == "get":
        return getattr(of(), content)
    if tag == "set":
        target = of()
        getattr(type(target), content).set(target, evaluate(value["to"], names))
        return target
    if tag == "op":
        return OPERATIONS[content](*args())
    if tag == "var":
        return names[content]
    plain = {
        "bytes": bytes.fromhex,
        "map": lambda pairs: {evaluate(key, names): evaluate(element, names) for key, element in pairs},
        "dtype": tvm_ffi.dtype,
        "device": tvm_ffi.device,
        "shape": tvm_ffi.Shape,
        "function": lambda name: LIBRARY[name],
    }
    return plain[tag](content)


def encode(value):
    """The form of a result in the table."""
    if isinstance(value, (bool, int, float, type(None))):
        return value
    if isinstance(value, tvm_ffi.dtype):
        return {"dtype": str(value)}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, (dc.IntEnum, dc.StrEnum)):
        return {"enum": info(type(value)).type_key, "value": encode(value.value)}
    if isinstance(value, tvm_ffi.Device):
        return {"device": str(value)}
    if isinstance(value, tvm_ffi.Tensor):
        import numpy as np

        data = np.from_dlpack(value)
        return {"tensor": {"dtype": str(value.dtype), "shape": list(value.shape), "data": data.tolist()}}
    if isinstance(value, tvm_ffi.Shape):
        return {"shape": list(value)}
    if isinstance(value, tvm_ffi.Function):
        return {"function": True}
    if isinstance(value, (tvm_ffi.Map, tvm_ffi.Dict, dict)):
        return {"map": [[encode(key), encode(element)] for key, element in value.items()]}
    if isinstance(value, (tvm_ffi.Array, tvm_ffi.List, list, tuple)):
        return [encode(element) for element in value]
    cls = type(value)
    return {"object": info(cls).type_key, "fields": {name: encode(getattr(value, name)) for name in field_names(cls)}}


def failure(error):
    """[kind, message] of an exception. tvm_ffi has no class for an InternalError."""
    kind = type(error).__name__
    return ["InternalError" if kind == "RuntimeError" else kind, str(error)]


def outcome_of(action):
    """The result of an action, or its error as [kind, message]."""
    try:
        return action()
    except Exception as error:
        return failure(error)


def outcome(operation, *operands):
    """The result of an operation in the table's form, or its error."""
    return outcome_of(lambda: encode(OPERATIONS[operation](*operands)))


def run(row):
    """The result of a row, or its error as [kind, message]."""
    names = {}

    def evaluate_all():
        for name, value in row.get("let", []):
            names[name] = evaluate(value, names)
        return encode(evaluate(row["value"], names))

    return outcome_of(evaluate_all)


def main():
    """Runs samples and rows with classes of `tvm_ffi.register_object`, and prints the differences."""
    for sample in TABLE["samples"]:
        value = evaluate(sample["value"])
        fields = {name: encode(getattr(value, name)) for name in field_names(type(value))}
        if (fields, repr(value)) != (sample["reads"], sample["repr"]) or dc.is_dataclass(value):
            print(sample["value"], fields, repr(value))
        for operation in ("copy", "deepcopy", "json", "pickle"):
            if operation not in sample.get("fails", {}):
                copied = OPERATIONS[operation](value)
                if encode(copied) != encode(value) or copied == value or type(copied) is not type(value):
                    print(sample["value"], operation, repr(copied))
    for row in TABLE["rows"]:
        expected = row.get("result", row.get("error"))
        if "python" in row.get("hosts", ["python"]) and run(row) != expected:
            print(row["rule"], expected, run(row))
    print("done")


if PLAIN:
    main()
