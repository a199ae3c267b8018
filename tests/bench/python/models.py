"""Times models in a library made with Kernpack beside onnxruntime: for each number of threads, in interleaved rounds. Each contender is a process of its own, which is stopped while another
one is measured (turns.py). With one thread, calls of a millisecond and more are timed by the CPU time of the thread: other programs do not count.

usage: models.py LIBRARY FOLDER THREADS ROUNDS [flush | TRACT]; FOLDER has the models, whose names are those of the functions. With `flush`, numbers below 1e-38 are zeros for both, as onnxruntime can be told.
TRACT is the program of tests/bench/tract, a third contender, with one thread; a model that it cannot load has no figure of it. Prints a line for each model: name, then
contender=microseconds:ratio, tab-separated. A ratio is the median over the rounds of ours / theirs. Results are compared first.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

CONTENDER = sys.argv[2] if sys.argv[1:2] == ["--contender"] else None
if CONTENDER:
    del sys.argv[1:3]
LIBRARY, FOLDER, THREADS, ROUNDS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
FLUSH = sys.argv[5:] == ["flush"]
TRACT = sys.argv[5] if sys.argv[5:] and not FLUSH else None
for variable in ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from turns import Contender, answer, best, columns  # noqa: E402

# The duration of one measurement, in seconds.
SECONDS = 0.05

# The measured models, by the names of the functions: name in the table, file, and the tolerance as
# a fraction of the largest result, in addition to the differences within onnxruntime.
NAMES = {
    "magika": ("Magika, one file", "magika", 1e-5),
    "mlp": ("MLP 784-512-512-10, batch 1", "mlp", 1e-5),
    "mlp_f16": ("MLP, weights in half precision", "mlp", 2e-3),
    "transformer": ("transformer, 2 layers, 128x256", "transformer", 1e-5),
    # A value between two bytes is rounded to either.
    "int8": ("int8 transformer, 2 layers, 128x256", "int8", 1e-2),
    "resnet18": ("ResNet-18, 224x224", "resnet18", 1e-5),
    "mobilenet": ("MobileNetV2-like, 224x224", "mobilenet", 1e-5),
    "unet": ("U-Net, 3 levels, 128x128", "unet", 1e-5),
    "lstm": ("LSTM, 2 layers of 256, 32 steps", "lstm", 1e-5),
}


def session(path, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.graph_optimization_level = THREADS, 1, level
    if FLUSH:
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def input_of(made):
    of = made.get_inputs()[0]
    shape = [extent if isinstance(extent, int) else 1 for extent in of.shape]
    random = np.random.default_rng(0)
    if of.type == "tensor(int32)":
        return of.name, random.integers(0, 257, shape, dtype=np.int32)
    return of.name, random.standard_normal(shape, dtype=np.float32)


class Contenders:
    """The Python process of a contender: our library, or onnxruntime."""

    def __init__(self):
        self.calls = {}
        if CONTENDER == "ours":
            import tvm_ffi

            if FLUSH:
                # onnxruntime sets this for the thread that creates the session, so it applies to
                # our code, too.
                session(FOLDER / "mlp.onnx")
            library = tvm_ffi.load_module(LIBRARY)
        for key, (_, file, _) in NAMES.items():
            x, out = np.load(FOLDER / f"{file}.x.npy"), np.load(FOLDER / f"{file}.y.npy")
            if CONTENDER == "ours":
                function, out = library[key], np.full(out.shape, np.nan, np.float32)
                lent = [tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(out)]
                self.calls[key] = lambda function=function, lent=lent, out=out: function(*lent) or out
            else:
                made = session(FOLDER / f"{file}.onnx")
                inputs = {made.get_inputs()[0].name: x}
                self.calls[key] = lambda made=made, inputs=inputs: made.run(None, inputs)[0]

    def result(self, key, file):
        np.save(file, self.calls[key]())
        return "written"

    def time(self, key):
        return best(self.calls[key], SECONDS, THREADS == 1)


class Tract(Contender):
    """A model in the program of tract, which times itself."""

    def __init__(self, path, x):
        types = {"float32": "f32", "int32": "i32"}
        super().__init__("tract", [TRACT, str(path), types[str(x.dtype)], *map(str, x.shape)])

    def result(self, x, shape):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "x"), Path(folder, "y")
            source.write_bytes(x.tobytes())
            if self.ask(f"{source} {target}") != "written":
                sys.exit("tract has not computed the result")
            return np.frombuffer(target.read_bytes(), np.float32).reshape(shape)


def references(path):
    """Writes beside a model: the input, the result of onnxruntime without its optimizations, and how much its own result with them differs."""
    made = session(path)
    argument, x = input_of(made)
    wanted = made.run(None, {argument: x})[0]
    plain = session(path, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, {argument: x})[0]
    np.save(path.with_suffix(".x.npy"), x)
    np.save(path.with_suffix(".y.npy"), plain)
    path.with_suffix(".own").write_text(str(np.abs(wanted - plain).max()))


def check(name, difference, allowed):
    if not difference <= allowed:
        sys.exit(f"{name}: the results differ by {difference}, allowed is {allowed}")


def child(role):
    return [sys.executable, __file__, "--contender", role, *sys.argv[1:]]


def main():
    # Computed in a separate process as well, so that this one has no threads that wait for work.
    subprocess.run(child("references"), check=True)
    contenders = {who: Contender(who, child(who)) for who in ("ours", "onnxruntime")}
    for key, (name, file, tolerance) in NAMES.items():
        path = FOLDER / f"{file}.onnx"
        x, plain = np.load(path.with_suffix(".x.npy")), np.load(path.with_suffix(".y.npy"))
        own = float(path.with_suffix(".own").read_text())
        # Ten times the difference of its own optimizations, and the rounding of float sums in
        # another order.
        allowed = 10 * own + tolerance * np.abs(plain).max()
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "y.npy")
            contenders["ours"].ask(f"result\t{key}\t{target}")
            check(name, np.abs(np.load(target) - plain).max(), allowed)
        everyone = {who: lambda who=who: float(contenders[who].ask(f"time\t{key}")) for who in contenders}
        tract = Tract(path, x) if TRACT else None
        if tract and tract.is_ready:
            # The program computes the same model, with its own accuracy.
            check(f"{name}, tract", np.abs(tract.result(x, plain.shape) - plain).max(), 100 * allowed)
            everyone["tract"] = lambda: int(tract.ask(str(SECONDS))) / 1e9
        times = {who: [] for who in everyone}
        for _ in range(ROUNDS):
            for who, measured in everyone.items():
                times[who].append(measured())
        if tract:
            tract.end()
        print(name + "\t" + columns(times), flush=True)


if CONTENDER == "references":
    for _, file, _ in NAMES.values():
        references(FOLDER / f"{file}.onnx")
elif CONTENDER:
    made = Contenders()
    answer([], {"result": made.result, "time": made.time})
else:
    main()
