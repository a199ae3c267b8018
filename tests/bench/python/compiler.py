"""Times the kernels of tests/bench/compiler beside NumPy, onnxruntime, PyTorch (eager, and by torch.compile) and the crates gemm, faer and ndarray: one process for each number of threads, in
interleaved rounds. With one thread, calls of a millisecond and more are timed by the CPU time of the thread: other programs do not count.

Everyone is called with what is made beforehand of the same arrays: tensors of tvm_ffi (ours), tensors of PyTorch, addresses (the crates), arrays (NumPy, onnxruntime).

usage: compiler.py LIBRARY PEERS THREADS ROUNDS [WORDS [eager]]; PEERS is the library of tests/bench/gemm-peers, WORDS are parts of the names of rows with commas between them, and `eager` leaves torch.compile out; prints a line for each row: name, then contender=microseconds:ratio, tab-separated. A ratio is the median over the
rounds of ours / theirs. Every result is compared first. A contender that computes something else than we and another one do is left out.
"""

import ctypes
import os
import sys
import time

LIBRARY, PEERS, THREADS, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
WORDS = sys.argv[5].split(",") if len(sys.argv) > 5 else [""]
COMPILES = sys.argv[6:] != ["eager"]
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
compiles = False
if torch and COMPILES:
    try:
        # It calls a C++ compiler.
        torch.compile(lambda x: x * 2 + 1)(torch.ones(64))
        compiles = True
    except Exception as error:
        missing.append(f"torch.compile ({type(error).__name__}: {str(error).splitlines()[0]})")
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


def by_torch(function, *tensors):
    """The contenders of PyTorch for a function of tensors: eager and compiled. None without PyTorch."""
    if not torch:
        return {}
    contenders = {"torch": lambda: function(*tensors).numpy()}
    if compiles:
        compiled = torch.compile(function)
        contenders["torch_compiled"] = lambda: compiled(*tensors).numpy()
    return contenders


def by_ndarray(name, x, count, shape):
    """The contender of the crate ndarray: a C function of numbers, results, a count and the number of threads."""
    function = getattr(crates, f"peer_ndarray_{name}")
    function.argtypes, function.restype = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 2, None
    out = np.empty(shape, np.float32)

    def call():
        function(x.ctypes.data, out.ctypes.data, count, THREADS)
        return out

    return {"ndarray": call}


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
        contenders |= by_torch(torch.mm, torch.from_numpy(a), torch.from_numpy(b))
    if onnxruntime:
        contenders["onnxruntime"] = session([node("MatMul", ["a", "b"], ["c"])], {"a": a}, "c", {"b": b})
    for crate in ("gemm", "faer", "ndarray"):
        contenders[crate] = product_of(crate, a, b, m, k, n)
    row(f"matrix product {m}x{k}x{n}", f"matmul_{m}_{k}_{n}", [a, b], (m, n), **contenders)


def add_conv(depth, channels, size, window, stride, padding):
    x, w = values(1, depth, size, size), values(channels, depth, window, window)
    out = (size + 2 * padding - window) // stride + 1
    contenders = {}
    if torch:
        conv = lambda x, w: functional.conv2d(x, w, padding=padding, stride=stride)  # noqa: E731
        contenders |= by_torch(conv, torch.from_numpy(x), torch.from_numpy(w))
    if onnxruntime:
        nodes = [node("Conv", ["x", "w"], ["c"], pads=[padding] * 4, strides=[stride] * 2)]
        contenders["onnxruntime"] = session(nodes, {"x": x}, "c", {"w": w})
    name = f"conv {window}x{window} {depth}@{size} to {channels}, stride {stride}"
    row(name, f"conv_{depth}_{channels}_{size}_{window}_{stride}", [x, w], (1, channels, out, out), **contenders)


def add_windows():
    x, w = values(1, 128, 56, 56), values(128, 1, 3, 3)
    contenders = {}
    if torch:
        conv = lambda x, w: functional.conv2d(x, w, padding=1, groups=128)  # noqa: E731
        contenders |= by_torch(conv, torch.from_numpy(x), torch.from_numpy(w))
    if onnxruntime:
        nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], group=128)]
        contenders["onnxruntime"] = session(nodes, {"x": x}, "c", {"w": w})
    row("depthwise 3x3 128@56", "depthwise", [x, w], x.shape, **contenders)
    y = values(1, 64, 112, 112)
    contenders = {}
    if torch:
        contenders |= by_torch(lambda y: functional.max_pool2d(y, 3, 2, 1), torch.from_numpy(y))
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
else:
    tx = tscale = tshift = tlong = tshort = None
if onnxruntime:
    one, zero, two, six, three = (np.full((), value, np.float32) for value in (1, 0, 2, 6, 3))


def numpy_softmax():
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def numpy_layer_norm():
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale + shift


def with_ort(make):
    return {"onnxruntime": make()} if onnxruntime else {}


row("softmax 1024x1024", "softmax", [x], x.shape, numpy=numpy_softmax,
    **by_torch(lambda x: torch.softmax(x, -1), tx),
    **with_ort(lambda: session([node("Softmax", ["x"], ["y"], axis=-1)], {"x": x}, "y")))
row("layernorm 1024x1024", "layer_norm", [x, scale, shift], x.shape, numpy=numpy_layer_norm,
    **by_torch(lambda x, scale, shift: functional.layer_norm(x, (1024,), scale, shift), tx, tscale, tshift),
    **with_ort(lambda: session([node("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1)], {"x": x}, "y",
                               {"s": scale, "b": shift})))
row("five cheap operations, 4 M", "cheap_chain", [long], long.shape,
    numpy=lambda: np.minimum(np.maximum(long * np.float32(2) + np.float32(1), np.float32(0)), np.float32(6)) - np.float32(3),
    **by_torch(lambda x: torch.clamp(x * 2 + 1, 0, 6) - 3, tlong),
    **by_ndarray("chain", long, long.size, long.shape))
row("x sigmoid(tanh(x) + 1), 1 M", "tanh_sigmoid", [short], short.shape,
    numpy=lambda: short / (np.float32(1) + np.exp(-(np.tanh(short) + np.float32(1)))),
    **by_torch(lambda x: x * torch.sigmoid(torch.tanh(x) + 1), tshort),
    **by_ndarray("tanh_sigmoid", short, short.size, short.shape))
row("sum of rows, 1024x1024", "sum_rows", [x], (1024,), numpy=lambda: x.sum(1),
    **by_torch(lambda x: x.sum(1), tx), **by_ndarray("sum_rows", x, 1024, (1024,)))
row("sum of columns, 1024x1024", "sum_columns", [x], (1024,), numpy=lambda: x.sum(0),
    **by_torch(lambda x: x.sum(0), tx), **by_ndarray("sum_columns", x, 1024, (1024,)))
for axis, what in ((1, "row"), (0, "column")):
    row(f"place of the largest of each {what}, 1024x1024", f"{what}_argmax", [x], (1024,),
        numpy=lambda axis=axis: x.argmax(axis).astype(np.float32),
        **by_torch(lambda x, axis=axis: x.argmax(axis).float(), tx))
row("transpose, 1024x1024", "transpose", [x], x.shape, numpy=lambda: np.ascontiguousarray(x.T),
    **by_torch(lambda x: x.t().contiguous(), tx), **by_ndarray("transpose", x, 1024, x.shape))
row("copy, 1 M", "copy", [short], short.shape, numpy=lambda: short.copy(),
    **by_torch(lambda x: x.clone(), tshort), **by_ndarray("copy", short, short.size, short.shape))


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
    if not any(word in name for word in WORDS):
        continue
    out = np.full(shape, np.nan, np.float32)
    function = kernels[kernel]
    arguments = [tvm_ffi.from_dlpack(array) for array in [*inputs, out]]

    def ours(function=function, arguments=arguments):
        function(*arguments)

    ours()
    agree = {other: call for other, call in contenders.items() if np.allclose(out, call(), rtol=2e-3, atol=2e-3)}
    if not agree:
        raise AssertionError(f"{name}: no contender computes what we do")
    for other in contenders.keys() - agree.keys():
        print(f"missing\t{other} of {name} (it computes something else than the others)")
    everyone = {"ours": ours, **agree}
    times = {who: [] for who in everyone}
    for _ in range(ROUNDS):
        for who, call in everyone.items():
            if THREADS > 1:
                # Threads of the one before wait actively for a while.
                time.sleep(0.1)
            times[who].append(best(call, 0.02 if THREADS == 1 else 0.06))
    columns = []
    for who, measured in times.items():
        ratio = median([mine / theirs for mine, theirs in zip(times["ours"], measured)])
        columns.append(f"{who}={median(measured) * 1e6:.1f}:{ratio:.3f}")
    print(name + "\t" + "\t".join(columns), flush=True)
