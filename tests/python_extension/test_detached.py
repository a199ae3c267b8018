"""Functions that run without the interpreter's lock: methods, constructors and setters, and those of tests/extension-lib/src/detached.rs that borrow bytes."""

import array
import mmap
import threading
import time

import pytest

DATA = bytes(range(200)) * 50


@pytest.fixture
def waiting(extmod):
    """Each call is made on another thread, which takes the lock while the first one waits."""
    calls = []
    extmod.keep(lambda _: calls.append(threading.get_ident()) or len(calls))
    yield calls
    extmod.keep(None)


def test_constructors_methods_and_setters(extmod, waiting):
    waiter = extmod.Waiter()
    assert waiter.first == 1
    assert waiter.wait() == 2
    assert extmod.Waiter.another().first == 3
    waiter.started = True
    assert extmod.Waiter.wait(waiter) == 5
    assert len(waiting) == 5 and threading.get_ident() not in waiting

    class Own(extmod.Waiter):
        pass

    assert Own().first == 6 and type(Own.another()) is Own
    assert len(waiting) == 7


def test_a_method_that_keeps_the_lock(extmod, waiting):
    waiter = extmod.Waiter()
    assert waiter.apply(lambda first: [first, threading.get_ident()]) == [1, threading.get_ident()]


def test_exceptions_cross_the_lock(extmod):
    def fails(_):
        raise KeyError("mine")

    extmod.keep(fails)
    for call in [extmod.Waiter, extmod.Waiter.another]:
        with pytest.raises(KeyError, match="mine"):
            call()
    extmod.keep(None)


def test_objects_are_alive_until_the_call_ends(extmod, waiting):
    """No other reference keeps the receiver."""
    assert extmod.Waiter().wait() == 2


def mapped(path):
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def buffers(folder):
    (folder / "data").write_bytes(DATA)
    yield DATA
    yield bytearray(DATA)
    yield memoryview(DATA)
    yield memoryview(bytearray(DATA))
    yield array.array("B", DATA)
    yield array.array("I", DATA)
    yield mapped(folder / "data")


def test_every_kind_of_bytes(extmod, tmp_path):
    for data in buffers(tmp_path):
        assert extmod.sums_of_bytes(data, 0) == (sum(DATA), sum(DATA)), type(data)
        assert extmod.sums_of_bytes(data=data, milliseconds=0) == (sum(DATA), sum(DATA)), type(data)
    for data in [b"", bytearray(), memoryview(b""), array.array("B")]:
        assert extmod.sums_of_bytes(data, 0) == (0, 0)
    # The bytes of a view are those that it shows.
    assert extmod.sums_of_bytes(memoryview(DATA)[3:5], 0) == (7, 7)
    assert extmod.sums_of_bytes(memoryview(DATA)[10:20].toreadonly(), 0) == (145, 145)


def test_bytes_that_do_not_lie_in_a_row(extmod):
    with pytest.raises((TypeError, ValueError, BufferError)):
        extmod.sums_of_bytes(memoryview(DATA)[::2], 0)
    released = memoryview(bytearray(DATA))
    released.release()
    with pytest.raises((TypeError, ValueError, BufferError)):
        extmod.sums_of_bytes(released, 0)


def test_others_may_change_a_buffer_meanwhile(extmod, tmp_path):
    """A function without the lock sees the bytes as they were: those that may change are copied before it starts."""

    def resize(data):
        data[:] = data[:1] * 100_000

    def write(data):
        data[:] = b"\xff" * len(DATA)

    cases = [
        (bytearray(DATA), resize),
        (array.array("B", DATA), lambda data: data.extend(range(100))),
        (memoryview(bytearray(DATA)), write),
        (mapped_copy(tmp_path), write),
        (mapped_copy(tmp_path), lambda data: data.close()),
    ]
    for data, change in cases:
        results = []
        thread = threading.Thread(target=lambda data=data: results.append(extmod.sums_of_bytes(data, 300)))
        thread.start()
        time.sleep(0.1)
        change(data)
        thread.join()
        assert results == [(sum(DATA), sum(DATA))], type(data)


def mapped_copy(folder):
    path = folder / f"data{len(list(folder.iterdir()))}"
    path.write_bytes(DATA)
    return mapped(path)


def test_no_buffer_stays_exported(extmod):
    data = bytearray(DATA)
    extmod.sums_of_bytes(data, 0)
    data.append(1)
    numbers = array.array("B", DATA)
    extmod.sums_of_bytes(numbers, 0)
    numbers.append(1)
    view = memoryview(data)
    extmod.sums_of_bytes(view, 0)
    view.release()
    data.append(1)
