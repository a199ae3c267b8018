"""Checks that need only Python: each version of it runs them. The argument is the folder of the module."""

import array
import copy
import gc
import inspect
import pickle
import sys
import threading
import weakref

sys.path.insert(0, sys.argv[1])
import extmod


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError("no error")


def check():
    assert extmod.subtract(7, 3) == extmod.subtract(subtrahend=3, minuend=7) == 4
    assert extmod.half(5) == 2.5 and extmod.text_size("ä" * 40) == 80
    assert extmod.digits(1, 2, 3, 4, 5, 6, 7, 8, j=0, i=9) == 1234567890
    assert extmod.echo_any([None, True, 1, 2.5, "text", b"bytes", {"a": [2**70]}]) == [
        None,
        True,
        1,
        2.5,
        "text",
        b"bytes",
        {"a": [2**70]},
    ]
    assert extmod.divide(7, 2) == (3, 1) and extmod.words("a b a") == {"a": 2, "b": 1}
    assert extmod.sum_of(lambda x: x * x, 5) == 30 and extmod.multiplier(3)(5) == 15
    assert extmod.on_a_thread(lambda: 7) == 7
    raises(TypeError, "argument 'minuend': expected int, got str", lambda: extmod.subtract("x", 1))
    raises(extmod.Own if hasattr(extmod, "Own") else RuntimeError, "text", lambda: extmod.fail("Own", "text"))
    raises(ZeroDivisionError, "by zero", lambda: extmod.sum_of(lambda x: 1 / 0, 1))
    endless = []
    endless.append(endless)
    raises(RecursionError, "nested", lambda: extmod.echo_any(endless))
    assert str(inspect.signature(extmod.subtract)) == "(minuend, subtrahend)"
    assert extmod.subtract.__doc__.startswith("Subtracts")
    assert pickle.loads(pickle.dumps(extmod.subtract)) is extmod.subtract
    assert extmod.text.count("banana", "an") == 2
    record = extmod.Record(1, 2.5, pair=(1, 2), label="x")
    assert (record.count, record.scale, record.label, record.pair) == (1, 2.5, "x", (1, 2))
    assert copy.copy(record).label == pickle.loads(pickle.dumps(record)).label == "x"
    assert weakref.ref(record)() is record and extmod.count_of(record) == 1
    place = extmod.objects.Place(3, 4)
    assert place.moved(times=2, by=place).pair == (9.0, 12.0) and place == extmod.objects.Place(5)
    assert len(place) == 2 and place[1] == 4.0 and repr(place) == "(3, 4)" and place < extmod.objects.Place(9)

    class Corner(extmod.objects.Place):
        def __init__(self, side):
            super().__init__(side, side)
            self.side = side

    assert Corner(2.0).moved(Corner(1.0)).pair == (3.0, 3.0)
    raises(TypeError, "expected extmod.Record, got objects.Place", lambda: extmod.count_of(place))
    shared = extmod.integers(3)
    shared.append(7)
    extmod.append(shared, 8)
    shared[1:3] = [5]
    del shared[0]
    assert shared == [5, 7, 8] and shared.pop() == 8 and 7 in shared and repr(shared) == "[5, 7]"
    counts = extmod.count_word({}, "a")
    counts["b"] = 2
    assert extmod.count_word(counts, "b") == {"a": 1, "b": 3} and counts.pop("b") == 3 and list(counts) == ["a"]
    raises(KeyError, "x", lambda: counts["x"])
    numbers = array.array("f", [1, 2, 3])
    extmod.scale_in_place(numbers, 2.0)
    assert list(numbers) == [2, 4, 6]
    raises(ValueError, "read-only", lambda: extmod.scale_in_place(memoryview(numbers.tobytes()).cast("f"), 2.0))
    assert memoryview(extmod.range_of(3)).tolist() == [0, 1, 2]
    assert extmod.element_count(extmod.range_of(3)) == 3


check()
gc.collect()
before = len(gc.get_objects())
for _ in range(50):
    check()
gc.collect()
# After a thread has run, free-threaded 3.13 never frees classes and functions.
if sys.version_info[:2] != (3, 13) or sys._is_gil_enabled():
    assert abs(len(gc.get_objects()) - before) < 20
threads = [threading.Thread(target=check) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("every check passed")
