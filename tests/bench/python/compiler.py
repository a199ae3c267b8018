"""Times the kernels of tests/bench/compiler beside NumPy, onnxruntime, PyTorch and the crates gemm and faer: one process for each number of threads, in
interleaved rounds. With one thread, calls of a millisecond and more are timed by the CPU time of the thread: other programs do not count.

usage: compiler.py LIBRARY PEERS THREADS ROUNDS; PEERS is the library of tests/bench/gemm-peers; prints a line for each row: name, then contender=microseconds:ratio, tab-separated. A ratio is the median over the
rounds of ours / theirs. Every result is compared with NumPy's first.
"""

import ctypes
import os
import sys
import time

LIBRARY, PEERS, THREADS, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for variable in ("RAYON_NUM_THREADS", "TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402
import tvm_ffi  # noqa: E402

kernels = tvm_ffi.load_module(LIBRARY)
crates = ctypes.CDLL(PEERS)
missing = []
try:
    import torch
    import torch.nn.functional as functional

    torch.set_num_threads(THREADS)
except ImportError as error:
    torch = None
    missing.append(f"torch ({error})")
try:
    import onnx  # noqa: F401
    import onnxruntime
except ImportError as error:
    onnxruntime = None
    missing.append(f"onnxruntime ({error})")

random = np.random.default_rng(0)


def values(*shape):
    return random.standard_normal(shape, dtype=np.float32)


def session(nodes, inputs, output, initializers=()):
    """A function that runs an ONNX graph of these nodes."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "bench",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    made = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return lambda: made.run(None, inputs)[0]


def node(kind, inputs, outputs, **attributes):
    from onnx import helper

    return helper.make_node(kind, inputs, outputs, **attributes)


rows = []


def row(name, kernel, inputs, shape, **contenders):
    rows.append((name, kernel, inputs, shape, contenders))


def product_of(crate, a, b, m, k, n):
    """A function that multiplies by a Rust crate."""
    function = getattr(crates, f"peer_{crate}")
    function.argtypes, function.restype = [ctypes.c_void_p] * 3 + [ctypes.c_size_t] * 4, None
    out = np.empty((m, n), np.float32)
    arguments = (a.ctypes.data, b.ctypes.data, out.ctypes.data, m, k, n, THREADS)

    def call():
        function(*arguments)
        return out

    return call


def add_matmul(m, k, n):
    a, b = values(m, k), values(k, n)
    out = np.empty((m, n), np.float32)
    contenders = {"numpy": lambda: np.matmul(a, b, out=out)}
    if torch:
        ta, tb, tout = torch.from_numpy(a), torch.from_numpy(b), torch.empty(m, n)
        contenders["torch"] = lambda: torch.mm(ta, tb, out=tout).numpy()
    if onnxruntime:
        contenders["onnxruntime"] = session([node("MatMul", ["a", "b"], ["c"])], {"a": a}, "c", {"b": b})
    for crate in ("gemm", "faer"):
        contenders[crate] = product_of(crate, a, b, m, k, n)
    row(f"matrix product {m}x{k}x{n}", f"matmul_{m}_{k}_{n}", [a, b], (m, n), **contenders)


def add_conv(depth, channels, size, window, stride, padding):
    x, w = values(1, depth, size, size), values(channels, depth, window, window)
    out = (size + 2 * padding - window) // stride + 1
    contenders = {}
    if torch:
        tx, tw = torch.from_numpy(x), torch.from_numpy(w)
        contenders["torch"] = lambda: functional.conv2d(tx, tw, padding=padding, stride=stride).numpy()
    if onnxruntime:
        nodes = [node("Conv", ["x", "w"], ["c"], pads=[padding] * 4, strides=[stride] * 2)]
        contenders["onnxruntime"] = session(nodes, {"x": x}, "c", {"w": w})
    name = f"conv {window}x{window} {depth}@{size} to {channels}, stride {stride}"
    row(name, f"conv_{depth}_{channels}_{size}_{window}_{stride}", [x, w], (1, channels, out, out), **contenders)


def add_windows():
    x, w = values(1, 128, 56, 56), values(128, 1, 3, 3)
    contenders = {}
    if torch:
        tx, tw = torch.from_numpy(x), torch.from_numpy(w)
        contenders["torch"] = lambda: functional.conv2d(tx, tw, padding=1, groups=128).numpy()
    if onnxruntime:
        nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], group=128)]
        contenders["onnxruntime"] = session(nodes, {"x": x}, "c", {"w": w})
    row("depthwise 3x3 128@56", "depthwise", [x, w], x.shape, **contenders)
    y = values(1, 64, 112, 112)
    contenders = {}
    if torch:
        ty = torch.from_numpy(y)
        contenders["torch"] = lambda: functional.max_pool2d(ty, 3, 2, 1).numpy()
    if onnxruntime:
        nodes = [node("MaxPool", ["x"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 0, 0], strides=[2, 2])]
        contenders["onnxruntime"] = session(nodes, {"x": y}, "c")
    row("largest of 3x3, stride 2, 64@112", "max_pool", [y], (1, 64, 56, 56), **contenders)


for shape in [(1024, 1024, 1024), (128, 1024, 256), (128, 256, 1024), (197, 768, 768), (33, 65, 127), (1, 784, 512)]:
    add_matmul(*shape)
for shape in [(64, 64, 56, 3, 1, 1), (128, 128, 28, 3, 1, 1), (256, 256, 14, 3, 1, 1), (512, 512, 7, 3, 1, 1),
              (3, 64, 224, 7, 2, 3), (64, 128, 56, 3, 2, 1), (64, 128, 56, 1, 2, 0), (256, 64, 56, 1, 1, 0)]:
    add_conv(*shape)
add_windows()

x = values(1024, 1024)
scale, shift = values(1024), values(1024)
long = values(1 << 22)
short = values(1 << 20)
contenders = {}
if torch:
    tx, tscale, tshift, tlong, tshort = (torch.from_numpy(array) for array in (x, scale, shift, long, short))
if onnxruntime:
    one, zero, two, six, three = (np.full((), value, np.float32) for value in (1, 0, 2, 6, 3))


def numpy_softmax():
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def numpy_layer_norm():
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale + shift


def with_torch(**more):
    return more if torch else {}


def with_ort(make):
    return {"onnxruntime": make()} if onnxruntime else {}


row("softmax 1024x1024", "softmax", [x], x.shape, numpy=numpy_softmax,
    **with_torch(torch=lambda: torch.softmax(tx, -1).numpy()),
    **with_ort(lambda: session([node("Softmax", ["x"], ["y"], axis=-1)], {"x": x}, "y")))
row("layernorm 1024x1024", "layer_norm", [x, scale, shift], x.shape, numpy=numpy_layer_norm,
    **with_torch(torch=lambda: functional.layer_norm(tx, (1024,), tscale, tshift).numpy()),
    **with_ort(lambda: session([node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1)], {"x": x}, "y",
                               {"s": scale, "b": shift})))
row("five cheap operations, 4 M", "cheap_chain", [long], long.shape,
    numpy=lambda: np.minimum(np.maximum(long * np.float32(2) + np.float32(1), np.float32(0)), np.float32(6)) - np.float32(3),
    **with_torch(torch=lambda: (torch.clamp(tlong * 2 + 1, 0, 6) - 3).numpy()))
row("x sigmoid(tanh(x) + 1), 1 M", "tanh_sigmoid", [short], short.shape,
    numpy=lambda: short / (np.float32(1) + np.exp(-(np.tanh(short) + np.float32(1)))),
    **with_torch(torch=lambda: (tshort * torch.sigmoid(torch.tanh(tshort) + 1)).numpy()))
row("sum of rows, 1024x1024", "sum_rows", [x], (1024,), numpy=lambda: x.sum(1),
    **with_torch(torch=lambda: tx.sum(1).numpy()))
row("sum of columns, 1024x1024", "sum_columns", [x], (1024,), numpy=lambda: x.sum(0),
    **with_torch(torch=lambda: tx.sum(0).numpy()))
row("transpose, 1024x1024", "transpose", [x], x.shape, numpy=lambda: np.ascontiguousarray(x.T),
    **with_torch(torch=lambda: tx.t().contiguous().numpy()))
row("copy, 1 M", "copy", [short], short.shape, numpy=lambda: short.copy(), **with_torch(torch=lambda: tshort.clone().numpy()))


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


def median(numbers):
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]


if missing:
    print("missing\t" + ", ".join(missing))
for name, kernel, inputs, shape, contenders in rows:
    out = np.full(shape, np.nan, np.float32)
    function = kernels[kernel]

    def ours(function=function, inputs=inputs, out=out):
        function(*inputs, out)

    ours()
    for other, call in contenders.items():
        np.testing.assert_allclose(out, call(), rtol=2e-3, atol=2e-3, err_msg=f"{name}: {other}")
    everyone = {"ours": ours, **contenders}
    times = {who: [] for who in everyone}
    for _ in range(ROUNDS):
        for who, call in everyone.items():
            times[who].append(best(call, 0.02))
    columns = []
    for who, measured in times.items():
        ratio = median([mine / theirs for mine, theirs in zip(times["ours"], measured)])
        columns.append(f"{who}={median(measured) * 1e6:.1f}:{ratio:.3f}")
    print(name + "\t" + "\t".join(columns), flush=True)
