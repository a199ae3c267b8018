"""The wheel that `cargo kernpack wheel` makes of an extension module: it is imported as it is, and needs nothing else.

CARGO_KERNPACK is the program (cargo build -p kernpack-cli).
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = os.environ.get("CARGO_KERNPACK")
if not PROGRAM:
    assert not os.environ.get("CI"), "CARGO_KERNPACK is not set"
    pytest.skip("CARGO_KERNPACK is not set to the program cargo-kernpack (cargo xtask test sets it)", allow_module_level=True)


def run(*command):
    # A separate folder: the dependencies of extmod have fewer features here, and would replace
    # those that other tests load.
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tmp" / "extension-wheel"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(folder)}
    result = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def made(package, folder):
    # A development build is the fastest.
    options = ["--package", package, "--profile", "dev", "--json", "--out", folder]
    return Path(json.loads(run(PROGRAM, "wheel", *options))["wheel"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return made("extmod", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """The interpreter of a fresh environment with two wheels only: pip must not use an index."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    wheels = [wheel, made("bare", tmp_path_factory.mktemp("bare"))]
    run(python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", "--no-index", *wheels)
    return python


def test_what_is_in_it(wheel):
    assert "-cp39-abi3-manylinux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        inside = ["conversions.pyi", "exceptions.pyi", "extmod.so", "identity.pyi", "objects.pyi", "objects_as_they_are.pyi", "py.typed", "text.pyi", "values.pyi"]
        assert names[:11] == [f"extmod/{name}" for name in ["__init__.py", "__init__.pyi", *inside]]
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        stub = archive.read("extmod/__init__.pyi").decode()
    assert "Requires-Dist" not in metadata and "Requires-Python: >=3.9" in metadata
    assert "import tvm_ffi" not in stub
    assert "def subtract(minuend: int, subtrahend: int) -> int:" in stub
    assert "def echo_vec(x: _Sequence[int]) -> list[int]:" in stub
    assert "def line(x: float, gain: float = 0.5, name: str = \"x\", factor: float = ..., mode: Record | None = None) -> str:" in stub
    assert "class Record(object):" in stub
    compile(stub, "__init__.pyi", "exec")


def test_the_bill_of_materials(wheel):
    with zipfile.ZipFile(wheel) as archive:
        bill = json.loads(archive.read("extmod-0.1.0.dist-info/sboms/extmod.cdx.json"))
    assert (bill["bomFormat"], bill["specVersion"], bill["metadata"]["component"]["bom-ref"]) == ("CycloneDX", "1.6", "extmod@0.1.0")
    parts = {part["name"]: part for part in bill["components"]}
    assert {"std", "kernpack", "kernpack-python", "linkme", "conversions"} <= parts.keys()
    # It does not contain macros and the crates that build the library.
    assert not {"kernpack-build", "kernpack-macros", "syn", "inkwell"} & parts.keys()
    assert parts["linkme"]["purl"].startswith("pkg:cargo/linkme@") and parts["linkme"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    references = {part["bom-ref"] for part in parts.values()} | {"extmod@0.1.0"}
    assert {one["ref"] for one in bill["dependencies"]} == references
    assert {needed for one in bill["dependencies"] for needed in one.get("dependsOn", [])} <= references


def test_it_works_where_nothing_else_is_installed(fresh):
    program = """
import extmod, pickle, sys
assert extmod.subtract(7, subtrahend=3) == 4
assert extmod.Record(1, 2.5, "x", (1, 2)).label == "x" and extmod.text.count("banana", "an") == 2
assert pickle.loads(pickle.dumps(extmod.subtract)) is extmod.subtract
assert extmod.__version__ == "0.1.0" and extmod.__library__.endswith("extmod.so")
try:
    extmod.filter(0)
except extmod.FilterFault as error:
    assert isinstance(error, ValueError)
assert "tvm_ffi" not in sys.modules
print("passed")
"""
    assert run(fresh, "-c", program) == "passed\n"


@pytest.mark.parametrize("first", ["", "import extmod"])
def test_calls_by_name_where_nothing_else_is_installed(fresh, first):
    """A library without types and modules, alone and beside another one; each has its own implementation of the ABI."""
    program = f"""
import sys
{first}
import bare
assert bare.scaled(8) == bare.scaled(x=8) == 4 and bare.scaled(8, offset=1) == bare.scaled(offset=1, x=8) == 5
assert bare.scaled(8, gain=2) == 16 and bare.scaled(8, 2, offset=None) == 16 and bare.scaled(8, offset=1, gain=1) == 9
for call, text in [
    (lambda: bare.scaled(offset=1), "argument 'x' is missing"),
    (lambda: bare.scaled(8, ofset=1), "there is no argument 'ofset'"),
    (lambda: bare.scaled(8, x=1), "argument 'x' is given twice"),
    (lambda: bare.scaled(8, offset="1"), "argument 'offset': expected"),
]:
    try:
        call()
    except TypeError as error:
        assert text in str(error), error
    else:
        raise AssertionError("no error")
import extmod
assert extmod.line(8, factor=1) == "x=4 of 0" and extmod.line(8, name="y", mode=None) == "y=8 of 0"
assert "tvm_ffi" not in sys.modules
print("passed")
"""
    assert run(fresh, "-c", program) == "passed\n"


@pytest.mark.needs("tvm_ffi")
def test_tvm_ffi_loads_the_same_file(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import extmod, tvm_ffi
library = tvm_ffi.load_module(extmod.__library__)
assert library.subtract(7, 3) == extmod.subtract(7, 3) == 4
assert library.line(8) == extmod.line(8) == "x=8 of 0" and library.line(8, 1, "y") == "y=16 of 0"
for function in (library.line, extmod.line):
    try:
        function(8, "1")
    except TypeError as error:
        assert str(error).endswith("argument 'gain': expected float, got str"), error
metadata = library.get_function_metadata("line")
assert metadata["arg_names"] == ["x", "gain", "name", "factor", "mode"]
assert metadata["arg_defaults"] == [0.5, "x", {{"rust": "f64::from(2)"}}, None]
print("passed")
"""
    assert run(sys.executable, "-c", program) == "passed\n"
