"""Python's special methods beside classes of Python with the same methods: the types of special.rs and protocols.rs in tests/extension-lib."""

import copy
import gc
import io
import itertools
import math
import operator
import os
import pickle
import struct
import sys
from types import SimpleNamespace

SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "matmul": "@",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "divmod": "divmod",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "xor": "^",
    "or": "|",
}
FUNCTIONS = {name: divmod if name == "divmod" else getattr(operator, name + "_" * (name in ("and", "or"))) for name in SIGNS}
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.imod, operator.ilshift, operator.irshift, operator.iand, operator.ixor]
IN_PLACE += [operator.ior, operator.ifloordiv, operator.itruediv, operator.imatmul, operator.ipow, operator.iconcat]


def integer(value):
    """The number that a parameter of type `i64` takes."""
    if isinstance(value, (Term, Sum, Tally)) or isinstance(value, float) or not hasattr(value, "__index__"):
        return None
    return int(operator.index(value))


def some(number):
    return "None" if number is None else f"Some({number})"


class Term:
    def __init__(self, number):
        self.number = number

    def __pow__(self, exponent, modulus=None):
        exponent, extra = integer(exponent), None if modulus is None else integer(modulus)
        if exponent is None or (modulus is not None and extra is None):
            return NotImplemented
        return f"{self.number} ** {exponent} % {some(extra)}"

    def __rpow__(self, base, modulus=None):
        return NotImplemented if integer(base) is None else f"{integer(base)} ** {self.number} % {some(modulus)}"

    def __neg__(self):
        return -self.number

    def __pos__(self):
        return self

    def __abs__(self):
        return abs(self.number)

    def __invert__(self):
        return ~self.number

    def __bool__(self):
        if self.number == -1:
            raise ValueError("neither true nor false")
        return self.number != 0

    def __int__(self):
        return self.number + 1

    def __float__(self):
        return self.number + 0.5

    def __index__(self):
        return self.number

    def __round__(self, digits=None):
        return f"round {some(digits)}"

    def __trunc__(self):
        return self.number + 2

    def __floor__(self):
        return self.number + 3

    def __ceil__(self):
        return self.number + 4

    def __bytes__(self):
        return str(self.number).encode()

    def __format__(self, form):
        return f"{self.number}:{form}"

    def __fspath__(self):
        return f"/{self.number}"

    def __length_hint__(self):
        return self.number

    def __sizeof__(self):
        return 1000 + self.number


def forward(sign):
    return lambda self, other: NotImplemented if integer(other) is None else f"{self.number} {sign} {integer(other)}"


def reflected(sign):
    return lambda self, other: NotImplemented if integer(other) is None else f"{integer(other)} {sign} {self.number}"


for name, sign in SIGNS.items():
    setattr(Term, f"__{name}__", forward(sign))
    setattr(Term, f"__r{name}__", reflected(sign))


class Sum:
    def __init__(self, total):
        self.total = total

    def __add__(self, other):
        return Sum(self.total + other.total) if isinstance(other, Sum) else NotImplemented

    def __radd__(self, other):
        return self if integer(other) == 0 else NotImplemented

    def __sub__(self, other):
        return NotImplemented if integer(other) in (None, 2) else self.total - integer(other)

    def __xor__(self, other):
        return self.total ^ other.total if isinstance(other, Sum) else NotImplemented

    def __matmul__(self, other):
        if not isinstance(other, Sum):
            raise TypeError("not a sum")
        return self.total + other.total

    def __mul__(self, factor):
        if isinstance(factor, (Sum, Tally, Term)) or not any(hasattr(factor, name) for name in ["__float__", "__index__"]):
            return NotImplemented
        factor = float(factor)
        if not factor >= 0:
            raise ValueError("a factor below 0")
        return self.total * factor

    def __truediv__(self, other):
        number = integer(other)
        if number == 0:
            raise ZeroDivisionError("a sum divided by 0")
        return NotImplemented if number in (None, 1) else self.total / number

    def __mod__(self, other):
        if integer(other) is None:
            return NotImplemented
        raise TypeError("sums have no remainder")

    def __and__(self, other):
        return NotImplemented if integer(other) is None else self.total & integer(other)

    def __lshift__(self, count):
        return NotImplemented if integer(count) is None else self.total << integer(count)

    def __or__(self, other):
        if not isinstance(other, (list, tuple)) or any(integer(number) is None for number in other):
            return NotImplemented
        return self.total, sum(other)


class Tally:
    def __init__(self, count):
        self.count = count

    def __ifloordiv__(self, other):
        if integer(other) is None:
            return NotImplemented
        if integer(other) == 0:
            raise ZeroDivisionError("a tally divided by 0")
        self.count //= integer(other)
        return self

    def __itruediv__(self, other):
        return NotImplemented if integer(other) is None else Tally(self.count + 1000 * integer(other))

    def __imatmul__(self, other):
        if integer(other) is None:
            return NotImplemented
        self.count -= 1000 * integer(other)
        return self

    def __ipow__(self, other):
        if integer(other) != 2:
            return NotImplemented
        self.count *= self.count
        return self

    def __pow__(self, other, *more):
        if integer(other) is None or more:
            return NotImplemented
        return self.count * integer(other)


def changing(change):
    def method(self, other):
        if integer(other) is None:
            return NotImplemented
        self.count = change(self.count, integer(other))
        return self

    return method


for name in ["add", "sub", "mul", "lshift", "rshift", "and", "xor", "or"]:
    setattr(Tally, f"__i{name}__", changing(FUNCTIONS[name]))
# The remainder of Rust has the sign of the dividend.
Tally.__imod__ = changing(lambda count, other: int(math.fmod(count, other)) if other else 1 // 0)


class Foreign:
    """Knows every other operand."""

    def __init__(self, name="foreign"):
        self.name = name

    def __rpow__(self, other, modulus=None):
        return "asked", "pow", self.name

    def __iadd__(self, other):
        return "own", self.name


for name in SIGNS:
    setattr(Foreign, f"__r{name}__", lambda self, other, name=name: ("asked", name, self.name))


class Whole:
    """An `int` by `__index__` alone."""

    def __index__(self):
        return 3


class Failing:
    def __index__(self):
        raise LookupError("no index")


def operands(library):
    made = [
        *map(library.Term, [7, 0, -1]),
        *map(library.Sum, [6, -2]),
        *map(library.Tally, [5, -7]),
        *[0, 1, 2, 5, True, 1.5, -1.0, "1", None, [1, 2], (3,), b"1", object(), Whole(), Failing(), Foreign()],
    ]

    class Derived(library.Sum):
        pass

    class Own(library.Sum):
        def __add__(self, other):
            return "own"

        def __radd__(self, other):
            return "reflected"

        def __sub__(self, other):
            return NotImplemented

    return made + [Derived(4), Own(4)]


def shown(value):
    """A value of either library as one that compares."""
    if isinstance(value, (int, float, complex, str, bytes, tuple, list, type(None))):
        return type(value).__name__, value
    for field in ["total", "number", "count"]:
        if hasattr(type(value), field) or field in getattr(value, "__dict__", {}):
            return type(value).__name__, field, getattr(value, field)
    return type(value).__name__


def outcome(call, *arguments):
    try:
        return shown(call(*arguments))
    except Exception as error:
        return type(error)


def is_left_out(call, right):
    """A parameter of type `Any` looks for a number in an operand."""
    return call in (operator.xor, operator.ixor, operator.matmul, operator.imatmul) and isinstance(right, Failing)


def check_operators(library):
    """Each operator with each pair of operands."""
    calls = [*FUNCTIONS.values(), operator.pow, lambda left, right: pow(left, right, 5), lambda left, right: pow(left, right, "x")]
    count = len(operands(TWINS))
    for call, left, right in itertools.product(calls, range(count), range(count)):
        ours, twins = operands(library), operands(TWINS)
        if is_left_out(call, twins[right]):
            continue
        found, expected = outcome(call, ours[left], ours[right]), outcome(call, twins[left], twins[right])
        assert found == expected, (call, shown(twins[left]), shown(twins[right]), found, expected)


def check_in_place(library):
    """The result, whether it is the object, and the object behind it."""
    count = len(operands(TWINS))
    for call, left, right in itertools.product(IN_PLACE, range(count), range(count)):
        results = []
        if is_left_out(call, operands(TWINS)[right]):
            continue
        for source in [library, TWINS]:
            pair = operands(source)
            result = outcome(call, pair[left], pair[right])
            is_same = False
            if isinstance(pair[left], source.Tally):
                again = operands(source)
                is_same = outcome(lambda: call(again[left], again[right]) is again[left])
            results.append((result, is_same, shown(pair[left])))
        assert results[0] == results[1], (call, shown(pair[left]), shown(pair[right]), results)


UNARY = [
    *[operator.neg, operator.pos, operator.abs, operator.invert, bool, operator.not_, int, float, complex, operator.index, hex, round, bytes, format],
    *[math.trunc, math.floor, math.ceil, os.fspath, operator.length_hint, "{0:>4}".format, lambda term: round(term, 2), lambda term: [1, 2, 3][term]],
    *[lambda term: "ab" * term, lambda term: sys.getsizeof(term) > 900, lambda term: 1 if term else 2, lambda term: term + None, len, iter, hash],
    *[lambda term: list(range(term)), lambda term: math.sqrt(term), lambda term: term < term, lambda term: term @ [1]],
]


def check_unary(library):
    for call, number in itertools.product(UNARY, [7, 0, -1, 2]):
        found, expected = outcome(call, library.Term(number)), outcome(call, TWINS.Term(number))
        # A list is made by its own class, an object has a hash and no order.
        assert found == expected or call is hash, (call, number, found, expected)
    assert +library.Term(1) is not None and (+library.Term(3)).number == 3


def check_not_implemented(library):
    term, total = library.Term(7), library.Sum(6)
    for name in SIGNS:
        for method in [f"__{name}__", f"__r{name}__"]:
            for foreign in ["1", None, 1.5, term, object(), Foreign()]:
                assert getattr(term, method)(foreign) is NotImplemented, (method, foreign)
            assert isinstance(getattr(term, method)(2), str) and getattr(term, method)(other=2) == getattr(term, method)(2)
            assert getattr(term, method)(other="2") is NotImplemented
            for arguments in [(), (1, 2)]:
                assert outcome(getattr(term, method), *arguments) is TypeError
    assert total.__add__(1) is total.__radd__(1) is total.__truediv__(1) is total.__lshift__("1") is total.__sub__("1") is NotImplemented
    assert term.__pow__("1") is term.__pow__(1, "1") is NotImplemented and term.__pow__(1, 2) == "7 ** 1 % Some(2)"
    assert sum([library.Sum(1), library.Sum(2), library.Sum(3)]).total == 6
    # A value out of range is an error, and no question to the other operand.
    for call in [lambda: total & 256, lambda: total & -1, lambda: term + 2**70]:
        error = outcome(call)
        assert error in (ValueError, OverflowError), error
    for text, call in [("unsupported operand type(s) for +: 'extmod.Term' and 'str'", lambda: term + "1"), ("sums have no remainder", lambda: total % 1)]:
        try:
            call()
        except TypeError as error:
            assert text in str(error), error
        else:
            raise AssertionError("no error")


KEYS = [0, 1, 4, 5, -1, -5, -6, 2**40, 2**70, True, Whole(), "1", None, 1.5, (1, 2), (0, 2, 1), Failing()]
BOUNDS = [None, 0, 1, 3, 5, 9, -1, -2, -5, -9, 2**70, -(2**70), Whole()]
STEPS = [None, 1, 2, 3, -1, -2, 0, 2**70, -(2**70)]


def check_items(library):
    """Items and slices beside those of a list."""

    class Twin(list):
        pass

    slices = [slice(*bounds) for bounds in itertools.product(BOUNDS, BOUNDS, STEPS)]
    slices += [slice("a", None), slice(None, 1.5), slice(0, 1, "x"), slice(Failing(), None)]
    kinds = (TypeError, ValueError, IndexError, LookupError)
    for key, numbers in itertools.product(KEYS + slices, [[], [10, 11, 12, 13, 14]]):
        for call in [
            lambda row: row[key],
            lambda row: operator.setitem(row, key, [7, 8] if isinstance(key, slice) else 7),
            lambda row: operator.delitem(row, key),
        ]:
            row, twin = library.Row(numbers), Twin(numbers)
            found, expected = outcome(call, row), outcome(call, twin)
            if not isinstance(key, slice) and key in (2**70,):
                assert found in (IndexError, ValueError, OverflowError), found
                continue
            assert found == expected or found is expected, (key, numbers, found, expected, kinds)
            assert [row[index] for index in range(len(row))] == twin, (key, numbers)
    row = library.Row([10, 11, 12])
    assert list(row) == [10, 11, 12] and 11 in row and 5 not in row and len(row) == 3 and bool(row) and not library.Row([])
    assert list(reversed(row)) == [2, 1, 0] and row.bounds(slice(None, None, -1)) == (2, -1, -1)
    assert [*map(row.bounds, [slice(1, 2), slice(-2, None)])] == [slice(1, 2).indices(3), slice(-2, None).indices(3)]
    first, *rest = row
    assert (first, rest) == (10, [11, 12])
    for text, call in [
        ("index 3 is out of range for 3 elements", lambda: row[3]),
        ("slice step cannot be zero", lambda: row[::0]),
        ("expected slice, got int", lambda: row.bounds(1)),
        ("expected Union[int, slice], got str", lambda: row["a"]),
        ("expected int, got str", lambda: "a" in row),
    ]:
        try:
            call()
        except (IndexError, ValueError, TypeError) as error:
            assert text in str(error), error
        else:
            raise AssertionError("no error")


def check_iterators(library):
    assert list(library.Countdown(3)) == [2, 1, 0] and [*library.Countdown(0)] == [] and list(library.Pauses(2)) == [None, None]
    count = library.Countdown(2)
    assert iter(count).left == 2 and next(count) == 1 and count.left == 1 and next(count) == 0
    for _ in range(2):
        assert next(count, "end") == "end"
        try:
            next(count)
        except StopIteration as end:
            assert end.value is None and end.args == ()
        else:
            raise AssertionError("no end")
    assert outcome(list, library.Pauses(15)) is ValueError and dict(zip("ab", library.Countdown(5))) == {"a": 4, "b": 3}
    assert sorted(library.Countdown(4)) == [0, 1, 2, 3] and max(library.Countdown(4)) == 3 and 2 in library.Countdown(4)

    def delegate():
        result = yield from library.Countdown(2)
        yield result

    assert list(delegate()) == [1, 0, None]

    async def wait():
        return await library.Countdown(2)

    waiting = wait()
    assert waiting.send(None) is None and waiting.send(None) is None
    try:
        waiting.send(None)
    except StopIteration as end:
        assert end.value is None


def check_attributes(library):
    maker = library.Maker()
    assert maker.made_x == "x" and maker.last == "" and getattr(maker, "other", 1) == 1 and not hasattr(maker, "other")
    assert dir(maker) == ["made_a", "made_b"] and maker(1) == (1, 2) and maker(1, second=3) == maker(first=1, second=3) == (1, 3)
    del maker.made_x
    assert maker.last == "deleted made_x"
    maker.last = "written"
    assert maker.last == "written"
    assert outcome(lambda: setattr(maker, "unknown", 1)) is AttributeError

    class Holder:
        place = maker

    assert maker.last == "named place" and Holder.place == "of the class"
    holder = Holder()
    assert holder.place == "of an object named place"
    holder.place = 5
    assert holder.place == "of an object set 5"
    del holder.place
    assert maker.last == "unset"
    assert outcome(lambda: setattr(holder, "place", "x")) is TypeError


def check_pickles(library):
    """The arguments of the constructor and a state that no field shows."""
    ways = [copy.copy, copy.deepcopy, *(lambda thing, protocol=protocol: pickle.loads(pickle.dumps(thing, protocol)) for protocol in range(2, 6))]

    global Loaded, Unusual

    class Loaded(library.Dice):
        pass

    Loaded.__qualname__ = "Loaded"
    for way, kind in itertools.product(ways, [library.Dice, Loaded]):
        dice = kind(6, seed=7)
        for _ in range(5):
            dice.throw()
        again, inside = way(dice), way([dice, {"dice": dice}])
        assert type(again) is kind and again.thrown() == dice.thrown() and type(inside[0]) is kind
        numbers = [dice.throw() for _ in range(20)]
        assert [again.throw() for _ in range(20)] == numbers, way
        assert len(set(numbers)) > 1 and len(dice.thrown()) == 25
        if way is not copy.copy:
            assert [inside[0].throw() for _ in range(20)] == numbers and len(inside[1]["dice"].thrown()) == 25
    for way in ways:
        route = way(library.Route("A-B-C"))
        assert (route.start, route.end) == ("A", "B-C")
        try:
            way(library.Stray(5))
        except TypeError as error:
            assert "returns a tuple of the constructor's arguments, and not a value of type int" in str(error)
        else:
            raise AssertionError("no error")
    dice = library.Dice(6)
    function, arguments, state = dice.__reduce__()
    assert function is library.Dice and arguments == (6,) and state == dice.__getstate__() and len(library.Route("A-B").__reduce__()) == 2
    for wrong, kind in [((b"", []), ValueError), ((b"x" * 8, ["a"]), TypeError), (5, TypeError)]:
        assert outcome(dice.__setstate__, wrong) is kind, wrong

    class Unusual(library.Route):
        def __init__(self, start, end):
            super().__init__(f"{start}-{end}")

        def __getnewargs__(self):
            return self.start, self.end

    Unusual.__qualname__ = "Unusual"
    for way in ways:
        unusual = way(Unusual("A", "B"))
        assert type(unusual) is Unusual and (unusual.start, unusual.end) == ("A", "B")


# At the top of the module, where pickle finds them.
Loaded = Unusual = None


def check_buffers(library):
    grid = library.Grid(2, 3)
    with memoryview(grid) as view:
        assert (view.format, view.shape, view.readonly, view.nbytes) == ("f", (2, 3), False, 24)
        view[1, 2] = 5.0
    assert memoryview(grid)[1, 2] == 5.0 and bytes(memoryview(grid))[20:] == struct.pack("f", 5.0)
    first, second = memoryview(grid), memoryview(grid)
    first[0, 0] = 2.0
    del grid
    gc.collect()
    assert second[0, 0] == 2.0 and second.tolist() == [[2.0, 0.0, 0.0], [0.0, 0.0, 5.0]]
    assert bytes(library.Chunk("text")) == b"text" and memoryview(library.Chunk("ab")).readonly and b"-".join([library.Chunk("a"), b"b"]) == b"a-b"
    assert io.BytesIO(library.Chunk("stream")).read() == b"stream" and int.from_bytes(library.Chunk("\x01"), "big") == 1

    class Derived(library.Chunk):
        pass

    assert memoryview(Derived("more")).tobytes() == b"more"
    for content, kind in [("fail", ValueError), (5, TypeError), (None, TypeError), ("self", RecursionError)]:
        for _ in range(3):
            assert outcome(memoryview, library.Chunk(content)) is kind, content
    # A request to write is refused for bytes.
    assert outcome(io.BytesIO(b"abc").readinto, library.Chunk("abc")) in (TypeError, BufferError)
    assert outcome(memoryview, library.Term(1)) is TypeError
    assert hasattr(library.Grid, "__buffer__") == (sys.version_info >= (3, 12))


TWINS = SimpleNamespace(Term=Term, Sum=Sum, Tally=Tally)


def check(library):
    for part in [check_operators, check_in_place, check_unary, check_not_implemented, check_items, check_iterators, check_attributes, check_pickles, check_buffers]:
        part(library)
    gc.collect()


if __name__ == "__main__":
    import extmod

    check(extmod)
    print("passed")
