"""Objects of the library whose Python class is not that of their type: assigned, derived from two, of another library."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import INTERPRETERS

PROGRAM = Path(__file__).with_name("class_changes.py")


@pytest.mark.other_pythons
@pytest.mark.parametrize("version", INTERPRETERS)
def test_classes_keep_to_their_objects(folder, version):
    program = [INTERPRETERS[version], str(PROGRAM), str(folder)]
    result = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout.strip()) == (0, "every class keeps to its objects"), result.stdout + result.stderr


def test_classes_of_two_libraries(folder, tmp_path):
    """A second copy of the file is another library, with its own classes for the same types."""
    package = tmp_path / "second"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "extmod.so").write_bytes((folder / "extmod.so").read_bytes())
    program = f"""
import sys; sys.path[:0] = [{str(folder)!r}, {str(tmp_path)!r}]
import extmod as first, second.extmod as other
record, place = first.record(7, "x"), first.objects.Place(1.0)
for call in [
    lambda: setattr(record, "__class__", other.Record),
    lambda: type("Both", (first.Record, other.Record), {{}}),
    lambda: other.Record.count.__get__(record),
    lambda: other.Record.__init__(record, 1, 2.5, "x", (1, 2)),
    lambda: other.Record.__repr__(record),
    lambda: other.objects.Place.moved(place, place),
    lambda: other.count_in(record),
]:
    try:
        call()
    except TypeError:
        pass
    else:
        raise AssertionError("no error")
assert record.count == 7 and other.record(8, "y").count == 8
print("apart")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout.strip()) == (0, "apart"), result.stdout + result.stderr
