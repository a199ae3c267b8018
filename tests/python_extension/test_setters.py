"""Attributes that a method of the library writes: those of tests/extension-lib/src/setters.rs."""

import array
import copy
import gc
import pickle
import sys

import pytest


@pytest.fixture
def dial(extmod):
    return extmod.Dial(360)


def test_a_getter_is_written(dial):
    assert dial.angle == 0.0
    dial.angle = 90
    assert dial.angle == 90.0
    setattr(dial, "angle", 45.5)
    dial.angle += 1
    assert dial.angle == 46.5


def test_a_field_is_written_by_its_setter(dial):
    dial.limit = -5
    assert dial.limit == 0
    with pytest.raises(ValueError, match="^the angle 1 is not between 0 and 0$"):
        dial.angle = 1
    assert dial.angle == 0.0


def test_other_names_and_options(dial):
    dial.note = "a"
    assert dial.note == "a"
    dial.note = None
    assert dial.note is None


def test_an_attribute_that_is_only_written(extmod, dial):
    for secret in [b"abc", bytearray(b"abc"), memoryview(b"abc"), array.array("B", [1, 2, 3])]:
        dial.secret = secret
        assert dial.note == "3 bytes"
    with pytest.raises(AttributeError, match="secret"):
        dial.secret  # noqa: B018
    assert not hasattr(dial, "secret") and hasattr(extmod.Dial, "secret")


def test_functions_and_objects_as_values(extmod, dial):
    dial.turn = lambda angle: angle + 7
    assert dial.angle == 7.0
    mark = extmod.Mark(3)
    dial.next = mark
    assert dial.next.place == 3
    dial.next = None
    assert dial.next is None

    def fails(angle):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="^mine$"):
        dial.turn = fails


def test_an_attribute_of_the_parent(extmod):
    stop = extmod.Stop(3)
    stop.place = 10
    assert (stop.place, stop.moved) == (3, 7)
    with pytest.raises(AttributeError):
        extmod.Mark(3).place = 10
    # A derived class inherits setters.
    knob = extmod.Knob(360, 0)
    knob.angle = 10
    assert knob.angle == 10.0

    class Own(extmod.Dial):
        pass

    own = Own(360)
    own.angle = 20
    own.anything = 1
    assert own.angle == 20.0


def test_wrong_values_have_the_texts_of_fields(dial):
    for name, value, text in [
        ("angle", "x", "field 'angle' of extmod.Dial: expected float, got str"),
        ("limit", 1.5, "field 'limit' of extmod.Dial: expected int, got float"),
        ("note", 3, "field 'note' of extmod.Dial: expected Optional[str], got int"),
        ("next", 3, "field 'next' of extmod.Dial: expected Optional[extmod.Mark], got int"),
    ]:
        with pytest.raises(TypeError) as caught:
            setattr(dial, name, value)
        assert str(caught.value) == text
    # No value of the library represents it.
    with pytest.raises((TypeError, ValueError), match="^field 'angle' of extmod.Dial: "):
        dial.angle = object()


def test_deletion_is_refused(dial):
    for name in ["angle", "limit", "note", "secret"]:
        with pytest.raises(AttributeError, match=f"^property '{name}' of 'Dial' object has no deleter$"):
            delattr(dial, name)


def test_setters_are_not_methods(extmod, dial):
    names = set(dir(dial))
    assert {"angle", "limit", "note", "secret", "turn", "next"} <= names
    assert not [name for name in names if name.startswith("set_") or name.startswith("write_")]
    assert extmod.Dial.angle.__doc__ == "The angle in degrees."
    assert extmod.Dial.limit.__doc__ == "The largest angle."
    assert extmod.Dial.secret.__doc__ == "Only its size is kept."


def test_copies_call_no_setter(dial):
    """The constructor makes them from the fields, without the hidden ones."""
    dial.limit, dial.angle, dial.note = 10, 5, "a"
    for again in [copy.copy(dial), pickle.loads(pickle.dumps(dial))]:
        assert (again.limit, again.angle, again.note) == (10, 0.0, None)


def test_an_object_of_another_class_is_refused(extmod, dial):
    with pytest.raises(TypeError):
        extmod.Dial.angle.__set__(extmod.Mark(3), 1.0)
    with pytest.raises(TypeError):
        extmod.Stop.place.__set__(extmod.Mark(3), 1)
    with pytest.raises(ValueError, match="its constructor was not called"):
        extmod.Dial.angle.__set__(extmod.Dial.__new__(extmod.Dial), 1.0)


def test_values_are_released(dial):
    class Callable:
        def __call__(self, angle):
            return angle

    value = Callable()
    before = sys.getrefcount(value)
    for _ in range(100):
        dial.turn = value
    gc.collect()
    assert sys.getrefcount(value) == before
