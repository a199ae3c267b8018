"""Enums without data as classes of the module `enum`. The types are those of tests/objects-lib."""

import copy
import enum
import pickle

import pytest


def test_classes(extmod):
    Color, Layout = extmod.objects.Color, extmod.objects.Layout
    assert issubclass(Color, enum.IntEnum) and issubclass(Layout, (str, enum.Enum))
    assert [(color.name, color.value) for color in Color] == [("RED", 1), ("GREEN", 2), ("DARK_BLUE", 40)]
    assert [layout.value for layout in Layout] == ["row_major", "column_major", "blocked 4x4"]
    assert (Color(40), Color["GREEN"], Layout("blocked 4x4").name) == (Color.DARK_BLUE, Color.GREEN, "blocked 4x4")
    assert (Color.__name__, Color.__qualname__, Color.__module__) == ("Color", "objects.Color", "extmod")
    assert (Color.RED.__doc__, Color.DARK_BLUE.__doc__) == ("Like blood.", "Like the sky.")
    with pytest.raises(ValueError, match="7 is not a valid"):
        Color(7)


def test_results_are_members(extmod):
    Color, Layout = extmod.objects.Color, extmod.objects.Layout
    assert extmod.next_color(Color.RED) is Color.GREEN and extmod.transposed(Layout.row_major) is Layout.column_major
    assert extmod.all_colors() == list(Color) and all(type(color) is Color for color in extmod.all_colors())
    assert extmod.transposed("blocked 4x4") is None
    assert extmod.echo_any(Color.RED) is Color.RED and extmod.echo_any([Layout.row_major])[0] is Layout.row_major
    extmod.keep(lambda color: color)
    assert extmod.call_kept(Color.GREEN) is Color.GREEN
    extmod.keep(None)
    painted = extmod.paint(Color.DARK_BLUE, None)
    assert painted.color is Color.DARK_BLUE and painted.layout is None
    assert extmod.paint("RED", "row_major").layout is Layout.row_major


def test_what_stands_for_a_member(extmod):
    """The member, its value, and the name of integer members."""
    Color, Layout = extmod.objects.Color, extmod.objects.Layout
    for red in [Color.RED, 1, "RED"]:
        assert extmod.next_color(red) is Color.GREEN
    assert extmod.next_color("DARK_BLUE") is Color.RED
    for layout in [Layout.row_major, "row_major"]:
        assert extmod.transposed(layout) is Layout.column_major
    assert extmod.count_colors([Color.RED, "GREEN", 1]) == {"RED": 2, "GREEN": 1}
    # A member is accepted as a number or a text.
    assert extmod.subtract(Color.DARK_BLUE, Color.GREEN) == 38 and extmod.text_size(Layout.row_major) == 9


ERRORS = [
    (lambda m: m.next_color(3), ValueError, "3 is not a value of objects.Color; its variants are RED = 1, GREEN = 2, DARK_BLUE = 40"),
    (lambda m: m.next_color("PINK"), TypeError, "expected objects.Color (RED = 1, GREEN = 2, DARK_BLUE = 40) or its int, got str"),
    (lambda m: m.next_color(None), TypeError, "or its int, got None"),
    (lambda m: m.next_color(m.objects.Layout.row_major), TypeError, "or its int, got str"),
    (lambda m: m.transposed("rowmajor"), ValueError, "did you mean 'row_major'"),
]


@pytest.mark.parametrize("call, kind, message", ERRORS, ids=lambda value: str(value)[:40])
def test_errors(extmod, call, kind, message):
    with pytest.raises(kind) as caught:
        call(extmod)
    assert message in str(caught.value)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies(extmod, again):
    for member in [*extmod.objects.Color, *extmod.objects.Layout]:
        assert again(member) is member


def test_types_and_enums_below_an_enum(extmod):
    """Each is an attribute of the class whose name it starts with, in any order of the linker."""
    Shade = extmod.Shade
    assert issubclass(Shade, enum.Enum) and [shade.value for shade in Shade] == ["Light", "Dark"]
    assert (Shade.Mix.__qualname__, Shade.Mix.Limit.__qualname__) == ("Shade.Mix", "Shade.Mix.Limit")
    assert issubclass(Shade.Mix.Limit, enum.IntEnum)
    mix = Shade.mixed(Shade.Dark, Shade.Mix.Limit.All)
    assert type(mix) is Shade.Mix and (mix.first, mix.part) == (Shade.Dark, 1.0)
    for again in [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]:
        assert again(mix).first is Shade.Dark and again(Shade.Mix.Limit.All) is Shade.Mix.Limit.All
