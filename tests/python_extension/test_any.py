"""Values of any type: what a function gets as `Any` and returns has the same class in Python, and Rust reads it like all others."""

import collections
import enum
import gc
import sys
import weakref

import pytest


class Int(int):
    pass


class Float(float):
    pass


class Text(str):
    pass


class Octets(bytes):
    pass


class Elements(list):
    pass


class Parts(tuple):
    pass


class Table(dict):
    pass


class Level(enum.IntEnum):
    LOW = 1


Two = collections.namedtuple("Two", "a b")

ITSELF = [
    Int(5),
    Int(2**70),
    Level.LOW,
    Float(2.5),
    Text("t"),
    Text("a longer text with a \0 and an \u00e9"),
    Octets(b"o"),
    Octets(b"many more octets"),
    Elements([1, (2, 3)]),
    Parts((1, [2])),
    Table(a=1),
    Two(1, "b"),
    collections.OrderedDict(x=1),
    collections.defaultdict(int, y=2),
    collections.Counter("abc"),
]
EQUAL = [(), (1,), (1, ("a", (None, 2.5))), bytearray(b""), bytearray(b"abc"), bytearray(b"many more octets"), [1, (2,)], {"a": (1, {"b": ()})}]


def classes(value):
    """The class of a value and of its parts."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return type(value), [classes(part) for part in parts]


@pytest.fixture(scope="session")
def objects(extmod):
    return extmod.objects_as_they_are


def test_the_class_stays(extmod, objects):
    for value in EQUAL + ITSELF:
        for same in [extmod.echo_any(value), extmod.echo_any([value])[0], extmod.echo_any({"k": value})["k"], extmod.echo_any((value,))[0]]:
            assert same == value and classes(same) == classes(value)
        assert extmod.apply_to(lambda x: x, value) == value
    for value in ITSELF:
        assert extmod.echo_any(value) is value and extmod.echo_any({"k": [value]})["k"][0] is value


def test_a_copy_is_a_copy(extmod):
    changes = bytearray(b"abc")
    same = extmod.echo_any(changes)
    assert same == changes and same is not changes
    shared = (1, [2])
    first, second = extmod.echo_any([shared, shared])
    assert first is second and first == shared


def test_declared_types_decide(extmod):
    assert classes(extmod.echo_vec((1, 2))) == classes([1, 2])
    assert type(extmod.echo_i64(Int(5))) is int and type(extmod.echo_str(Text("a longer text"))) is str


def test_rust_reads_the_values(objects):
    assert objects.read_any(Int(5), Text("text"), Octets(b"o"), Elements([1, 2]), Table(a=1)) == (5, "text", b"o", [1, 2], 1)
    assert objects.read_any(Level.LOW, Text("a longer text"), bytearray(b"o"), (1, Int(2)), collections.OrderedDict()) == (
        1,
        "a longer text",
        b"o",
        [1, 2],
        0,
    )
    assert objects.sum_of_any([1, Int(2), Float(0.5), Level.LOW, 0.25, True]) == 5.75
    for number, error in [(Text("1"), TypeError), (Float(1), TypeError), (Int(2**70), OverflowError)]:
        with pytest.raises(error, match="expected int|does not fit"):
            objects.read_any(number, "", b"", [], {})
    with pytest.raises(TypeError, match="expected float"):
        objects.sum_of_any([object()])


def test_rust_changes_a_copy(objects):
    """A value that Rust has changed is not the original any more."""
    table = Table(a=1)
    changed = objects.with_entry(table, "b")
    assert changed == {"a": 1, "b": None} and type(changed) is dict and table == {"a": 1}
    objects.keep_any(table)
    again = objects.keep_any(None)
    assert again is table


def test_references(extmod, objects):
    for value in [Text("t" * 9), Octets(b"o" * 9), Elements([1]), Parts((1,)), Table(a=1), Int(7), Float(2.5)]:
        before = sys.getrefcount(value)
        for _ in range(50):
            extmod.echo_any(value)
            extmod.echo_any([value, {"k": value}])
            objects.keep_any(value)
        assert objects.keep_any(None) is value
        assert sys.getrefcount(value) == before
    table = Table(a=1)
    watch = weakref.ref(table)
    objects.keep_any(table)
    del table
    assert watch() is not None
    assert objects.keep_any(None) == {"a": 1}
    gc.collect()
    assert watch() is None
