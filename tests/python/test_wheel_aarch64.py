"""The wheel that `cargo kernpack wheel --target aarch64-unknown-linux-gnu` makes of examples/imagekit on another machine, and what
`cargo kernpack inspect` says of the library in it.

CARGO_KERNPACK is the program (cargo build -p kernpack-cli).
"""

import json
import os
import platform
import re
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = os.environ.get("CARGO_KERNPACK")
TARGET = "aarch64-unknown-linux-gnu"
AARCH64 = 183


def why_not():
    """The missing requirement, if there is one."""
    if not PROGRAM:
        return "CARGO_KERNPACK is not set to the program cargo-kernpack (cargo xtask test sets it)"
    if platform.machine() == "aarch64":
        return "this machine is one of 64-bit ARM: test_wheel.py is the test of it"
    flags = os.environ.get("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "").split()
    command = ["rustc", *flags, "--print", "target-libdir", "--target", TARGET]
    folder = Path(subprocess.run(command, capture_output=True, text=True).stdout.strip())
    if not any(folder.glob("libstd-*.rlib")):
        return f"no Rust standard library for 64-bit ARM (rustup target add {TARGET})"
    if not shutil.which("aarch64-linux-gnu-gcc"):
        return "no aarch64-linux-gnu-gcc (Debian and Ubuntu: apt-get install gcc-aarch64-linux-gnu)"
    return None


if why := why_not():
    if os.environ.get("CI") and "this machine" not in why:
        raise RuntimeError(f"cannot be skipped on CI: {why}")
    pytest.skip(why, allow_module_level=True)


def run(*command):
    environment = {**os.environ, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": "aarch64-linux-gnu-gcc"}
    result = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    profile = os.environ.get("KERNPACK_WHEEL_PROFILE", "release")
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--package", "imagekit", "--target", TARGET, "--profile", profile, "--out", folder, "--json"]
    report = json.loads(run(PROGRAM, "wheel", *options))
    assert report["functions"] == 18 and report["types"] == 2
    return Path(report["wheel"])


@pytest.fixture(scope="module")
def library(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract("imagekit/imagekit.so", folder))


def test_the_tag_is_that_of_the_target(wheel):
    assert re.fullmatch(r"imagekit-0\.1\.0-cp39-abi3-manylinux_2_\d+_aarch64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        stub = archive.read("imagekit/__init__.pyi").decode()
        assert f"Tag: {wheel.name.split('-', 2)[2][:-4]}" in archive.read("imagekit-0.1.0.dist-info/WHEEL").decode()
    # Determined from the library for this machine.
    assert "def crop(" in stub and "class Histogram" in stub


def test_the_library_is_for_the_target(library):
    header = library.read_bytes()[:20]
    assert header[:4] == b"\x7fELF" and struct.unpack("<H", header[18:20])[0] == AARCH64


def test_inspect_reads_it(library):
    read = json.loads(run(PROGRAM, "inspect", "--json", library))
    assert (read["made_by"], read["machine"]) == ("Kernpack", "aarch64")
    assert {"blur", "sobel", "crop", "imagekit.to_gray"} <= {function["name"] for function in read["functions"]}
    loaded = json.loads(run(PROGRAM, "inspect", "--json", "--load", library))
    assert "it is for AArch64, this process is x86-64; build the library for this machine" in loaded["loaded"]["problem"]
