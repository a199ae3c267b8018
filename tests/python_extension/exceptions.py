"""Checks of exceptions that need only Python: each version of it runs them. The argument is the folder of the module."""

import os
import pathlib
import sys
import traceback

def caught(call, *args, **named):
    """The exception of a call."""
    try:
        call(*args, **named)
    except BaseException as error:
        return error
    raise AssertionError("no exception")


def names(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def check_details(library):
    fail = library.exceptions.fail
    key = object()
    error = caught(library.exceptions.find, key)
    assert type(error) is KeyError and error.args == (key,) and error.args[0] is key
    assert caught(fail, "KeyError", "text", []).args == () and caught(fail, "KeyError", "text").args == ("text",)
    assert caught(fail, "ValueError", "text", [1, "two", (3,), [4.5], None]).args == (1, "two", (3,), [4.5], None)
    error = caught(fail, "OSError", "text", [2, "No such file", "name"])
    assert type(error) is FileNotFoundError and (error.errno, error.strerror, error.filename) == (2, "No such file", "name")
    error = caught(fail, "UnicodeDecodeError", "text", ["utf-8", b"\xff", 0, 1, "invalid"])
    assert type(error) is UnicodeDecodeError and error.object == b"\xff" and str(error).endswith("invalid")
    # The class does not take them.
    assert type(caught(fail, "UnicodeDecodeError", "text", [1])) is TypeError
    error = caught(fail, "StopIteration", "text", [7])
    assert type(error) is StopIteration and error.value == 7
    error = caught(fail, "SystemExit", "text", [3])
    assert type(error) is SystemExit and error.code == 3
    error = caught(library.exceptions.parse, "abc")
    assert type(error) is library.ParseFault and isinstance(error, ValueError) and error.args == ("the text ends too early",)
    assert error.offset == 3 and error.__notes__ == ['in "abc"'] and error.span == (0, 3)
    if sys.version_info >= (3, 11):
        assert traceback.format_exception(error)[-2:] == ["extmod.ParseFault: the text ends too early\n", 'in "abc"\n']
    error = caught(fail, "Unheard", "text", [1], {"a": 1, "b": "x" * 100}, ["first", "second", "first"])
    assert type(error).__name__ == "Unheard" and (error.a, error.b, error.args) == (1, "x" * 100, (1,))
    assert error.__notes__ == ["first", "second"]
    error = caught(library.exceptions.small, 300, "in line 7")
    assert type(error) is OverflowError and "300 is out of range for u8" in str(error) and error.__notes__ == ["in line 7"]
    # An attribute that the class refuses.
    assert type(caught(fail, "ValueError", "text", None, {"__cause__": 1})) is TypeError
    assert caught(fail, "ValueError", "", None, {"__notes__": 1}, ["note"]).__class__ in (TypeError, SystemError)


def check_same(library):
    """An exception of Python leaves Rust as the same object, with what it has."""
    cause, context = LookupError("cause"), OSError("context")

    class Own(Exception):
        pass

    thrown = Own("thrown", 1)

    def throws():
        try:
            raise context
        except OSError:
            raise thrown from cause

    for call in [lambda: library.exceptions.call(throws), lambda: library.on_a_thread(throws)]:
        try:
            raise AssertionError("another exception, which is handled meanwhile")
        except AssertionError:
            error = caught(call)
        assert error is thrown and error.args == ("thrown", 1) and "throws" in names(error)
        assert error.__cause__ is cause and error.__context__ is context, error.__context__
        error.__traceback__ = None
    assert library.exceptions.exception_of(throws) is thrown and library.exceptions.exception_of(throws, "note") is thrown
    assert not hasattr(thrown, "__notes__")
    assert library.exceptions.exception_of(lambda: library.exceptions.fail("ValueError", "x")).args == ("x",)
    # An error of Rust that was not raised in Python.
    assert library.exceptions.exception_of(library.multiplier(3), "note") is None
    library.exceptions.keep(throws)
    for _ in range(2):
        thrown.__traceback__ = None
        assert caught(library.exceptions.raise_kept) is thrown and thrown.__context__ is context
    library.exceptions.keep(lambda: None)
    # Details of Rust are added to the object.
    error = caught(library.exceptions.call, throws, [5], {"place": (1, 2)}, ["a note"])
    assert error is thrown and error.args == (5,) and error.place == (1, 2) and error.__notes__ == ["a note"]
    assert caught(library.exceptions.call, throws, None, None, ["a note", "more"]).__notes__ == ["a note", "more"]
    assert error.args == (5,)


def check_causes(library):
    def first():
        raise KeyError("first")

    thrown = OSError("second")

    def second():
        raise thrown

    error = caught(library.exceptions.chained, first, second)
    assert type(error) is KeyError and error.__cause__ is thrown and error.__suppress_context__
    error = caught(library.exceptions.chained, second, lambda: library.exceptions.fail("KeyError", "text", [1, 2]))
    assert error is thrown and type(error.__cause__) is KeyError and error.__cause__.args == (1, 2)


def check_throws(library):
    for exception in [ValueError("a", 2), KeyboardInterrupt(), type("Own", (Exception,), {})(3)]:
        assert caught(library.exceptions.throw, exception) is exception
    error = caught(library.exceptions.throw, ValueError)
    assert type(error) is TypeError and str(error) == "expected an exception, got type; call its class if it is one"


def check_frames(library):
    """Frames of Rust, which tracebacks have with the variable."""
    shown = os.environ.get("KERNPACK_PYTHON_TRACEBACK") == "1"

    def throws():
        library.exceptions.parse("abc")

    def frames(call, *arguments):
        found = traceback.extract_tb(caught(call, *arguments).__traceback__)
        return [(frame.lineno, frame.name) for frame in found if frame.filename.endswith("src/exceptions.rs")]

    (line, name), = frames(throws) if shown else [(0, "extmod.exceptions.parse")]
    assert name == "extmod.exceptions.parse" and bool(line) == shown
    if shown:
        source = pathlib.Path(__file__).parents[1] / "extension-lib/src/exceptions.rs"
        assert "error!(ParseFault" in source.read_text().splitlines()[line - 1], line
    calls = ["extmod.exceptions.call", "extmod.exceptions.parse"]
    assert [name for _, name in frames(library.exceptions.call, throws)] == (calls if shown else [])
    # The causes have their own.
    error = caught(library.fail_with_causes)
    for _ in range(3):
        assert any(frame.filename.endswith("src/lib.rs") for frame in traceback.extract_tb(error.__traceback__)) == shown
        error = error.__cause__
    assert error is None


def check(library):
    check_details(library)
    check_same(library)
    check_causes(library)
    check_throws(library)
    check_frames(library)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    import extmod

    check(extmod)
    print("passed")
