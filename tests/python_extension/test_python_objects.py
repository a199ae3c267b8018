"""Python objects as they are: `kernpack::python::Object` as parameter, result, field, element and key. The functions are those of python_objects.rs."""

import collections
import copy
import decimal
import gc
import math
import pickle
import sys
import threading
import warnings
import weakref
from datetime import timedelta

import pytest


@pytest.fixture(scope="session")
def objects(extmod):
    return extmod.objects_as_they_are


class Point:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, Point) and self.x == other.x

    def __hash__(self):
        return hash(self.x)

    def __repr__(self):
        return f"Point({self.x})"


class Number(int):
    pass


class Fault(Exception):
    pass


class Bad:
    """An object whose operators raise an exception of its own."""

    fault = Fault("on purpose")

    def _raise(self, *_, **__):
        raise self.fault

    __hash__ = __eq__ = __lt__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = __getattr__ = __call__ = __getitem__ = __contains__ = _raise
    __setitem__ = __delitem__ = _raise


class Unequal:
    """An object whose comparison raises; all have one hash."""

    def __eq__(self, other):
        raise Fault("no comparison")

    def __hash__(self):
        return 7


ALL = [
    None,
    True,
    1,
    10**30,
    1.5,
    math.nan,
    "text",
    "a longer text",
    b"bytes",
    bytearray(b"bytes"),
    [1],
    (1, 2),
    {"a": 1},
    {1},
    Number(3),
    Point(1),
    Point,
    len,
    range(3),
    decimal.Decimal(1),
    sys,
    collections.namedtuple("Two", "a b")(1, 2),
    Bad(),
    NotImplemented,
    ...,
]


def test_an_object_is_itself(objects):
    for x in ALL:
        assert objects.same(x) is x and objects.same(object=x) is x
        assert objects.borrowed(x) is x
        if x is not None:
            assert objects.optional(x) is x
        assert objects.swapped((x, 3))[1] is x
    assert objects.optional(None) == objects.optional() == "nothing"
    for listed in [objects.listed(ALL), objects.listed(tuple(ALL)), list(objects.shared(ALL))]:
        assert all(left is right for left, right in zip(listed, ALL))
    assert len(objects.listed(ALL)) == len(ALL)


def test_an_object_of_the_library(objects, extmod):
    table = extmod.Table("name")
    assert objects.same(table) is table
    assert objects.passed(table, lambda x: type(x)) is extmod.Table


def test_text_and_hash(objects):
    for x in [None, 5, "t\0\u00e9", Point(2), (1, "x")]:
        assert objects.described(x) == (repr(x), str(x), hash(x))
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        objects.described([])


def test_comparisons(objects):
    for left, right in [(1, 2), (2, 1), (1, 1.0), ("a", "b"), ({1}, {2}), ({1}, {1, 2}), (math.nan, 1.0)]:
        answers = [left < right, left <= right, left == right, left != right, left > right, left >= right]
        order = 0 if left == right else -1 if left < right else 1 if left > right else None
        assert objects.compared(left, right) == (answers, order)
    with pytest.raises(TypeError, match="'<' not supported between instances of 'int' and 'str'"):
        objects.compared(1, "x")
    assert objects.questions(math.nan, math.nan, float) == (True, True, True, True, float)
    assert objects.questions([], [], (int, str)) == (False, True, False, False, list)
    with pytest.raises(TypeError, match="isinstance"):
        objects.questions(1, 1, 1)


def test_attributes(objects):
    point = Point(1)
    assert objects.attribute(point, "x") == 1
    assert objects.change_attribute(point, "x", [2]) == 1 and point.x == [2]
    assert objects.change_attribute(point, "y", 3) is None and point.y == 3
    assert objects.change_attribute(point, "y", None) == 3 and not hasattr(point, "y")
    with pytest.raises(AttributeError, match="'Point' object has no attribute 'z'"):
        objects.attribute(point, "z")
    with pytest.raises(AttributeError):
        objects.change_attribute(point, "z", None)
    with pytest.raises(AttributeError):
        objects.change_attribute(5, "z", 1)


def test_elements(objects):
    numbers, table = [1, 2, 3], {"a": 1}
    assert objects.change_item(numbers, 1, 20) == 2 and objects.change_item(numbers, -1, None) == 3 and numbers == [1, 20]
    assert objects.change_item(table, "a", 5) == 1 and table == {"a": 5}
    assert objects.change_item(numbers, 0, None) == 1 and numbers == [20]
    assert objects.contents([1, 2], 2) == (2, True) and objects.contents({5}, 2) == (1, False)
    for function, error in [
        (lambda: objects.change_item(numbers, 9, 1), IndexError),
        (lambda: objects.change_item(table, "x", 1), KeyError),
        (lambda: objects.change_item(5, "x", 1), TypeError),
        (lambda: objects.contents(5, 1), TypeError),
    ]:
        with pytest.raises(error):
            function()


def test_iteration(objects):
    def steps():
        yield 1
        yield "two"
        raise Fault("the third")

    assert objects.elements(steps(), 2) == [1, "two"] and objects.elements({}, 5) == []
    with pytest.raises(Fault, match="the third"):
        objects.elements(steps(), 3)
    with pytest.raises(TypeError, match="not iterable"):
        objects.elements(5, 1)


def test_calls(objects):
    def f(*args, **kwargs):
        return args, kwargs

    called, named, text = objects.called(f)
    assert called == ((1, "two"), {}) and named == ((1, "two"), {"three": 3, "four": f}) and text == repr(f)
    with pytest.raises(TypeError, match="not callable"):
        objects.called(5)


def test_conversions(objects):
    assert objects.converted([1, 2, 3]) == ([1, 2, 3], 6)
    with pytest.raises(TypeError, match="expected Array.int., got str|expected .*int"):
        objects.converted("text")
    assert objects.root(2.0) == math.sqrt(2.0)
    with pytest.raises(ValueError, match="math domain error|nonnegative"):
        objects.root(-1.0)


def test_modules_and_warnings(objects):
    assert objects.imported("collections.abc") is collections.abc and objects.imported("sys") is sys
    with pytest.raises(ModuleNotFoundError, match="No module named 'not_there'"):
        objects.imported("not_there")
    with pytest.raises(ValueError, match="NUL"):
        objects.imported("a\0b")
    with pytest.warns(DeprecationWarning, match="old") as caught:
        objects.warned("DeprecationWarning", "old")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="now"):
            objects.warned("UserWarning", "now")
    with pytest.raises(TypeError):
        objects.warned("len", "not a category")


def test_exceptions_are_the_same_objects(objects):
    bad = Bad()
    for call in [
        lambda: objects.described(bad),
        lambda: objects.compared(bad, 1),
        lambda: objects.questions(bad, 1, int),
        lambda: objects.attribute(bad, "anything"),
        lambda: objects.change_item(bad, 1, 1),
        lambda: objects.contents(bad, 1),
        lambda: objects.elements(bad, 1),
        lambda: objects.called(bad),
    ]:
        with pytest.raises(Fault) as raised:
            call()
        assert raised.value is bad.fault


def test_keys_of_maps(objects):
    elements = ["a", 1, 1.0, True, (1,), Point(1), Point(1), "a", math.nan, math.nan]
    assert objects.counted(elements) == dict(collections.Counter(elements))
    assert objects.looked_up({"x": 1, 2: "two", Point(3): None}, Point(3)) == "None"
    assert objects.looked_up({"x": 1, 2: "two"}, 2.0) == "'two'" and objects.looked_up({}, 5) == "absent"


def test_errors_of_keys(objects):
    """The error of a hash or comparison inside a map is raised by the call, unless it is caught; it does not reach another call."""
    for _ in range(2):
        with pytest.raises(TypeError, match="unhashable type: 'list'"):
            objects.counted([1, [], 2])
        with pytest.raises(Fault, match="no comparison"):
            objects.counted([Unequal(), Unequal()])
        assert objects.looked_up({Unequal(): 1}, Unequal()) == "Fault: no comparison"
        assert objects.looked_up({1: 1}, []) == "TypeError: unhashable type: 'list'"
        assert objects.counted([1]) == {1: 1}


def test_errors_of_keys_in_members(extmod):
    """The same in an operator, a getter, a setter and a constructor; the next call is not affected."""
    table = extmod.Table(1, [])
    table[1] = 2
    assert (table & 1, table & 2) == (True, False)
    for call in (lambda: table & [], lambda: table.has_note):
        with pytest.raises(TypeError, match="unhashable type: 'list'"):
            call()
        assert table & 1


def test_calls_while_an_exception_is_set(objects):
    """Python frees arguments of a call while it raises an exception; the object calls Python then."""
    calls = []

    def fail(*_):
        raise Fault("on purpose")

    def note(text):
        calls.append(text)
        return 0

    def unused(_, number):
        pytest.fail(f"called with {number}")

    for number in range(3):
        with pytest.raises(ZeroDivisionError):
            unused(objects.last(note, note), 1 / 0)
        with pytest.raises(KeyError, match="x"):
            unused(objects.last(fail, fail), {}["x"])
        assert calls == ["object", "function"] * (number + 1)
    del number


def test_numbers_of_derived_classes_in_any(objects):
    """A value of any type is read by the types of Rust as it is by a parameter of theirs."""
    for number in (0, 5, 2**62, 2**63, 2**64 - 1):
        assert objects.integers_of_any(Number(number)) == objects.integers_of_any(number) == (number,) * 3
    with pytest.raises(OverflowError, match="u64"):
        objects.integers_of_any(Number(2**64))
    for flag, span in ((Number(1), Number(3)), (Number(0), type("Span", (float,), {})(3.0)), (True, 3)):
        assert objects.flag_and_span_of_any(flag, span) == (bool(flag), timedelta(seconds=3))


def test_a_table(extmod):
    table = extmod.Table("n", note=[1])
    assert table.name == "n" and table.note == [1] and extmod.Table((1, 2)).note is None
    key = (1, "x")
    table[key] = {"a": 1}
    table[Point(1)] = table[key]
    assert table[Point(1)] is table[(1, "x")] and len(table) == 2
    with pytest.raises(KeyError, match="Point"):
        table[Point(2)]
    with pytest.raises(TypeError, match="unhashable"):
        table[[]] = 1
    with pytest.raises(Fault):
        table[Bad()]
    assert len(table) == 2
    assert copy.copy(table).name == "n"
    assert pickle.loads(pickle.dumps(extmod.Table((1, 2), None))).name == (1, 2)


def test_fields(extmod):
    first, second = (1, 2), Point(1)
    pair = extmod.Pair(first, second)
    assert pair.first is first and pair.second is second
    pair.second = first
    assert pair.second is first
    pair.second = None
    assert pair.second is None
    with pytest.raises(AttributeError):
        pair.first = 1


def test_references(objects, extmod):
    """No reference is lost or left: as an argument, a result, an element, a key, a field, and one that is kept."""
    thing = Point(1)
    before = sys.getrefcount(thing)
    for _ in range(100):
        objects.same(thing)
        objects.borrowed(thing)
        objects.optional(thing)
        objects.listed([thing] * 30)
        objects.counted([thing] * 3)
        objects.looked_up({thing: thing}, thing)
        extmod.Pair(thing, thing)
        table = extmod.Table(thing, thing)
        table[thing] = thing
        del table
        objects.keep(thing)
        objects.keep(thing)
        objects.keep(None)
        objects.keep(thing)
        objects.release_elsewhere()
        objects.text_elsewhere(thing)
    assert sys.getrefcount(thing) == before
    reference = weakref.ref(thing)
    objects.keep(thing)
    del thing
    assert reference() is not None
    objects.release_elsewhere()
    assert reference() is None


def test_cycles(extmod):
    """The collector finds an object that a field refers to and that refers back."""
    point = Point(1)
    point.pair = extmod.Pair(point, None)
    reference = weakref.ref(point)
    del point
    gc.collect()
    assert reference() is None


def test_threads(objects):
    """Handles are used on several threads at the same time."""
    shared, failures = {"a": 1}, []

    def work():
        for number in range(300):
            if objects.same(shared) is not shared or objects.text_elsewhere(number) != str(number):
                failures.append(number)
            if objects.counted([1, "a", shared["a"]]) != {1: 2, "a": 1}:
                failures.append(number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_tuples_are_made_of_values(objects):
    point = Point(1)
    made = objects.tuple_of(7, "text", point)
    assert made == (7, "text", point) and type(made) is tuple and made[2] is point


def test_errors_that_cannot_be_returned_are_reported(objects, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: seen.append((report.exc_type, report.exc_value, report.object)))
    cause = KeyError("key")

    def fail():
        raise cause

    about = ("arguments", 1)
    assert objects.reported(fail, about) is None
    assert objects.reported(fail) is None
    assert objects.reported(lambda: 5, about) == 5
    objects.reported_error(about)
    assert [(kind, found) for kind, _, found in seen] == [(KeyError, about), (KeyError, None), (LookupError, about)]
    assert seen[0][1] is cause and seen[0][2] is about and str(seen[2][1]) == "not found"


def test_entries_of_mappings(objects):
    class Doubled(dict):
        def items(self):
            return [(key, 2 * value) for key, value in super().items()]

    key = Point(1)
    entries = objects.entries({key: 1, (2,): None})
    assert entries == [(key, 1), ((2,), None)] and entries[0][0] is key
    assert objects.entries(Doubled(a=1)) == [("a", 2)]
    assert objects.entries(collections.ChainMap({"b": 3})) == [("b", 3)]
    with pytest.raises(AttributeError, match="'list' object has no attribute 'items'"):
        objects.entries([(1, 2)])
