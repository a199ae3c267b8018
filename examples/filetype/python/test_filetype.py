"""The library beside the package `magika` with onnxruntime: the same labels, and scores within 1e-5.

FILETYPE_LIBRARY names the library; without it, that of a release build.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tvm_ffi
from magika import Magika

ROOT = Path(__file__).parents[3]
TOLERANCE = 1e-5
# Where nearly all is padding, the network subtracts numbers that are almost equal: onnxruntime's own scores are 1e-3 from those computed with 64 bits.
TOLERANCE_OF_PADDING = 1e-4


@pytest.fixture(scope="session")
def path():
    return os.environ.get("FILETYPE_LIBRARY") or str(ROOT / "target/release/libfiletype.so")


@pytest.fixture(scope="session")
def library(path):
    return tvm_ffi.load_module(path)


@pytest.fixture(scope="session")
def magika():
    return Magika()


def check(known, wanted, tolerance=TOLERANCE):
    """What the library says beside what the package says."""
    assert known.label == wanted.output.label
    assert known.guess == wanted.dl.label
    assert abs(known.score - wanted.score) <= tolerance
    about = known.mime_type, known.group, known.description, known.is_text
    assert about == (wanted.output.mime_type, wanted.output.group, wanted.output.description, wanted.output.is_text)


def test_files_of_this_checkout(library, magika):
    files = [file for file in sorted((ROOT / "examples").rglob("*")) if file.is_file() and "target" not in file.parts]
    assert len(files) >= 20
    for file in files:
        check(library.identify_path(str(file)), magika.identify_path(file))


@pytest.mark.parametrize(
    "content",
    [b"", b" ", b"1234567", b"\xff\xfe1234", b" " * 5000, b"  12345678", b"12345678\x0b\x0b", b"\n" * 5000 + b"x" * 20, b"\xff" * 9000],
    ids=lambda content: f"{content[:8]}, {len(content)}",
)
def test_short_and_odd_content(library, magika, content):
    check(library.identify_bytes(content), magika.identify_bytes(content), TOLERANCE_OF_PADDING)


def test_a_folder_is_a_directory(library, magika, tmp_path):
    check(library.identify_path(str(tmp_path)), magika.identify_path(tmp_path))


def test_a_file_that_is_not_there(library, tmp_path):
    with pytest.raises(RuntimeError, match="nothing: No such file"):
        library.identify_path(str(tmp_path / "nothing"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ldd is of Linux")
def test_nothing_but_the_c_library_is_needed(path):
    needed = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    names = {line.split()[0].rsplit("/", 1)[-1].split(".so")[0] for line in needed.splitlines()}
    assert names <= {"linux-vdso", "libc", "libgcc_s", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}


def test_size(path):
    assert os.path.getsize(path) < 4_500_000
