"""Compares models in a library made with Kernpack with onnxruntime without its optimizations.

usage: accuracy.py LIBRARY FOLDER; FOLDER has the models, whose names are those of the functions. For each model and several seeded inputs: all outputs may differ by ten
times what onnxruntime's own results differ with and without its optimizations, and where it computes the same both times, by ten roundings of the largest number. Prints a
line for each model: name, then difference, what is allowed, the largest number, tab-separated. Ends with an error if one differs more.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import tvm_ffi

LIBRARY, FOLDER = sys.argv[1], Path(sys.argv[2])
SEEDS = 3
# A rounding of float32.
EPSILON = float(np.finfo(np.float32).eps)


def session(path, level):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.graph_optimization_level = 1, 1, level
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def inputs_of(made, seed):
    random, inputs = np.random.default_rng(seed), {}
    for of in made.get_inputs():
        shape = [extent if isinstance(extent, int) else 1 for extent in of.shape]
        whole = of.type == "tensor(int32)"
        inputs[of.name] = random.integers(0, 257, shape, dtype=np.int32) if whole else random.standard_normal(shape, dtype=np.float32)
    return inputs


library = tvm_ffi.load_module(LIBRARY)
wrong = []
for path in sorted(FOLDER.glob("*.onnx")):
    levels = onnxruntime.GraphOptimizationLevel
    plain, optimized = session(path, levels.ORT_DISABLE_ALL), session(path, levels.ORT_ENABLE_ALL)
    worst = (-1.0, 0.0, 0.0, 0.0)
    for seed in range(SEEDS):
        inputs = inputs_of(plain, seed)
        exact, theirs = plain.run(None, inputs), optimized.run(None, inputs)
        ours = [np.full(wanted.shape, np.nan, wanted.dtype) for wanted in exact]
        library[path.stem](*inputs.values(), *ours)
        for mine, wanted, other in zip(ours, exact, theirs):
            largest = float(np.abs(wanted).max())
            allowed = 10 * max(float(np.abs(other - wanted).max()), EPSILON * largest)
            difference = float(np.abs(mine - wanted).max())
            # NaN and infinity count as an infinite difference.
            share = difference / allowed if np.isfinite(difference) else float("inf")
            worst = max(worst, (share, difference, allowed, largest))
    share, difference, allowed, largest = worst
    print(f"{path.stem}\t{difference:.2e}\t{allowed:.2e}\t{largest:.2e}", flush=True)
    if not share <= 1:
        wrong.append(path.stem)
if wrong:
    sys.exit(f"these models differ by more than is allowed: {', '.join(wrong)}")
