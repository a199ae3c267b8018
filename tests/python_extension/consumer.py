"""The code of a consumer of the wheel: `mypy --strict` and pyright accept it for both kinds of wheels, and it runs with both."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, MutableSequence
from typing import Any

import extmod
import numpy as np
import tvm_ffi


class OfTorch:
    """Declares the methods of torch.Tensor; jax.Array and cupy.ndarray are similar."""

    def __init__(self, array: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        self.array = array

    def __dlpack__(self, *, stream: int | None = -1, max_version: tuple[int, int] | None = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def square(x: float) -> float:
    return x * x


# A function without a global one, with a default; parameters of every kind.
moved: float = extmod.shifted(1.0) + extmod.shifted(1, 2.5)
assert moved == 5.5
# Callbacks: a function, a lambda, any callable.
total: float = extmod.sum_of_values(square, [1.0, 2.0]) + extmod.sum_of_values(lambda x: x / 2, (1.0, 3)) + extmod.sum_of_values(float, [])
anything: int = extmod.sum_of(lambda x: x, 3)
product = extmod.multiplier(3)
assert (total, anything, product(5)) == (7.0, 3, 15)
# Enums as members, texts and values.
turns: list[extmod.Turn] = [extmod.turned("Left"), extmod.turned(extmod.Turn.Left, extmod.Level.Low), extmod.turned("Left", 1)]
assert [turn == extmod.Turn.Left for turn in turns] == [False, True, True] and turns[0].value == "Right"
# Constructors by place and by name; defaults of methods and static methods.
clip, named = extmod.Clip(1.0, meta="x"), extmod.Clip(x=2.0)
scaled: list[float] = [clip.scaled(), clip.scaled(3), clip.scaled(3, extmod.Turn.Left), clip.scaled(3, "Left"), clip.scaled(3, None)]
parsed: extmod.Clip = extmod.Clip.parse("3.5")
texts: list[str] = [clip.meta, named.meta, parsed.meta, extmod.Clip.parse("1", "z").meta]
assert scaled == [-2.0, 3.0, -3.0, -3.0, 3.0] and texts == ["x", "none", "text", "z"]
# Defaults of every kind.
line: str = extmod.literals() + extmod.literals(1, 2, 0.5, 1.0, 2.0, "text", False, "Right", [1, 2], 3)
assert line.startswith("-3 255 -0.0025 inf NaN \"a \\\"b\\\"\\n'c'\\\\é\\t\" true Left [] None1 2 0.5 1 2 \"text\" false Right [1, 2] Some(3)")
# Declared signatures: by position, by name, and further arguments of both kinds.
everything = extmod.signed_everything(1, 2, 3, key=4, x="5")
assert [everything[0], everything[1], list(everything[2]), everything[3], everything[4], dict(everything[5])] == [1, 2, [3], 4, 5, {"x": "5"}]
bound: list[Any] = [*extmod.signed_mixed_default(1, c=2), *extmod.signed_computed(b=5), *extmod.signed_keyword_default()]
assert bound == [1, 2.5, 2, 3, 5, None]
signed = extmod.Signed(1, 2, 3, key=4)
constants: tuple[int, int, str] = (extmod.KEY_SIZE, extmod.Signed.COUNT, extmod.Signed.KIND)
assert constants == (32, 5, "signed")
three: list[Any] = [*signed.three(1, b=2), *signed.shared(1, key=2), *extmod.Signed.shared(3, key=4)]
assert three == [1, 2, None, 1, 2, 3, 4] and list(signed.rest(1, x=2)[0]) == [1] and len(signed.alone()) == 0
# Tensors of NumPy, PyTorch and tvm_ffi go in, and NumPy comes out.
numbers = np.arange(3, dtype=np.float32)
for tensor in (numbers, OfTorch(numbers), tvm_ffi.from_dlpack(numbers), extmod.range_of(3)):
    extmod.scale_in_place(tensor, 1.0)
extmod.scale_in_place(OfTorch(numbers), 2.0)
extmod.scale_in_place(tvm_ffi.from_dlpack(numbers), 2.0)
array: np.ndarray[Any, Any] = np.from_dlpack(extmod.range_of(3))
shape: tuple[int, ...] = extmod.range_of(3).shape
holder = extmod.Named(numbers, "numbers")
assert numbers.tolist() == [0.0, 4.0, 8.0] and array.tolist() == [0.0, 1.0, 2.0] and shape == (3,) and holder.tensor.shape == (3,)
# Containers, objects and optional values.
record = extmod.Record(1, 2.5, label="x", pair=(1, 2))
lines: list[str] = [extmod.line(8), extmod.line(8, 1.0), extmod.line(8, 1.0, "y", 2, record), record.label]
words: Mapping[str, int] = extmod.words("b a b")
maybe: tuple[int, int] | None = extmod.divide(7, 2)
assert (len(lines), words["b"], maybe, extmod.count_of(record)) == (4, 2, (3, 1), 1)
# Lists and dicts that are shared.
integers: MutableSequence[int] = extmod.integers(3)
integers.append(7)
extmod.append(integers, 8)
counts: MutableMapping[str, int] = extmod.count_word({}, "a")
counts["b"] = extmod.count_word(counts, "a")["a"]
basket = extmod.basket()
basket.items.append("pear")
basket.prices["pear"] = 1.5
price: float = extmod.total(basket)
assert (list(integers), dict(counts), price) == ([0, 1, 2, 7, 8], {"a": 2, "b": 2}, 1.5)
extmod.append([1], 2)
# Operators.
odd, exits = extmod.Odd(3), -1
with odd as same:
    exits = same.exits
joined: extmod.Odd = odd | odd
count: int = len(joined) + odd() + odd(2) + sum(odd) + [*iter(odd)][-1]
ordered: bool = 2 in odd and odd < joined and sorted([joined, odd])[0] == odd and hash(odd) == hash(extmod.Odd(3))
assert (exits, count, ordered, str(odd), odd.exits) == (0, 20, True, "odd 3", 1)
problem: str = ""
try:
    extmod.filter(0)
except extmod.FilterFault as error:
    problem = str(error)
assert problem == "a filter of size 0"
# Attributes with setters.
dial = extmod.Dial(360)
dial.angle = 90
dial.limit, dial.note = 180, "a note"
angle: float = dial.angle
limit: int = dial.limit
note: str | None = dial.note
stop = extmod.Stop(3)
stop.place = 10
place: int = stop.place + stop.moved
assert (angle, limit, note, place) == (90.0, 180, "a note", 10)
