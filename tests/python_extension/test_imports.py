"""Imports: with every Python of this machine, with and without tvm_ffi, in subinterpreters, and by other means than `import`."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import INTERPRETERS, VERSIONS

CHECKS = Path(__file__).with_name("checks.py")
THREADS = Path(__file__).with_name("threads.py")


def run(program, *arguments):
    result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
    return result.returncode, result.stdout, result.stderr


@pytest.mark.other_pythons
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version(folder, version):
    if version not in INTERPRETERS:
        pytest.skip(f"no Python {version} on this machine")
    code, out, err = run(INTERPRETERS[version], str(CHECKS), str(folder))
    assert (code, out.splitlines()[-1:]) == (0, ["every check passed"]), out + err


@pytest.mark.other_pythons
@pytest.mark.parametrize("version", VERSIONS)
def test_threads(folder, version):
    """threads.py, with more threads and rounds, also runs under ThreadSanitizer: cargo xtask pythons 3.13t-tsan."""
    if version not in INTERPRETERS:
        pytest.skip(f"no Python {version} on this machine")
    code, out, err = run(INTERPRETERS[version], str(THREADS), str(folder), "24", "20")
    lock = "without" if version.endswith("t") else "with"
    assert (code, out.splitlines()[-1:]) == (0, [f"24 threads, 20 rounds, {lock} the lock: passed"]), out + err


@pytest.mark.other_pythons
def test_an_older_version_is_refused_with_a_sentence(folder):
    older = sorted((Path.home() / ".pyenv" / "versions").glob("3.8.*/bin/python"))
    if not older:
        pytest.skip("no Python 3.8 on this machine")
    code, _, err = run(str(older[-1]), "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); import extmod")
    assert code == 1 and "ImportError: extmod: this Python " in err and "CPython 3.9 or newer is needed" in err


@pytest.mark.needs("tvm_ffi")
@pytest.mark.parametrize("order", ["before", "after"])
def test_tvm_ffi_in_the_process(folder, order):
    """The same file, imported and loaded by tvm_ffi: its functions answer on both ways."""
    imports = ["import extmod", f"import tvm_ffi; other = tvm_ffi.load_module({str(folder / 'extmod.so')!r})"]
    program = f"""
import sys; sys.path.insert(0, {str(folder)!r})
{chr(10).join(imports if order == "before" else imports[::-1])}
assert other.subtract(7, 3) == extmod.subtract(7, 3) == 4
assert list(other.echo_vec([1, 2])) == extmod.echo_vec([1, 2]) == [1, 2]
for call in (extmod.subtract, other.subtract):
    try:
        call("x", 1)
    except TypeError as error:
        assert str(error) == "subtract(minuend: int, subtrahend: int): argument 'minuend': expected int, got str"
    else:
        raise AssertionError("no error")
import numpy
tensor = tvm_ffi.from_dlpack(numpy.arange(3.0))
assert extmod.sum_of_elements(tensor) == 3.0 and extmod.element_count(tensor) == 3
assert extmod.echo_vec(tvm_ffi.Array([1, 2])) == [1, 2] and extmod.echo_any(tvm_ffi.Map({{"a": 1}})) == {{"a": 1}}
assert extmod.sum_of(other.echo_i64, 5) == 10 and extmod.sum_of(tvm_ffi.convert(lambda x: x * x), 4) == 14
assert numpy.from_dlpack(tvm_ffi.from_dlpack(extmod.range_of(3))).tolist() == [0, 1, 2]
record = other.record(7, "label")
assert extmod.count_of(record) == 7 and extmod.echo_any(record).label == "label"
# Our objects as arguments of theirs.
assert other.count_of(extmod.record(7, "label")) == 7 and other.echo_i64(extmod.multiplier(2)(4)) == 8
assert other.sum_of_elements(extmod.echo_any(numpy.arange(3.0))) == 3.0
assert other.sum_of(extmod.multiplier(2), 4) == 12
assert extmod.echo_any(other.next_color(extmod.objects.Color.RED)) is extmod.objects.Color.GREEN
print("passed")
"""
    code, out, err = run(sys.executable, "-c", program)
    assert (code, out) == (0, "passed\n"), out + err


INTERPRETERS_PROGRAM = """
import sys; sys.path.insert(0, FOLDER)
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
ATTEMPT = '''
import sys; sys.path.insert(0, FOLDER)
try:
    import extmod
except ImportError as error:
    assert "interpreter" in str(error), error
    print("refused", flush=True)
'''.replace("FOLDER", repr(FOLDER))

def attempt(*configuration):
    interpreter = interpreters.create(*configuration)
    try:
        assert not interpreters.run_string(interpreter, ATTEMPT)
    finally:
        interpreters.destroy(interpreter)

def attempts():
    attempt()
    # Since 3.13: one without its own lock, like those of older versions, which the interpreter lets
    # import anything.
    if interpreters.__name__ == "_interpreters":
        attempt("legacy")

attempts()
import extmod
assert extmod.sum_of(lambda x: x, 4) == 6
attempts()
assert extmod.on_a_thread(lambda: 7) == 7
print("passed", flush=True)
"""


@pytest.mark.other_pythons
@pytest.mark.parametrize("version", VERSIONS)
def test_another_interpreter_is_refused(folder, version):
    """Before the main interpreter has imported the library, and afterwards; the main one continues."""
    if version not in INTERPRETERS:
        pytest.skip(f"no Python {version} on this machine")
    code, out, err = run(INTERPRETERS[version], "-c", INTERPRETERS_PROGRAM.replace("FOLDER", repr(str(folder))))
    *refused, last = out.split()
    assert (code, last) == (0, "passed") and set(refused) == {"refused"} and len(refused) >= 2, out + err


def test_another_implementation_is_refused_with_a_sentence(folder):
    """An interpreter that has the functions of CPython, like GraalPy, and another name."""
    program = f"""
import sys; sys.path.insert(0, {str(folder)!r})
sys.implementation.name = "graalpy"
for _ in range(2):
    try:
        import extmod
    except ImportError as error:
        print(error)
sys.implementation.name = "cpython"
import extmod
assert extmod.subtract(7, 3) == 4
"""
    code, out, err = run(sys.executable, "-c", program)
    assert (code, out.splitlines()) == (0, ["extmod: graalpy is not supported; CPython 3.9 or newer is needed"] * 2), out + err


@pytest.mark.needs("tvm_ffi")
def test_a_type_that_the_process_has_already(folder):
    """The module cannot be imported, and the error names both definitions; again, too."""
    program = f"""
import sys; sys.path.insert(0, {str(folder)!r})
import tvm_ffi
from tvm_ffi.dataclasses import py_class
@py_class("objects.Account")
class Account(tvm_ffi.Object):
    x: int
for _ in range(2):
    try:
        import extmod
    except ImportError as error:
        print(error)
assert Account(3).x == 3
"""
    code, out, err = run(sys.executable, "-c", program)
    assert code == 0 and len(out.splitlines()) == 2, out + err
    for line in out.splitlines():
        assert line.startswith("type 'objects.Account' (tests/objects-lib/src/"), out
        assert "is already registered in this process by another language, not by a Kernpack crate" in line, out


def test_the_end_of_python(folder):
    """Code that runs while Python shuts down: calls at exit, callbacks that the library still holds, threads."""
    program = f"""
import sys; sys.path.insert(0, {str(folder)!r})
import atexit, extmod, threading

class Last:
    def __del__(self):
        print("deleted", extmod.subtract(7, 3) if extmod else None)

extmod.keep(lambda x: x)
atexit.register(lambda: print("at exit", extmod.call_kept(5)))
last = Last()
threading.Thread(target=lambda: [extmod.sum_of(lambda x: x, 10) for _ in range(10000)], daemon=True).start()
"""
    code, out, err = run(sys.executable, "-c", program)
    assert code == 0 and out.splitlines()[0] == "at exit 5", (code, out, err)


def test_after_a_fork(folder):
    program = f"""
import sys; sys.path.insert(0, {str(folder)!r})
import extmod, os
child = os.fork()
if child == 0:
    os._exit(extmod.sum_of(lambda x: x, 4))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
assert extmod.sum_of(lambda x: x, 4) == 6
print("passed")
"""
    code, out, err = run(sys.executable, "-c", program)
    assert (code, out) == (0, "passed\n"), out + err


def test_a_second_import(folder):
    """A module that is imported again is another module with the same functions; a reload keeps it."""
    program = f"""
import sys, importlib; sys.path.insert(0, {str(folder)!r})
import extmod
first = extmod
assert importlib.reload(extmod) is first
del sys.modules["extmod"]
import extmod
assert extmod is not first and extmod.subtract(7, 3) == first.subtract(7, 3) == 4
print("passed")
"""
    code, out, err = run(sys.executable, "-c", program)
    assert (code, out) == (0, "passed\n"), out + err


def test_inside_a_package_of_the_same_name(folder, tmp_path):
    """Classes belong to the package, which imports them."""
    package = tmp_path / "extmod"
    package.mkdir()
    (package / "__init__.py").write_text("from .extmod import *\n")
    (package / "extmod.so").symlink_to((folder / "extmod.so").resolve())
    program = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import extmod, pickle
assert extmod.extmod is sys.modules["extmod.extmod"] and extmod.subtract(7, 3) == 4
for cls, name in [(extmod.Record, "Record"), (extmod.objects.Place, "objects.Place"), (extmod.objects.Color, "objects.Color"), (extmod.FilterFault, "FilterFault")]:
    assert (cls.__module__, cls.__qualname__) == ("extmod", name) and pickle.loads(pickle.dumps(cls)) is cls
assert pickle.loads(pickle.dumps(extmod.objects.Place(3, 4))) == extmod.objects.Place(3, 4)
try:
    extmod.fail("Unheard", "text")
except RuntimeError as error:
    # A kind that is not declared: the package does not have the class.
    assert type(error).__module__ == "extmod.extmod" and type(pickle.loads(pickle.dumps(error))) is type(error)
print("passed")
"""
    code, out, err = run(sys.executable, "-c", program)
    assert (code, out) == (0, "passed\n"), out + err


def test_inside_a_package(folder, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from .extmod import *\nfrom . import extmod\n")
    (package / "extmod.so").symlink_to((folder / "extmod.so").resolve())
    program = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import package, pickle
assert package.subtract(7, 3) == 4
assert package.subtract.__module__ == "package.extmod"
assert pickle.loads(pickle.dumps(package.subtract)) is package.subtract
print("passed")
"""
    code, out, err = run(sys.executable, "-c", program)
    assert (code, out) == (0, "passed\n"), out + err
