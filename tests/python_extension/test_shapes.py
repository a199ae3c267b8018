"""Values whose shape is hard on what walks through them: parts that are shared, cycles, long chains. What visits a part once for each
path to it does not come to an end here."""

import copy
import json
import pickle
import signal
import subprocess
import sys
import textwrap

import pytest

DEPTH = 60


class OwnList(list):
    pass


def diamond(make, leaf=1):
    """Both parts are the previous value: 2**60 paths."""
    value = leaf
    for _ in range(DEPTH):
        value = make(value, value)
    return value


def lists_of(extmod):
    def make(a, b):
        made = extmod.integers(0)
        made.extend([a, b])
        return made

    return make


def dicts_of(extmod):
    def make(a, b):
        made = extmod.count_word({}, "x")
        made.clear()
        made.update(a=a, b=b)
        return made

    return make


PYTHONS = {
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "dict": lambda a, b: {"a": a, "b": b},
    "derived": lambda a, b: OwnList([a, b]),
    "mixed": lambda a, b: {"a": (a, b), "b": [b]},
}


@pytest.mark.parametrize("kind", PYTHONS)
def test_arguments_and_results(extmod, kind):
    result = extmod.echo_any(diamond(PYTHONS[kind]))
    # At all levels.
    parts = 0
    while result != 1:
        result = result["a"] if isinstance(result, dict) else result[0]
        parts += 1
    assert parts == DEPTH * (2 if kind == "mixed" else 1)
    assert len(extmod.json_of(diamond(PYTHONS[kind]))) < 20_000
    assert len(extmod.tree_of(diamond(PYTHONS[kind]))) < 100_000
    assert len(extmod.repr_of(diamond(PYTHONS[kind]))) < 20 << 20


@pytest.mark.parametrize("key", ["ffi.Array", "ffi.List"])
def test_a_small_text_with_many_paths(extmod, key):
    nodes = [{"type": "int", "data": 1}]
    nodes += [{"type": key, "data": [index, index]} for index in range(DEPTH)]
    value = extmod.value_of_json(json.dumps({"root_index": DEPTH, "nodes": nodes}))
    assert len(value) == 2 and value[0] == value[1]


def test_what_is_shared_stays_shared(extmod):
    part = [1, [2]]
    shared, apart = extmod.echo_any([part, part]), extmod.echo_any([[1], [1]])
    assert shared == [[1, [2]], [1, [2]]] and shared[0] is shared[1]
    assert apart[0] is not apart[1]
    # A call does not know the results of another one.
    part.append(3)
    assert extmod.echo_any([part, part])[1] == [1, [2], 3]
    pair = (1, 2)
    first, (second,) = extmod.echo_any([pair, [pair]])
    assert first is second and first == pair
    own = OwnList([part])
    assert extmod.echo_any([own, own, [own]]) == [own, own, [own]]


def test_a_list_that_changes_while_it_is_converted(extmod):
    """Python code that runs meanwhile may call the library with the same list."""
    part, seen = [1], []

    class Number:
        def __index__(self):
            part.append(2)
            seen.append(extmod.echo_any(part))
            return 5

    assert extmod.echo_any([part, Number()])[1] == 5
    assert seen == [[1, 2]]


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_cycles_and_chains_of_arguments(extmod, kind):
    make = PYTHONS[kind]
    cycle = make(1, 2)
    cycle["a" if kind == "dict" else 0] = cycle
    chain = 1
    for _ in range(100_000):
        chain = make(chain, 2)
    for value in (cycle, chain):
        with pytest.raises(RecursionError, match="nested more than 400 deep"):
            extmod.echo_any(value)
    # Its destructors do not recurse either.
    while chain != 1:
        chain = chain["a" if kind == "dict" else 0]


@pytest.mark.parametrize("make", [lists_of, dicts_of])
def test_shared_containers(extmod, make):
    make = make(extmod)
    one, same, other = diamond(make), diamond(make), diamond(make, 2)
    assert one == same and not one != same and one != other
    assert len(repr(one)) < 20 << 20 and "shown before>" in repr(one)
    short = make(make(1, 2), 3)
    assert repr(short) == repr(copy.deepcopy(short))
    for again in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert type(again) in (list, dict)
        first, second = again.values() if isinstance(again, dict) else again
        assert first is second
    assert len(extmod.repr_of(one)) < 20 << 20


def test_objects(extmod):
    Dag = extmod.objects.Dag

    def graph():
        value = Dag("leaf", [])
        for _ in range(DEPTH):
            value = Dag("op", [value, value])
        return value

    one = graph()
    assert repr(one).count("leaf") > 1000 and len(repr(one)) < 20 << 20
    for again in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert extmod.json_of(again) == extmod.json_of(one) and again.inputs[0] == again.inputs[1]


def test_lists_in_themselves(extmod):
    numbers = extmod.integers(1)
    numbers.append(numbers)
    assert numbers == numbers and repr(numbers) == "[0, [...]]"
    copied = copy.deepcopy(numbers)
    assert type(copied) is list and copied[1] is copied
    counts = extmod.count_word({}, "a")
    counts["self"] = [counts, numbers]
    assert repr(counts) == "{'a': 1, 'self': [{...}, [0, [...]]]}"
    copied = copy.deepcopy(counts)
    assert copied["self"][0] is copied
    with pytest.raises(RecursionError):
        pickle.dumps(numbers)
    other = extmod.integers(1)
    other.append(other)
    with pytest.raises(RecursionError):
        numbers == other
    for container in (numbers, counts, other):
        container.clear()


def test_copies_of_objects_in_themselves(extmod):
    Lambda = extmod.objects.Lambda
    body = extmod.integers(0)
    outer = Lambda([], body)
    body.append(Lambda([], [outer, "leaf"]))
    copied = copy.deepcopy(outer)
    inner = copied.body[0].body[0]
    assert inner == copied and inner != outer and copied.body[0].body[1] == "leaf"
    # From the list, and from a Python list with both.
    again = copy.deepcopy(body)
    assert again[0].body[0].body == again and again != body
    both = copy.deepcopy([outer, outer])
    assert both[0] == both[1] == both[0].body[0].body[0]
    with pytest.raises(RecursionError):
        pickle.dumps(outer)

    class Named(Lambda):
        pass

    named = Named([], body)
    named.me = named
    body.append(named)
    with pytest.raises(ValueError, match="a part of itself"):
        copy.deepcopy(named)
    body.clear()
    copied = copy.deepcopy(named)
    assert copied.me is copied
    for container in (copied.body, again, both[0].body):
        getattr(container, "clear", list)()


@pytest.mark.parametrize("key", [object(), (1, 2), lambda: 1, len])
def test_keys_that_would_not_be_found_again(extmod, key):
    counts = extmod.count_word({}, "a")
    with pytest.raises(TypeError, match=f"a key of type {type(key).__name__} would not be found again"):
        counts[key] = 1
    assert key not in counts and list(counts) == ["a"]
    with pytest.raises(KeyError):
        counts[key]
    for good in (2**70, 1.5, None, b"bytes", "a text that is long", extmod.objects.Place(1.0), extmod.multiplier(2)):
        counts[good] = 1
        assert good in counts and counts[good] == 1
    assert len(list(counts.items())) == 8


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 2**64 + 2**11, 2**64 + 2**11 + 1, 3 * 2**63 + 2**12, 10**300, -(10**300)], ids=lambda number: f"{number:.3e}")
def test_large_integers_are_floats_where_floats_are_wanted(extmod, number):
    assert extmod.echo_f64(number) == float(number)
    assert extmod.shifted(x=0, by=number) == float(number)
    assert extmod.sum_of_values(lambda x: x, [number, 1.0]) == float(number) + 1.0
    assert extmod.objects.Place(number).x == float(number)


def test_integers_that_are_too_large_for_floats(extmod):
    for number in (2**1024, -(2**1024), 10**400):
        with pytest.raises(OverflowError, match="argument 'x': the integer is too large for a float"):
            extmod.echo_f64(number)
    assert extmod.echo_f64(2**1024 - 2**970 - 1) == sys.float_info.max
    with pytest.raises(OverflowError, match="out of range for f32"):
        extmod.echo_f32(2**128)


INTERRUPTED = """
    import signal, sys, time
    sys.path.insert(0, {folder!r})
    import extmod

    class Stopped(Exception):
        pass

    def stop(*_):
        raise Stopped

    signal.signal(signal.SIGPROF, stop)
    for value in ([[index, str(index)] for index in range(200_000)], list(range(2_000_000)), tuple((index,) for index in range(200_000))):
        begun = time.process_time()
        extmod.echo_any(value)
        whole = time.process_time() - begun
        # In the middle of it, by the time of this process, because others may run, too.
        signal.setitimer(signal.ITIMER_PROF, whole / 10)
        begun = time.process_time()
        try:
            extmod.echo_any(value)
            raise AssertionError("it was not interrupted")
        except Stopped:
            taken = time.process_time() - begun
        assert taken < whole / 2 + 0.1, (taken, whole)
        # Nothing is leaked.
        assert extmod.echo_any(value[:3]) == value[:3]
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer")
def test_long_conversions_look_at_signals(folder):
    program = textwrap.dedent(INTERRUPTED.format(folder=str(folder)))
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize("make", [lists_of, dicts_of])
def test_what_one_side_shares_is_compared_once(extmod, make):
    """In each pair of graphs only one side is shared, alternately."""
    make = make(extmod)
    left = right = make(1, 2)
    for _ in range(40):
        left = make(make(left, 2), make(left, 2))
        part = make(right, 2)
        right = make(part, part)
    assert left == right and right == left
    assert not left != right
