"""The wheel `filetype-kernpack`: pip installs it into a fresh environment, and Python there says what kind a file is, with nothing of this checkout.

CARGO_KERNPACK is the program (cargo build -p kernpack-cli). The library is that of a release build, or of KERNPACK_WHEEL_PROFILE, in cargo's target folder.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from magika import Magika

ROOT = Path(__file__).parents[3]
PROGRAM = os.environ.get("CARGO_KERNPACK")
if not PROGRAM:
    assert not os.environ.get("CI"), "CARGO_KERNPACK is not set"
    pytest.skip("CARGO_KERNPACK is not set to the program cargo-kernpack (cargo xtask test sets it)", allow_module_level=True)

PROFILE = os.environ.get("KERNPACK_WHEEL_PROFILE", "release")


def run(*command, folder):
    ended = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    # FILETYPE_WHEELS: a folder in which the wheel is kept.
    out = os.environ.get("FILETYPE_WHEELS") or tmp_path_factory.mktemp("wheels")
    options = ["--package", "filetype", "--profile", PROFILE, "--out", out, "--json"]
    return json.loads(run(PROGRAM, "wheel", *options, folder=ROOT))


@pytest.fixture(scope="module")
def fresh(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", folder / "venv", folder=folder)
    python = folder / "venv/bin/python"
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", "--no-index"]
    run(*install, made["wheel"], folder=folder)
    return python


def test_what_was_made(made):
    assert Path(made["wheel"]).name.startswith("filetype_kernpack-0.1.0-cp39-abi3-manylinux_2_")
    assert (made["module"], made["nameless"]) == ("filetype", [])
    # The weights are numbers without a pattern: little of them can be packed.
    assert made["size"] < 4_500_000 or PROFILE != "release"
    assert "filetype_kernpack-0.1.0.dist-info/licenses/NOTICE" in made["files"]


def test_the_bill_of_materials_names_what_is_in_it(made):
    path = "filetype_kernpack-0.1.0.dist-info/sboms/filetype_kernpack.cdx.json"
    assert path in made["files"]
    with zipfile.ZipFile(made["wheel"]) as wheel:
        text = wheel.read(path).decode()
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "1.6", "filetype")
    parts = {part["name"]: part for part in bill["components"]}
    assert {"std", "kernpack", "kernpack-core", "linkme"} <= parts.keys()
    # Build dependencies and macros are not in it.
    assert not {"kernpack-build", "kernpack-macros", "syn", "inkwell"} & parts.keys()
    assert parts["linkme"]["purl"].startswith("pkg:cargo/linkme@") and parts["linkme"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert str(ROOT) not in text
    references = {part["bom-ref"] for part in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    for one in bill["dependencies"]:
        assert {one["ref"], *one.get("dependsOn", [])} <= references
    # A wheel is built with the features that its table names.
    again = run(PROGRAM, "sbom", "--package", "filetype", "--features", "python", folder=ROOT)
    assert again == text


def test_a_fresh_environment_knows_files(fresh, tmp_path):
    program = """
import json, sys, filetype
known = [filetype.identify_path(path) for path in sys.argv[1:]]
print(json.dumps([[one.label, one.mime_type, one.score] for one in known]))
"""
    files = [ROOT / "examples/filetype/build.rs", ROOT / "README.md", Path(sys.executable).resolve()]
    known = json.loads(run(fresh, "-I", "-c", program, *files, folder=tmp_path))
    magika = Magika()
    for file, (label, mime_type, score) in zip(files, known):
        wanted = magika.identify_path(file)
        assert (label, mime_type) == (wanted.output.label, wanted.output.mime_type), file
        assert abs(score - wanted.score) <= 1e-4, file
    assert known[0][0] == "rust"


def test_stubs_and_documentation(fresh, tmp_path):
    program = "import filetype, sys; print(filetype.identify_path.__doc__); print([n for n in dir(filetype) if n[0] != '_'], 'tvm_ffi' in sys.modules)"
    printed = run(fresh, "-I", "-c", program, folder=tmp_path)
    assert "The kind of a file." in printed, printed
    # The functions of the network are hidden, and nothing else was imported.
    assert "['Identification', 'cpu_level', 'filetype', 'identify_bytes', 'identify_path', 'kinds'] False" in printed, printed
