"""The conversion rules of conversions.json, from stock Python. tests/tests/function/conversions.rs runs the same rows from Rust.

A row names a function of the library in tests/conversions-lib, its arguments, and the result or the error (kind and
message). JSON values stand for themselves; what JSON lacks is an object with one key:

    {"bytes": "00ff"}  {"float": "nan"}  {"integer": "18446744073709551616"}  {"map": [[key, value], ...]}
    {"list": [...]}  {"dict": [[key, value], ...]}, the mutable containers
    {"dtype": "float32"}  {"device": "cuda:1"}  {"shape": [2, 3]}
    {"tensor": {"dtype": ..., "shape": ..., "data": ..., "strides": ..., "byte_offset": ..., "misaligned": true,
                "device": ...}}
    {"function": "name"}  {"module": true}  {"point": [x, y]}  {"place": [x, y, name]}
    {"path": "a/b"}  {"address": "::1"}  {"set": [...]}  {"timedelta": [seconds, nanoseconds]}  {"datetime": [seconds since 1970, nanoseconds]}
    {"complex": [real, imaginary]}, which are objects of Python in an extension module, and plain values here

`data` is the memory from which shape and strides (in elements) pick. A row with "hosts" runs only there. "extension"
is the class of the exception that an extension module raises, if it is another one.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi

ROWS = json.loads(Path(__file__).with_name("conversions.json").read_text())
OURS = [row for row in ROWS if "python" in row.get("hosts", ["python"])]
RESULTS = [row for row in OURS if "result" in row]
ERRORS = [row for row in OURS if "error" in row]
KINDS = {"TypeError": TypeError, "ValueError": ValueError}


@pytest.fixture(scope="module")
def library():
    path = os.environ.get("CONVERSIONS_LIBRARY")
    assert path, "set CONVERSIONS_LIBRARY to the path of libconversions.so (cargo build -p conversions)"
    return tvm_ffi.load_module(path)


# The values of tags; the other values of a row stand for themselves.
TAGS = {
    "bytes": lambda digits, library: bytes.fromhex(digits),
    "float": lambda text, library: float(text),
    "integer": lambda text, library: int(text),
    "map": lambda pairs, library: {key: decode(element, library) for key, element in pairs},
    "list": lambda elements, library: tvm_ffi.List([decode(element, library) for element in elements]),
    "dict": lambda pairs, library: tvm_ffi.Dict({key: decode(element, library) for key, element in pairs}),
    "dtype": lambda name, library: tvm_ffi.dtype(name),
    "device": lambda name, library: tvm_ffi.device(name),
    "shape": lambda extents, library: tvm_ffi.Shape(extents),
    "tensor": lambda description, library: tensor(**description),
    "function": lambda name, library: library[name],
    "module": lambda _true, library: library,
    "point": lambda arguments, library: library.point(*arguments),
    "place": lambda arguments, library: library.place(*arguments),
}
# Values that have a class only in an extension module.
PLAIN = ("path", "address", "set", "timedelta", "datetime", "complex")
TAGS |= {tag: lambda content, library: decode(content, library) for tag in PLAIN}


def decode(value, library):
    """The Python value of a JSON value."""
    if isinstance(value, list):
        return [decode(element, library) for element in value]
    if isinstance(value, dict):
        ((tag, content),) = value.items()
        return TAGS[tag](content, library)
    return value


def tensor(dtype, shape, data, strides=None, misaligned=False):
    """An array over memory that holds `data`, one byte past an aligned address if `misaligned`."""
    elements = np.array(data, dtype)
    memory = np.zeros(elements.nbytes + elements.itemsize, np.uint8)
    start = 1 if misaligned else 0
    memory[start : start + elements.nbytes] = elements.view(np.uint8) if elements.size else 0
    elements = memory[start : start + elements.nbytes].view(dtype)
    if strides is None:
        return elements[: int(np.prod(shape))].reshape(shape)
    return np.lib.stride_tricks.as_strided(elements, shape, [stride * elements.itemsize for stride in strides])


def encode(value):
    """The JSON value of a result, so that True, 1 and 1.0 stay different."""
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, tvm_ffi.dtype):  # a kind of str
        return {"dtype": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, tvm_ffi.Shape):
        return {"shape": list(value)}
    if isinstance(value, (tvm_ffi.Array, tuple, list)):
        return [encode(element) for element in value]
    if isinstance(value, tvm_ffi.Map):
        return {"map": sorted([encode(key), encode(element)] for key, element in value.items())}
    if isinstance(value, tvm_ffi.Device):
        return {"device": str(value)}
    if isinstance(value, tvm_ffi.Tensor):
        array = np.from_dlpack(value)
        return {"tensor": {"dtype": str(array.dtype), "shape": list(array.shape), "data": array.ravel().tolist()}}
    if isinstance(value, tvm_ffi.Function):
        return {"function": True}
    return {"object": type_key(value)} | {name: encode(getattr(value, name)) for name in field_names(value)}


def type_key(value):
    return type(value).__tvm_ffi_type_info__.type_key


def field_names(value):
    """Names of the fields, those of the base types first."""
    names, info = [], type(value).__tvm_ffi_type_info__
    while info is not None:
        names = [field.name for field in info.fields] + names
        info = info.parent_type_info
    return names


def text(value):
    return json.dumps(value, sort_keys=True)


def expected(value):
    """The JSON value of a result here: what `encode` returns."""
    if isinstance(value, list):
        return [expected(element) for element in value]
    if isinstance(value, dict) and len(value) == 1:
        ((tag, content),) = value.items()
        if tag == "integer":
            return int(content)
        return expected(content) if tag in PLAIN else {tag: expected(content)}
    return value


def row_id(row):
    return row["rule"]


@pytest.mark.parametrize("row", RESULTS, ids=row_id)
def test_result(library, row):
    arguments = [decode(argument, library) for argument in row["args"]]
    assert text(encode(library[row["function"]](*arguments))) == text(expected(row["result"]))


@pytest.mark.parametrize("row", ERRORS, ids=row_id)
def test_error(library, row):
    arguments = [decode(argument, library) for argument in row["args"]]
    kind, message = row["error"]
    with pytest.raises(KINDS[kind]) as caught:
        library[row["function"]](*arguments)
    assert type(caught.value) is KINDS[kind]
    assert str(caught.value) == message


def test_every_function_has_a_row():
    """Checks that each function has a row; `apply_to_string_of` is only used by a row, and `copy_i32` and `to_device` have separate tests."""
    source = Path(__file__).parents[1] / "conversions-lib" / "src" / "lib.rs"
    names = {line.split("(")[0].removeprefix("pub fn ") for line in source.read_text().splitlines() if "pub fn " in line}
    names = {name.strip() for name in names if "$" not in name}
    assert names - {row["function"] for row in ROWS} - {"copy_i32", "to_device"} == set()


def test_write_in_place(library):
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    library.increase_i32(array, 10)
    assert array.tolist() == [[10, 11, 12], [13, 14, 15]]


def test_write_needs_memory_of_its_own(library):
    array = np.arange(8, dtype=np.int32)
    library.copy_i32(array[:4], array[4:])
    assert array.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    with pytest.raises(ValueError, match="arguments 'src' and 'dst' share memory"):
        library.copy_i32(array[:4], array[3:7])
    with pytest.raises(ValueError, match="arguments 'src' and 'dst' share memory"):
        library.copy_i32(array, array)


def test_write_to_a_tensor_that_is_not_contiguous(library):
    array = np.zeros((4, 4), np.int32)
    with pytest.raises(ValueError, match="contiguous"):
        library.increase_i32(array[:, ::2], 1)
    assert not array.any()
