"""Checks that need nothing but Python: run by each version of it. The argument is the folder of the module."""

import gc
import inspect
import pickle
import sys
import threading

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


check()
gc.collect()
before = len(gc.get_objects())
for _ in range(50):
    check()
gc.collect()
assert abs(len(gc.get_objects()) - before) < 20
threads = [threading.Thread(target=check) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("every check passed")
