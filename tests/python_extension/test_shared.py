"""Mutable lists and dicts: the extension module and tvm_ffi share them with the library."""

import copy
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import MutableMapping, MutableSequence

import pytest


def test_a_list_is_shared(extmod):
    numbers = extmod.integers(3)
    assert isinstance(numbers, MutableSequence) and not isinstance(numbers, list)
    extmod.append(numbers, 7)
    assert numbers == [0, 1, 2, 7] and [0, 1, 2, 7] == numbers and numbers != [0]
    assert list(extmod.append_to(numbers, 1)) == [0, 1, 2, 7, 1, 1, 1, 1]
    assert len(numbers) == 8 and repr(numbers) == "[0, 1, 2, 7, 1, 1, 1, 1]"
    with pytest.raises(TypeError, match="unhashable"):
        hash(numbers)
    # A Python list is copied.
    own = [1]
    assert extmod.append(own, 2) is None and own == [1]
    with pytest.raises(TypeError, match="made by the library only"):
        type(numbers)()


@pytest.mark.needs("numpy")
def test_an_array_of_a_list(extmod):
    import numpy as np

    assert np.array(extmod.integers(3)).tolist() == [0, 1, 2]


def test_a_list_changes_as_those_of_python(extmod):
    """The same steps on a Python list."""

    def steps(numbers):
        yield numbers.append(5)
        yield numbers.insert(0, -1)
        yield numbers.insert(-100, -2)
        yield numbers.insert(100, 9)
        yield numbers.insert(-1, 8)
        yield numbers[2], numbers[-1], numbers[1:4], numbers[::-2], numbers[9:]
        numbers[1], numbers[-1] = 40, 50
        numbers[1:3] = [7, 7, 7]
        numbers[::2] = [0] * len(numbers[::2])
        del numbers[0], numbers[-1]
        yield list(numbers)
        del numbers[1:2]
        del numbers[::-3]
        yield numbers.extend(range(4)), numbers.pop(), numbers.pop(0), numbers.reverse()
        yield numbers.count(1), numbers.index(2), 2 in numbers, 99 in numbers, list(reversed(numbers)), sorted(numbers)
        numbers += [3]
        numbers.remove(3)
        yield [number for number in numbers], numbers < [100], numbers >= [0]
        yield numbers.clear(), len(numbers), list(numbers)

    shared, own = extmod.integers(4), list(range(4))
    for ours, theirs in zip(steps(shared), steps(own)):
        assert ours == theirs and shared == own
    for wrong in [
        lambda numbers: numbers[5],
        lambda numbers: numbers.pop(),
        lambda numbers: numbers.remove(1),
        lambda numbers: numbers["x"],
        lambda numbers: numbers.__setitem__(0, 1),
        lambda numbers: numbers.__delitem__(-1),
        lambda numbers: numbers.__setitem__(slice(None, None, 2), [1, 2]),
        lambda numbers: numbers.__setitem__(slice(None), 5),
        lambda numbers: numbers.insert("x", 1),
    ]:
        errors = []
        for numbers in (shared, own):
            with pytest.raises((IndexError, TypeError, ValueError)) as info:
                wrong(numbers)
            errors.append(info.type)
        assert errors[0] is errors[1]


def test_a_dict_is_shared(extmod):
    counts = extmod.count_word({}, "a")
    assert isinstance(counts, MutableMapping) and counts == {"a": 1} and repr(counts) == "{'a': 1}"
    assert extmod.count_word(counts, "b") == {"a": 1, "b": 1}
    counts["c"] = 5
    extmod.count_word(counts, "c")
    assert counts["c"] == 6 and "c" in counts and "d" not in counts and len(counts) == 3
    assert list(counts) == ["a", "b", "c"] and dict(counts.items()) == {"a": 1, "b": 1, "c": 6}
    assert counts.pop("c") == 6 and counts.get("c") is None and counts.setdefault("d", 4) == 4
    counts.update({"e": 9})
    del counts["e"]
    for wrong in (lambda: counts["e"], lambda: counts.pop("e"), lambda: counts.__delitem__("e")):
        with pytest.raises(KeyError, match="'e'"):
            wrong()
    counts["a"] = "text"
    with pytest.raises(TypeError, match="expected Dict\\[str, int\\], but in the value of \"a\": expected int, got str"):
        extmod.count_word(counts, "b")
    counts.clear()
    assert not counts


def test_fields_are_shared(extmod):
    basket, other = extmod.Basket(), extmod.Basket()
    other.items.append("fig")
    basket.items.append("pear")
    basket.items.extend(["plum", "pear"])
    basket.prices.update(pear=1.5, plum=2)
    assert extmod.total(basket) == 5.0
    with pytest.raises(AttributeError, match="not writable"):
        basket.items = ["plum"]
    del basket.items[::2]
    basket.items.append("fig")
    with pytest.raises(KeyError, match="fig"):
        extmod.total(basket)
    assert basket.items.pop() == "fig" and list(basket.items) == ["plum"]
    basket.items.append(3)
    with pytest.raises(TypeError, match="element 1: expected str, got int"):
        extmod.total(basket)
    made = extmod.Basket(["a"], {"a": 1.0})
    assert extmod.total(made) == 1.0
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        other.items.append("a")
        assert (extmod.total(other), extmod.total(made)) == (2.0, 1.0)
    assert copy.copy(made).items == made.items


def test_what_is_easily_wrong(extmod):
    basket = extmod.basket()
    basket.items.extend(["a", "b"])
    basket.items.extend(basket.items)
    same = basket.items
    same += basket.items
    assert len(basket.items) == 8
    numbers = extmod.integers(3)
    del numbers[1 :: 2**63 - 1]
    assert numbers == [0, 2]
    numbers[:: 2**63 - 1] = [5]
    assert numbers == [5, 2]

    class Slice:
        def indices(self, length):
            return (0, 2**60, 2)

    for key in (Slice(), "x"):
        with pytest.raises(TypeError):
            numbers[key] = [1]
    for key in (10**30, -(10**30)):
        with pytest.raises(IndexError):
            numbers[key]
    counts = extmod.count_word({}, "a")
    # Integers of more than 64 bits are compared by a function of their type.
    with pytest.raises(KeyError):
        del counts[2**100]
    for round in range(2):
        for number in range(10):
            counts[2**100 + number] = counts[number] = round
        assert len(counts) == 21 - round and counts[2**100 + 3] == round
        counts.pop("a", None)
        for number in range(10):
            del counts[2**100 + number], counts[number]
    counts["b"] = 1
    assert counts == {"b": 1} and list(counts) == ["b"]
    with pytest.raises(TypeError, match="unhashable"):
        counts[[1, 2]] = 3
    with pytest.raises(KeyError) as info:
        counts[1, 2]
    assert info.value.args == ((1, 2),)
    counts[1] = counts[True] = counts[1.0] = "one"
    assert len(list(counts)) == len(counts) == 4
    counts.clear()
    assert not counts


def test_copies_are_pythons_own(extmod):
    numbers, counts = extmod.integers(3), extmod.count_word({"x": 1}, "x")
    assert pickle.loads(pickle.dumps((numbers, counts))) == ([0, 1, 2], {"x": 2})
    assert type(copy.deepcopy(numbers)) is list and type(copy.copy(counts)) is dict


def test_callbacks_change_the_list(extmod):
    numbers = extmod.integers(3)
    seen = []

    def visit(number):
        seen.append(number)
        if number < 2:
            numbers.append(number + 10)

    extmod.for_each(numbers, visit)
    assert seen == [0, 1, 2, 10, 11]
    assert type(extmod.frozen(numbers)) is list


def test_a_list_in_itself(extmod):
    numbers = extmod.integers(1)
    numbers.append(numbers)
    assert numbers[1][1][0] == 0
    assert repr(numbers) == "[0, [...]]"
    numbers.clear()


def test_threads(extmod):
    numbers = extmod.integers(0)

    def work():
        for number in range(2000):
            extmod.append(numbers, number)
            numbers[0] = number
            len(numbers), numbers[-1], numbers[:3]

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(numbers) == 8000


@pytest.mark.needs("tvm_ffi")
def test_tvm_ffi_shares_them():
    """The same library, loaded by the stock package."""
    program = """
        import copy, os, tvm_ffi
        module = tvm_ffi.load_module(os.environ["EXTMOD_LIBRARY"])
        numbers = module["integers"](3)
        assert isinstance(numbers, tvm_ffi.List), type(numbers)
        module["append"](numbers, 7)
        numbers.append(8)
        assert list(module["append_to"](numbers, 1)) == [0, 1, 2, 7, 8, 1, 1, 1, 1, 1] == list(numbers)
        own = tvm_ffi.List([1])
        module["append"](own, 2)
        assert list(own) == [1, 2]
        counts = tvm_ffi.Dict({"a": 1})
        assert dict(module["count_word"](counts, "a").items()) == {"a": 2} == dict(counts.items())
        basket = module["basket"]()
        basket.items.append("pear")
        basket.prices["pear"] = 1.5
        assert module["total"](basket) == 1.5
        other = copy.deepcopy(basket)
        other.items.append("pear")
        assert (module["total"](other), module["total"](basket)) == (3.0, 1.5)
        try:
            module["append"](tvm_ffi.List(["x"]), 2)
        except TypeError as error:
            assert "expected List[int], but in element 0: expected int, got str" in str(error), error
        else:
            raise AssertionError("a list of texts was taken")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, env=os.environ)
