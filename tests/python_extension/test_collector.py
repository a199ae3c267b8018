"""Python's collector and the library: code that finds containers through the collector and changes them during a call, and callables in fields."""

import collections
import gc
import threading
import weakref
from collections.abc import Mapping, MutableMapping

import pytest

MARK = "a text that marks what belongs to the call"


def is_marked(thing):
    """Returns true if a list, dict or set contains the mark or the finder, or a pair with them."""

    def is_one(part):
        return part is MARK or type(part) is Finds

    parts = [*thing.keys(), *thing.values()] if isinstance(thing, dict) else thing
    return any(is_one(part) or type(part) is tuple and any(map(is_one, part)) for part in parts)


class Finds:
    """While it is converted, it empties all lists, dicts and sets of the call that the collector tracks, and reuses their memory."""

    junk = None

    def _empty(self):
        # Except the names of this module.
        own = id(globals())
        for thing in gc.get_objects():
            if type(thing) in (list, dict, set) and id(thing) != own and is_marked(thing):
                thing.clear()
        self.junk = [("x" * 50, number) for number in range(300)]

    def __index__(self):
        self._empty()
        return 1

    def __float__(self):
        self._empty()
        return 1.0


class Only(Mapping):
    """A mapping that is not a dict."""

    def __init__(self, entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


class Named(dict):
    pass


def marked(finds):
    return {MARK: finds, "b" * 20: 2, "c" * 20: 3}


def fields(record):
    return record.count, record.label


def derived(m):
    return type("Derived", (m.Record,), {})


def fresh():
    """A text without other references."""
    return "".join(["a text that nothing keeps", "x" * 30])


# A call with the finder of the containers, and the correct results: all elements that were there at
# the start, or the rest of a list. They are made after the call, because otherwise they would be
# found, too.
CALLS = {
    "a dict": (lambda m, f: m.echo_any(marked(f)), lambda: [marked(1)]),
    "a dict in a list": (lambda m, f: m.echo_any([marked(f), MARK]), lambda: [[marked(1)]]),
    "a dict in a tuple": (lambda m, f: m.echo_any((marked(f), MARK)), lambda: [(marked(1), MARK)]),
    "a kind of dict": (lambda m, f: m.echo_map(Named(marked(f))), lambda: [marked(1)]),
    "an ordered dict": (lambda m, f: m.echo_map(collections.OrderedDict(marked(f))), lambda: [marked(1)]),
    "a kind of dict as it is": (lambda m, f: type(m.echo_any(Named(marked(f)))), lambda: [Named]),
    "an ordered dict as it is": (lambda m, f: type(m.echo_any(collections.OrderedDict(marked(f)))), lambda: [collections.OrderedDict]),
    "a mapping": (lambda m, f: m.echo_map(Only({MARK: f, "b" * 20: 2})), lambda: [{MARK: 1, "b" * 20: 2}]),
    "a map of integers": (lambda m, f: m.echo_hash_map({MARK: f, "b" * 20: 2}), lambda: [{MARK: 1, "b" * 20: 2}]),
    "a list": (lambda m, f: m.echo_any([f, MARK, "b" * 20]), lambda: [[1]]),
    "a sequence": (lambda m, f: m.echo_vec(collections.deque([f, 2, 3])), lambda: [[1, 2, 3]]),
    "a constructor": (lambda m, f: fields(m.Record(count=f, scale=2.5, label=fresh(), pair=(1, 2))), lambda: [(1, fresh())]),
    "a derived constructor": (lambda m, f: fields(derived(m)(count=f, scale=2.5, label=fresh(), pair=(1, 2))), lambda: [(1, fresh())]),
    "arguments by name": (lambda m, f: m.line(**{"x": f, "name": fresh()}), lambda: [f"{fresh()}=1 of 0"]),
    "arguments": (lambda m, f: m.digits(*[f, 0, 1, 2, 3, 4, 5, 6, 7, 8]), lambda: [1012345678]),
}


@pytest.mark.parametrize("name", CALLS)
def test_containers_are_emptied_while_they_are_converted(extmod, name):
    call, right = CALLS[name]
    for _ in range(5):
        finds = Finds()
        result = call(extmod, finds)
        assert finds.junk and result in right()


def test_shared_containers_are_given_what_empties_their_source(extmod):
    for _ in range(5):
        numbers = extmod.integers(3)
        source = [5, Finds(), MARK, 6]
        numbers.extend(source)
        assert list(numbers) == [0, 1, 2, 5, 1, MARK, 6] and not source
        numbers[1:2] = [7, Finds(), 8]
        assert list(numbers) == [0, 7, 1, 8, 2, 5, 1, MARK, 6]
        counts = extmod.count_word({}, "a")
        counts.update([("b", Finds()), ("c" * 20, 2)])
        assert isinstance(counts, MutableMapping) and counts["b"] == 1


def test_a_big_number_in_a_list_that_garbage_empties(extmod):
    """A number that is too large raises an exception inside; its object may start a collection, and so Python code."""
    numbers = []

    class Ends:
        def __init__(self):
            self.itself = self

        def __del__(self):
            numbers.clear()

    before = gc.get_threshold()
    try:
        gc.set_threshold(1)
        for large in [2**70, "\udc80" * 20]:
            for _ in range(50):
                numbers[:] = [int(str(large)) if isinstance(large, int) else large + "x", *["y" * 30 for _ in range(5)]]
                Ends()
                try:
                    assert len(extmod.echo_any(numbers)) in (0, 1, 6)
                except UnicodeEncodeError:
                    pass
    finally:
        gc.set_threshold(*before)


def test_a_callable_is_no_garbage_while_a_thread_copies_it(extmod):
    """The counts of references change while the collector looks at them."""
    ended = []

    class Callable:
        def __init__(self):
            self.itself = self

        def __call__(self):
            return 1

        def __del__(self):
            ended.append(self)

    call = Callable()
    call.itself = None
    watch = weakref.ref(call)
    holder = extmod.Holder(call, None)
    del call
    gc.collect()
    copies = []
    thread = threading.Thread(target=lambda: copies.append(extmod.copy_function(holder, 1.5)))
    thread.start()
    while thread.is_alive() and not ended:
        gc.collect()
    thread.join()
    assert copies[0] > 0 and not ended and watch() is not None and holder.function is watch()
    assert gc.get_referents(holder)[-1] is watch()
    del holder
    gc.collect()
    assert ended


def test_a_cycle_through_two_fields_and_a_second_object(extmod):
    """All of it becomes garbage at once, and not before; objects that a finalizer revives stay."""
    back = []

    class Callable:
        def __call__(self):
            return 1

        def __del__(self):
            if keeps:
                back.append(self)

    for keeps in [False, True]:
        first, second = Callable(), Callable()
        holder = extmod.Holder(first, second)
        first.holder, second.others = holder, [extmod.Holder(first, second), holder]
        watches = [weakref.ref(first), weakref.ref(holder)]
        del first, second, holder
        gc.collect()
        if not keeps:
            assert [watch() for watch in watches] == [None, None]
    assert len(back) == 2 and back[0].holder.function is back[0] and back[0].holder.other is back[1]
    held = weakref.ref(back[0].holder)
    keeps = False
    back.clear()
    gc.collect()
    assert held() is None
