"""The library of tests/extension-lib as the module `extmod`, imported by the Python that runs the tests.

EXTMOD_WITHOUT names packages that the environment is meant to lack, such as `tvm_ffi numpy`: the tests that need one are left out, and all others have
to pass (`cargo xtask extension`). A test says what it needs by the mark `needs`; a file that imports NumPy needs it as a whole.
"""

import importlib
import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

VERSIONS = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t"]


def interpreters():
    """A program for each version: of pyenv, else on PATH. A `t` stands for a build without the interpreter's lock."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        number, is_free = version.rstrip("t"), version.endswith("t")
        installed = [path for path in pyenv.glob(f"{number}.*/bin/python") if path.parents[1].name.endswith("t") == is_free]
        program = max(installed, default=None) or shutil.which(f"python{version}")
        if program:
            found[version] = str(program)
    return found


INTERPRETERS = interpreters()
WITHOUT = os.environ.get("EXTMOD_WITHOUT", "").split()
LEFT_OUT = []


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(package): a test that needs a package beside pytest")
    config.addinivalue_line("markers", "other_pythons: a test that starts other versions of Python, which have no packages anyway")
    found = [package for package in WITHOUT if importlib.util.find_spec(package)]
    if found:
        raise pytest.UsageError(f"this Python has {', '.join(found)}, which EXTMOD_WITHOUT says it lacks")


def pytest_ignore_collect(collection_path):
    """Files that cannot be imported without a package."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text()
    if not any(re.search(rf"^(import|from) {package}\b", text, re.MULTILINE) for package in WITHOUT):
        return None
    LEFT_OUT.append(collection_path.name)
    return True


def needed(item):
    return [package for mark in item.iter_markers("needs") for package in mark.args]


def pytest_collection_modifyitems(config, items):
    kept, absent = [], []
    for item in items:
        (kept if set(WITHOUT).isdisjoint(needed(item)) else absent).append(item)
    config.hook.pytest_deselected(items=absent)
    items[:] = kept


def imported(package):
    """A package that `cargo xtask` installs. One that cannot be imported is an error on CI; elsewhere it skips the test with the reason."""
    return importlib.import_module(package) if os.environ.get("CI") else pytest.importorskip(package, exc_type=ImportError)


def pytest_runtest_setup(item):
    for package in needed(item):
        imported(package)


def pytest_terminal_summary(terminalreporter):
    """The files that were left out, and the versions under which the library was imported and was not."""
    if LEFT_OUT:
        terminalreporter.write_line(f"left out without {', '.join(WITHOUT)}: {', '.join(sorted(LEFT_OUT))}")
    absent = [version for version in VERSIONS if version not in INTERPRETERS]
    terminalreporter.write_line(
        f"extension module: CPython {', '.join(INTERPRETERS)}; not on this machine: {', '.join(absent) or 'none'} (cargo xtask pythons"
        " runs 3.14, 3.15, 3.13t and PyPy); not run at all: GraalPy, 3.14t, macOS, Windows"
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with the library under the name for Python's import."""
    library = os.environ.get("EXTMOD_LIBRARY")
    assert library, "set EXTMOD_LIBRARY to the path of libextmod.so (cargo build -p extmod)"
    folder = tmp_path_factory.mktemp("import")
    (folder / "extmod.so").symlink_to(os.path.abspath(library))
    return folder


@pytest.fixture(scope="session")
def extmod(folder):
    sys.path.insert(0, str(folder))
    yield importlib.import_module("extmod")
    sys.path.remove(str(folder))
