"""The library beside the package `magika` with onnxruntime: the same labels, and scores within 1e-5.

FILETYPE_LIBRARY names the library; without it, that of a release build.
"""

import os
import subprocess
import sys
from pathlib import Path

import corpus
import pytest
import tvm_ffi
from magika import Magika

ROOT = Path(__file__).parents[3]
# Of nearly every file, and of every file. The network subtracts numbers that are almost equal where a file is short or the same all over; there onnxruntime's own scores
# are up to 1e-2 from those that 64 bits give.
USUAL, MOST = 1e-5, 1e-4
SHARE = 0.98
# Of the files of a machine without AVX-512: on a CPU with AVX2 only, 505 of 544 scores were usual,
# and all were within 3.4e-5. The cause, as far as known, is the order in which sums are added.
SHARE_WITHOUT_AVX512 = 0.9


@pytest.fixture(scope="session")
def path():
    return os.environ.get("FILETYPE_LIBRARY") or str(ROOT / "target/release/libfiletype.so")


@pytest.fixture(scope="session")
def library(path):
    return tvm_ffi.load_module(path)


@pytest.fixture(scope="session")
def magika():
    return Magika()


def check(known, wanted, what):
    """What the library says beside what the package says. The result is the difference of the scores."""
    assert known.label == wanted.output.label, what
    assert known.guess == wanted.dl.label, what
    about = known.mime_type, known.group, known.description, known.is_text
    assert about == (wanted.output.mime_type, wanted.output.group, wanted.output.description, wanted.output.is_text)
    difference = abs(known.score - wanted.score)
    assert difference <= MOST, (what, known.score, wanted.score)
    return difference


def has_avx512():
    """Returns true if Linux lists AVX-512 among the CPU's features."""
    info = Path("/proc/cpuinfo")
    return info.is_file() and "avx512f" in info.read_text().split()


def check_all(differences, share=SHARE):
    close = sum(difference <= USUAL for difference in differences)
    print(f"{close} of {len(differences)} scores within {USUAL}, the largest difference is {max(differences):.1e}")
    assert close >= share * len(differences)


def test_generated_files(library, magika):
    suffixes, labels, differences = set(), set(), []
    for name, content in corpus.generated():
        wanted = magika.identify_bytes(content)
        differences.append(check(library.identify_bytes(content), wanted, name))
        suffixes.add(name.rsplit(".", 1)[1])
        labels.add(wanted.output.label)
    assert len(differences) >= 400 and len(suffixes) >= 60, (len(differences), len(suffixes))
    # Most of the files have the kind in their names, so many labels occur.
    assert len(labels) >= 60, sorted(labels)
    check_all(differences)


def test_files_of_this_machine(library, magika):
    files = list(corpus.of_this_machine(ROOT))
    assert len(files) >= 100
    share = SHARE if has_avx512() else SHARE_WITHOUT_AVX512
    check_all([check(library.identify_path(str(file)), magika.identify_path(file), file) for file in files], share)


@pytest.mark.parametrize(
    "content",
    [b"", b" ", b"1234567", b"\xff\xfe1234", b" " * 5000, b"  12345678", b"12345678\x0b\x0b", b"\n" * 5000 + b"x" * 20, b"\xff" * 9000],
    ids=lambda content: f"{content[:8]}, {len(content)}",
)
def test_short_and_odd_content(library, magika, content):
    check(library.identify_bytes(content), magika.identify_bytes(content), content[:20])


def test_a_folder_is_a_directory(library, magika, tmp_path):
    check(library.identify_path(str(tmp_path)), magika.identify_path(tmp_path), tmp_path)


def test_a_file_that_is_not_there(library, tmp_path):
    with pytest.raises(RuntimeError, match="nothing: No such file"):
        library.identify_path(str(tmp_path / "nothing"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ldd is of Linux")
def test_nothing_but_the_c_library_is_needed(path):
    needed = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    names = {line.split()[0].rsplit("/", 1)[-1].split(".so")[0] for line in needed.splitlines()}
    assert names <= {"linux-vdso", "libc", "libgcc_s", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}
