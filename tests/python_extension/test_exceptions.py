"""Exceptions with arguments, attributes, notes, causes and frames: exceptions.py under the Python that runs the tests, and under others."""

import os
import subprocess
from pathlib import Path

import exceptions
import pytest
from conftest import INTERPRETERS, VERSIONS


def test_exceptions(extmod):
    exceptions.check(extmod)


@pytest.mark.other_pythons
@pytest.mark.parametrize("frames", ["0", "1"])
@pytest.mark.parametrize("version", VERSIONS)
def test_exceptions_of_every_version(folder, version, frames):
    if version not in INTERPRETERS:
        pytest.skip(f"no Python {version} on this machine")
    program = [INTERPRETERS[version], str(Path(exceptions.__file__)), str(folder)]
    result = subprocess.run(program, capture_output=True, text=True, env={**os.environ, "KERNPACK_PYTHON_TRACEBACK": frames})
    assert (result.returncode, result.stdout) == (0, "passed\n"), result.stderr


@pytest.mark.needs("tvm_ffi")
def test_exceptions_through_tvm_ffi(folder, extmod):
    """The package makes exceptions of kind and message."""
    import tvm_ffi

    library = tvm_ffi.load_module(str(folder / "extmod.so"))
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            library["extmod.exceptions.find"](5)
        assert caught.value.args == ("there is no key 5",)
        _, args, attributes, notes, _ = caught.value.__tvm_ffi_error__.extra_context
        assert (list(args), list(attributes), list(notes)) == ([5], [], [])
        with pytest.raises(RuntimeError, match="ends too early") as caught:
            library["extmod.exceptions.parse"]("abc")
        _, args, attributes, notes, _ = caught.value.__tvm_ffi_error__.extra_context
        assert args is None and [(name, value) for name, value in attributes][0] == ("offset", 3) and list(notes) == ['in "abc"']
