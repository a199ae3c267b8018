"""Times models in a library made with Kernpack beside onnxruntime: one process for each number of threads, in interleaved rounds. With one thread, calls of a millisecond
and more are timed by the CPU time of the thread: other programs do not count.

usage: models.py LIBRARY FOLDER THREADS ROUNDS [flush | TRACT]; FOLDER has the models, whose names are those of the functions. With `flush`, numbers below 1e-38 are zeros for both, as onnxruntime can be told.
TRACT is the program of tests/bench/tract, a third contender in a process of its own, with one thread; a model that it cannot load has no figure of it. Prints a line for each model: name, then
contender=microseconds:ratio, tab-separated. A ratio is the median over the rounds of ours / theirs. Results are compared first.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIBRARY, FOLDER, THREADS, ROUNDS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
FLUSH = sys.argv[5:] == ["flush"]
# Seconds between contenders with several threads.
REST = 0.5
TRACT = sys.argv[5] if sys.argv[5:] and not FLUSH else None
for variable in ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import tvm_ffi  # noqa: E402

# What is measured, by the names of the functions: its name here, the file, and what results may differ by of the largest one, besides what onnxruntime's own do.
NAMES = {
    "magika": ("Magika, one file", "magika", 1e-5),
    "mlp": ("MLP 784-512-512-10, batch 1", "mlp", 1e-5),
    "mlp_f16": ("MLP, weights in half precision", "mlp", 2e-3),
    "transformer": ("transformer, 2 layers, 128x256", "transformer", 1e-5),
    # A value between two bytes becomes one or the other.
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
        # The first session sets this for the thread that makes it: for our code, too.
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def input_of(made):
    of = made.get_inputs()[0]
    shape = [extent if isinstance(extent, int) else 1 for extent in of.shape]
    random = np.random.default_rng(0)
    if of.type == "tensor(int32)":
        return of.name, random.integers(0, 257, shape, dtype=np.int32)
    return of.name, random.standard_normal(shape, dtype=np.float32)


def best(call, seconds):
    """The shortest of the calls that fit into so many seconds, three at least."""
    shortest, end, calls = float("inf"), time.perf_counter() + seconds, 0
    while calls < 3 or time.perf_counter() < end:
        start, used = time.perf_counter(), time.thread_time()
        call()
        taken = time.perf_counter() - start
        if THREADS == 1 and taken > 1e-3:
            taken = time.thread_time() - used
        shortest = min(shortest, taken)
        calls += 1
    return shortest


class Tract:
    """A model in the program of tract, which times itself."""

    def __init__(self, path, x):
        types = {"float32": "f32", "int32": "i32"}
        arguments = [TRACT, str(path), types[str(x.dtype)], *map(str, x.shape)]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.is_ready = self.process.stdout.readline() == "ready\n"

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def result(self, x, shape):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "x"), Path(folder, "y")
            source.write_bytes(x.tobytes())
            if self.ask(f"{source} {target}") != "written":
                sys.exit("tract has not computed the result")
            return np.frombuffer(target.read_bytes(), np.float32).reshape(shape)

    def seconds(self, seconds):
        return int(self.ask(str(seconds))) / 1e9

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def median(numbers):
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]


library = tvm_ffi.load_module(LIBRARY)
for key, (name, file, tolerance) in NAMES.items():
    path = FOLDER / f"{file}.onnx"
    made = session(path)
    argument, x = input_of(made)
    wanted = made.run(None, {argument: x})[0]
    plain = session(path, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, {argument: x})[0]
    out = np.full(wanted.shape, np.nan, np.float32)
    function, lent = library[key], [tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(out)]
    function(*lent)
    # Ten times its own difference between optimized and not, and what sums of floats in another order come to.
    allowed = 10 * np.abs(wanted - plain).max() + tolerance * np.abs(plain).max()
    difference = np.abs(out - plain).max()
    if not difference <= allowed:
        sys.exit(f"{name}: the results differ by {difference}, allowed is {allowed}")
    everyone = {
        "ours": lambda: best(lambda: function(*lent), 0.05),
        "onnxruntime": lambda: best(lambda: made.run(None, {argument: x}), 0.05),
    }
    tract = Tract(path, x) if TRACT else None
    if tract and tract.is_ready:
        difference = np.abs(tract.result(x, wanted.shape) - plain).max()
        # The program computes the same model; how exactly is its own affair.
        if not difference <= 100 * allowed:
            sys.exit(f"{name}: tract's results differ by {difference}")
        everyone["tract"] = lambda: tract.seconds(0.05)
    times = {who: [] for who in everyone}
    for _ in range(ROUNDS):
        for who, measured in everyone.items():
            if THREADS > 1:
                # onnxruntime's threads keep a CPU busy for a while after a call, in which others would have one CPU less.
                time.sleep(REST)
            times[who].append(measured())
    if tract:
        tract.end()
    columns = []
    for who, measured in times.items():
        ratio = median([mine / theirs for mine, theirs in zip(times["ours"], measured)])
        columns.append(f"{who}={median(measured) * 1e6:.1f}:{ratio:.3f}")
    print(name + "\t" + "\t".join(columns), flush=True)
