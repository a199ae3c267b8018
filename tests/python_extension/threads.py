"""Threads that use the library at the same time, with arguments that other threads change meanwhile: results or exceptions, never a crash.

    python threads.py FOLDER [THREADS [ROUNDS]]

FOLDER has the library as extmod.so. On a build without the interpreter's lock, the lock stays off. ThreadSanitizer watches it by
`cargo xtask pythons --tsan`.
"""

import array
import copy
import gc
import pickle
import sys
import threading
import weakref

folder, count, rounds = sys.argv[1], *(int(number) for number in (sys.argv[2:] + ["16", "100"][len(sys.argv) - 2 :]))
sys.path.insert(0, folder)
imported = []


def has_lock():
    return getattr(sys, "_is_gil_enabled", lambda: True)()


HAS_LOCK = has_lock()


def bring():
    import extmod

    imported.append(extmod)


def together(works):
    """Runs each function on its own thread, and waits for all; the first exception is raised here."""
    failures = []
    start = threading.Event()

    def run(work):
        start.wait()
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    start.set()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


together([bring] * 8)
assert all(module is imported[0] for module in imported) and len(imported) == 8
extmod = imported[0]
assert HAS_LOCK == has_lock(), "the import has turned the lock on"
Place, Record, Color = extmod.objects.Place, extmod.Record, extmod.objects.Color

# Objects that all threads use and change.
numbers, table, memory = [1, 2, 3], {"a": [1], "b": []}, bytearray(b"12345678")
floats = array.array("f", [1, 2, 3])
shared = {"record": Record(7, 2.5, "label", (1, 2)), "place": Place(3.0, 4.0), "tensor": extmod.range_of(8), "function": extmod.multiplier(3)}
raised = {}


def outcome(call, *arguments):
    """A result, or one of the exceptions that a changing argument may cause."""
    try:
        return call(*arguments)
    except (TypeError, ValueError, IndexError, BufferError, RuntimeError) as error:
        return error


def calls(seed):
    for number in range(rounds):
        assert extmod.subtract(seed, subtrahend=number) == seed - number
        assert extmod.sum_of(lambda x: x + seed, 3) == extmod.sum_here(lambda x: x + seed, 3) == 3 + 3 * seed
        assert extmod.echo_any([number, "a text that is not small", {"a": 2**70}]) == [number, "a text that is not small", {"a": 2**70}]
        assert shared["function"](number) == 3 * number
        if number % 20 == 0:
            assert extmod.on_a_thread(lambda: seed) == seed


def objects(seed):
    for number in range(rounds):
        record, place = shared["record"], shared["place"]
        assert (record.count, record.label, record.pair, extmod.count_of(record)) == (7, "label", (1, 2), 7)
        assert place.moved(place, times=2).pair == (9.0, 12.0) and hash(place) == hash(Place(5)) and repr(place) == "(3, 4)"
        own = Record(number, 1.0, "own", (seed, number))
        gone = weakref.ref(own)
        assert copy.copy(own).pair == (seed, number) and gone() is own
        assert extmod.next_color("RED") is Color.GREEN and extmod.echo_any(Color.RED) is Color.RED
        held = extmod.Holder(lambda: held, None)
        if number % 50 == 0:
            assert pickle.loads(pickle.dumps(own)).count == number
            gc.collect()


def constructs(seed):
    """Many threads call one object's constructor: one of them creates it."""
    for number in range(rounds):
        place = started[number % len(started)]
        made = outcome(Place.__init__, place, 1.0, 2.0)
        assert made is None or "constructed already" in str(made), made
        assert place.pair == (1.0, 2.0)


def raises(seed):
    """The first error of a kind creates its class, one for all threads."""
    for number in range(rounds):
        kind = f"Kind{number % 10}"
        error = outcome(extmod.fail, kind, str(seed))
        assert str(error) == str(seed) and raised.setdefault(kind, type(error)) is type(error) is getattr(extmod, kind)
        thrown = OSError(seed)

        def throws(_):
            raise thrown

        try:
            extmod.sum_of(throws, 1)
        except OSError as caught:
            assert caught is thrown


def changes(seed):
    for number in range(rounds):
        numbers.append(number)
        if len(numbers) > 50:
            numbers.clear()
        table[str(number % 7)] = [number]
        table.pop(str(number % 5), None)
        # Without the lock, 3.13 itself corrupts arrays and bytearrays here.
        if HAS_LOCK:
            outcome(memory.extend, b"more")
            if len(memory) > 500:
                outcome(memory.clear)
            outcome(floats.append, 1.0)
        shared["record"] = Record(7, 2.5, "label", (1, 2))
        shared["tensor"] = extmod.range_of(8)
        shared["function"] = extmod.multiplier(3)


def reads(seed):
    for _ in range(rounds):
        assert isinstance(outcome(extmod.echo_vec, numbers), (list, Exception))
        assert isinstance(outcome(extmod.echo_any, table), (dict, Exception))
        if HAS_LOCK:
            assert isinstance(outcome(extmod.byte_count, memory), (int, Exception))
            assert isinstance(outcome(extmod.echo_any, memory), (bytearray, Exception))
            outcome(extmod.element_count, floats)
        tensor = shared["tensor"]
        assert tensor.shape == (8,) and memoryview(tensor).tolist() == list(range(8))
        tensor.__dlpack__(max_version=(1, 0))
        assert extmod.element_count(tensor) == 8
        outcome(extmod.keep, lambda x: x)
        outcome(extmod.call_kept, 5)


started = [Place.__new__(Place) for _ in range(20)]
kinds = [calls, objects, constructs, raises, changes, reads]
together([lambda kind=kinds[index % len(kinds)], seed=index: kind(seed) for index in range(count)])
extmod.keep(None)
gc.collect()
print(f"{count} threads, {rounds} rounds, {'with' if HAS_LOCK else 'without'} the lock: passed")
