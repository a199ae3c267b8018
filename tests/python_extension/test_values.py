"""Values where no type is declared: tuples of Rust, and numbers in fields and from callbacks, as parameters take them."""

import decimal
import fractions

import pytest


class Number:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        return self.value


def test_tuples_of_rust(extmod):
    kept = []
    found = extmod.values.tuples(lambda pair: pair, lambda pair: kept.append(pair) or pair)
    pair = (1, "two")
    assert found == {
        "any": pair,
        "one": (1,),
        "nested": (pair, [pair], [pair]),
        "object": pair,
        "argument": pair,
        "argument of a function": pair,
        "list": [1, 2],
    }
    assert kept == [pair]
    assert extmod.values.looked_up({pair: "found"}) == "found"


@pytest.mark.parametrize("number", [Number(1.5), decimal.Decimal("1.5"), fractions.Fraction(3, 2), 1.5])
def test_numbers(extmod, number):
    gauge = extmod.values.Gauge(number, number, number)
    assert (gauge.wide, gauge.narrow, gauge.fixed) == (1.5, 1.5, 1.5)
    gauge.wide = gauge.narrow = 0
    gauge.wide = gauge.narrow = number
    assert (gauge.wide, gauge.narrow) == (1.5, 1.5) == (extmod.echo_f64(number), extmod.echo_f32(number))
    assert extmod.values.returned(lambda: number) == 1.5
    assert extmod.values.all_returned(lambda: [number, 2, number]) == [1.5, 2.0, 1.5]


@pytest.mark.needs("numpy")
@pytest.mark.parametrize("name", ["float16", "float32", "float64", "longdouble", "int32", "uint8"])
def test_numbers_of_numpy(extmod, name):
    import numpy as np

    number = getattr(np, name)(2)
    gauge = extmod.values.Gauge(number, number, number)
    gauge.wide = gauge.narrow = number
    assert (gauge.wide, gauge.narrow, gauge.fixed) == (2.0, 2.0, 2.0)
    assert extmod.values.returned(lambda: number) == extmod.echo_f64(number) == 2.0
    assert extmod.values.all_returned(lambda: [number]) == [2.0]


def test_values_that_are_not_numbers(extmod):
    gauge = extmod.values.Gauge(1.5, 1.5)
    for value in ["1.5", b"1", [1.5], None, object()]:
        with pytest.raises(TypeError, match="expected float"):
            gauge.wide = value
        with pytest.raises(TypeError, match="expected float"):
            extmod.values.returned(lambda value=value: value)
    assert gauge.wide == 1.5


def test_numbers_out_of_range(extmod):
    gauge = extmod.values.Gauge(1.5, 1.5)
    for number in [1e40, -1e40, decimal.Decimal("1e40"), 10**40]:
        with pytest.raises(OverflowError, match="1e40 is out of range for f32"):
            extmod.echo_f32(number)
        with pytest.raises(OverflowError, match="1e40 is out of range for f32"):
            gauge.narrow = number
        with pytest.raises(OverflowError, match="1e40 is out of range for f32"):
            extmod.values.Gauge(1.5, number)
    gauge.narrow = float("inf")
    assert gauge.narrow == float("inf")


def test_a_name_that_occurs_twice(extmod):
    assert extmod.values.named(dict, "a", "b") == {"a": 1, "b": 2}
    with pytest.raises(TypeError, match="^got multiple values for keyword argument 'a'$"):
        extmod.values.named(dict, "a", "a")
