"""Pickles: shared objects stay shared and are written once, in any object that contains them."""

import copy
import gc
import pickle
import random
import weakref

import pytest

DEPTH = 60


def in_tuples(Twins, before):
    return Twins((before, before), {})


def in_keys(Twins, before):
    return Twins((1, 2), {before: 1, Twins((before, 3), {}): 2})


def in_lists(Twins, before):
    return Twins(([before, [before]], {"a": before, "b": (before,)}), {})


def in_all(Twins, before):
    return Twins(((before, before), [before]), {before: 7})


@pytest.mark.parametrize("make", [in_tuples, in_keys, in_lists, in_all])
def test_each_part_is_written_once(extmod, make):
    """2**60 paths, or more, to the first object."""
    sizes = []
    for depth in [DEPTH, 2 * DEPTH]:
        value = extmod.Twins(("first", None), {})
        for _ in range(depth):
            value = make(extmod.Twins, value)
        for protocol in [2, pickle.HIGHEST_PROTOCOL]:
            text = pickle.dumps(value, protocol)
            assert extmod.json_of(pickle.loads(text)) == extmod.json_of(value)
        sizes.append(len(text))
    assert sizes[1] < 3 * sizes[0], sizes


def test_what_is_pickled_itself_is_found_in_what_comes_later(extmod):
    Twins = extmod.Twins
    inner = Twins(("inner", None), {})
    outer = Twins((inner, [inner]), {inner: 1})
    for first, second in [(inner, outer), (outer.pair[0], outer), (list(outer.numbers)[0], outer)]:
        again = pickle.loads(pickle.dumps([first, second]))
        assert again[1].pair[0] == again[0] and again[1].numbers == {again[0]: 1}
        assert again[0] != Twins(("inner", None), {})
    # Two Python objects of one object are different for a pickle, but not their contents.
    shared = Twins((Twins(("part", None), {}), 1), {})
    holder = Twins((shared, None), {})
    first, second = pickle.loads(pickle.dumps([holder.pair[0], holder.pair[0]]))
    assert first.pair[0] == second.pair[0]


def test_derived_objects_keep_what_they_add(extmod):
    class Named(extmod.Twins):
        pass

    globals()["Named"] = Named
    Named.__qualname__ = "Named"
    named = Named(("x", None), {})
    named.name = "a name"
    again = pickle.loads(pickle.dumps([named, extmod.Twins((named, 1), {})]))
    assert type(again[0]) is Named and again[0].name == "a name"
    assert again[1].pair[0] is again[0] and again[1].pair[0].pair == ("x", None)


def graph(extmod, random):
    """Objects with parts among those before them."""
    made = [extmod.Twins((random.randrange(3), None), {})]
    for _ in range(random.randrange(1, 12)):
        part = lambda: random.choice([random.choice(made), random.choice(made), random.randrange(3), (random.choice(made), "x")])
        made.append(extmod.Twins((part(), [part(), part()]), {random.choice(made): random.randrange(3) for _ in range(random.randrange(3))}))
    return made[-1]


def shape(extmod, value, numbers):
    """The value as a text, in which repeated objects have the number of their first place."""
    if isinstance(value, extmod.Twins):
        known = numbers.get(value)
        if known is not None:
            return f"#{known}"
        numbers[value] = len(numbers)
        return f"({shape(extmod, value.pair, numbers)}, {shape(extmod, value.numbers, numbers)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shape(extmod, key, numbers)}: {of}" for key, of in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shape(extmod, part, numbers) for part in value) + "]"
    return repr(value)


def test_random_graphs(extmod):
    """Objects are freed, so their addresses are reused."""
    source = random.Random(38)
    for _ in range(300):
        value = graph(extmod, source)
        again = pickle.loads(pickle.dumps(value))
        assert shape(extmod, again, {}) == shape(extmod, value, {})
        assert shape(extmod, copy.deepcopy(value), {}) == shape(extmod, value, {})


def test_a_pickle_keeps_nothing(extmod):
    shared = extmod.Twins(("shared", None), {})
    outer = extmod.Twins((shared, shared), {})
    pickle.dumps([shared, outer])
    gone = weakref.ref(shared), weakref.ref(outer)
    holder = extmod.Twins((outer, None), {})
    del shared, outer
    gc.collect()
    assert gone[0]() is None and gone[1]() is None
    assert pickle.loads(pickle.dumps(holder.pair[0].pair[0])).pair == ("shared", None)


@pytest.mark.parametrize("is_held", [False, True])
def test_shared_containers_share_their_parts(extmod, is_held):
    """Also if other code holds the whole, and although Python containers are created at each read."""
    Twins = extmod.Twins

    def made(of):
        row = (Twins(("part", None), {}),)
        return Twins(of(row), {})

    for of in [lambda row: (row, row), lambda row: (row, [row]), lambda row: ({"a": row}, (row, 1)), lambda row: ([list(row), row], list(row))]:
        value = made(of)
        holder = Twins((value, None), {}) if is_held else None
        again = pickle.loads(pickle.dumps(value))
        found = list(parts(again.pair))
        assert len(found) >= 2 and all(part == found[0] and part.pair == ("part", None) for part in found), value
        del holder


def parts(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for inner in value:
            yield from parts(inner)
    elif not isinstance(value, int):
        yield value


def test_getstate_that_raises_is_not_passed_over(extmod):
    class Broken(extmod.Twins):
        @property
        def __getstate__(self):
            raise AttributeError("not this one")

    with pytest.raises(AttributeError, match="not this one"):
        pickle.dumps(Broken(("x", None), {}))


def test_another_try_of_a_copy_begins_anew(extmod):
    class Once:
        fails = True

        def __deepcopy__(self, memo):
            if Once.fails:
                raise RuntimeError("the first time")
            return Once()

    class Patient:
        def __init__(self, of):
            self.of = of

        def __deepcopy__(self, memo):
            for _ in range(2):
                Once.fails = not Once.fails
                try:
                    return Patient(copy.deepcopy(self.of, memo))
                except RuntimeError:
                    pass
            raise AssertionError("both tries have failed")

    Once.fails = False
    value = extmod.Twins((Once(), None), {})
    copied = copy.deepcopy(Patient(value))
    assert copied.of != value and isinstance(copied.of.pair[0], Once)


def test_an_error_of_a_copy_keeps_its_context(extmod):
    class Boom(Exception):
        pass

    class Fails:
        def __deepcopy__(self, memo):
            try:
                raise KeyError("first")
            except KeyError:
                raise Boom

    try:
        raise RuntimeError("outside")
    except RuntimeError:
        with pytest.raises(Boom) as raised:
            copy.deepcopy(extmod.Twins((Fails(), None), {}))
    assert isinstance(raised.value.__context__, KeyError)
    assert isinstance(raised.value.__context__.__context__, RuntimeError)


@pytest.mark.parametrize("answer", [(), [1], 5])
def test_reduce_gives_a_text_or_a_tuple(extmod, answer):
    class Odd(extmod.Twins):
        def __reduce_ex__(self, protocol):
            return answer

    with pytest.raises(TypeError):
        copy.deepcopy(Odd(("x", None), {}))
