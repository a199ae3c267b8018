"""A visitor in Rust on objects of types that Python makes, and JSON, repr and trees of them: the functions of
tests/conversions-lib/src/visitor.rs."""

import os
from typing import Any, Dict, List, Optional

import numpy as np
import pytest
import tvm_ffi
from tvm_ffi.dataclasses import field, py_class


@pytest.fixture(scope="module")
def library():
    path = os.environ.get("CONVERSIONS_LIBRARY")
    assert path, "set CONVERSIONS_LIBRARY to the path of libconversions.so (cargo build -p conversions)"
    return tvm_ffi.load_module(path)


@py_class("test_visitor.Place")
class Place(tvm_ffi.Object):
    name: str
    level: int = 3


@py_class("test_visitor.House")
class House(Place):
    height: float
    is_old: bool
    number: Optional[int]
    rooms: List[int]
    doors: Dict[str, Any]
    best: Any
    next: Optional[Place]
    secret: str = field(default="x", repr=False)


@py_class("test_visitor.Link")
class Link(tvm_ffi.Object):
    value: int
    next: Optional[Any] = None


def house():
    garden = Place("garden", level=0)
    return House(
        name="mill",
        height=7.5,
        is_old=True,
        number=None,
        rooms=[1, 2],
        doors={"front": garden},
        best=garden,
        next=garden,
    )


def test_fields_of_a_python_type(library):
    assert list(library.visit(house())) == [
        'str name "mill"',
        "i64 level 3",
        "f64 height 7.5",
        "bool is_old true",
        "none number ()",
        'object rooms "ffi.List"',
        'object doors "ffi.Dict"',
        'object best "test_visitor.Place"',
        'object next "test_visitor.Place"',
        'str secret "x"',
    ]
    assert list(library.visit(library.place(1, 2, "here"))) == ["i64 x 1", "i64 y 2", 'str name "here"']


def test_values_of_any_kind(library):
    values = {
        "tensor": np.zeros((2, 3), dtype="float32"),
        "dtype": tvm_ffi.dtype("int8"),
        "device": tvm_ffi.device("cuda:1"),
        "bytes": b"\x00",
        "big": 2**63,
        "text": "a text that is an object",
        "function": lambda: 1,
        "list": [],
    }
    seen = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value = tvm_ffi.from_dlpack(value)
        [line] = library.visit(Link(0, value))[1:]
        seen[name] = line.split(" ", 1)[0]
    assert seen == {
        "tensor": "tensor",
        "dtype": "data_type",
        "device": "device",
        "bytes": "bytes",
        "big": "u64",
        "text": "str",
        "function": "object",
        "list": "object",
    }


def test_tree(library):
    assert library.tree_of(house()) == (
        "test_visitor.House\n"
        '  name: "mill"\n'
        "  level: 3\n"
        "  height: 7.5\n"
        "  is_old: true\n"
        "  number: None\n"
        "  rooms: ffi.List of 2\n"
        "    [0]: 1\n"
        "    [1]: 2\n"
        "  doors: ffi.Dict of 1\n"
        '    "front": test_visitor.Place #1\n'
        '      name: "garden"\n'
        "      level: 0\n"
        "  best: test_visitor.Place #1, see above\n"
        "  next: test_visitor.Place #1, see above\n"
        '  secret: "x"\n'
    )


def test_circles(library):
    link = Link(1)
    link.next = link
    assert library.tree_of(link) == "test_visitor.Link #1\n  value: 1\n  next: test_visitor.Link #1, see above\n"
    assert library.repr_of(link) == repr(link)
    with pytest.raises(ValueError, match="cyclic|Cycle"):
        library.json_of(link)
    link.next = None


def test_repr_is_the_same(library):
    for value in [house(), [1, "a", None], {"a": 2.5}, (house(), house()), "text", 2**70, library.point(1, 2)]:
        value = tvm_ffi.convert(value)
        assert library.repr_of(value) == tvm_ffi.get_global_func("ffi.ReprPrint")(value)


def test_json_is_the_same(library):
    save = tvm_ffi.get_global_func("ffi.ToJSONGraphString")
    load = tvm_ffi.get_global_func("ffi.FromJSONGraphString")
    for value in [house(), tvm_ffi.convert([1, "a", None]), tvm_ffi.convert({"a": b"\x00"}), library.point(1, 2)]:
        text = library.json_of(value)
        assert text == save(value, None)
        for again in [load(text), library.value_of_json(text)]:
            assert tvm_ffi.structural_equal(again, value)


def test_long_chains(library):
    link = None
    for value in range(100_000):
        link = Link(value, link)
    assert library.repr_of(link).count("test_visitor.Link(") == 100_000
    assert library.tree_of(link).count("value: ") == 100_000
    again = library.value_of_json(library.json_of(link))
    length = 0
    while again is not None:
        again, length = again.next, length + 1
    assert length == 100_000
    while link is not None:
        link = link.next
