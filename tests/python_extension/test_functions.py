"""Calls: arguments by position and by name, values in both directions, errors, callbacks."""

import array
import enum
import errno
import gc
import inspect
import multiprocessing
import os
import pickle
import pydoc
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from fractions import Fraction
from pathlib import Path

import pytest


class Index:
    """An index that may return wrong values."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


# The name of the function, arguments, keywords, result.
RESULTS = [
    ("subtract", (7, 3), {}, 4),
    ("subtract", (7,), {"subtrahend": 3}, 4),
    ("subtract", (), {"subtrahend": 3, "minuend": 7}, 4),
    ("subtract", (True, Index(3)), {}, -2),
    ("digits", tuple(range(1, 10)) + (0,), {}, 1234567890),
    ("digits", (1, 2, 3), dict(zip("jihgfed", range(7))), 1236543210),
    ("line", (8,), {}, "x=8 of 0"),
    ("line", (8, 1), {}, "x=16 of 0"),
    ("line", (8,), {"name": "y"}, "y=8 of 0"),
    ("line", (8, 1), {"factor": 1, "mode": None}, "x=8 of 0"),
    ("line", (), {"name": "y", "x": 1}, "y=1 of 0"),
    ("line", (8, 1, "z", 1, None), {}, "z=8 of 0"),
    ("half", (5,), {}, 2.5),
    ("half", (Fraction(1, 2),), {}, 0.25),
    ("text_size", ("",), {}, 0),
    ("text_size", ("seven77",), {}, 7),
    ("text_size", ("eight888",), {}, 8),
    ("text_size", ("\0a longer text with a NUL\0",), {}, 26),
    ("text_size", ("ä" * 40,), {}, 80),
    ("divide", (7, 2), {}, (3, 1)),
    ("divide", (7, 0), {}, None),
    ("words", ("b a b",), {}, {"b": 2, "a": 1}),
    ("one_of_each", (), {}, [None, True, 7, 2.5, "text", "a longer text"]),
    ("nest", (2,), {}, [[[]]]),
    ("echo_ffi_bytes", (b"\0\xff",), {}, b"\0\xff"),
    ("echo_ffi_bytes", (bytearray(b"more than seven bytes"),), {}, b"more than seven bytes"),
    ("echo_vec", ((1, 2, Index(3)),), {}, [1, 2, 3]),
    ("echo_nested", ([[1], [], [2, 3]],), {}, [[1], [], [2, 3]]),
    ("echo_pair", ((1, "one"),), {}, (1, "one")),
    ("echo_triple", ([True, 1, None],), {}, (True, 1.0, None)),
    ("echo_hash_map_nested", ({"a": [1, 2], "b": []},), {}, {"a": [1, 2], "b": []}),
    ("echo_map_int", ({1: 0.5},), {}, {1: 0.5}),
    ("echo_u64", (2**64 - 1,), {}, 2**64 - 1),
    ("echo_any", (-(2**100),), {}, -(2**100)),
    ("echo_any", (2**63,), {}, 2**63),
    ("echo_shape", ((2, 3),), {}, (2, 3)),
    ("echo_dtype", ("float32",), {}, "float32"),
    ("echo_dtype", (float,), {}, "float64"),
    ("echo_device", ("cuda:1",), {}, "cuda:1"),
    ("echo_device", ((2, 3),), {}, "cuda:3"),
]


def same(left, right):
    """Equal, with equal classes at all levels: True is not 1 here."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


@pytest.mark.parametrize("name, args, kwargs, result", RESULTS, ids=lambda value: repr(value)[:40])
def test_result(extmod, name, args, kwargs, result):
    assert same(getattr(extmod, name)(*args, **kwargs), result)


@pytest.mark.needs("numpy")
def test_numpys_scalars_and_types(extmod):
    import numpy as np

    assert same(extmod.subtract(np.int64(7), np.uint8(3)), 4)
    assert same(extmod.half(np.float32(5)), 2.5)
    assert same(extmod.echo_bool(np.True_), True)
    assert same(extmod.echo_dtype(np.dtype("int8")), "int8")
    assert same(extmod.echo_dtype(np.float16), "float16")


SIGNATURE = "subtract(minuend: int, subtrahend: int): "
LINE = "line(x: float, gain: float, name: str, factor: float, mode: Optional[extmod.Record]): "

ERRORS = [
    ("subtract", (1,), {}, TypeError, SIGNATURE + "expected 2 arguments, got 1"),
    ("subtract", (1, 2, 3), {}, TypeError, SIGNATURE + "expected 2 arguments, got 3"),
    ("subtract", (1, 2, 3), {"minuend": 1}, TypeError, SIGNATURE + "expected 2 arguments, got 3"),
    ("line", (), {}, TypeError, LINE + "argument 'x' is missing"),
    ("line", (), {"gain": 1}, TypeError, LINE + "argument 'x' is missing"),
    ("line", (1, 2, "3", 4, None, 6), {}, TypeError, LINE + "expected at most 5 arguments, got 6"),
    ("line", (1, 2, "3", 4, None, 6), {"x": 1}, TypeError, LINE + "expected at most 5 arguments, got 6"),
    ("line", (1,), {"mod": None}, TypeError, LINE + "there is no argument 'mod'; did you mean 'mode'?"),
    ("line", (1,), {"x": 1}, TypeError, LINE + "argument 'x' is given twice"),
    ("line", (1, "2"), {}, TypeError, LINE + "argument 'gain': expected float, got str"),
    ("subtract", ("1", 2), {}, TypeError, SIGNATURE + "argument 'minuend': expected int, got str"),
    ("subtract", (1, [2]), {}, TypeError, SIGNATURE + "argument 'subtrahend': expected int, got Array"),
    ("subtract", (1, 2j), {}, TypeError, SIGNATURE + "argument 'subtrahend': expected int, got complex"),
    ("subtract", (1, object()), {}, TypeError, SIGNATURE + "argument 'subtrahend': expected int, got object"),
    ("subtract", (1,), {"minuend": 2}, TypeError, SIGNATURE + "argument 'minuend' is given twice"),
    ("subtract", (), {"subtrahend": 2}, TypeError, SIGNATURE + "argument 'minuend' is missing"),
    (
        "subtract",
        (1,),
        {"subtrahent": 2},
        TypeError,
        SIGNATURE + "there is no argument 'subtrahent'; did you mean 'subtrahend'?",
    ),
    ("echo_i64", (2**63,), {}, OverflowError, "echo_i64(x: int): argument 'x': the integer does not fit into 64 bits"),
    ("echo_i64", (Index(OSError("no index")),), {}, OSError, "no index"),
    ("echo_i64", (Index("text"),), {}, TypeError, "__index__ returned non-int (type str)"),
    ("echo_i64", (1.0,), {}, TypeError, "echo_i64(x: int): argument 'x': expected int, got float"),
    ("echo_vec", ([1, 2, "x"],), {}, TypeError, None),
    ("echo_vec", (iter([1, 2]),), {}, TypeError, "echo_vec(x: Array[int]): argument 'x': expected Array[int], got list_iterator"),
    ("echo_string", ("\ud800",), {}, UnicodeEncodeError, None),
    ("echo_dtype", (object(),), {}, TypeError, "echo_dtype(x: DataType): argument 'x': expected DataType, got object"),
    ("echo_device", ("nowhere",), {}, ValueError, None),
    ("echo_device", ((1, 2, 3),), {}, TypeError, "echo_device(x: Device): argument 'x': expected Device, got tuple"),
    ("echo_hash_map", ({"a": "b"},), {}, TypeError, None),
    ("fail", ("IndexError", "outside"), {}, IndexError, "outside"),
    ("fail", ("KeyError", "nothing"), {}, KeyError, "'nothing'"),
    ("fail", ("StopIteration", "stop"), {}, StopIteration, "stop"),
    ("fail", ("not a name", "text"), {}, RuntimeError, "text"),
    ("fail", ("print", "a builtin that is no exception"), {}, RuntimeError, "a builtin that is no exception"),
    ("nest", (1000,), {}, RecursionError, "a container is nested more than 400 deep"),
]


@pytest.mark.parametrize("name, args, kwargs, kind, message", ERRORS, ids=lambda value: repr(value)[:40])
def test_error(extmod, name, args, kwargs, kind, message):
    with pytest.raises(kind) as caught:
        getattr(extmod, name)(*args, **kwargs)
    if message is not None:
        assert str(caught.value) == message


def test_an_error_of_a_kind_of_its_own(extmod):
    with pytest.raises(RuntimeError) as caught:
        extmod.fail("FilterError", "no filter")
    assert type(caught.value) is extmod.FilterError and str(caught.value) == "no filter"
    with pytest.raises(extmod.FilterError):
        extmod.fail("FilterError", "again")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is extmod.FilterError and again.args == ("no filter",)


def test_declared_exceptions(extmod):
    assert extmod.FilterFault.__mro__[:2] == (extmod.FilterFault, ValueError)
    assert extmod.KernelFault.__mro__[:3] == (extmod.KernelFault, extmod.FilterFault, ValueError)
    for size, kind, message in [(0, extmod.FilterFault, "a filter of size 0"), (3, extmod.KernelFault, "no kernel of size 3")]:
        with pytest.raises(ValueError) as caught:
            extmod.filter(size)
        assert type(caught.value) is kind and str(caught.value) == message
        assert type(pickle.loads(pickle.dumps(caught.value))) is kind
    assert extmod.FilterFault.__module__ == "extmod"


def test_a_panic_is_an_exception(extmod):
    with pytest.raises(RuntimeError, match="panicked at .*: a panic on purpose"):
        extmod.panics()


def test_a_module_inside(extmod):
    assert extmod.text.count("banana", "an") == 2
    assert extmod.text.count.__module__ == "extmod.text"
    assert pickle.loads(pickle.dumps(extmod.text.count)) is extmod.text.count


def test_what_a_function_says_of_itself(extmod):
    assert str(inspect.signature(extmod.subtract)) == "(minuend, subtrahend)"
    assert str(inspect.signature(extmod.answer)) == "()"
    assert str(inspect.signature(extmod.line)) == "(x, gain=0.5, name='x', factor=Ellipsis, mode=None)"
    assert "line(x, gain=0.5, name='x', factor=Ellipsis, mode=None)" in pydoc.render_doc(extmod.line, renderer=pydoc.plaintext)
    assert inspect.getdoc(extmod.subtract) == "Subtracts one integer from another.\n\nThe second paragraph."
    assert (extmod.subtract.__name__, extmod.subtract.__module__) == ("subtract", "extmod")
    assert extmod.__doc__ == "A library that Python imports as an extension module, for the tests."
    assert extmod.__file__.endswith("extmod.so")


def test_functions_are_pickled_by_name(extmod):
    assert pickle.loads(pickle.dumps(extmod.subtract)) is extmod.subtract
    with pytest.raises(TypeError):
        type(extmod.subtract.__self__)()


def call_in_another_process(pair):
    import extmod

    return extmod.subtract(*pair)


def test_another_process(extmod, folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(folder))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.starmap(extmod.subtract, [(3, 1), (5, 10)]) == [2, -5]


def test_callbacks(extmod):
    for call in [extmod.sum_of, extmod.sum_here]:
        assert call(lambda x: x * x, 5) == 30
        assert call(lambda x: call(lambda y: x * y, 3), 4) == 18
        assert call(lambda x: extmod.sum_here(lambda y: 1, x) + extmod.sum_of(lambda y: 1, x), 4) == 12
        assert call(lambda x: time.sleep(0.001) or x, 3) == 3
    assert extmod.sum_of(extmod.echo_i64, 5) == 10
    assert extmod.sum_of(extmod.multiplier(3), 4) == 18
    assert extmod.apply(lambda x: [x, {"x": x}], 7) == [7, {"x": 7}]
    assert extmod.on_a_thread(lambda: threading.get_ident()) != threading.get_ident()


def test_a_callable_comes_back_as_itself(extmod):
    def callable():
        pass

    assert extmod.echo_function(callable) is callable
    assert extmod.echo_any(callable) is callable
    anything = object()
    assert extmod.echo_any(anything) is anything
    assert extmod.echo_any([anything])[0] is anything


def test_a_function_that_comes_as_a_value(extmod):
    triple = extmod.multiplier(factor=3)
    assert triple(5) == 15 and extmod.echo_function(triple)(2) == 6
    with pytest.raises(TypeError, match="expected int, got str"):
        triple("5")
    with pytest.raises(TypeError, match="by position only"):
        triple(x=5)
    with pytest.raises(TypeError):
        type(triple)()


class Special(Exception):
    pass


@pytest.mark.parametrize("kind", [Special, ZeroDivisionError, KeyboardInterrupt, SystemExit, StopIteration])
def test_an_exception_of_a_callback_comes_out_as_itself(extmod, kind):
    thrown = kind("thrown")

    def throws(_=None):
        raise thrown

    for call in [lambda: extmod.sum_of(throws, 1), lambda: extmod.on_a_thread(throws), lambda: extmod.apply(throws, 1)]:
        with pytest.raises(kind) as caught:
            call()
        assert caught.value is thrown
        assert "throws" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        thrown.__traceback__ = None


def test_notes_and_causes_of_an_exception(extmod):
    """They belong to the exception, which is passed through unchanged."""

    def throws(_):
        try:
            {}["gone"]
        except KeyError as cause:
            error = ValueError("thrown")
            error.__notes__ = ["a note"]
            raise error from cause

    for call in [extmod.sum_of, extmod.sum_here]:
        with pytest.raises(ValueError) as caught:
            call(throws, 1)
        assert caught.value.__notes__ == ["a note"] and isinstance(caught.value.__cause__, KeyError)


def test_errors_of_the_system(extmod, tmp_path):
    file = tmp_path / "file"
    file.write_text("abc")
    assert extmod.file_size(str(file)) == 3
    with pytest.raises(FileNotFoundError, match="No such file"):
        extmod.file_size(str(tmp_path / "none"))
    with pytest.raises(NotADirectoryError):
        extmod.file_size(str(file / "inside"))


def described(error):
    """All attributes of an OSError."""
    return type(error), error.errno, error.strerror, error.filename, error.filename2, error.args, str(error)


def test_numbers_and_files_of_errors_of_the_system(extmod, tmp_path):
    """They are equal to those of Python's own functions."""
    none, other = str(tmp_path / "none: 'x'"), str(tmp_path / "other")
    for ours, theirs in [
        (lambda: extmod.file_text(none), lambda: open(none)),
        (lambda: extmod.file_text(str(tmp_path)), lambda: open(tmp_path)),
        (lambda: extmod.rename_file(none, other), lambda: os.rename(none, other)),
    ]:
        with pytest.raises(OSError) as expected:
            theirs()
        with pytest.raises(OSError) as caught:
            ours()
        assert described(caught.value) == described(expected.value)
    with pytest.raises(FileNotFoundError) as caught:
        extmod.file_size(none)
    assert described(caught.value)[1:4] == (errno.ENOENT, os.strerror(errno.ENOENT), None)
    # A Python exception that passed through Rust is the same object.
    exception = FileNotFoundError(errno.ENOENT, "gone", "a.txt")

    def throws(_):
        raise exception

    with pytest.raises(FileNotFoundError) as caught:
        extmod.sum_of(throws, 1)
    assert caught.value is exception


@pytest.mark.parametrize("caused", [False, True])
def test_texts_of_errors_of_the_system(extmod, caused):
    """Other texts are unchanged, and kinds that are not system errors keep theirs."""
    rows = [
        ("OSError", "denied (os error 13)", PermissionError, ("denied",), 13),
        ("TimeoutError", "late (os error 110): '/dev/x'", TimeoutError, ("late", "/dev/x"), 110),
        ("BlockingIOError", "again (os error 11)", BlockingIOError, ("again",), 11),
        ("FileNotFoundError", "[Errno 2] none: 'a' -> 'b'", FileNotFoundError, ("none", "a", "b"), 2),
        ("OSError", "cannot read 'a (os error 5)': denied (os error 13)", PermissionError, ("cannot read 'a (os error 5)': denied",), 13),
        ("FileNotFoundError", "[Errno 2] none: 'a\\\\b'", FileNotFoundError, ("none: 'a\\\\b'",), 2),
        ("FileNotFoundError", "no model", FileNotFoundError, ("no model",), None),
        ("FileNotFoundError", "no model (os error 2) here", FileNotFoundError, ("no model (os error 2) here",), None),
        ("ValueError", "none (os error 2)", ValueError, ("none (os error 2)",), None),
        ("EOFError", "none (os error 2)", EOFError, ("none (os error 2)",), None),
    ]
    for kind, text, expected, parts, number in rows:
        with pytest.raises(expected) as caught:
            extmod.fail_as(kind, text, caused)
        error = caught.value
        assert type(error) is expected and getattr(error, "errno", None) == number
        if number is None:
            assert error.args == parts
        else:
            assert (error.strerror, error.filename, error.filename2) == (*parts, None, None)[:3]
        assert (type(error.__cause__) is expected) == caused


@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit(3), GeneratorExit])
def test_exceptions_that_end_programs_pass_rust_frames(extmod, exception):
    def throws(_):
        raise exception

    with pytest.raises(BaseException) as caught:
        extmod.sum_of(throws, 1)
    expected = exception if isinstance(exception, BaseException) else exception()
    assert type(caught.value) is type(expected) and caught.value.args == expected.args


@pytest.mark.parametrize("name", ["wait", "wait_here"])
def test_signals_end_a_loop(extmod, name):
    wait = getattr(extmod, name)
    assert wait(0.02)
    # A handler that returns does not end it.
    handled = []
    before = signal.signal(signal.SIGALRM, lambda *_: handled.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert wait(0.2) and handled == [1]

        def interrupt(*_):
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            wait(60)
        assert time.monotonic() - start < 30, "the signal was seen at the end only"
    finally:
        signal.signal(signal.SIGALRM, before)
    # On another thread, where Python does not handle signals.
    thread = threading.Thread(target=wait, args=(0.02,))
    thread.start()
    thread.join()


def test_causes_of_an_error(extmod):
    with pytest.raises(ValueError, match="the table cannot be written") as caught:
        extmod.fail_with_causes()
    second = caught.value.__cause__
    assert type(second) is KeyError and second.args == ("no entry",)
    assert type(second.__cause__) is OSError and str(second.__cause__) == "the disk is full"
    assert second.__cause__.__cause__ is None


def test_bytes_of_any_buffer(extmod):
    for value in [b"abc", bytearray(b"abc"), memoryview(b"abc"), memoryview(bytearray(b"abc")), array.array("b", b"abc")]:
        assert extmod.byte_count(value) == 3
    assert extmod.byte_count(memoryview(b"")) == 0
    for value in ["abc", [1]]:
        with pytest.raises(TypeError, match="argument 'bytes': expected bytes, got"):
            extmod.byte_count(value)
    # As functions of Python itself.
    with pytest.raises(BufferError, match="memoryview: underlying buffer is not C-contiguous"):
        extmod.byte_count(memoryview(b"abc")[::2])


def test_rust_code_sees_the_exception_as_an_error(extmod):
    def throws():
        raise KeyError("gone")

    with pytest.raises(RuntimeError) as caught:
        extmod.explain(throws)
    assert str(caught.value) == "the function said: 'gone' (KeyError)"


def test_a_kept_callback_lives_as_long_as_it_is_kept(extmod):
    class Callback:
        def __call__(self, x):
            return x

    callback = Callback()
    gone = weakref.ref(callback)
    extmod.keep(callback)
    del callback
    assert extmod.call_kept("argument") == "argument"
    extmod.keep(None)
    gc.collect()
    assert gone() is None
    with pytest.raises(RuntimeError, match="no function is kept"):
        extmod.call_kept(1)


def test_a_function_is_lent_unless_it_is_kept(extmod):
    """The function object of a callable is reused, and owns the callable only if it outlives the call."""

    def callback(x=0):
        return x

    before = sys.getrefcount(callback)
    for _ in range(100):
        assert extmod.sum_of(callback, 4) == extmod.sum_here(callback, 4) == 6
        assert extmod.call_twice(callback) == (0, 0, callback)
        with pytest.raises(TypeError, match="limit"):
            extmod.sum_of(callback, "x")
    assert sys.getrefcount(callback) == before
    extmod.keep(callback)
    assert sys.getrefcount(callback) == before + 1
    assert extmod.sum_of(lambda x: extmod.call_kept(x) + 1, 3) == 6
    extmod.keep(callback)
    assert sys.getrefcount(callback) == before + 1
    gone = weakref.ref(callback)
    del callback
    gc.collect()
    assert extmod.call_kept(7) == 7
    extmod.keep(None)
    assert gone() is None


def test_more_functions_than_are_kept_ready(extmod):
    def nested(depth):
        return extmod.sum_here(lambda x: nested(depth - 1) + x, 2) if depth else 1

    assert nested(6) == 127
    # Each level has its own function at the same time.
    def deep(depth):
        return extmod.sum_here(lambda x: deep(depth - 1), 1) if depth else 5

    assert deep(40) == 5


def test_borrowed_arguments(extmod):
    record = extmod.record(7, "x")
    assert extmod.count_in(record) == 7
    assert extmod.counts_in(record, None) == (7, None)
    assert extmod.counts_in(record, extmod.Record(1, 2.5, "x", (1, 2))) == (7, 1)
    for wrong, name in [(None, "None"), (5, "int"), (extmod.objects.Place(1.0), "objects.Place")]:
        with pytest.raises(TypeError, match=f"argument 'record': expected extmod.Record, got {name}"):
            extmod.count_in(wrong)
    with pytest.raises(TypeError, match="argument 'f': expected .*, got int"):
        extmod.call_twice(5)
    assert extmod.call_twice(extmod.eight_and_one)[0] == ((1, 2, 3, 4, 5, 6, 7, 8), (9,))


def test_tuples(extmod):
    record = extmod.Record(7, 2.5, "a label", (1, 2))
    assert extmod.parts(record)[:5] == (7, 2.5, "a label", (1, 2), list(b"a label"))
    assert extmod.parts(record)[5].shape == (2,)
    assert extmod.parts(record)[6].label == "a label"
    by_name, one = extmod.parts_by_name(record)
    assert by_name[:4] == (7, 2.5, "a label", (1, 2)) and one == 1
    assert extmod.eight_and_one() == ((1, 2, 3, 4, 5, 6, 7, 8), (9,))
    with pytest.raises(ValueError, match="a record without a count"):
        extmod.parts(extmod.Record(0, 2.5, "a label", (1, 2)))
    before = sys.getrefcount(record), sys.getrefcount(7), sys.getrefcount(None)
    for _ in range(1000):
        extmod.parts(record)
    after = sys.getrefcount(record), sys.getrefcount(7), sys.getrefcount(None)
    assert all(abs(now - then) < 100 for now, then in zip(after, before)), (before, after)


def test_a_function_that_gives_the_lock_away(extmod):
    """It waits for a thread that calls Python, which no parameter of it shows."""
    extmod.keep(lambda _: threading.get_ident())
    assert extmod.call_kept_on_a_thread() != threading.get_ident()
    extmod.keep(None)


def test_a_callback_that_deletes_the_module(extmod, folder):
    def delete(_):
        sys.modules.pop("extmod", None)
        gc.collect()
        return 1

    assert extmod.sum_of(delete, 3) == 3
    sys.modules["extmod"] = extmod


def test_a_list_that_changes_while_it_is_converted(extmod):
    numbers = []

    class Clears:
        def __index__(self):
            numbers.clear()
            return 1

    numbers.extend([Clears()] * 5)
    assert extmod.echo_vec(numbers) == [1]

    class Grows:
        def __index__(self):
            if len(numbers) < 50:
                numbers.append(self)
            return 2

    numbers.append(Grows())
    assert extmod.echo_vec(numbers) == [2] * 50


def test_a_list_that_is_in_itself(extmod):
    endless = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        extmod.echo_any(endless)
    endless = {}
    endless["self"] = endless
    with pytest.raises(RecursionError):
        extmod.echo_any(endless)


def test_derived_classes_of_pythons_own(extmod):
    class Number(int):
        def __index__(self):
            raise OSError("never asked")

    class Color(enum.IntEnum):
        RED = 5

    class Text(str):
        pass

    assert extmod.echo_i64(Number(7)) == 7
    assert extmod.echo_i64(Color.RED) == 5
    assert extmod.echo_string(Text("text")) == "text"


def test_nothing_is_lost(extmod):
    """Objects and their counts after many rounds of all operations, errors included."""

    def everything():
        extmod.echo_any({"a": [1, "a text that is not small", b"bytes that are not small", 2**70]})
        extmod.sum_of(lambda x: x, 2)
        extmod.multiplier(2)(3)
        extmod.echo_any(object())
        for bad in [lambda: extmod.subtract("x", 1), lambda: extmod.sum_of(lambda x: 1 / 0, 1), lambda: extmod.fail("Own", "")]:
            try:
                bad()
            except Exception:
                pass

    for _ in range(10):
        everything()
    gc.collect()
    before = len(gc.get_objects()), sys.getrefcount(None), sys.getrefcount(extmod.Own)
    for _ in range(300):
        everything()
    gc.collect()
    after = len(gc.get_objects()), sys.getrefcount(None), sys.getrefcount(extmod.Own)
    assert all(abs(now - then) < 100 for now, then in zip(after, before)), (before, after)


def test_threads(extmod):
    """Calls that hold the lock and calls that do not, callbacks from threads of both languages."""
    wrong = []

    def work(seed):
        for number in range(200):
            if extmod.subtract(seed, number) != seed - number:
                wrong.append(number)
            if extmod.sum_of(lambda x: x + seed, 3) != 3 + 3 * seed:
                wrong.append(number)
        if extmod.on_a_thread(lambda: seed) != seed:
            wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_thousand_threads(extmod):
    """Each thread calls, is called back, makes an object and raises, at the same time as the others."""
    wrong = []
    start = threading.Event()

    def work(seed):
        start.wait()
        if extmod.sum_of(lambda x: x + seed, 3) != 3 + 3 * seed or extmod.sum_here(lambda x: seed, 2) != 2 * seed:
            wrong.append(seed)
        if extmod.record(seed, "label").count != seed or extmod.next_color("RED") is not extmod.objects.Color.GREEN:
            wrong.append(seed)
        try:
            extmod.fail("OwnOfThreads", str(seed))
        except RuntimeError as error:
            if str(error) != str(seed):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1000)]
    for thread in threads:
        thread.start()
    start.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_soak(folder):
    """As many rounds as are fast; soak.py by itself runs a million."""
    program = Path(__file__).with_name("soak.py")
    result = subprocess.run([sys.executable, program, folder, "2000"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_vectors_are_lists_of_their_own(extmod):
    """Equal rows are only equal. An array of the library is one object in all places, and so is its list."""
    rows, none = extmod.rows(3, False)
    assert rows == [[0, 1]] * 3 and none == [] and len({id(row) for row in rows}) == 3
    none, rows = extmod.rows(3, True)
    assert rows == [[0, 1]] * 3 and none == [] and len({id(row) for row in rows}) == 1
