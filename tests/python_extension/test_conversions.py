"""The rows of tests/python/conversions.json through the extension module: the same rules and the same messages as for all other callers."""

import json
from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path, PurePath

import numpy as np
import pytest

ROWS = json.loads((Path(__file__).parents[1] / "python" / "conversions.json").read_text())
KINDS = {"TypeError": TypeError, "ValueError": ValueError, "OverflowError": OverflowError}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def span(seconds, nanoseconds):
    return timedelta(seconds=seconds, microseconds=nanoseconds // 1000)


def tensor(dtype, shape, data, strides=None, misaligned=False):
    """A NumPy array: `data` is the memory that shape and strides, in elements, refer to."""
    elements = np.array(data, dtype)
    memory = np.zeros(elements.nbytes + 1, np.uint8)
    start = int(misaligned)
    memory[start : start + elements.nbytes] = elements.view(np.uint8)
    elements = memory[start : start + elements.nbytes].view(dtype)
    if strides is None:
        return elements[: int(np.prod(shape))].reshape(shape)
    return np.lib.stride_tricks.as_strided(elements, shape, [stride * elements.itemsize for stride in strides])


# The values of tags here. Rows with other tags are about objects of tvm_ffi.
TAGS = {
    "bytes": lambda digits, module: bytes.fromhex(digits),
    "float": lambda text, module: float(text),
    "integer": lambda text, module: int(text),
    "map": lambda pairs, module: {key: decode(element, module) for key, element in pairs},
    "function": lambda name, module: getattr(module, name),
    "shape": lambda extents, module: tuple(extents),
    "dtype": lambda name, module: name,
    "device": lambda name, module: name,
    "tensor": lambda description, module: tensor(**description),
    "path": lambda text, module: Path(text),
    "address": lambda text, module: ip_address(text),
    "set": lambda elements, module: set(elements),
    "timedelta": lambda pair, module: span(*pair),
    "datetime": lambda pair, module: EPOCH + span(*pair),
    "complex": lambda parts, module: complex(*parts),
}
# Rules that differ, with the difference.
DIFFERENT = {
    "Device from a string": "text names a device here, as in torch",
    "a dtype is not an int": "a data type is a text here",
}


def tags(value):
    if isinstance(value, list):
        return set().union(*map(tags, value)) if value else set()
    if isinstance(value, dict):
        if len(value) > 1:
            return {"object"}
        ((tag, content),) = value.items()
        return {tag} | (tags(content) if tag == "map" else set())
    return set()


def runs(row):
    known = tags(row["args"]) | tags(row.get("result")) <= set(TAGS) and row["rule"] not in DIFFERENT
    return known and "python" in row.get("hosts", ["python"])


def decode(value, module):
    if isinstance(value, list):
        return [decode(element, module) for element in value]
    if isinstance(value, dict):
        ((tag, content),) = value.items()
        return TAGS[tag](content, module)
    return value


def encode(value):
    if isinstance(value, float) and value - value != 0:
        return {"float": str(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, (tuple, list)):
        return [encode(element) for element in value]
    if isinstance(value, PurePath):
        return {"path": str(value)}
    if isinstance(value, (IPv4Address, IPv6Address)):
        return {"address": str(value)}
    if isinstance(value, set):
        return {"set": sorted(encode(element) for element in value)}
    if isinstance(value, timedelta):
        return {"timedelta": [value.days * 86400 + value.seconds, value.microseconds * 1000]}
    if isinstance(value, datetime):
        return {"datetime": encode(value - EPOCH)["timedelta"]}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, dict):
        return {"map": sorted([encode(key), encode(element)] for key, element in value.items())}
    if callable(value):
        return {"function": True}
    if type(value).__name__ == "Tensor":
        array = value.numpy()
        return {"tensor": {"dtype": value.dtype, "shape": list(value.shape), "data": array.ravel().tolist()}}
    return value


def plain(value):
    """A result as Python has it: data types and devices are their names, a shape is a tuple."""
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, dict) and "data" not in value:
        ((tag, content),) = value.items()
        if tag == "integer":
            return int(content)
        return plain(content) if tag in ("dtype", "device", "shape") else {tag: plain(content)}
    return value


RAN = [row for row in ROWS if runs(row)]


@pytest.mark.parametrize("row", RAN, ids=lambda row: row["rule"])
def test_row(extmod, row):
    arguments = [decode(argument, extmod) for argument in row["args"]]
    function = getattr(extmod, row["function"])
    if "result" in row:
        assert json.dumps(encode(function(*arguments))) == json.dumps(plain(row["result"]))
        return
    kind, message = row["error"]
    kind = row.get("extension", kind)
    with pytest.raises(KINDS[kind]) as caught:
        function(*arguments)
    assert type(caught.value) is KINDS[kind]
    assert str(caught.value) == message


def test_most_rows_run():
    assert len(RAN) >= 220, len(RAN)
