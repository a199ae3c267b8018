"""Rust enums of tests/objects-lib from stock Python: those without data as tvm_ffi enums, those with data as object types."""

import copy
import os
import pickle
import subprocess
import sys
import textwrap
from typing import ClassVar

import pytest
import tvm_ffi
from tvm_ffi import dataclasses as dc

PATH = os.environ.get("OBJECTS_LIBRARY")
assert PATH, "set OBJECTS_LIBRARY to the path of libobjects.so (cargo build -p objects)"
LIBRARY = tvm_ffi.load_module(PATH)


class Color(dc.IntEnum, type_key="objects.Color"):
    RED: ClassVar["Color"]
    GREEN: ClassVar["Color"]
    DARK_BLUE: ClassVar["Color"]


class Layout(dc.StrEnum, type_key="objects.Layout"):
    row_major: ClassVar["Layout"]
    column_major: ClassVar["Layout"]


@dc.c_class("objects.Expr")
class Expr(tvm_ffi.Object):
    pass


@dc.c_class("objects.Expr.Const", eq=True, order=True, unsafe_hash=True)
class Const(Expr):
    value: int


@dc.c_class("objects.Variable", eq=True)
class Var(Expr):
    name: str


@dc.c_class("objects.Expr.Add", eq=True)
class Add(Expr):
    lhs: Expr
    rhs: Expr


@dc.c_class("objects.Expr.Call", eq=True)
class Call(Expr):
    function: str
    arguments: tvm_ffi.Array
    pure: bool


@dc.c_class("objects.Expr.Nil")
class Nil(Expr):
    pass


@tvm_ffi.register_object("objects.Painted")
class Painted(tvm_ffi.Object):
    pass


def test_variants_are_bound():
    assert [color.name for color in Color] == ["RED", "GREEN", "DARK_BLUE"]
    assert [color.value for color in Color] == [1, 2, 40]
    assert list(Color) == [Color.RED, Color.GREEN, Color.DARK_BLUE]
    assert len(Color) == 3 and list(Color.all_entries()) == list(Color)
    assert [layout.value for layout in Layout] == ["row_major", "column_major", "blocked 4x4"]
    assert repr(Color.RED) == "Color.RED" and str(Color.DARK_BLUE) == "40"


def test_lookup():
    assert Color(1).same_as(Color.RED) and Color.get("DARK_BLUE").same_as(Color.DARK_BLUE)
    assert Color(Color.RED).same_as(Color.RED)
    assert Layout("blocked 4x4").value == "blocked 4x4"
    with pytest.raises(ValueError, match="7 is not a valid Color"):
        Color(7)
    with pytest.raises(KeyError):
        Layout.get("diagonal")


def test_equality_and_hash():
    assert Color.RED == Color.RED and Color.RED != Color.GREEN
    assert Color.RED == 1 and Layout.row_major == "row_major"
    assert hash(Color.RED) == hash(1)
    assert {Color.RED: "r", Color.GREEN: "g"}[Color(2)] == "g"
    assert tvm_ffi.structural_equal(Color.RED, Color.RED)
    assert not tvm_ffi.structural_equal(Color.RED, Color.GREEN)


def test_calls():
    assert LIBRARY.next_color(Color.RED).same_as(Color.GREEN)
    assert LIBRARY.next_color(40).same_as(Color.RED)
    assert isinstance(LIBRARY.next_color(1), Color)
    assert LIBRARY.transposed(Layout.row_major).same_as(Layout.column_major)
    assert LIBRARY.transposed("column_major").same_as(Layout.row_major)
    assert LIBRARY.transposed("blocked 4x4") is None
    assert dict(LIBRARY.count_colors([Color.RED, 2, 1])) == {"RED": 2, "GREEN": 1}
    assert list(LIBRARY.all_colors()) == list(Color)


@pytest.mark.parametrize(
    "argument, kind, message",
    [
        (3, ValueError, "3 is not a value of objects.Color; its variants are RED = 1, GREEN = 2, DARK_BLUE = 40"),
        ("RED", TypeError, r"expected objects.Color \(RED = 1, GREEN = 2, DARK_BLUE = 40\) or its int, got str"),
        (None, TypeError, "or its int, got None"),
        (True, TypeError, "or its int, got bool"),
        (Layout.row_major, TypeError, "or its int, got objects.Layout"),
    ],
)
def test_other_arguments_are_refused(argument, kind, message):
    with pytest.raises(kind, match=message):
        LIBRARY.next_color(argument)


def test_a_name_that_is_nearly_right():
    with pytest.raises(ValueError, match="did you mean 'row_major'"):
        LIBRARY.transposed("rowmajor")


def test_fields():
    painted = LIBRARY.paint(Color.DARK_BLUE, None)
    assert painted.color.same_as(Color.DARK_BLUE) and painted.layout is None
    assert LIBRARY.paint(1, "row_major").layout.same_as(Layout.row_major)


def test_copies_and_graphs():
    for value in [*Color, *Layout]:
        assert copy.copy(value).same_as(value)
        assert copy.deepcopy(value).same_as(value)
        assert pickle.loads(pickle.dumps(value)).same_as(value)
        again = tvm_ffi.serialization.from_json_graph_str(tvm_ffi.serialization.to_json_graph_str(value))
        assert again.same_as(value)
    values = tvm_ffi.serialization.from_json_graph_str(
        tvm_ffi.serialization.to_json_graph_str(tvm_ffi.convert([Color.RED, Layout.row_major, Color.RED]))
    )
    assert values[0].same_as(values[2]) and values[0].same_as(Color.RED) and values[1].same_as(Layout.row_major)


def test_documentation():
    docs = Color.def_attr("doc", default="")
    assert [docs[color] for color in Color] == ["Like blood.", "", "Like the sky."]


def test_a_field_of_a_python_class_takes_the_integer():
    @dc.py_class("objects.tests.Wall")
    class Wall(tvm_ffi.Object):
        color: Color

    assert Wall(Color.GREEN).color.same_as(Color.GREEN)
    assert Wall(2).color.same_as(Color.GREEN)
    with pytest.raises(TypeError):
        Wall(7)


def test_no_other_variants():
    with pytest.raises(TypeError):

        class More(dc.IntEnum, type_key="objects.Color"):
            GREY = 9

    assert len(Color) == 3
    with pytest.raises(TypeError):
        Color()


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), PATH], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_python_enum_that_was_there_first_is_joined():
    run(
        """
        import sys, tvm_ffi
        from tvm_ffi import dataclasses as dc

        class Color(dc.IntEnum, type_key="objects.Color"):
            RED = 1
            GREEN = 2
            DARK_BLUE = 40

        library = tvm_ffi.load_module(sys.argv[1])
        assert library.next_color(Color.RED).same_as(Color.GREEN)
        assert len(Color) == 3
        """
    )


def test_a_python_enum_with_other_variants_stays_apart():
    said = run(
        """
        import sys, tvm_ffi
        from tvm_ffi import dataclasses as dc

        class Color(dc.IntEnum, type_key="objects.Color"):
            RED = 1
            GREY = 2

        # Only our own host can report that loading failed; another one has the library, and its
        # enum under another key.
        try:
            library = tvm_ffi.load_module(sys.argv[1])
        except RuntimeError:
            sys.exit(0)
        assert library.next_color(1).value == 2
        assert not isinstance(library.next_color(1), Color)
        try:
            library.next_color(Color.RED)
        except TypeError as error:
            assert "expected objects.Color" in str(error), error
        else:
            raise AssertionError("two types")
        """
    )
    assert "with other variants (RED = 1, GREY = 2; ours are RED = 1, GREEN = 2, DARK_BLUE = 40)" in said, said


def test_variants_are_types():
    expr = LIBRARY.example()
    assert type(expr) is Add and isinstance(expr, Expr)
    assert type(expr.lhs) is Const and expr.lhs.value == 1
    call = expr.rhs
    assert type(call) is Call and call.function == "f" and call.pure is True
    assert [type(argument) for argument in call.arguments] == [Var, Nil]
    assert repr(expr) == (
        'objects.Expr.Add(lhs=objects.Expr.Const(value=1), rhs=objects.Expr.Call(function="f", '
        'arguments=(objects.Variable(name="x"), objects.Expr.Nil)))'
    )


def test_variants_are_constructed():
    five = Const(5)
    assert five.value == 5 and LIBRARY.evaluate(five) == 5
    assert LIBRARY.evaluate(Add(five, Add(lhs=Var("x"), rhs=Nil()))) == 15
    call = Call("g")
    assert len(call.arguments) == 0 and call.pure is False and LIBRARY.evaluate(call) == 0
    assert LIBRARY.evaluate(Call("g", [five, call], pure=True)) == 2
    for wrong in [lambda: Const("5"), lambda: Const(), lambda: Add(five), lambda: Call("g", [1]), lambda: Call("g", [], True)]:
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(AttributeError):
        five.value = 6
    with pytest.raises(TypeError, match="construct one of these: objects.Expr.Const, objects.Variable, objects.Expr.Add"):
        Expr()


def test_families_compare_copy_and_save():
    expr = LIBRARY.example()
    assert expr == LIBRARY.example() and expr != Const(1)
    assert Const(1) < Const(2) and hash(Const(1)) == hash(Const(1))
    assert tvm_ffi.structural_equal(expr, LIBRARY.example())
    # Structural equality leaves `pure` out.
    assert tvm_ffi.structural_equal(Call("f", pure=True), Call("f", pure=False))
    assert not tvm_ffi.structural_equal(Call("f"), Call("g"))
    twin = copy.copy(expr)
    assert twin is not expr and twin.lhs.same_as(expr.lhs) and LIBRARY.evaluate(twin) == 3
    assert Const(1).__replace__(value=2).value == 2
    for again in [
        copy.deepcopy(expr),
        pickle.loads(pickle.dumps(expr)),
        tvm_ffi.serialization.from_json_graph_str(tvm_ffi.serialization.to_json_graph_str(expr)),
    ]:
        assert type(again) is Add and again == expr and not again.lhs.same_as(expr.lhs)
        assert LIBRARY.evaluate(again) == 3


def test_python_subclasses_are_no_variants():
    @dc.py_class("objects.tests.Product")
    class Product(Expr):
        factors: tvm_ffi.Array

    @dc.py_class("objects.tests.Large")
    class Large(Const):
        digits: int

    for other in [Product([]), Large(1, 2), 3, None]:
        with pytest.raises(TypeError, match="expected objects.Expr, got"):
            LIBRARY.evaluate(other)


def test_documentation_of_families():
    assert "The value." in (Const.value.__doc__ or "")
