"""Times the kernels of tests/bench/compiler beside NumPy, onnxruntime, PyTorch (eager, and by torch.compile) and the crates gemm, faer and ndarray: for each number of threads, in
interleaved rounds. Each contender is a process of its own, which is stopped while another one is measured (turns.py). With one thread, calls of a millisecond and more are timed by
the CPU time of the thread: other programs do not count.

Everyone is called with what is made beforehand of the same arrays: tensors of tvm_ffi (ours), tensors of PyTorch, addresses (the crates), arrays (NumPy, onnxruntime).

usage: compiler.py LIBRARY PEERS THREADS ROUNDS [WORDS [eager]]; PEERS is the library of tests/bench/gemm-peers, WORDS are parts of the names of rows with commas between them, and `eager` leaves torch.compile out; prints a line for each row: name, then contender=microseconds:ratio, tab-separated. A ratio is the median over the
rounds of ours / theirs. Every result is compared first. A contender that computes something else than we and another one do is left out.
"""

import ctypes
import os
import sys
import tempfile
from pathlib import Path

CONTENDERS = ("ours", "numpy", "onnxruntime", "torch", "torch_compiled", "gemm", "faer", "ndarray")
CONTENDER = sys.argv[2] if sys.argv[1:2] == ["--contender"] else None
if CONTENDER:
    del sys.argv[1:3]
LIBRARY, PEERS, THREADS, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
WORDS = sys.argv[5].split(",") if len(sys.argv) > 5 else [""]
COMPILES = sys.argv[6:] != ["eager"]
for variable in ("RAYON_NUM_THREADS", "TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402
from turns import Contender, answer, best, columns  # noqa: E402

missing = []
kernels = crates = torch = onnxruntime = None
if CONTENDER == "ours":
    import tvm_ffi

    kernels = tvm_ffi.load_module(LIBRARY)
if CONTENDER in ("gemm", "faer", "ndarray"):
    crates = ctypes.CDLL(PEERS)
if CONTENDER in ("torch", "torch_compiled"):
    try:
        import torch
        import torch.nn.functional as functional

        torch.set_num_threads(THREADS)
    except ImportError as error:
        torch = None
        missing.append(f"torch ({error})")
compiles = False
if torch and CONTENDER == "torch_compiled":
    try:
        # It calls a C++ compiler.
        torch.compile(lambda x: x * 2 + 1)(torch.ones(64))
        compiles = True
    except Exception as error:
        missing.append(f"torch.compile ({type(error).__name__}: {str(error).splitlines()[0]})")
if CONTENDER == "onnxruntime":
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError as error:
        onnxruntime = None
        missing.append(f"onnxruntime ({error})")

random = np.random.default_rng(0)


def values(*shape):
    """Seeded numbers, 16 bytes behind a line of the caches in every process."""
    count = int(np.prod(shape))
    room = np.empty(count + 32, np.float32)
    start = (16 - room.ctypes.data) % 64 // 4
    array = room[start : start + count].reshape(shape)
    random.standard_normal(out=array, dtype=np.float32)
    return array


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


# The names of all rows, and this contender's call for each row that it supports.
names, calls = [], {}


def row(name, kernel, inputs, shape, **contenders):
    if not any(word in name for word in WORDS):
        return
    names.append(name)
    if CONTENDER == "ours":
        out = np.full(shape, np.nan, np.float32)
        function, arguments = kernels[kernel], [tvm_ffi.from_dlpack(array) for array in [*inputs, out]]
        calls[name] = lambda: function(*arguments) or out
    elif CONTENDER in contenders:
        calls[name] = contenders[CONTENDER]


def by_torch(function, *tensors):
    """The contender of PyTorch for a function of tensors, eager or compiled. None without PyTorch."""
    if not torch:
        return {}
    if CONTENDER == "torch":
        return {"torch": lambda: function(*tensors).numpy()}
    if not compiles:
        return {}
    compiled = torch.compile(function)
    return {"torch_compiled": lambda: compiled(*tensors).numpy()}


def by_ndarray(name, x, count, shape):
    """The contender of the crate ndarray: a C function of numbers, results, a count and the number of threads."""
    if CONTENDER != "ndarray":
        return {}
    function = getattr(crates, f"peer_ndarray_{name}")
    function.argtypes, function.restype = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 2, None
    out = np.empty(shape, np.float32)

    def call():
        function(x.ctypes.data, out.ctypes.data, count, THREADS)
        return out

    return {"ndarray": call}


def product_of(crate, a, b, m, k, n):
    """A function that multiplies with a Rust crate."""
    function = getattr(crates, f"peer_{crate}")
    function.argtypes, function.restype = [ctypes.c_void_p] * 3 + [ctypes.c_size_t] * 4, None
    out = np.empty((m, n), np.float32)
    arguments = (a.ctypes.data, b.ctypes.data, out.ctypes.data, m, k, n, THREADS)

    # Keeps the arrays alive: their addresses alone would not.
    def call(_arrays=(a, b)):
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
    if crates:
        contenders[CONTENDER] = product_of(CONTENDER, a, b, m, k, n)
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


def result(name, file):
    np.save(file, calls[name]())
    return "written"


def measure(name):
    return best(calls[name], 0.02 if THREADS == 1 else 0.06, THREADS == 1)


def start():
    """The contenders that support some row, each with the names of its rows."""
    contenders = {}
    for who in CONTENDERS:
        if who == "torch_compiled" and not COMPILES:
            continue
        contender = Contender(who, [sys.executable, __file__, "--contender", who, *sys.argv[1:]])
        if not contender.is_ready:
            sys.exit(f"{who} did not start (its message is above)")
        lines = [line.split("\t", 1) for line in contender.lines]
        for problem in (rest for kind, rest in lines if kind == "missing"):
            print(f"missing\t{problem}")
        contender.rows = {rest for kind, rest in lines if kind == "row"}
        if contender.rows:
            contenders[who] = contender
        else:
            contender.end()
    return contenders


def main():
    contenders = start()
    for name in names:
        able = [who for who, contender in contenders.items() if name in contender.rows]
        with tempfile.TemporaryDirectory() as folder:
            results = {}
            for who in able:
                file = Path(folder, f"{who}.npy")
                contenders[who].ask(f"result\t{name}\t{file}")
                results[who] = np.load(file)
        ours = results["ours"]
        agree = [who for who in able if np.allclose(ours, results[who], rtol=2e-3, atol=2e-3)]
        if "ours" not in agree or len(agree) < 2:
            sys.exit(f"{name}: no contender computes what we do")
        for other in able:
            if other not in agree:
                print(f"missing\t{other} of {name} (it computes something else than the others)")
        times = {who: [] for who in agree}
        for _ in range(ROUNDS):
            for who in agree:
                times[who].append(float(contenders[who].ask(f"time\t{name}")))
        print(name + "\t" + columns(times), flush=True)


if CONTENDER:
    lines = [f"missing\t{problem}" for problem in missing]
    lines += [f"row\t{name}" for name in calls]
    answer(lines, {"result": result, "time": measure})
else:
    main()
