"""Comparisons of objects beside classes of Python with the same methods: with the wheel of either kind on the path."""

import bisect
import functools
import itertools
import operator
from types import SimpleNamespace


class Foreign:
    """Answers every comparison that the other operand does not know."""

    def __lt__(self, other):
        return "asked"

    __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __lt__
    __hash__ = None


def compares(read):
    """The methods of a class by a function that returns both values, or None."""

    def decorate(cls):
        for name in ["__eq__", "__lt__", "__le__", "__gt__", "__ge__"]:

            def method(self, other, compare=getattr(operator, name)):
                values = read(self, other)
                return NotImplemented if values is None else compare(*values)

            setattr(cls, name, method)
        cls.__hash__ = None
        return cls

    return decorate


def of_numbers(self, other):
    if isinstance(other, Number):
        return self.value, other.value
    return (self.value, other) if isinstance(other, (int, float)) else None


@compares(of_numbers)
class Number:
    def __init__(self, value):
        self.value = value


@compares(lambda self, other: (self.value, other.value) if isinstance(other, Measure) else None)
class Measure:
    def __init__(self, value):
        self.value = value


class Bits:
    def __init__(self, bits):
        self.bits = bits

    def __eq__(self, other):
        return self.bits == other.bits if isinstance(other, Bits) else NotImplemented

    def __hash__(self):
        return self.bits

    def __lt__(self, other):
        return self != other and self <= other if isinstance(other, Bits) else NotImplemented

    def __le__(self, other):
        return self.bits & ~other.bits == 0 if isinstance(other, Bits) else NotImplemented


@compares(lambda self, other: (self.degrees, other) if isinstance(other, (int, float)) else None)
class Celsius:
    def __init__(self, degrees):
        self.degrees = degrees


class Fahrenheit:
    __hash__ = None

    def __init__(self, degrees):
        self.degrees = degrees

    def __lt__(self, other):
        return self.degrees < other.degrees * 1.8 + 32.0 if isinstance(other, Celsius) else NotImplemented

    def __eq__(self, other):
        if not isinstance(other, Celsius):
            return NotImplemented
        if self.degrees < -459.67:
            raise ValueError("there is no such temperature")
        return self.degrees == other.degrees * 1.8 + 32.0

    def __ne__(self, other):
        return True if isinstance(other, Celsius) else NotImplemented


TWINS = SimpleNamespace(Number=Number, Measure=Measure, Bits=Bits, Celsius=Celsius, Fahrenheit=Fahrenheit)
OPERATORS = [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge]


def operands(library, derives):
    """The same operands for the library and for its twins."""
    made = [
        *map(library.Number, [1.0, 2.0, float("nan")]),
        *map(library.Measure, [1.0, 2.0, float("nan")]),
        *map(library.Bits, [0b01, 0b10, 0b11, 0b11]),
        *map(library.Celsius, [0.0, 10.0, float("nan")]),
        *map(library.Fahrenheit, [32.0, 50.0, -500.0]),
        *[0, 1, 10, 1.0, float("nan"), "1", None, [1], object(), Foreign()],
    ]
    if derives:

        class Derived(library.Number):
            pass

        class Own(library.Number):
            def __eq__(self, other):
                return "own"

            def __lt__(self, other):
                return NotImplemented

            __hash__ = None

        class Part(library.Bits):
            def __gt__(self, other):
                return "part"

        made += [Derived(1.0), Derived(2.0), Own(1.0), Part(0b01), Part(0b11)]
    return made


def outcome(call, *arguments):
    try:
        return call(*arguments)
    except (TypeError, ValueError) as error:
        return type(error)


def check_table(library, derives):
    ours, twins = operands(library, derives), operands(TWINS, derives)
    for compare, left, right in itertools.product(OPERATORS, range(len(ours)), range(len(ours))):
        found, expected = outcome(compare, ours[left], ours[right]), outcome(compare, twins[left], twins[right])
        assert found is expected or found == expected, (compare, twins[left], twins[right], found, expected)


def check_others(library):
    number, measures = library.Number(1.0), [library.Measure(value) for value in [3.0, 1.0, 2.0]]
    for name in ["__eq__", "__lt__", "__le__", "__gt__", "__ge__"]:
        assert getattr(number, name)("1") is NotImplemented and getattr(library.Celsius(1.0), name)(number) is NotImplemented
    assert number.__ne__("1") is NotImplemented and number.__ne__(2) is True and number.__ne__(1) is False
    assert [measure.value for measure in sorted(measures)] == [1.0, 2.0, 3.0]
    assert [measure.value for measure in sorted(measures, reverse=True)] == [3.0, 2.0, 1.0]
    assert max(measures).value == 3.0 and min(measures).value == 1.0 and library.Measure(2.0) in measures
    assert sorted([3, library.Number(2.0), 1.5])[1].value == 2.0 and [1, 2].index(library.Number(2.0)) == 1
    assert bisect.bisect_left([1.0, 2.0, 3.0], library.Number(2.5)) == 2
    by_order = functools.cmp_to_key(lambda left, right: (left > right) - (left < right))
    assert [measure.value for measure in sorted(measures, key=by_order)] == [1.0, 2.0, 3.0]
    assert functools.reduce(lambda left, right: left if left > right else right, measures).value == 3.0
    # A type with its own `==` has a hash only if it defines one.
    for cls in [library.Number, library.Measure, library.Celsius, library.Fahrenheit]:
        assert cls.__hash__ is None and outcome(hash, cls(1.0)) is TypeError
    assert len({library.Bits(3), library.Bits(3), library.Bits(1)}) == 2

    @functools.lru_cache(maxsize=None)
    def cached(bits):
        return object()

    assert cached(library.Bits(3)) is cached(library.Bits(3)) and cached(library.Bits(3)) is not cached(library.Bits(1))


def check(library, derives):
    check_table(library, derives)
    check_others(library)


if __name__ == "__main__":
    import extmod

    # The package tvm_ffi registers the classes that are derived from its own.
    check(extmod, derives=not any(cls.__module__.startswith("tvm_ffi") for cls in extmod.Number.__mro__))
    print("passed")
