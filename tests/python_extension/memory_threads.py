"""Threads that call, lend, convert and change lists, dicts, arrays and tensors at once, for some seconds: results or exceptions, and no memory that is used
after it was freed. AddressSanitizer (`cargo xtask asan extension`) and ThreadSanitizer (`cargo xtask pythons 3.13t-tsan`) watch it.

    python memory_threads.py FOLDER [SECONDS [THREADS]]

FOLDER has the library as extmod.so. NumPy's arrays take part if NumPy can be imported, and tensors like PyTorch's if ctypes can.
"""

import array
import gc
import pickle
import sys
import threading
import time
import weakref

folder = sys.argv[1]
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 3.0
count = int(sys.argv[3]) if len(sys.argv) > 3 else 8
sys.path.insert(0, folder)
import extmod

try:
    import ctypes
except ImportError:
    ctypes = None
try:
    import numpy
except ImportError:
    numpy = None

HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()
SIZE = 1 << 10
Record = extmod.Record
# Threads switch in the middle of conversions.
sys.setswitchinterval(1e-5)

# What all threads use and change.
numbers = [1, 2, 3]
table = {"a": [1], "b": []}
shared_list, shared_dict = extmod.integers(3), extmod.count_word({}, "a")
state = {"tensor": extmod.range_of(SIZE), "record": Record(7, 2.5, "label", (1, 2)), "text": "a text that is not small"}
described, rounds = [], {}
# The functions that have read a whole tensor.
summed = set()


class Stored:
    """As PyTorch's tensors: a capsule holds the tensor, and this gets another storage while others use the first one."""

    class Storage:
        def __init__(self):
            self.memory = (ctypes.c_double * SIZE)(*[1.0] * SIZE)

        def data_ptr(self):
            return ctypes.addressof(self.memory)

        def nbytes(self):
            return 8 * SIZE

    def __init__(self):
        self.storage = Stored.Storage()

    def untyped_storage(self):
        return self.storage

    def data_ptr(self):
        return self.storage.data_ptr()

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, max_version=None):
        storage = self.storage
        extents = (ctypes.c_int64 * 2)(SIZE, 1)
        start = ctypes.addressof(extents)
        words = [1, 0, 0, 0, ctypes.addressof(storage.memory), 1, 1 | (2 | 64 << 8 | 1 << 16) << 32, start, start + 8, 0]
        managed = (ctypes.c_uint64 * len(words))(*words)
        # The description lives as long as the process; the storage does not.
        described.append((extents, managed))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(managed), b"dltensor_versioned", None)


def outcome(call, *arguments):
    """A result, or one of the exceptions that an argument may end in which changes."""
    try:
        return call(*arguments)
    except (TypeError, ValueError, IndexError, KeyError, BufferError, RuntimeError, MemoryError) as error:
        return error


def sum_whole(function, *arguments):
    """Reads a tensor: an exception, or the sum of its ones."""
    total = outcome(function, *arguments)
    if not isinstance(total, Exception):
        assert total == SIZE, total
        summed.add(function)


def convert():
    """Containers that other threads change while they are read."""
    outcome(extmod.echo_vec, numbers)
    outcome(extmod.echo_any, numbers)
    outcome(extmod.echo_any, table)
    outcome(extmod.echo_any, {"list": numbers, "dict": table, "tensor": state["tensor"], "record": state["record"]})
    outcome(extmod.words, state["text"])
    outcome(extmod.echo_any, shared_list)
    outcome(lambda: extmod.count_word(dict(shared_dict.items()), "a"))


def change():
    numbers.append(len(numbers))
    if len(numbers) > 60:
        del numbers[:]
    for key in ("a", "b", "c"):
        table[key] = [key * 20] * 3
        table.pop(key, None) if len(table) > 2 else table.setdefault(key, [])
    state["tensor"] = extmod.range_of(SIZE)
    state["record"] = Record(7, 2.5, "another label", (1, 2))
    state["text"] = "another text of more than seven bytes " + str(len(numbers))


def share():
    """Lists and dicts of the library itself."""
    outcome(extmod.append, shared_list, 7)
    outcome(shared_list.append, 8)
    outcome(shared_list.__setitem__, slice(0, 2), [5] * (len(shared_list) % 4))
    outcome(list, shared_list)
    outcome(shared_list.pop)
    if len(shared_list) > 200:
        shared_list.clear()
    outcome(shared_dict.__setitem__, f"a key of some length {len(shared_dict)}", "a value of some length")
    outcome(shared_dict.__setitem__, 2**70 + len(shared_dict) % 3, [1])
    outcome(list, shared_dict)
    outcome(repr, shared_dict)
    outcome(shared_dict.pop, 2**70, None)
    if len(shared_dict) > 60:
        shared_dict.clear()


def move():
    """A tensor like PyTorch's."""
    stored = lent["stored"]

    def moves():
        stored.storage = Stored.Storage()

    for function in (extmod.sum_after, extmod.sum_after_here):
        sum_whole(function, stored, moves)
    outcome(extmod.keep_tensor, stored)
    stored.storage = Stored.Storage()
    outcome(extmod.sum_of_kept)


def lend():
    """Memory that its owner loses while the library has a view of it, by a callback and by other threads."""
    if ctypes:
        move()
    tensor = state["tensor"]
    assert memoryview(tensor).tolist()[-1] == SIZE - 1 and extmod.element_count(tensor) == SIZE
    tensor.__dlpack__(max_version=(1, 0))
    # Without the lock, arrays of 3.13 are damaged by this themselves.
    if HAS_LOCK:
        floats = lent["floats"]
        outcome(extmod.scale_in_place, floats, 1.0)
        outcome(floats.append, 1.0)
        if len(floats) > SIZE:
            outcome(floats.__delitem__, slice(8, None))
    if numpy and HAS_LOCK:
        own = lent["array"]
        outcome(extmod.sum_after, own, lambda: outcome(lambda: own.resize(SIZE + len(own) % 7, refcheck=False)))
        lent["array"] = numpy.ones(SIZE)
        outcome(extmod.same_for, own, 0.0)


def read():
    """Tensors that other threads give other memory."""
    for _ in range(10):
        if ctypes:
            sum_whole(extmod.sum_of_elements, lent["stored"])
        assert extmod.element_count(state["tensor"]) == SIZE


def use():
    """Objects, exceptions, callbacks and pickles."""
    record = state["record"]
    assert extmod.count_of(record) == 7 and record.pair == (1, 2)
    own = Record(1, 1.0, "own label of some length", (3, 4))
    gone = weakref.ref(own)
    assert pickle.loads(pickle.dumps(own)).label == own.label and gone() is own
    assert extmod.sum_of(lambda x: x + 1, 3) == 6
    outcome(extmod.sum_of, lambda x: numbers[x + 1000], 3)
    outcome(extmod.fail, "ValueError", state["text"])
    kept = extmod.multiplier(3)
    outcome(extmod.keep, lambda x: kept(x))
    outcome(extmod.call_kept, 5)
    held = extmod.Holder(lambda: held, None)


def collect():
    gc.collect()
    time.sleep(0.01)


lent = {"stored": Stored() if ctypes else None, "floats": array.array("f", [1.0] * 16)}
if numpy:
    lent["array"] = numpy.ones(SIZE)
kinds = [convert, change, share, lend, read, use, collect]
end = time.monotonic() + seconds
failures = []


def run(kind):
    try:
        while time.monotonic() < end and not failures:
            kind()
            rounds[kind.__name__] = rounds.get(kind.__name__, 0) + 1
    except BaseException as error:
        failures.append(error)


threads = [threading.Thread(target=run, args=(kinds[index % len(kinds)],)) for index in range(max(count, len(kinds)))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if failures:
    raise failures[0]
extmod.keep(None)
extmod.keep_tensor(None)
gc.collect()
assert set(rounds) == {kind.__name__ for kind in kinds}, rounds
if ctypes:
    assert summed == {extmod.sum_after, extmod.sum_after_here, extmod.sum_of_elements}, summed
print(f"{len(threads)} threads, {'with' if HAS_LOCK else 'without'} the lock: no memory was lost")
