"""The same object of Rust is the same Python object, as long as that one lives. The functions are those of identity.rs."""

import copy
import gc
import pickle
import sys
import threading
import weakref

import pytest

# Without the interpreter's lock, lists and dicts of the library are not in the table.
HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()


@pytest.fixture(scope="session")
def identity(extmod):
    yield extmod.identity
    extmod.identity.release()


def test_a_method_returns_its_object(extmod):
    h = extmod.Digest()
    assert h.update(b"") is h and h.update(b"\1\2").update(b"\3") is h and h.total == 6
    assert h.same() is h and h.plus(h) is not h
    assert extmod.Digest() is not extmod.Digest()


def test_arguments_and_results(extmod, identity):
    a, b = extmod.Digest(), extmod.Digest.of(b"\5")
    assert identity.larger(a, b) is b and identity.larger(b, a) is b and identity.larger(a, a) is a
    left, right = identity.reversed([a, b])
    assert left is b and right is a
    assert extmod.echo_any(a) is a and extmod.echo_any([a, {"x": b}])[1]["x"] is b
    assert extmod.objects_as_they_are.same(a) is a


def test_callbacks(extmod, identity):
    for sum in [extmod.Digest(), extmod.Digest.of(b"1")]:
        plain, (listed,), python = identity.shown_to(sum, lambda x: x)
        assert plain is sum and listed is sum and python is sum
        seen = []
        identity.shown_to(sum, lambda x: seen.append(x if isinstance(x, extmod.Digest) else x[0]))
        assert all(x is sum for x in seen) and len(seen) == 3


def test_fields(extmod):
    sum = extmod.Digest()
    below = [extmod.Branch("a", sum, []), extmod.Branch("b", sum, [])]
    root = extmod.Branch("root", sum, below)
    assert root.sum is sum and root.below[0] is below[0] and root.below[1].sum is sum
    if HAS_LOCK:
        assert root.below is root.below
        kept = root.below
        kept.append(below[0])
        assert root.below[2] is below[0] and root.below is kept


def test_derived_classes_keep_class_and_attributes(extmod, identity):
    class Named(extmod.Digest):
        def __init__(self, name):
            super().__init__()
            self.name = name

    class Slotted(extmod.Digest):
        __slots__ = ("extra",)

    named, slotted = Named("n"), Slotted()
    slotted.extra = [1]
    assert named.update(b"\1") is named and named.update(b"").name == "n"
    assert identity.larger(named, slotted) is named and identity.reversed([slotted, named]) == [named, slotted]
    assert [x is named for x in identity.shown_to(named, lambda x: x[0] if isinstance(x, list) else x)] == [True] * 3
    assert slotted.same().extra == [1]
    branch = extmod.Branch("b", named, [])
    assert branch.sum is named and branch.sum.name == "n"
    made = Named.of(b"\4")
    assert type(made) is Named and made.total == 4 and made.same() is made
    identity.keep(named)
    assert identity.kept()[-1] is named
    identity.release()
    copied = pickle.loads(pickle.dumps(extmod.Branch("b", extmod.Digest(), [])))
    assert type(copied.sum) is extmod.Digest


def test_a_kept_object(extmod, identity):
    """While the Python object lives, it comes back; afterwards a new one is made, of the type's class."""
    sum = extmod.Digest()
    identity.keep(sum)
    number = id(sum)
    assert all(kept is sum for kept in identity.kept())
    watch = weakref.ref(sum)
    del sum
    gc.collect()
    assert watch() is None
    first, second = identity.kept()[-1], identity.kept()[-1]
    assert first is second and first.same() is first and isinstance(number, int)
    assert identity.release() > 0
    assert first.update(b"\7") is first


def test_a_weak_reference_in_rust(identity):
    sum = identity.watched()
    assert identity.seen() is sum
    del sum
    gc.collect()
    assert identity.seen() is None


def test_freed_objects_do_not_return(extmod, identity):
    """The memory of objects and of Python objects is used again, in every order."""
    for number in range(2000):
        sums = [extmod.Digest.of(bytes([number % 256, index])) for index in range(5)]
        assert all(a is b for a, b in zip(identity.reversed(sums)[::-1], sums))
        if number % 3 == 0:
            identity.keep(sums[number % 5])
        del sums[number % 5]
        kept = identity.kept()
        assert len({id(x) for x in kept}) == len(kept)
        if number % 7 == 0:
            identity.release()
    identity.release()


def test_code_that_runs_while_an_object_is_freed(extmod, identity):
    """A destructor and the callback of a weak reference get a live object, never the one that is being freed."""
    found = []

    class Watched(extmod.Digest):
        def __del__(self):
            found.append(("del", [kept.same() for kept in identity.kept()]))

    class Attribute:
        def __del__(self):
            found.append(("attribute", [kept.same() for kept in identity.kept()]))

    for _ in range(50):
        watched = Watched()
        watched.attribute = Attribute()
        identity.keep(watched)
        watch = weakref.ref(watched, lambda _: found.append(("weak", [kept.same() for kept in identity.kept()])))
        del watched
        gc.collect()
        # The destructor has found the object itself, so it lives on.
        [(name, [again])] = found
        assert name == "del" and watch() is again and again.attribute is not None
        found.clear()
        del again
        gc.collect()
        assert watch() is None and [name for name, _ in found] == ["attribute", "weak"]
        assert all(type(kept) is extmod.Digest for _, all_kept in found for kept in all_kept)
        assert found[0][1][0] is found[1][1][0]
        found.clear()
        identity.release()


def test_copies(extmod):
    sum = extmod.Digest()
    shared = extmod.Branch("x", sum, [extmod.Branch("y", sum, [])])
    for copied in [pickle.loads(pickle.dumps(shared)), copy.deepcopy(shared)]:
        assert copied is not shared and copied.sum is not sum and copied.below[0].sum is copied.sum


def test_threads(extmod, identity):
    shared, failures = [extmod.Digest() for _ in range(8)], []

    def work(seed):
        for number in range(500):
            sum = shared[(seed + number) % 8]
            own = extmod.Digest()
            if sum.same() is not sum or identity.larger(own, own) is not own or identity.reversed([own, sum])[1] is not own:
                failures.append(number)

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
