"""Operations of Python on objects whose operators do well, and fail: with the wheel of either kind on the path."""

import collections.abc
import pickle

import extmod


def raises(kind, message, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert message in str(error), error
    else:
        raise AssertionError(f"{kind} was not raised")


class Foreign:
    def __eq__(self, other):
        return "asked"

    def __gt__(self, other):
        return "asked"


clip, odd, bad = extmod.Clip(1.0), extmod.Odd(3), extmod.Odd(-1)

# The operators of other types are called as well; otherwise the objects are not equal.
assert clip == extmod.Clip(1.0, meta="y") and clip != extmod.Clip(2.0)
assert clip.__eq__(1) is NotImplemented and not clip == 1 and clip != 1 and not 1 == clip and clip != None  # noqa: E711
assert (clip == Foreign()) == "asked" and (odd < Foreign()) == "asked"
raises(TypeError, "not supported between instances of", lambda: odd < 1)
raises(TypeError, "unsupported operand", lambda: 1 | odd)
raises(TypeError, "unsupported operand", lambda: odd | 1)

# Compared by its own operator, without its own hash: like Python classes.
assert type(clip).__hash__ is None and not isinstance(clip, collections.abc.Hashable)
raises(TypeError, "unhashable type", hash, clip)
raises(TypeError, "unhashable type", lambda: {clip})
assert isinstance(odd, collections.abc.Hashable) and len({odd, extmod.Odd(3)}) == 1 and hash(extmod.Odd(-1)) == -2

# The results and the errors of `len` and iteration.
assert len(odd) == 3 and list(odd) == [0, 1, 2] and 2 in odd and 5 not in odd and odd() == 3 and odd(2) == 6 and len(odd | odd) == 6
first, second = iter(odd), iter(odd)
assert next(first) == next(second) == 0 and next(first) == 1
raises(ValueError, "__len__() should return >= 0", len, bad)
raises(ValueError, "__len__() should return >= 0", bool, bad)
assert not extmod.Odd(0)
raises(LookupError, "nothing to iterate over", iter, bad)
raises(LookupError, "nothing to iterate over", list, bad)
raises(LookupError, "nothing to look into", lambda: 1 in bad)
raises(TypeError, "argument 'value': expected int, got str", lambda: "a" in odd)
raises(LookupError, "nothing to show", str, bad)
assert f"{odd}" == "odd 3" and sorted([odd, bad]) == [bad, odd] and max(odd, bad) is odd and odd <= odd and odd >= bad

# `__exit__`: its result decides about the exception of the block, and its own exception takes
# precedence.
for length, kind, message in [(0, KeyError, "of the block"), (1, None, ""), (2, BufferError, "the end fails")]:
    context = extmod.Odd(length)

    def block():
        with context as same:
            assert same.length == length
            raise KeyError("of the block")

    block() if kind is None else raises(kind, message, block)
    assert context.exits == 1
raises(BufferError, "the end fails", lambda: extmod.Odd(2).__exit__(None, None, None))
assert pickle.loads(pickle.dumps(clip)) == clip and pickle.loads(pickle.dumps(clip)).meta == "none"

# An operand of another type, and errors of an operator itself and of another one that it calls.
total = extmod.Sum(6)
assert (total + extmod.Sum(1)).total == 7 and total @ extmod.Sum(1) == 7 and (total << 1, total ^ total) == (12, 0)
for method in ["__add__", "__sub__", "__mul__", "__truediv__", "__lshift__", "__or__", "__mod__", "__and__"]:
    assert getattr(total, method)(None) is getattr(total, method)("1") is NotImplemented, method
assert total.__truediv__(1) is total.__sub__(2) is total.__xor__(5) is NotImplemented
raises(TypeError, "unsupported operand", lambda: total + "1")
raises(TypeError, "sums have no remainder", lambda: total % 1)
raises(TypeError, "expected extmod.Sum, got str", lambda: total @ "1")
raises(ValueError, "a factor below 0", lambda: total * -1.0)
print("passed")
