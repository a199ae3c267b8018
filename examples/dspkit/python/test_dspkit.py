"""The wheel of dspkit, as a stranger uses it: installed into an environment of its own, checked by mypy and pyright, and run.

CARGO_KERNPACK is the program (cargo build -p kernpack-cli).
"""

import copy
import errno
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
PROGRAM = os.environ.get("CARGO_KERNPACK")
if not PROGRAM:
    assert not os.environ.get("CI"), "CARGO_KERNPACK is not set"
    pytest.skip("CARGO_KERNPACK is not set to the program cargo-kernpack (cargo xtask test sets it)", allow_module_level=True)


def run(*command, folder=ROOT, **environment):
    ended = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})
    return ended.returncode, ended.stdout, ended.stderr


def make(*options):
    status, output, errors = run(PROGRAM, "wheel", "--package", "dspkit", "--json", "--profile", "dev", *options)
    assert status == 0, errors
    return Path(json.loads(output)["wheel"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return make("--out", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """A folder as pip fills it: a wheel is unpacked there."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def dspkit(site):
    sys.path.insert(0, str(site))
    import dspkit

    yield dspkit
    sys.path.remove(str(site))


def test_a_stranger_installs_it_and_runs_ten_lines(wheel, tmp_path):
    """pip asks no index: NumPy is the one of this environment."""
    status, _, errors = run(sys.executable, "-m", "venv", tmp_path / "fresh")
    assert status == 0, errors
    python = tmp_path / "fresh" / "bin" / "python"
    status, output, errors = run(python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-index", wheel)
    assert status == 0, output + errors
    numpy = Path(np.__file__).parents[1]
    program = f"import sys; sys.path.append({str(numpy)!r}); sys.argv = ['consumer.py']; import runpy; runpy.run_path({str(FOLDER / 'consumer.py')!r})"
    status, output, errors = run(python, "-W", "error", "-c", program, folder=tmp_path)
    assert status == 0, errors
    assert re.fullmatch(r"43\d Hz, 24000 samples, highest 0\.5\d, 0\.500 s at 48000 Hz\n", output), output


def test_mypy(site, tmp_path):
    if not os.environ.get("CI"):
        pytest.importorskip("mypy", exc_type=ImportError)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", tmp_path / "cache"]
    status, output, errors = run(*mypy, FOLDER / "consumer.py", site / "dspkit", folder=tmp_path, MYPYPATH=str(site))
    assert (status, output) == (0, ""), output + errors
    _, output, _ = run(*mypy, FOLDER / "wrong.py", folder=tmp_path, MYPYPATH=str(site))
    assert {int(line) for line in re.findall(r"wrong\.py:(\d+): error", output)} == set(range(7, 16)), output


def test_pyright(site, tmp_path):
    if not os.environ.get("CI"):
        pytest.importorskip("pyright", exc_type=ImportError)
    pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", tmp_path / "pyrightconfig.json", "--outputjson"]
    # It is a program for Node.js, which the package downloads if it is missing.
    if run(sys.executable, "-m", "pyright", "--version")[0] != 0:
        assert not os.environ.get("CI"), "pyright cannot be run here"
        pytest.skip("pyright cannot be run here")
    found = {}
    for name in ["consumer.py", "wrong.py"]:
        (tmp_path / name).write_text((FOLDER / name).read_text())
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"extraPaths": [str(site)], "typeCheckingMode": "strict", "include": ["consumer.py", "wrong.py"]})
    )
    _, output, errors = run(*pyright, folder=tmp_path)
    report = json.loads(output)
    for diagnostic in report["generalDiagnostics"]:
        if diagnostic["severity"] == "error":
            lines = found.setdefault(Path(diagnostic["file"]).name, {})
            lines.setdefault(diagnostic["range"]["start"]["line"] + 1, diagnostic["message"])
    assert "consumer.py" not in found, found
    assert set(range(7, 16)) <= set(found.get("wrong.py", {})), found


def test_types_behave_as_python_people_expect(dspkit):
    tone = dspkit.sine(440.0, 0.1, amplitude=0.5)
    assert str(tone) == "0.100 s at 48000 Hz" and len(tone) == 4800 and tone[-1] == tone[4799]
    with pytest.raises(IndexError):
        tone[4800]
    for again in (copy.copy(tone), copy.deepcopy(tone), pickle.loads(pickle.dumps(tone))):
        assert again == tone and hash(again) == hash(tone) and again is not tone
    # A deep copy has separate samples.
    deep = copy.deepcopy(tone)
    np.asarray(deep.samples)[:] = 0
    assert deep.peak() == 0 and tone.peak() > 0.4
    low, high = dspkit.Biquad.design("Low", 2000.0), dspkit.Biquad.design("High", 100.0)
    chain = low | high
    assert [stage for stage in chain] == [low, high] and low in chain and dspkit.Biquad.design("Band", 5.0) not in chain
    assert chain(tone) == high(low(tone)) and (chain | low)(signal=tone).rms() > 0
    peaks = dspkit.peaks(tone)
    assert abs(dspkit.level(tone, 440.0) - 0.5) < 0.01
    assert sorted(peaks)[0] == min(peaks) <= max(peaks)


def test_a_context_manager(dspkit, tmp_path):
    path = str(tmp_path / "tone.wav")
    with pytest.raises(KeyError):
        with dspkit.Recorder(path) as recorder:
            recorder.write(dspkit.silence(0.1))
            raise KeyError("passes")
    assert recorder.closed and len(dspkit.read_wav(path)) == 4800
    with pytest.raises(ValueError, match="the recorder is closed"):
        recorder.write(dspkit.silence(0.1))


def test_errors_and_callbacks(dspkit):
    with pytest.raises(FileNotFoundError) as caught:
        dspkit.read_wav("/nowhere/at.wav")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, "/nowhere/at.wav")
    with pytest.raises(dspkit.RateMismatch) as caught:
        dspkit.mix([dspkit.silence(0.1), dspkit.silence(0.1, rate=8000.0)])
    assert isinstance(caught.value, ValueError)
    for kind in (KeyboardInterrupt, SystemExit, StopIteration):
        with pytest.raises(kind):
            dspkit.apply(dspkit.silence(0.1), lambda _: raising(kind))
    with pytest.raises(TypeError, match="argument 'signal': expected dspkit.Signal, got int"):
        dspkit.gain(3, 1.0)


def raising(kind):
    raise kind()


def test_sequences_of_every_class(dspkit):
    """What Python takes for a sequence or a number is one here, too."""
    from collections import deque

    part = dspkit.sine(1.0, 0.1)
    for signals in ([part, part], (part, part), deque([part, part])):
        assert dspkit.mix(signals) == part + part
    for wrong in ({1: part}, part, 3, "part", iter([part])):
        with pytest.raises(TypeError, match="argument 'signals'"):
            dspkit.mix(wrong)


def test_what_it_says_of_itself(dspkit):
    assert str(inspect.signature(dspkit.sine)) == "(frequency, seconds, rate=48000.0, amplitude=1.0, phase=None)"
    # A reserved word of Python is passed by position.
    assert str(inspect.signature(dspkit.Biquad.design)) == "(pass_, /, frequency, rate=48000.0, q=Ellipsis)"
    assert dspkit.Biquad.design("Low", frequency=100.0) == dspkit.Biquad.design(0, 100.0)
    assert not hasattr(dspkit, "fir") and "RateMismatch" in dspkit.__all__


def test_the_opencl_kernel(dspkit):
    tone = dspkit.sine(440.0, 0.1, amplitude=0.25)
    try:
        loud = dspkit.amplify(tone, 2.0)
    except RuntimeError as error:
        assert "OpenCL" in str(error)
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no OpenCL device: {error}")
    np.testing.assert_allclose(loud.samples.numpy(), 2 * tone.samples.numpy())


def test_through_tvm_ffi(tmp_path):
    """The other kind of wheel, which loads the library with tvm_ffi: the same operators, exceptions and copies."""
    if not os.environ.get("CI"):
        pytest.importorskip("tvm_ffi", exc_type=ImportError)
    wheel = make("--out", tmp_path, "--tvm-ffi")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = """
import copy, pickle, dspkit, numpy as np
tone = dspkit.sine(440.0, 0.1)
low = dspkit.Biquad.design(dspkit.Pass.Low, 2000.0)
chain = low | low
assert len(chain) == 2 and low in chain and [stage.b0 for stage in chain] == [low.b0] * 2 and chain(tone).rms() > 0
assert tone == copy.deepcopy(tone) == pickle.loads(pickle.dumps(tone)) and str(tone) == "0.100 s at 48000 Hz"
assert max(dspkit.peaks(tone)) >= min(dspkit.peaks(tone))
try:
    tone + dspkit.silence(0.1, 8000.0)
except dspkit.RateMismatch as error:
    assert isinstance(error, ValueError)
try:
    dspkit.read_wav("/nowhere/at.wav")
except FileNotFoundError as error:
    assert error.filename == "/nowhere/at.wav"
with dspkit.Recorder("tone.wav") as recorder:
    recorder.write(tone)
assert recorder.closed
"""
    status, _, errors = run(sys.executable, "-W", "error", "-c", program, folder=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert status == 0, errors


def test_a_caller_in_c(tmp_path):
    """Functions by the C ABI, from a program that links nothing of Kernpack."""
    library = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "libdspkit.so"
    if not library.exists():
        make("--out", tmp_path)
    source = ROOT / "examples/dspkit/host/level.c"
    include = ROOT / "build-support/include"
    status, _, errors = run(os.environ.get("CC", "cc"), "-I", include, source, "-ldl", "-o", tmp_path / "level")
    assert status == 0, errors
    assert run(tmp_path / "level", library) == (0, "-6.02 dB\n0.500\n", "")
