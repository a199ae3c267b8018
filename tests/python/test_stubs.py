"""Stubs that `tvm-ffi-stubgen` writes for a Rust library: objects_stubs/__init__.py is the snapshot. UPDATE_EXPECT=1 rewrites it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
STUBS = FOLDER / "objects_stubs" / "__init__.py"
PATH = os.environ.get("OBJECTS_LIBRARY")
assert PATH, "set OBJECTS_LIBRARY to the path of libobjects.so (cargo build -p objects)"


def run(*arguments, **environment):
    """Exit status and output of a Python module or program, run here."""
    command = [sys.executable, *arguments]
    result = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, env={**os.environ, **environment})
    return result.returncode, result.stdout + result.stderr


def test_stubs_are_up_to_date():
    options = [] if os.environ.get("UPDATE_EXPECT") == "1" else ["--check"]
    status, output = run("-m", "tvm_ffi.stub.cli", "--dlls", PATH, *options, str(STUBS))
    assert status == 0, f"{output}\nUPDATE_EXPECT=1 writes the stubs anew"


def test_mypy_accepts_the_stubs_and_finds_wrong_uses(tmp_path):
    if not os.environ.get("CI"):
        pytest.importorskip("mypy", exc_type=ImportError)
    status, output = run("-m", "mypy", "--strict", "--warn-unused-ignores", "--cache-dir", str(tmp_path), "objects_stubs")
    assert status == 0, output


def test_stubs_run():
    program = "import objects_stubs as o; print(o.Circle(2.0).area(), o.next_hue(o.Hue.Red).name, o.Dog(4, 'Rex', None, 1.0).legs)"
    status, output = run("-W", "error", "-c", program)
    assert (status, output) == (0, "12.0 Green 4\n")
