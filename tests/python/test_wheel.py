"""The wheel that `cargo kernpack wheel` makes of examples/imagekit: what is in it, what auditwheel and mypy say, what pip does with it.

CARGO_KERNPACK is the program (cargo build -p kernpack-cli). The library is built once, for release, in cargo's target folder.
"""

import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PROGRAM = os.environ.get("CARGO_KERNPACK")
if not PROGRAM:
    assert not os.environ.get("CI"), "CARGO_KERNPACK is not set"
    pytest.skip("CARGO_KERNPACK is not set to the program cargo-kernpack (cargo xtask test sets it)", allow_module_level=True)

PROFILE = os.environ.get("KERNPACK_WHEEL_PROFILE", "release")


def run(*command, **environment):
    """Exit status and output of a program."""
    result = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment})
    return result.returncode, result.stdout, result.stderr


def make(*options, **environment):
    status, output, errors = run(PROGRAM, "wheel", "--package", "imagekit", "--profile", PROFILE, "--json", *options, **environment)
    assert status == 0, errors
    return json.loads(output)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return make("--out", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel(report):
    return Path(report["wheel"])


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """The interpreter of a fresh environment, into which pip installed the wheel and the packages of the tests."""
    folder = tmp_path_factory.mktemp("venv")
    status, _, errors = run(sys.executable, "-m", "venv", folder)
    assert status == 0, errors
    python = folder / "bin" / "python"
    requirements = FOLDER / "wheel_requirements.txt"
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", "--only-binary=:all:"]
    status, output, errors = run(*install, wheel, "--requirement", requirements)
    assert status == 0, output + errors
    return python


def test_the_report(report, wheel):
    assert re.fullmatch(r"imagekit-0\.1\.0-cp39-abi3-(manylinux_2_\d+_(x86_64|aarch64))\.whl", wheel.name)
    assert wheel.name.endswith(f"{report['platform']}.whl")
    assert (report["schema"], report["package"], report["module"]) == (1, "imagekit", "imagekit")
    # Without the two kernels of devices, which Rust functions launch.
    assert (report["functions"], report["types"], report["nameless"]) == (18, 2, [])
    assert report["size"] == wheel.stat().st_size


def test_the_record_has_every_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        rows = list(csv.reader(io.StringIO(archive.read("imagekit-0.1.0.dist-info/RECORD").decode())))
        assert names == [path for path, _, _ in rows]
        assert names[:4] == ["imagekit/__init__.py", "imagekit/__init__.pyi", "imagekit/imagekit.so", "imagekit/py.typed"]
        for path, digest, size in rows[:-1]:
            content = archive.read(path)
            found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={found}", len(content)), path
        assert rows[-1] == ["imagekit-0.1.0.dist-info/RECORD", "", ""]


def test_the_same_content_gives_the_same_bytes(wheel, tmp_path):
    once = Path(make("--out", tmp_path / "a", SOURCE_DATE_EPOCH="1700000000")["wheel"]).read_bytes()
    again = Path(make("--out", tmp_path / "b", SOURCE_DATE_EPOCH="1700000000")["wheel"]).read_bytes()
    assert once == again
    assert once != wheel.read_bytes()


def test_auditwheel_gives_the_same_tag(fresh, wheel, report):
    if sys.version_info < (3, 10):
        pytest.skip("this Python is too old for auditwheel 6.8")
    status, output, errors = run(fresh, "-m", "auditwheel", "show", wheel)
    assert status == 0, output + errors
    output = " ".join(output.split())
    assert f'is consistent with the following platform tag: "{report["platform"]}"' in output


def test_pip_installs_it_and_numpy_goes_in(fresh):
    status, output, errors = run(fresh, "-W", "error", FOLDER / "wheel_uses.py")
    assert status == 0, errors
    assert output.startswith("imagekit works with NumPy")
    status, output, _ = run(fresh, "-m", "pip", "check", "--disable-pip-version-check")
    assert status == 0, output
    status, output, _ = run(fresh, "-m", "pip", "show", "--disable-pip-version-check", "imagekit")
    assert "Summary: Image filters in Rust, C, LLVM IR, CUDA and OpenCL in one shared library\n" in output
    assert "Requires: \n" in output


@pytest.fixture(scope="module")
def with_torch(wheel, tmp_path_factory):
    """The interpreter of a fresh environment of a Python that has PyTorch, with the wheel in it."""
    system = os.environ.get("KERNPACK_TORCH_PYTHON")
    if not system:
        assert not os.environ.get("CI"), "KERNPACK_TORCH_PYTHON is not set"
        pytest.skip("KERNPACK_TORCH_PYTHON is not set to a Python with PyTorch (cargo xtask test sets it)")
    folder = tmp_path_factory.mktemp("torch")
    # Debian's PyTorch is one of the system's own packages.
    status, _, errors = run(system, "-m", "venv", "--system-site-packages", folder)
    assert status == 0, errors
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", "--only-binary=:all:"]
    status, output, errors = run(*install, wheel, "apache-tvm-ffi==0.1.15.post2")
    assert status == 0, output + errors
    return python


def test_torch_tensors_go_in(with_torch):
    # tvm_ffi would compile a faster path for this PyTorch, which takes a minute; DLPack is always
    # available.
    status, output, errors = run(with_torch, FOLDER / "wheel_torch.py", TVM_FFI_DISABLE_TORCH_C_DLPACK="1")
    assert status == 0, errors
    assert output.startswith("imagekit works with PyTorch")


def test_mypy_accepts_the_stubs_and_finds_wrong_uses(unpacked, tmp_path):
    if not os.environ.get("CI"):
        pytest.importorskip("mypy", exc_type=ImportError)
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(
        "import imagekit\n"
        "import numpy as np\n"
        "gray = imagekit.to_gray(np.zeros((2, 2, 3), np.uint8))\n"
        "shape: tuple[int, ...] = gray.shape\n"
        "total: int = imagekit.histogram(gray).total\n"
        "bins: list[int] = list(imagekit.histogram(gray).bins)\n"
        "contrast: float = imagekit.contrast(imagekit.histogram(gray))\n"
        "text: str = imagekit.ascii_art(imagekit.make_scaler(2)(gray), 80)\n"
        "imagekit.blur(gray, gray, 1)\n"
    )
    wrong.write_text(
        "import imagekit\n"
        "import numpy as np\n"
        "gray = np.zeros((2, 2), np.float32)\n"
        "imagekit.crop(gray, 1, 2, 3)\n"
        "imagekit.ascii_art(gray, '80')\n"
        "imagekit.histogram(gray).total = 3\n"
        "imagekit.histogram('gray')\n"
        "imagekit.crops(gray)\n"
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache"]
    status, output, errors = run(*mypy, right, unpacked / "imagekit" / "__init__.pyi", MYPYPATH=str(unpacked))
    assert status == 0, output + errors
    status, output, _ = run(*mypy, wrong, MYPYPATH=str(unpacked))
    found = re.findall(r"wrong\.py:(\d+): error: .*\[([a-z-]+)\]", output)
    assert found == [("4", "call-arg"), ("5", "arg-type"), ("6", "misc"), ("7", "arg-type"), ("8", "attr-defined")], output


def test_stubs_of_every_kind_of_type(tmp_path):
    """The library of objects is not a package to ship, but contains all kinds of types."""
    if not os.environ.get("CI"):
        pytest.importorskip("mypy", exc_type=ImportError)
    status, output, errors = run(PROGRAM, "wheel", "--package", "objects", "--profile", PROFILE, "--json", "--out", tmp_path)
    assert status == 0, errors
    with zipfile.ZipFile(json.loads(output)["wheel"]) as archive:
        archive.extractall(tmp_path)
    uses = tmp_path / "uses.py"
    uses.write_text(
        "import objects as o\n"
        "assert o.Figure_Circle(2.0).area() == 12.0\n"
        "assert o.next_hue(o.Hue.Red).name == 'Green'\n"
        "assert o.Dog(4, 'Rex', None, 1.0).legs == 4\n"
        "assert o.Account('Ada', 1.0).with_deposit(3).cents == 103\n"
        "assert o.Place(3.0).y == 0.0 and o.Place(y=4.0, x=3.0).moved(o.Place(1.0)).x == 4.0\n"
        "assert o.Defaults(1, keyword=True).required == 1\n"
        "assert isinstance(o.Account.common(), o.Account)\n"
        "assert isinstance(o.token(7), o.Token) and o.token(7).number == 7\n"
        "# Operators that the library defines.\n"
        "one, same, more = o.Account('Ada', 1.0), o.Account('Bob', 1.0), o.Account('Ada', 2.0)\n"
        "assert one == same and one != more and len({one, same, more}) == 2\n"
        "assert one < more and one <= same and more > one and sorted([more, one]) == [one, more]\n"
        "# Errors of the kinds of Python's exceptions.\n"
        "for kind in (FileNotFoundError, PermissionError, TimeoutError, KeyboardInterrupt, SystemExit):\n"
        "    def throws(_: int) -> int:\n"
        "        raise kind(3) if kind is SystemExit else kind('x')\n"
        "    try:\n"
        "        one.apply(throws)\n"
        "    except kind as error:\n"
        "        assert error.args == ((3,) if kind is SystemExit else ('x',))\n"
        "    else:\n"
        "        raise AssertionError(kind)\n"
        "# Numbers and files are those of Python's own exception; what is no text of the system stays as it is.\n"
        "import errno\n"
        "def opens(_: int) -> int:\n"
        "    open('/no/such: file')\n"
        "    return 0\n"
        "try:\n"
        "    one.apply(opens)\n"
        "except FileNotFoundError as error:\n"
        "    assert (error.errno, error.filename) == (errno.ENOENT, '/no/such: file')\n"
        "    assert str(error) == \"[Errno 2] No such file or directory: '/no/such: file'\"\n"
    )
    status, output, errors = run(sys.executable, "-W", "error", uses, PYTHONPATH=str(tmp_path))
    assert status == 0, errors
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache"]
    status, output, errors = run(*mypy, uses, tmp_path / "objects" / "__init__.pyi", MYPYPATH=str(tmp_path))
    assert status == 0, output + errors
    uses.write_text("import objects as o\no.Token(7)\no.Account(3, 1.0, 2.0)\n")
    status, output, _ = run(*mypy, uses, MYPYPATH=str(tmp_path))
    assert re.findall(r"uses\.py:(\d+): error: .*\[([a-z-]+)\]", output) == [("2", "arg-type"), ("3", "call-arg"), ("3", "arg-type")], output


def test_a_type_of_another_library(tmp_path):
    """A package whose library has a type that another one in the process defines with another layout cannot be imported."""
    folder = os.environ.get("DECENTRALISED_LIBRARIES")
    if not folder:
        assert not os.environ.get("CI"), "DECENTRALISED_LIBRARIES is not set"
        pytest.skip("DECENTRALISED_LIBRARIES is not set (cargo xtask test sets it)")
    status, output, errors = run(PROGRAM, "wheel", "--package", "clash", "--tvm-ffi", "--profile", "dev", "--json", "--out", tmp_path)
    assert status == 0, errors
    with zipfile.ZipFile(json.loads(output)["wheel"]) as archive:
        archive.extractall(tmp_path)
    program = f"""if True:
        import tvm_ffi
        left = tvm_ffi.load_module("{folder}/libleft.so")
        for _ in range(2):
            try:
                import clash
            except ImportError as error:
                told = str(error)
            else:
                raise AssertionError("imported")
            assert told.startswith("cannot load {tmp_path}/clash/libclash.so: type 'shapes.Point' (tests/decentralised/clash/src/lib.rs:"), told
            assert ", crate shapes, in {folder}/libleft.so, with another layout: it has 40 bytes, ours 48; " in told, told
        assert left["shift"](left["shapes.point"](1.0, 2.0), 2.0).x == 3.0
        """
    status, _, errors = run(sys.executable, "-c", program, PYTHONPATH=str(tmp_path))
    assert status == 0, errors
    # By itself it can be imported.
    program = "import clash; assert clash.z(clash.point(1.0, 2.0, 3.0)) == 3.0 and clash.shapes_Point(1.0, 2.0, 3.0).z == 3.0"
    status, _, errors = run(sys.executable, "-c", program, PYTHONPATH=str(tmp_path))
    assert (status, errors) == (0, "")


def test_what_cannot_be_shipped(tmp_path):
    """Whole messages: a package without a cdylib, a missing one, flags for this machine, a library that is linked to others."""
    status, _, errors = run(PROGRAM, "wheel", "--package", "kernpack-cli")
    assert (status, errors) == (
        1,
        "error: package 'kernpack-cli' makes no cdylib, which is what a wheel carries; add to its Cargo.toml:\n"
        '[lib]\ncrate-type = ["cdylib", "rlib"]\n',
    )
    status, _, errors = run(PROGRAM, "wheel", "--package", "imagekit", RUSTFLAGS="-C target-cpu=native")
    assert (status, errors) == (
        1,
        "error: RUSTFLAGS asks for -C target-cpu=native: the wheel would end with an illegal instruction on machines with another "
        "CPU; remove it, or name the oldest CPU that users have, such as -C target-cpu=x86-64-v2\n",
    )
    status, _, errors = run(PROGRAM, "wheel", "--manifest-path", tmp_path / "Cargo.toml")
    assert (status, errors) == (1, f"error: cannot read {tmp_path}/Cargo.toml: No such file or directory (os error 2)\n")
