"""Python's special methods of objects: the tables of special.py under each version of Python."""

import os
import subprocess
from pathlib import Path

import pytest
import special
from conftest import INTERPRETERS


@pytest.mark.parametrize("part", ["operators", "in_place", "unary", "not_implemented", "items", "iterators", "attributes", "pickles", "buffers"])
def test_special_methods(extmod, part):
    getattr(special, f"check_{part}")(extmod)


@pytest.mark.other_pythons
@pytest.mark.parametrize("version", INTERPRETERS)
def test_special_methods_of_a_version(folder, version):
    program = [INTERPRETERS[version], str(Path(__file__).with_name("special.py"))]
    result = subprocess.run(program, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(folder)})
    assert (result.returncode, result.stdout.strip()) == (0, "passed"), result.stdout + result.stderr
