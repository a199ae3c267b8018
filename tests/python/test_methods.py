"""Methods of Rust types of tests/objects-lib (`#[object_methods]`) from stock Python."""

import copy
import inspect
import json
import math
import os
import pickle

import pytest
import tvm_ffi
from tvm_ffi import dataclasses as dc
from tvm_ffi import structural_equal, structural_hash

PATH = os.environ.get("OBJECTS_LIBRARY")
assert PATH, "set OBJECTS_LIBRARY to the path of libobjects.so (cargo build -p objects)"
LIBRARY = tvm_ffi.load_module(PATH)


@dc.c_class("objects.Place", eq=True, order=True, unsafe_hash=True)
class Place(tvm_ffi.Object):
    x: float
    y: float
    length: float
    pair: tuple
    direction: float


@tvm_ffi.register_object("objects.Walk")
class Walk(tvm_ffi.Object):
    pass


def info(cls):
    return cls.__tvm_ffi_type_info__


def method(cls, name):
    return next(method for method in info(cls).methods if method.name == name)


@pytest.mark.parametrize(
    ("arguments", "keywords", "expect"),
    [
        ((3, 4), {}, (3, 4)),
        ((3,), {}, (3, 0)),
        ((3,), {"y": 4}, (3, 4)),
        ((), {"x": 3}, (3, 0)),
        ((), {"y": 4, "x": 3}, (3, 4)),
    ],
)
def test_constructor(arguments, keywords, expect):
    place = Place(*arguments, **keywords)
    assert (place.x, place.y) == expect
    assert isinstance(place, Place) and type(place) is Place


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((), {}, "argument 'x' is missing"),
        ((1, 2, 3), {}, "expected at most 2 arguments, got 3"),
        ((1,), {"x": 1}, "argument 'x' is given twice"),
        ((1,), {"z": 1}, "there is no argument 'z'; did you mean 'x' or 'y'?"),
        (("1",), {}, "argument 'x': expected float, got str"),
    ],
)
def test_constructor_errors(arguments, keywords, message):
    with pytest.raises(TypeError) as error:
        Place(*arguments, **keywords)
    assert str(error.value) == f"objects.Place.__ffi_init__(x: float, y: float): {message}"


def test_constructor_refuses():
    with pytest.raises(ValueError, match="a place is somewhere"):
        Place(math.nan)


def test_methods():
    place = Place(3, 4)
    moved = place.moved(Place(10, 20))
    assert (moved.x, moved.y) == (13, 24)
    moved = place.moved(Place(10, 20), 0.5)
    assert (moved.x, moved.y) == (8, 14)
    assert place.same().same_as(place)
    assert place.is_same(place) and not place.is_same(Place(3, 4))
    assert place.apply(lambda x, y: x * y) == 12
    assert Place.on_circle(0.0).x == 1
    total = place + Place(1, 1)
    assert (total.x, total.y) == (4, 5)
    assert (len(place), place[0], place[1], list(place)) == (2, 3, 4, [3, 4])
    with pytest.raises(IndexError, match="there is none at 2"):
        place[2]
    with pytest.raises(TypeError, match="argument 'by': expected objects.Place, got str"):
        place.moved("there")
    assert not hasattr(place, "map") and not hasattr(place, "equal")


def test_methods_read_their_argument_under_a_reference():
    place = Place(3, 4)

    def change(x, y):
        # While the method runs, the object has two owners, so its fields cannot be set.
        with pytest.raises(AttributeError):
            type(place).x.set(place, 5.0)
        return place.x

    assert place.apply(change) == 3


def test_properties():
    place = Place(3, 4)
    assert place.length == 5
    assert tuple(place.pair) == (3, 4)
    assert place.direction == math.atan2(4, 3)
    with pytest.raises(ValueError, match="the origin has no direction"):
        _ = Place(0).direction
    with pytest.raises(AttributeError):
        place.length = 6
    with pytest.raises(AttributeError, match="cannot be set"):
        Place.length.set(place, 6)
    assert Place.length.__doc__ == "The distance from the origin."
    path = Walk(places=[place, Place(1)])
    assert path.first.same_as(place)
    assert Walk(places=[]).first is None


def test_a_method_call_ends_that_fields_are_set():
    made = copy.copy(Place(3, 4))
    Place.x.set(made, 5.0)
    other = made
    Place.x.set(other, 6.0)
    assert (made.x, made.length) == (6, math.hypot(6, 4))
    with pytest.raises(AttributeError, match="read-only"):
        Place.x.set(made, 7.0)
    changed = copy.copy(made)
    Place.x.set(changed, 3.0)
    assert (changed.length, made.x) == (5, 6)


def test_properties_do_not_disturb():
    place = Place(3, 4)
    path = Walk(places=[place, Place(1)])
    for made in [copy.copy(place), copy.deepcopy(place), pickle.loads(pickle.dumps(place))]:
        assert not made.same_as(place)
        assert (made.x, made.y, made.length) == (3, 4, 5)
    deep, pickled = tvm_ffi.get_global_func("ffi.DeepCopy")(path), pickle.loads(pickle.dumps(path))
    assert deep.first.same_as(deep.places[0]) and not deep.first.same_as(place)
    assert pickled.first.same_as(pickled.places[0])
    assert (deep.first.x, pickled.first.y) == (3, 4)


def test_properties_are_not_serialized():
    place = Place(3, 4)
    graph = json.loads(tvm_ffi.serialization.to_json_graph_str(place))
    node = graph["nodes"][graph["root_index"]]
    assert node == {"type": "objects.Place", "data": {"x": 3.0, "y": 4.0, "length": None, "pair": None, "direction": None}}
    # A graph from before the type had properties can be loaded as well.
    node["data"] = {"x": 3.0, "y": 4.0}
    assert tvm_ffi.serialization.from_json_graph_str(json.dumps(graph)).length == 5


def test_structure_leaves_properties_out():
    assert structural_equal(Walk(places=[Place(3, 4)]), Walk(places=[Place(3, 4)]))
    assert not structural_equal(Walk(places=[Place(3, 4)]), Walk(places=[Place(4, 3)]))
    assert structural_hash(Place(3, 4)) == structural_hash(Place(3, 4))


def test_properties_that_fail():
    origin = Place(0)
    assert repr(origin) == "(0, 0)" and origin == Place(0) and hash(origin) == hash(Place(0))
    assert copy.copy(origin).x == 0
    assert structural_equal(origin, Place(0))
    # These read all fields; see the documentation of #[object_methods].
    for reads in [copy.deepcopy, pickle.dumps]:
        with pytest.raises(ValueError, match="the origin has no direction"):
            reads(origin)


def test_operators():
    assert repr(Place(3, 4)) == str(Place(3, 4)) == "(3, 4)"
    assert repr(tvm_ffi.Array([Place(3, 4)])) == "((3, 4),)"
    assert Place(3, 4) == Place(5, 0) and Place(3, 4) != Place(5, 1)
    assert hash(Place(3, 4)) == hash(Place(4, 3))
    assert len({Place(3, 4), Place(5), Place(6)}) == 2
    assert Place(1) < Place(2) and Place(2) > Place(1) and Place(3, 4) <= Place(5) and Place(3, 4) >= Place(5)
    assert sorted([Place(3), Place(1), Place(2)])[0].x == 1
    assert repr(Walk(places=[Place(1)])) == str(Walk(places=[Place(1)])) == "1 places"
    assert "__str__" in [method.name for method in info(Walk).methods]


def test_type_attributes():
    look_up = tvm_ffi.core._lookup_type_attr
    assert look_up(info(Place).type_index, "objects.dimensions") == 2
    assert look_up(info(Place).type_index, "objects.cost")(Place(3, 4), 2) == 10
    assert look_up(info(Walk).type_index, "objects.dimensions") is None


def test_documentation_and_metadata():
    assert inspect.getdoc(Place.moved) == "The place moved by another, once or so many times."
    assert Place.moved.__qualname__ == "Place.moved"
    assert isinstance(inspect.getattr_static(Place, "on_circle"), staticmethod)
    schema = tvm_ffi.core.TypeSchema.from_json_str(method(Place, "moved").metadata["type_schema"])
    assert str(schema) == "Callable[[objects.Place, objects.Place, float], objects.Place]"
    assert method(Place, "moved").metadata["arg_names"] == ["self", "by", "times"]
    init = method(Place, "__ffi_init__")
    assert init.is_static and init.doc == "A place; `y` is 0 unless it is given."
    schema = tvm_ffi.core.TypeSchema.from_json_str(init.metadata["type_schema"])
    assert str(schema) == "Callable[[float, float], objects.Place]"
    assert init.metadata["arg_names"] == ["x", "y"]
    fields = {field.name: field for field in info(Place).fields}
    assert str(fields["pair"].ty) == "tuple[float, float]"
    assert not fields["length"].c_init and fields["length"].frozen and not fields["length"].c_repr


@dc.py_class("objects.tests.NamedPlace")
class NamedPlace(Place):
    name: str


def test_python_subclass():
    named = NamedPlace(3, 4, "here")
    assert (named.x, named.y, named.name, named.length, tuple(named.pair)) == (3, 4, "here", 5, (3, 4))
    assert (named + Place(1, 1)).x == 4
    assert named.moved(named).y == 8
    assert named.same().same_as(named)
    for made in [copy.copy(named), copy.deepcopy(named), pickle.loads(pickle.dumps(named))]:
        assert type(made) is NamedPlace
        assert (made.x, made.name, made.length) == (3, "here", 5)
