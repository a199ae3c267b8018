"""The judges, which run a case: onnxruntime without optimizations, the reference of the package onnx, and Kernpack in a process of its own."""

import os
import pickle
import re
import signal
import sys
import time
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/python-compiler/python"))
import models  # noqa: E402

#: The CPU time limits, in seconds, for compiling and running one case, and for a judge: other load
#: of the machine does not count.
LIMIT = 60
JUDGE_LIMIT = 20

#: The prefix of the error for a process that gave no answer.
CRASHED = "no answer: "


def onnxruntime_without_optimizations(case):
    """The outputs of onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, case.inputs)


def reference(case):
    """The outputs of the reference evaluator of the package onnx."""
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(case.model).run(None, case.inputs)


def kernpack(case, level=3, plain=False, constants=(), **options):
    """Our outputs. `constants` names inputs that are known when the model is compiled."""
    known = {name: case.inputs[name] for name in constants}
    model = models.from_onnx(case.model.SerializeToString(), constants=known, plain=plain, allow_nan=True, **options)
    run = models.compile(model, opt_level=level)
    result = run(**{name: value for name, value in case.inputs.items() if name not in known})
    return list(result) if isinstance(result, tuple) else [result]


def open_batch(case):
    """Our outputs of the model whose first extent is dynamic, up to a bound."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    extent = next(iter(case.inputs.values())).shape[0]
    for info in model.graph.input:
        shape = info.type.tensor_type.shape
        if shape.dim and shape.dim[0].dim_value == extent:
            shape.dim[0].dim_param = "batch"
    return kernpack(replace(case, model=model), dims_up_to={"batch": extent + 3})


#: Ways to compile a case: with all rules, each node by plain loops, all inputs but the first known,
#: and the first extent dynamic.
WAYS = {
    "fused": lambda case: kernpack(case),
    "plain": lambda case: kernpack(case, level=0, plain=True),
    "constants": lambda case: kernpack(case, constants=list(case.inputs)[1:]),
    "batch": open_batch,
}


def applies(way, case):
    """Returns whether a case can be compiled in a way."""
    if way == "constants":
        return len(case.inputs) > 1
    return way != "batch" or next(iter(case.inputs.values())).shape[:1] > (1,)


def refuses(way, error):
    """Returns whether an error reports an unsupported feature rather than a fault. Most models are made for one extent."""
    return way == "batch" and not error.startswith(CRASHED) or "unsupported" in error or "not supported" in error


def wanted(case):
    """The outputs of each judge that has some. Judges also run in child processes, so that a crash does not end the run."""
    answers = (in_child(judge, case, JUDGE_LIMIT) for judge in (onnxruntime_without_optimizations, reference))
    return [outputs for outputs, _, _ in answers if outputs is not None]


def kind_of(error):
    """The error without names and numbers, so that errors of one kind are counted together."""
    return re.sub(r"[0-9]+", "N", re.sub(r"'[^']*'", "'..'", error.splitlines()[0]))[:100]


def tried(function, case):
    """The result of a judge: `(outputs, None)` or `(None, error)`."""
    try:
        return function(case), None
    except Exception as error:  # noqa: BLE001
        return None, f"{type(error).__name__}: {error}"


def in_child(function, case, limit=LIMIT):
    """As `tried`, in a child process: a crash or a hang is an error. The third part is the time in seconds."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.setitimer(signal.ITIMER_PROF, limit)
        # A process that waits forever uses no CPU time.
        signal.alarm(10 * limit)
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(tried(function, case), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - start
    if not os.WIFSIGNALED(status) and data:
        return (*pickle.loads(data), seconds)
    if not os.WIFSIGNALED(status):
        return None, f"{CRASHED}the process ended with status {os.waitstatus_to_exitcode(status)}", seconds
    ended = os.WTERMSIG(status)
    text = f"after {limit} s" if ended in (signal.SIGPROF, signal.SIGALRM) else f"the process ended by {signal.Signals(ended).name}"
    return None, CRASHED + text, seconds


def difference(case, wanted, got):
    """The difference of the outputs beyond the tolerance of the case, or None."""
    if len(wanted) != len(got):
        return f"{len(got)} outputs, wanted {len(wanted)}"
    for place, (want, have) in enumerate(zip(map(np.asarray, wanted), map(np.asarray, got))):
        if (want.shape, want.dtype) != (have.shape, have.dtype):
            return f"output {place}: {have.dtype}{list(have.shape)}, wanted {want.dtype}{list(want.shape)}"
        wrong = ~equal(case, want, have)
        if wrong.any():
            at = tuple(int(index) for index in np.argwhere(wrong)[0])
            return f"output {place}: {int(wrong.sum())} of {wrong.size} differ, the first at {list(at)}: {have[at]!r}, wanted {want[at]!r}"
    return None


def equal(case, want, have):
    """A mask of the numbers that are as expected."""
    if want.dtype.kind != "f":
        return want == have
    # Tolerances of a case are for float32: float64 has at least four digits more, float16 rounds
    # more coarsely.
    size = want.dtype.itemsize
    scale = {2: 2.0**13, 4: 1.0, 8: 1e-4}[size]
    info = np.finfo(want.dtype)
    with np.errstate(all="ignore"):
        wide, ours = want.astype("f8"), have.astype("f8")
        # Numbers of usual size determine the error of sums: a single 1e38 would allow any result.
        usual = np.abs(wide[np.isfinite(wide) & (np.abs(wide) < 1e6)])
        largest = usual.max() if usual.size else 0.0
        # Some implementations flush subnormal numbers to zero; float16 needs its subnormal ones.
        least = 2 * float(info.tiny) if size > 2 else 4 * float(info.smallest_subnormal)
        share = min(scale * case.relative, 4e-3 if size == 2 else 1)
        allowed = share * np.abs(wide) + scale * (case.of_largest * largest + case.absolute) + least
        near = np.isfinite(wide) & np.isfinite(ours) & (np.abs(wide - ours) <= allowed)
        # The largest number and infinity count as neighbours.
        limit = float(info.max) * (1 - 4 * float(info.eps))
        beyond = (np.abs(wide) >= limit) & (np.abs(ours) >= limit) & (np.sign(wide) == np.sign(ours))
    return near | (wide == ours) | (np.isnan(wide) & np.isnan(ours)) | beyond
