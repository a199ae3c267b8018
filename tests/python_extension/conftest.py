"""The library of tests/extension-lib as the module `extmod`, imported by the Python that runs the tests."""

import importlib
import os
import sys

import pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with the library under the name that Python imports."""
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
