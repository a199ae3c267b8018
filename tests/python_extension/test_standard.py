"""Types of Rust that are classes of Python's standard library here. The rows of tests/python/conversions.json have their plain cases."""

import collections
import copy
import decimal
import os
import pickle
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface, ip_network
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

UTC = timezone.utc


class Place(os.PathLike):
    def __init__(self, text):
        self.text = text

    def __fspath__(self):
        return self.text


def test_paths(extmod):
    for path in (Path("a/b"), PurePosixPath("a/b"), Place("a/b"), "a/b", type("Text", (str,), {})("a/b")):
        assert extmod.echo_path(path) == Path("a/b")
        assert type(extmod.echo_path(path)) is type(Path())
    assert extmod.echo_option_path(None) is None
    assert extmod.echo_paths([Path("a"), "b"]) == [Path("a"), Path("b")]
    # Bytes that are not UTF-8, as Python decodes names of files.
    odd = os.fsdecode(b"ab\xff, and more")
    assert extmod.echo_path(odd) == extmod.echo_path(Path(odd)) == Path(odd)
    assert extmod.echo_os_string(odd) == extmod.echo_os_str(odd) == odd
    assert extmod.echo_path("a\0b") == Path("a\0b")


EXPECTED = "echo_path(x: pathlib.Path): argument 'x': expected "


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        (b"a", TypeError, EXPECTED + "pathlib.Path, got bytes"),
        (object(), TypeError, EXPECTED + "pathlib.Path, got object"),
        (["a"], TypeError, EXPECTED + "pathlib.Path, got Array"),
        (Path, TypeError, EXPECTED + "pathlib.Path, got Function"),
        (Place(b"a"), TypeError, EXPECTED + "a path of text, but Place.__fspath__ returned bytes; use os.fsdecode"),
        (Place(5), TypeError, EXPECTED + "a path of text, but Place.__fspath__ returned int; use os.fsdecode"),
    ],
)
def test_what_is_not_a_path(extmod, path, kind, message):
    with pytest.raises(kind) as caught:
        extmod.echo_path(path)
    assert str(caught.value) == message


def test_addresses(extmod):
    for text in ("192.168.0.1", "::1", "2001:db8::ff"):
        address = ip_address(text)
        assert extmod.echo_address(address) == extmod.echo_address(text) == address
    assert extmod.echo_address4(IPv4Address("1.2.3.4")) == IPv4Address("1.2.3.4")
    assert extmod.echo_address6(IPv6Address(5)) == IPv6Address(5)
    with pytest.raises(ValueError, match="'::5' is not an IPv4 address"):
        extmod.echo_address4(IPv6Address(5))
    with pytest.raises(ValueError, match="'1.2.3.4/24' is not an IP address"):
        extmod.echo_address(ip_interface("1.2.3.4/24"))
    with pytest.raises(TypeError, match="expected ipaddress.ip_address, got IPv4Network"):
        extmod.echo_address(ip_network("1.2.3.0/24"))


def test_sets(extmod):
    sources = [{1, 2}, frozenset((2, 1)), {1: "a", 2: "b"}.keys(), [1, 2, 2], (2, 1), range(1, 3), collections.deque((1, 2)), np.array([1, 2])]
    for source in sources:
        assert extmod.echo_set(source) == {1, 2}
        assert type(extmod.echo_set(source)) is set
    assert extmod.common({1, 2, 3}, range(2, 9)) == {2, 3}
    assert extmod.echo_sets([{1}, frozenset()]) == [{1}, set()]
    with pytest.raises(TypeError, match=r"expected set\[int\], got Map"):
        extmod.echo_set({1: 2})
    with pytest.raises(TypeError, match=r"expected set\[int\], got generator"):
        extmod.echo_set(number for number in (1, 2))
    with pytest.raises(TypeError, match=r"expected set\[int\], but in element 0: expected int, got str"):
        extmod.echo_set({"a"})
    with pytest.raises(TypeError, match=r"expected Array\[int\], got set"):
        extmod.echo_vec({1, 2})


def test_durations(extmod):
    longest, shortest = timedelta.max, timedelta(microseconds=1)
    for span in (longest, shortest, timedelta(), timedelta(days=400, seconds=3, microseconds=5)):
        assert extmod.echo_duration(span) == span
    assert extmod.echo_duration(1.5) == extmod.echo_duration(np.float32(1.5)) == timedelta(seconds=1.5)
    # A timedelta has no nanoseconds.
    assert extmod.echo_duration([1, 1999]) == timedelta(seconds=1, microseconds=1)
    for span in (timedelta(microseconds=-1), timedelta.min, -0.5, -1):
        with pytest.raises(ValueError, match="expected a duration that is not negative, got -"):
            extmod.echo_duration(span)
    with pytest.raises(OverflowError):
        extmod.echo_duration(1e15)
    with pytest.raises(OverflowError, match="do not fit into 64 bits"):
        extmod.echo_duration(float("inf"))
    with pytest.raises(TypeError, match="expected datetime.timedelta, got datetime"):
        extmod.echo_duration(datetime.now(UTC))


def test_times(extmod):
    now = datetime.now(UTC)
    elsewhere = now.astimezone(timezone(timedelta(hours=-7, minutes=30)))
    assert extmod.echo_time(now) == extmod.echo_time(elsewhere) == now
    assert extmod.echo_time(elsewhere).tzinfo is UTC
    for time in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)):
        assert extmod.echo_time(time) == time
    assert extmod.later(now) == now + timedelta(minutes=1)
    assert extmod.later(now, by=timedelta(days=3)) == now + timedelta(days=3)
    assert extmod.echo_time(0) == datetime(1970, 1, 1, tzinfo=UTC)
    with pytest.raises(TypeError, match="argument 'x': expected a datetime with a time zone, got one without"):
        extmod.echo_time(datetime.now())
    with pytest.raises(TypeError, match="expected datetime.datetime, got date"):
        extmod.echo_time(now.date())
    with pytest.raises(OverflowError):
        extmod.echo_time(1e12)


def test_in_containers(extmod):
    start = datetime(2020, 2, 29, tzinfo=UTC)
    span = timedelta(hours=1)
    assert extmod.halves(span, start) == (span / 2, start + span / 2, [Path("half")])
    assert extmod.echo_durations({"a": span, "b": 2}) == {"a": span, "b": timedelta(seconds=2)}


def test_integers_of_128_bits(extmod):
    for number in (2**127 - 1, -(2**127), 2**64, -(2**63) - 1, 0, True):
        assert extmod.echo_i128(number) == number
    for number in (2**128 - 1, 2**64, 2**63, 0):
        assert extmod.echo_u128(number) == number
    for function, number in ((extmod.echo_i128, 2**127), (extmod.echo_i128, -(2**127) - 1), (extmod.echo_u128, -1), (extmod.echo_u128, 2**128), (extmod.echo_u128, -(2**200))):
        with pytest.raises(OverflowError, match="the integer is out of range for .128"):
            function(number)


def test_integers_out_of_range(extmod):
    """As Python's own functions do; a value that is wrong for another reason stays a ValueError."""
    calls = [
        lambda: extmod.echo_i8(128),
        lambda: extmod.echo_option_i8(-129),
        lambda: extmod.echo_u64(-1),
        lambda: extmod.echo_vec_u8([1, 256]),
        lambda: extmod.echo_f64(10**400),
        lambda: extmod.Entry("a", [], 1, copies=256),
    ]
    for call in calls:
        with pytest.raises(OverflowError) as caught:
            call()
        assert type(caught.value) is OverflowError
        assert not isinstance(caught.value, ValueError)
    for call in (lambda: extmod.echo_nonzero(0), lambda: extmod.echo_char("ab"), lambda: extmod.Entry("a", [], 1, copies=0)):
        with pytest.raises(ValueError):
            call()


def test_complex_numbers(extmod):
    assert extmod.product(1 + 2j, 3j) == (1 + 2j) * 3j
    for number in (2, 0.5, True, 1 - 1j, np.complex64(1 + 2j), np.complex128(-2j), np.float64(3), decimal.Decimal("1.5")):
        assert extmod.echo_complex(number) == complex(number)
    infinite = extmod.echo_complex(complex(float("-inf"), -0.0))
    assert str(infinite) == "(-inf-0j)"
    with pytest.raises(TypeError, match="expected complex, got str"):
        extmod.echo_complex("1j")
    with pytest.raises(OverflowError, match="too large for a float"):
        extmod.echo_complex(10**400)


def test_fields(extmod):
    entry = extmod.Entry(Path("docs/python.md"), {"book", "python"}, timedelta(days=1), 3, 2**63)
    for same in (entry, extmod.Entry(path=Path("docs/python.md"), tags=["python", "book"], age=86400, copies=3, size=2**63), copy.copy(entry), pickle.loads(pickle.dumps(entry))):
        assert (same.path, same.tags, same.age) == (Path("docs/python.md"), {"book", "python"}, timedelta(days=1))
        assert (same.copies, same.size) == (3, 2**63)
    entry.age = timedelta(seconds=5)
    assert entry.age == timedelta(seconds=5)
    with pytest.raises(ValueError, match="not negative"):
        entry.age = timedelta(seconds=-5)
    with pytest.raises(TypeError, match="expected datetime.timedelta, got str"):
        entry.age = "long"
    assert entry.age == timedelta(seconds=5)
    assert entry.within(Path("/home")) == Path("/home/docs/python.md")
    assert (entry.initial, entry.name) == ("p", "python.md")
    assert extmod.Entry("a", (), 0).copies == 1
    with pytest.raises(TypeError, match="expected pathlib.Path, got int"):
        extmod.Entry(1, (), 0)


def test_callbacks_get_plain_values(extmod):
    """The types of a callback's parameters are not declared; its result is converted as one of the declared type."""
    given = []

    def called(path, span):
        given.append((path, list(span)))
        return [path, 2.5]

    assert extmod.call_with_standard(called) == (Path("a/b"), timedelta(seconds=2.5))
    assert given == [("a/b", [1, 500000000])]


def test_modules_are_imported_when_they_are_used(extmod):
    """A library that has no such values does not import the modules of their classes."""
    code = "import sys, extmod; extmod.add(1, 2); print('datetime' in sys.modules, 'pathlib' in sys.modules)"
    ran = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": os.path.dirname(extmod.__file__), "KERNPACK_PYTHON_ALONE": "1"})
    assert ran.stdout.split() == ["False", "False"]


def test_times_of_numpy(extmod):
    """Their number is a count of nanoseconds, for example, which is not taken for seconds."""
    for unit in ("ns", "us", "ms", "s"):
        with pytest.raises(TypeError, match=r"got NumPy's timedelta64; use value.astype\('timedelta64\[us\]'\).item\(\)"):
            extmod.echo_duration(np.timedelta64(5, unit))
        with pytest.raises(TypeError, match="got NumPy's datetime64"):
            extmod.later(np.datetime64("2020-01-01", unit))
    span, time = np.timedelta64(5, "ns"), np.datetime64("2020-01-01T00:00:00.000001", "ns")
    assert extmod.echo_duration(span.astype("timedelta64[us]").item()) == timedelta(0)
    with pytest.raises(TypeError, match="with a time zone"):
        extmod.later(time.astype("datetime64[us]").item())
    assert extmod.echo_duration(np.float64(1.5)) == timedelta(seconds=1.5)


class Precise(timedelta):
    """A time span with nanoseconds, like that of pandas."""

    nanoseconds = 750


def test_nanoseconds(extmod):
    span = Precise(seconds=1, microseconds=2)
    assert extmod.nanoseconds(span) == 2_750
    assert extmod.nanoseconds(timedelta(seconds=1, microseconds=2)) == 2_000


class Seven:
    def __index__(self):
        return 7


def test_numbers_of_fields(extmod):
    """A field takes the integers that a parameter takes, in a constructor, in a setter and as the result of a callback."""
    for seven in (np.uint8(7), np.int64(7), Seven()):
        entry = extmod.Entry("a", set(), seven, seven, seven)
        assert (entry.age, entry.copies, entry.size) == (timedelta(seconds=7), 7, 7)
        entry = extmod.Entry("a", set(), age=timedelta(0), copies=seven, size=seven)
        assert (entry.copies, entry.size) == (7, 7)
        entry.age = seven
        assert entry.age == timedelta(seconds=7)
        assert extmod.echo_complex(seven) == 7
        assert extmod.apply(lambda x, seven=seven: seven, 1) == 7
