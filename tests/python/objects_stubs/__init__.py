"""Python classes for the types of tests/objects-lib, as a package that ships the library would have them.

`tvm-ffi-stubgen` fills what is between `begin` and `end`; the rest is written by hand, because the tool's own start
knows no enums. test_stubs.py checks that the file is up to date, and that mypy accepts it. UPDATE_EXPECT=1 rewrites it.
"""

# Each class has an `__ffi_init__` of its own, which is not a method to override.
# mypy: disable-error-code="override"

# tvm-ffi-stubgen(ty-map): objects.Color -> Color
# tvm-ffi-stubgen(ty-map): objects.Layout -> Layout
# tvm-ffi-stubgen(ty-map): objects.Hue -> Hue
# tvm-ffi-stubgen(ty-map): objects.Mode -> Mode
# tvm-ffi-stubgen(begin): import-section
# fmt: off
# isort: off
from __future__ import annotations
from tvm_ffi import Object as Object, init_ffi_api as _FFI_INIT_FUNC
from tvm_ffi.dataclasses import IntEnum as IntEnum, StrEnum as StrEnum, c_class as c_class
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from tvm_ffi import Device, Shape, Tensor, dtype
    from typing import Any, Callable
# isort: on
# fmt: on
# tvm-ffi-stubgen(end)
# tvm-ffi-stubgen(import-object): tvm_ffi.Object;False;Object
# tvm-ffi-stubgen(import-object): tvm_ffi.dataclasses.c_class;False;c_class
# tvm-ffi-stubgen(import-object): tvm_ffi.dataclasses.IntEnum;False;IntEnum
# tvm-ffi-stubgen(import-object): tvm_ffi.dataclasses.StrEnum;False;StrEnum

import os
from typing import ClassVar

import tvm_ffi

LIBRARY = tvm_ffi.load_module(os.environ["OBJECTS_LIBRARY"])

# tvm-ffi-stubgen(begin): global/objects
# fmt: off
_FFI_INIT_FUNC("objects", __name__)
if TYPE_CHECKING:
    def alive() -> int: ...
    def all_colors() -> Sequence[Color]: ...
    def arity(_0: Lambda, /) -> int: ...
    def count_colors(_0: Sequence[Color], /) -> Mapping[str, int]: ...
    def evaluate(_0: Expr, /) -> int: ...
    def example() -> Expr: ...
    def folders_alive() -> int: ...
    def next_color(_0: Color, /) -> Color: ...
    def next_hue(_0: Hue, /) -> Hue: ...
    def ones(_0: int, /) -> Tensor: ...
    def paint(_0: Color, _1: Layout | None, /) -> Painted: ...
    def token(_0: int, /) -> Token: ...
    def track(_0: int, _1: str, _2: Tracked | None, /) -> Tracked: ...
    def transposed(_0: Layout, /) -> Layout | None: ...
    def uninitialized(_0: int, /) -> Uninitialized: ...
# fmt: on
# tvm-ffi-stubgen(end)


class Color(IntEnum, type_key="objects.Color"):
    RED: ClassVar["Color"]
    GREEN: ClassVar["Color"]
    DARK_BLUE: ClassVar["Color"]


class Layout(StrEnum, type_key="objects.Layout"):
    row_major: ClassVar["Layout"]
    column_major: ClassVar["Layout"]


class Hue(IntEnum, type_key="objects.Hue"):
    Red: ClassVar["Hue"]
    Green: ClassVar["Hue"]
    Blue: ClassVar["Hue"]


class Mode(StrEnum, type_key="objects.Mode"):
    Read: ClassVar["Mode"]
    Write: ClassVar["Mode"]


@c_class("objects.Scalars")
class Scalars(Object):
    """Numbers of every width."""

    # tvm-ffi-stubgen(begin): object/objects.Scalars
    # fmt: off
    flag: bool
    small: int
    short: int
    integer: int
    long: int
    byte: int
    word: int
    count: int
    size: int
    single: float
    double: float
    if TYPE_CHECKING:
        def __init__(self, flag: bool, small: int, short: int, integer: int, long: int, byte: int, word: int, count: int, size: int, single: float, double: float) -> None: ...
        def __ffi_init__(self, flag: bool, small: int, short: int, integer: int, long: int, byte: int, word: int, count: int, size: int, single: float, double: float) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Texts")
class Texts(Object):
    """Text and bytes, as Rust keeps them and as the ABI does."""

    # tvm-ffi-stubgen(begin): object/objects.Texts
    # fmt: off
    owned: str
    shared: str
    raw: bytes
    if TYPE_CHECKING:
        def __init__(self, owned: str, shared: str, raw: bytes) -> None: ...
        def __ffi_init__(self, owned: str, shared: str, raw: bytes) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Containers")
class Containers(Object):
    """Many values in one field."""

    # tvm-ffi-stubgen(begin): object/objects.Containers
    # fmt: off
    vec: Sequence[int]
    nested: Sequence[Sequence[float]]
    maybe: Sequence[int | None]
    pair: tuple[int, str]
    hash_map: Mapping[str, int]
    tree_map: Mapping[int, str]
    array: Sequence[float]
    mapping: Mapping[str, int]
    anything: Sequence[Any]
    shape: Shape
    if TYPE_CHECKING:
        def __init__(self, vec: Sequence[int], nested: Sequence[Sequence[float]], maybe: Sequence[int | None], pair: tuple[int, str], hash_map: Mapping[str, int], tree_map: Mapping[int, str], array: Sequence[float], mapping: Mapping[str, int], anything: Sequence[Any], shape: Shape) -> None: ...
        def __ffi_init__(self, vec: Sequence[int], nested: Sequence[Sequence[float]], maybe: Sequence[int | None], pair: tuple[int, str], hash_map: Mapping[str, int], tree_map: Mapping[int, str], array: Sequence[float], mapping: Mapping[str, int], anything: Sequence[Any], shape: Shape) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Options")
class Options(Object):
    """Values that may be missing."""

    # tvm-ffi-stubgen(begin): object/objects.Options
    # fmt: off
    integer: int | None
    real: float | None
    text: str | None
    items: Sequence[int] | None
    tensor: Tensor | None
    if TYPE_CHECKING:
        def __init__(self, integer: int | None, real: float | None, text: str | None, items: Sequence[int] | None, tensor: Tensor | None) -> None: ...
        def __ffi_init__(self, integer: int | None, real: float | None, text: str | None, items: Sequence[int] | None, tensor: Tensor | None) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Handles")
class Handles(Object):
    """The kinds of values that the ABI has besides numbers and text."""

    # tvm-ffi-stubgen(begin): object/objects.Handles
    # fmt: off
    element: dtype
    place: Device
    tensor: Tensor
    function: Callable[..., Any]
    anything: Any
    if TYPE_CHECKING:
        def __init__(self, element: dtype, place: Device, tensor: Tensor, function: Callable[..., Any], anything: Any) -> None: ...
        def __ffi_init__(self, element: dtype, place: Device, tensor: Tensor, function: Callable[..., Any], anything: Any) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Point")
class Point(Object):
    """A point in the plane."""

    # tvm-ffi-stubgen(begin): object/objects.Point
    # fmt: off
    x: int
    y: int
    if TYPE_CHECKING:
        def __init__(self, x: int, y: int) -> None: ...
        def __ffi_init__(self, x: int, y: int) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Line")
class Line(Object):
    """Two points."""

    # tvm-ffi-stubgen(begin): object/objects.Line
    # fmt: off
    start: Point
    end: Point
    if TYPE_CHECKING:
        def __init__(self, start: Point, end: Point) -> None: ...
        def __ffi_init__(self, start: Point, end: Point) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Trail")
class Trail(Object):
    """Many points."""

    # tvm-ffi-stubgen(begin): object/objects.Trail
    # fmt: off
    points: Sequence[Point]
    corners: Sequence[Point]
    named: Mapping[str, Point]
    center: Point | None
    if TYPE_CHECKING:
        def __init__(self, points: Sequence[Point], corners: Sequence[Point], named: Mapping[str, Point], center: Point | None) -> None: ...
        def __ffi_init__(self, points: Sequence[Point], corners: Sequence[Point], named: Mapping[str, Point], center: Point | None) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Node")
class Node(Object):
    """A list, one object for each element."""

    # tvm-ffi-stubgen(begin): object/objects.Node
    # fmt: off
    value: int
    next: Node | None
    if TYPE_CHECKING:
        def __init__(self, value: int, next: Node | None) -> None: ...
        def __ffi_init__(self, value: int, next: Node | None) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Animal")
class Animal(Object):
    """Something that lives."""

    # tvm-ffi-stubgen(begin): object/objects.Animal
    # fmt: off
    legs: int
    if TYPE_CHECKING:
        def __init__(self, legs: int) -> None: ...
        def __ffi_init__(self, legs: int) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Pet")
class Pet(Animal):
    """An animal with a name."""

    # tvm-ffi-stubgen(begin): object/objects.Pet
    # fmt: off
    name: str
    if TYPE_CHECKING:
        def __init__(self, legs: int, name: str) -> None: ...
        def __ffi_init__(self, legs: int, name: str) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Dog")
class Dog(Pet):
    """A pet that barks."""

    # tvm-ffi-stubgen(begin): object/objects.Dog
    # fmt: off
    breed: str | None
    loudness: float
    if TYPE_CHECKING:
        def __init__(self, legs: int, name: str, breed: str | None, loudness: float) -> None: ...
        def __ffi_init__(self, legs: int, name: str, breed: str | None, loudness: float) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Tracked")
class Tracked(Object):
    """An object that is counted as long as it lives."""

    # tvm-ffi-stubgen(begin): object/objects.Tracked
    # fmt: off
    value: int
    text: str
    other: Tracked | None
    if TYPE_CHECKING:
        def __init__(self, value: int, text: str, other: Tracked | None) -> None: ...
        def __ffi_init__(self, value: int, text: str, other: Tracked | None) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Defaults")
class Defaults(Object):
    """Fields that may be omitted in a constructor call."""

    # tvm-ffi-stubgen(begin): object/objects.Defaults
    # fmt: off
    required: int
    count: int
    label: str
    items: Sequence[int]
    keyword: bool
    maybe: float | None
    if TYPE_CHECKING:
        def __init__(self, required: int, count: int = ..., label: str = ..., items: Sequence[int] = ..., *, keyword: bool, maybe: float | None = ...) -> None: ...
        def __ffi_init__(self, required: int, count: int = ..., label: str = ..., items: Sequence[int] = ..., *, keyword: bool, maybe: float | None = ...) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Flags")
class Flags(Object):
    """Fields that printing, comparing and hashing leave out."""

    # tvm-ffi-stubgen(begin): object/objects.Flags
    # fmt: off
    plain: int
    unprinted: int
    uncompared: int
    unhashed: int
    computed: int
    if TYPE_CHECKING:
        def __init__(self, plain: int, unprinted: int = ..., uncompared: int = ..., unhashed: int = ...) -> None: ...
        def __ffi_init__(self, plain: int, unprinted: int = ..., uncompared: int = ..., unhashed: int = ...) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Secretive")
class Secretive(Object):
    """Fields that other languages see, and hidden ones."""

    # tvm-ffi-stubgen(begin): object/objects.Secretive
    # fmt: off
    shown: int
    type: str
    if TYPE_CHECKING:
        def __init__(self, shown: int, type: str) -> None: ...
        def __ffi_init__(self, shown: int, type: str) -> None: ...
        def everything(self, /) -> tuple[int, str, Sequence[int], Sequence[int], str]: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Token")
class Token(Object):
    """Objects that only Rust makes."""

    # tvm-ffi-stubgen(begin): object/objects.Token
    # fmt: off
    number: int
    if TYPE_CHECKING:
        def __init__(self, number: int) -> None: ...
        def __ffi_init__(self, number: int) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Uninitialized")
class Uninitialized(Object):
    """A type without a constructor made of its fields."""

    # tvm-ffi-stubgen(begin): object/objects.Uninitialized
    # fmt: off
    number: int
    if TYPE_CHECKING:
        def __init__(self, number: int) -> None: ...
        def __ffi_init__(self, number: int) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Counter")
class Counter(Object):
    """Counts, from many threads and languages."""

    # tvm-ffi-stubgen(begin): object/objects.Counter
    # fmt: off
    name: str
    hits: int
    limit: int
    closed: bool
    state: str
    note: Sequence[int] | None
    if TYPE_CHECKING:
        def __init__(self, name: str, hits: int = ..., limit: int = ..., closed: bool = ..., state: str = ..., note: Sequence[int] | None = ...) -> None: ...
        def __ffi_init__(self, name: str, hits: int = ..., limit: int = ..., closed: bool = ..., state: str = ..., note: Sequence[int] | None = ...) -> None: ...
        def hit(self, /) -> int: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Account")
class Account(Object):
    """An account with money."""

    # tvm-ffi-stubgen(begin): object/objects.Account
    # fmt: off
    owner: str
    cents: int
    units: int
    if TYPE_CHECKING:
        def __init__(self, owner: str, cents: int) -> None: ...
        def __ffi_init__(self, _0: str, _1: float, /) -> None: ...
        @staticmethod
        def common() -> Account: ...
        def with_deposit(self, _1: int, /) -> Account: ...
        def together(self, _1: Account, _2: int, /) -> int: ...
        def itself(self, /) -> Account: ...
        def richer(self, _1: Account | None, /) -> Account: ...
        def apply(self, _1: Callable[..., Any], /) -> int: ...
        def fail(self, /) -> int: ...
        def panic(self, /) -> int: ...
        def __add__(self, _1: Account, /) -> Account: ...
        def __len__(self, /) -> int: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Figure")
class Figure(Object):
    """A shape in the plane, of one of three kinds."""

    # tvm-ffi-stubgen(begin): object/objects.Figure
    # fmt: off
    if TYPE_CHECKING:
        def __init__(self) -> None: ...
        def __ffi_init__(self) -> None: ...
        def area(self, /) -> float: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Figure.Circle")
class Circle(Figure):
    """All points that are near to one."""

    # tvm-ffi-stubgen(begin): object/objects.Figure.Circle
    # fmt: off
    radius: float
    if TYPE_CHECKING:
        def __init__(self, radius: float) -> None: ...
        def __ffi_init__(self, radius: float) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Figure.Rectangle")
class Rectangle(Figure):
    """Two sides."""

    # tvm-ffi-stubgen(begin): object/objects.Figure.Rectangle
    # fmt: off
    width: float
    height: float
    if TYPE_CHECKING:
        def __init__(self, width: float, height: float) -> None: ...
        def __ffi_init__(self, width: float, height: float) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Figure.Group")
class Group(Figure):
    """Several shapes."""

    # tvm-ffi-stubgen(begin): object/objects.Figure.Group
    # fmt: off
    name: str
    shapes: Sequence[Figure]
    if TYPE_CHECKING:
        def __init__(self, name: str, shapes: Sequence[Figure]) -> None: ...
        def __ffi_init__(self, name: str, shapes: Sequence[Figure]) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Signal")
class Signal(Object):
    """A thing with a hue."""

    # tvm-ffi-stubgen(begin): object/objects.Signal
    # fmt: off
    hue: Hue
    mode: Mode | None
    if TYPE_CHECKING:
        def __init__(self, hue: Hue, mode: Mode | None) -> None: ...
        def __ffi_init__(self, hue: Hue, mode: Mode | None) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Var")
class Var(Object):
    """A variable: equal to what it is mapped to."""

    # tvm-ffi-stubgen(begin): object/objects.Var
    # fmt: off
    name: str
    if TYPE_CHECKING:
        def __init__(self, name: str) -> None: ...
        def __ffi_init__(self, name: str) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Lambda")
class Lambda(Object):
    """A function of its parameters."""

    # tvm-ffi-stubgen(begin): object/objects.Lambda
    # fmt: off
    params: Sequence[Var]
    body: Any
    comment: str | None
    if TYPE_CHECKING:
        def __init__(self, params: Sequence[Var], body: Any, comment: str | None = ...) -> None: ...
        def __ffi_init__(self, params: Sequence[Var], body: Any, comment: str | None = ...) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Dag")
class Dag(Object):
    """A node that may be shared."""

    # tvm-ffi-stubgen(begin): object/objects.Dag
    # fmt: off
    op: str
    inputs: Sequence[Dag]
    if TYPE_CHECKING:
        def __init__(self, op: str, inputs: Sequence[Dag]) -> None: ...
        def __ffi_init__(self, op: str, inputs: Sequence[Dag]) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Painted")
class Painted(Object):
    """Something with a color."""

    # tvm-ffi-stubgen(begin): object/objects.Painted
    # fmt: off
    color: Color
    layout: Layout | None
    if TYPE_CHECKING:
        def __init__(self, color: Color, layout: Layout | None) -> None: ...
        def __ffi_init__(self, color: Color, layout: Layout | None) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Expr")
class Expr(Object):
    """An expression."""

    # tvm-ffi-stubgen(begin): object/objects.Expr
    # fmt: off
    if TYPE_CHECKING:
        def __init__(self) -> None: ...
        def __ffi_init__(self) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Expr.Const")
class Const(Expr):
    """A number."""

    # tvm-ffi-stubgen(begin): object/objects.Expr.Const
    # fmt: off
    value: int
    if TYPE_CHECKING:
        def __init__(self, value: int) -> None: ...
        def __ffi_init__(self, value: int) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Variable")
class Variable(Expr):
    """A variable."""

    # tvm-ffi-stubgen(begin): object/objects.Variable
    # fmt: off
    name: str
    if TYPE_CHECKING:
        def __init__(self, name: str) -> None: ...
        def __ffi_init__(self, name: str) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Expr.Add")
class Add(Expr):
    """A sum."""

    # tvm-ffi-stubgen(begin): object/objects.Expr.Add
    # fmt: off
    lhs: Expr
    rhs: Expr
    if TYPE_CHECKING:
        def __init__(self, lhs: Expr, rhs: Expr) -> None: ...
        def __ffi_init__(self, lhs: Expr, rhs: Expr) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Expr.Call")
class Call(Expr):
    """A call of a function."""

    # tvm-ffi-stubgen(begin): object/objects.Expr.Call
    # fmt: off
    function: str
    arguments: Sequence[Expr]
    pure: bool
    if TYPE_CHECKING:
        def __init__(self, function: str, arguments: Sequence[Expr] = ..., *, pure: bool = ...) -> None: ...
        def __ffi_init__(self, function: str, arguments: Sequence[Expr] = ..., *, pure: bool = ...) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Expr.Nil")
class Nil(Expr):
    """Nothing."""

    # tvm-ffi-stubgen(begin): object/objects.Expr.Nil
    # fmt: off
    if TYPE_CHECKING:
        def __init__(self) -> None: ...
        def __ffi_init__(self) -> None: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Place")
class Place(Object):
    """A point in the plane."""

    # tvm-ffi-stubgen(begin): object/objects.Place
    # fmt: off
    x: float
    y: float
    length: float
    pair: tuple[float, float]
    direction: float
    if TYPE_CHECKING:
        def __init__(self, x: float, y: float) -> None: ...
        def __ffi_init__(self, _0: float, _1: float, /) -> None: ...
        @staticmethod
        def on_circle(_0: float, /) -> Place: ...
        def moved(self, _1: Place, _2: float, /) -> Place: ...
        def same(self, /) -> Place: ...
        def is_same(self, _1: Place, /) -> bool: ...
        def apply(self, _1: Callable[..., Any], /) -> float: ...
        def __add__(self, _1: Place, /) -> Place: ...
        def __getitem__(self, _1: int, /) -> float: ...
        def __len__(self, /) -> int: ...
    # fmt: on
    # tvm-ffi-stubgen(end)


@c_class("objects.Walk")
class Walk(Object):
    """Places in a row."""

    # tvm-ffi-stubgen(begin): object/objects.Walk
    # fmt: off
    places: Sequence[Place]
    first: Place | None
    if TYPE_CHECKING:
        def __init__(self, places: Sequence[Place]) -> None: ...
        def __ffi_init__(self, places: Sequence[Place]) -> None: ...
        def tensor(self, /) -> Tensor: ...
        def __str__(self, /) -> str: ...
    # fmt: on
    # tvm-ffi-stubgen(end)
