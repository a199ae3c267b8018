"""Operators of onnxruntime, of the domain `com.microsoft`, which only onnxruntime has. They join `operators.ALL`."""

import numpy as np
from case import make, parts
from onnx import helper
from operators import ALL

DOMAIN = "com.microsoft"


def case_of(*names):
    """Registers a function of a draw and a name."""

    def register(function):
        for name in names:
            ALL[f"{DOMAIN}.{name}"] = lambda draw, name, function=function: function(draw, name.removeprefix(f"{DOMAIN}."))
        return function

    return register


def single(draw, name, values, attributes=None, outputs=1, domain=DOMAIN, share=0.3, **how):
    """A case of one node. `values` has arrays by names, and None for omitted inputs."""
    given = {key: value for key, value in values.items() if value is not None}
    inputs, constants = parts(draw, given, share)
    attributes = {key: value for key, value in (attributes or {}).items() if value is not None}
    names = [f"y{place}" for place in range(outputs)]
    keys = [key if value is not None else "" for key, value in values.items()]
    while not keys[-1]:
        keys.pop()
    node = helper.make_node(name, keys, names, domain=domain, **attributes)
    shapes = ", ".join(f"{value.dtype}{list(value.shape)}{'*' if key in constants else ''}" for key, value in given.items())
    return make(f"{name}({shapes}) {attributes}", [node], inputs, names, constants=constants, **how)


def floats(draw, *shape):
    return draw.array("float32", shape)


@case_of("Gelu", "QuickGelu", "BiasGelu", "FastGelu")
def gelu(draw, name):
    x = draw.array("float32", draw.shape(1, 4), draw.one(0.0, 0.1))
    row = floats(draw, x.shape[-1])
    bias = row if name == "BiasGelu" else draw.one(None, row) if name == "FastGelu" else None
    attributes = {"alpha": draw.one(None, 0.5, 1.0, 2.0)} if name == "QuickGelu" else {}
    # Its factor 1 + tanh or 1 + erf loses digits near 0.
    return single(draw, name, {"x": x, "b": bias}, attributes, absolute=2e-6)


@case_of("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization")
def norm(draw, name):
    batch, length, size = draw.number(1, 3), draw.number(1, 5), draw.one(1, 3, 8, 16, 33, 64)
    row = lambda: floats(draw, size)  # noqa: E731
    values = {"x": floats(draw, batch, length, size)}
    attributes = {"epsilon": draw.one(None, 1e-5, 0.1)}
    if name == "SimplifiedLayerNormalization":
        return single(draw, name, {**values, "g": row()}, attributes, domain="", relative=1e-4, of_largest=1e-5)
    values["skip"] = draw.one(floats(draw, batch, length, size), floats(draw, 1, length, size), floats(draw, length, size))
    values["g"] = row()
    if name == "SkipLayerNormalization":
        values["shift"] = draw.one(None, row())
    values["bias"] = draw.one(None, row())
    if size == 1:
        attributes["epsilon"] = 0.1
    return single(draw, name, values, attributes, relative=1e-4, of_largest=1e-5)


@case_of("EmbedLayerNormalization")
def embed(draw, name):
    batch, length, size = draw.number(1, 3), draw.number(1, 5), draw.one(4, 8, 16, 33)
    rows = {table: draw.number(2, 9) for table in ("words", "places", "segments")}
    rows["places"] = max(rows["places"], length)
    numbers = lambda table, shape: draw.numpy.integers(0, rows[table], shape).astype(np.int32)  # noqa: E731
    segmented = draw.chance()
    values = {
        "ids": numbers("words", (batch, length)),
        "segments": numbers("segments", (batch, length)) if segmented else None,
        "words": floats(draw, rows["words"], size),
        "places": floats(draw, rows["places"], size),
        "table": floats(draw, rows["segments"], size) if segmented else None,
        "g": floats(draw, size),
        "shift": floats(draw, size),
        "mask": draw.one(None, draw.numpy.integers(0, 2, (batch, length)).astype(np.int32)),
        "at": draw.one(None, numbers("places", (batch, length)), numbers("places", (1, length))),
    }
    return single(draw, name, values, {"epsilon": draw.one(None, 1e-3)}, outputs=3, relative=1e-4, of_largest=1e-5)


@case_of("FusedMatMul")
def matmul(draw, name):
    batch = draw.shape(0, 2, 4, zero=0)
    m, k, n = draw.number(1, 17), draw.number(1, 33), draw.one(1, 5, 16, 33)
    turns = [draw.one(0, 1), draw.one(0, 1)]
    a, b = [*batch, *((k, m) if turns[0] else (m, k))], [*batch, *((n, k) if turns[1] else (k, n))]
    attributes = {"alpha": draw.one(None, 0.125, 2.0), "transA": turns[0], "transB": turns[1]}
    for shape, letter in ((a, "A"), (b, "B")):
        if batch and draw.chance(0.2):
            # The first dimension of the matrix is in front of the batch.
            shape.insert(0, shape.pop(-2))
            attributes[f"transBatch{letter}"] = 1
    return single(draw, name, {"a": floats(draw, *a), "b": floats(draw, *b)}, attributes, of_largest=3e-6, relative=1e-4)


@case_of("FusedGemm")
def gemm(draw, name):
    m, k, n, turns = draw.number(1, 17), draw.number(1, 33), draw.one(1, 5, 16, 33), draw.one(0, 1)
    activation, numbers = draw.one(("Relu", ""), ("LeakyRelu", "a"), ("Sigmoid", ""), ("Tanh", ""), ("Elu", "a"), ("HardSigmoid", "ab"), ("Softplus", ""))
    attributes = {"activation": activation, "transB": turns, "alpha": draw.one(None, 0.5), "beta": draw.one(None, 2.0)}
    attributes |= {f"activation_{'alpha' if letter == 'a' else 'beta'}": draw.one(0.1, 0.5) for letter in numbers}
    values = {"a": floats(draw, m, k), "b": floats(draw, *((n, k) if turns else (k, n))), "c": draw.one(None, floats(draw, n))}
    return single(draw, name, values, attributes, of_largest=5e-6, relative=1e-4)


@case_of("FusedConv")
def conv(draw, name):
    channels, filters, window = draw.one(1, 3, 8), draw.one(1, 4, 16), draw.number(1, 3)
    image = floats(draw, draw.number(1, 2), channels, draw.number(3, 9), draw.number(3, 9))
    activation, count = draw.one(("Relu", 0), ("Sigmoid", 0), ("Tanh", 0), ("LeakyRelu", 1), ("Clip", 2), ("HardSigmoid", 2), ("HardSwish", 0))
    attributes = {"activation": activation, "pads": [draw.number(0, 1)] * 4, "strides": [draw.number(1, 2)] * 2}
    if count:
        attributes["activation_params"] = [draw.one(-0.5, 0.1, 0.25), 0.75][:count]
    values = {"x": image, "w": floats(draw, filters, channels, window, window), "b": draw.one(None, floats(draw, filters))}
    return single(draw, name, values, attributes, of_largest=5e-6, relative=1e-4)


def quantized(draw, shape, dtype):
    """Bytes, their scale and their zero point."""
    info = np.iinfo(dtype)
    array = draw.numpy.integers(info.min, info.max + 1, shape).astype(dtype)
    return [array, np.float32(draw.one(0.01, 0.02, 0.5)), np.array(draw.number(info.min, info.max), dtype)]


def of_bytes(draw, name, tensors, attributes=None, dtype="uint8", last=None):
    """A case of a node on bytes. The result is dequantized: one step of its scale may go either way."""
    info = np.iinfo(dtype)
    # The scale and the zero point fit the results, so that few of them are at the ends.
    result = last or [np.float32(draw.one(0.02, 0.1)), np.array(draw.number(info.min // 2, info.max // 2), dtype)]
    first = name == "QLinearConcat"
    values = [*result, *tensors] if first else [*tensors, *result]
    scale, zero = (0, 1) if first else (len(values) - 2, len(values) - 1)
    names = [f"i{place}" if value is not None else "" for place, value in enumerate(values)]
    given = {key: np.asarray(value) for key, value in zip(names, values) if key}
    inputs = {key: value for key, value in given.items() if value.ndim > 0 and value.dtype == dtype}
    constants = {key: value for key, value in given.items() if key not in inputs}
    nodes = [helper.make_node(name, names, ["q"], domain=DOMAIN, **(attributes or {})), helper.make_node("DequantizeLinear", ["q", names[scale], names[zero]], ["y"])]
    shapes = [list(value.shape) for value in inputs.values()]
    return make(f"{name}{shapes} {dtype} {attributes}", nodes, inputs, ["y"], constants=constants, absolute=1.01 * float(result[0]))


@case_of("QLinearAdd", "QLinearMul", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearConcat")
def of_elements(draw, name):
    dtype, shape = draw.one("uint8", "int8"), draw.shape(1, 4, zero=0)
    if name in ("QLinearAdd", "QLinearMul"):
        other = [1 if draw.chance(0.25) else extent for extent in shape]
        return of_bytes(draw, name, [*quantized(draw, shape, dtype), *quantized(draw, other, dtype)], dtype=dtype)
    if name == "QLinearConcat":
        axis, tensors = draw.axis(len(shape)), []
        for _ in range(draw.number(1, 3)):
            own = list(shape)
            own[axis] = draw.number(1, 6)
            tensors += quantized(draw, own, dtype)
        return of_bytes(draw, name, tensors, {"axis": axis}, dtype)
    return of_bytes(draw, name, quantized(draw, shape, dtype), {"alpha": draw.one(0.01, 0.3)} if name == "QLinearLeakyRelu" else None, dtype)


@case_of("QLinearAveragePool", "QLinearGlobalAveragePool")
def pool(draw, name):
    dtype, last = draw.one("uint8", "int8"), draw.one(0, 1)
    channels, spatial = draw.one(1, 3, 16), [draw.number(3, 9), draw.number(3, 9)]
    shape = [draw.number(1, 2), *spatial, channels] if last else [draw.number(1, 2), channels, *spatial]
    attributes = {"channels_last": last}
    if name == "QLinearAveragePool":
        attributes |= {"kernel_shape": [draw.number(2, 3)] * 2, "strides": [draw.number(1, 2)] * 2, "pads": [draw.number(0, 1)] * 4, "count_include_pad": draw.one(0, 1)}
    return of_bytes(draw, name, quantized(draw, shape, dtype), attributes, dtype)


@case_of("QGemm")
def quantized_gemm(draw, name):
    dtype, turns = draw.one("uint8", "int8"), [draw.one(0, 1), draw.one(0, 1)]
    m, k, n = draw.number(1, 9), draw.number(1, 33), draw.one(1, 5, 16, 33)
    a = quantized(draw, (k, m) if turns[0] else (m, k), dtype)
    b = quantized(draw, (n, k) if turns[1] else (k, n), dtype)
    if draw.chance():
        b[1:] = [np.linspace(0.005, 0.02, n).astype("f4"), np.full(n, b[2])]
    c = draw.one(None, draw.numpy.integers(-999, 999, n).astype("i4"))
    largest = float(k * 255 * 255 * np.max(a[1]) * np.max(b[1]))
    last = [np.float32(largest / 2000), np.array(draw.number(0, 100), dtype)]
    return of_bytes(draw, name, [*a, *b, c], {"transA": turns[0], "transB": turns[1], "alpha": draw.one(1.0, 0.5)}, dtype, last)


@case_of("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
def dynamic(draw, name):
    batch, m, k, n = draw.shape(0, 1, 3, zero=0), draw.number(1, 9), draw.number(1, 40), draw.one(1, 5, 16, 33)
    # 7 bits: some CPUs saturate sums of two products.
    b = draw.numpy.integers(-64, 64, (k, n)).astype("i1")
    column = draw.chance()
    scale = np.linspace(0.01, 0.02, n).astype("f4") if column else np.float32(0.02)
    zero = draw.one(None, draw.numpy.integers(-9, 9, n if column else ()).astype("i1"))
    bias = draw.one(None, floats(draw, n))
    if name == "DynamicQuantizeMatMul":
        values = {"a": floats(draw, *batch, m, k), "b": b, "s": scale, "z": zero, "c": bias}
        # The bytes of a number between two of them may be either.
        return single(draw, name, values, share=0.8, relative=1e-4, of_largest=0.02)
    bytes_ = draw.numpy.integers(0, 256, [*batch, m, k]).astype("u1")
    values = {"a": bytes_, "b": b, "as": np.float32(0.05), "bs": scale, "az": draw.one(None, np.uint8(draw.number(0, 255))), "bz": zero, "c": bias}
    return single(draw, name, values, share=0.8, relative=1e-5, of_largest=1e-6)


def mask_of(draw, batch, length, total, ranges):
    """A mask in one of its forms, or None."""
    kinds = [None, "keys", "pairs", "lengths", *(["ranges"] if ranges else [])]
    kind = draw.one(*kinds)
    integers = lambda low, high, shape: draw.numpy.integers(low, high, shape).astype(np.int32)  # noqa: E731
    if kind == "keys":
        return integers(0, 2, (batch, total))
    if kind == "pairs":
        return integers(0, 2, (batch, length, total))
    if kind == "lengths":
        return integers(1, total + 1, batch)
    if kind == "ranges":
        begins = integers(0, total, batch)
        return np.concatenate([np.minimum(begins + integers(1, total + 1, batch), total).astype(np.int32), begins])
    return None


@case_of("Attention")
def attention(draw, name):
    batch, length, width, heads, size = draw.number(1, 3), draw.number(1, 7), draw.number(1, 9), draw.one(1, 2, 4), draw.one(1, 4, 8)
    past = draw.one(0, 0, draw.number(1, 4))
    total = past + length
    hidden = heads * size
    values = {
        "x": floats(draw, batch, length, width),
        "w": floats(draw, width, 3 * hidden),
        "b": draw.one(None, floats(draw, 3 * hidden)),
        "m": mask_of(draw, batch, length, total, True),
        "p": floats(draw, 2, batch, heads, past, size) if past else None,
        # onnxruntime does not take both.
        "bias": None if past else draw.one(None, floats(draw, draw.one(1, batch), draw.one(1, heads), length, total)),
    }
    attributes = {"num_heads": heads, "unidirectional": draw.one(None, 1), "scale": draw.one(None, 0.3), "mask_filter_value": draw.one(None, -3.0)}
    return single(draw, name, values, attributes, outputs=2 if past else 1, relative=1e-4, of_largest=1e-5)


@case_of("MultiHeadAttention")
def multi_head(draw, name):
    batch, length, heads, size = draw.number(1, 3), draw.number(1, 7), draw.one(1, 2, 4), draw.one(1, 4, 8)
    causal, past = draw.one(None, 1), draw.one(0, 0, draw.number(1, 4))
    keys = length if causal or past else draw.number(1, 9)
    total, hidden = past + keys, heads * size
    cache = lambda: floats(draw, batch, heads, past, size) if past else None  # noqa: E731
    values = {
        "q": floats(draw, batch, length, hidden),
        "k": floats(draw, batch, keys, hidden),
        "v": floats(draw, batch, keys, hidden),
        "b": draw.one(None, floats(draw, 3 * hidden)),
        "m": mask_of(draw, batch, length, total, False),
        "bias": draw.one(None, floats(draw, draw.one(1, batch), draw.one(1, heads), length, total)),
        "pk": cache(),
        "pv": cache(),
    }
    attributes = {"num_heads": heads, "unidirectional": causal, "scale": draw.one(None, 0.3)}
    return single(draw, name, values, attributes, outputs=3, relative=1e-4, of_largest=1e-5)


@case_of("GroupQueryAttention")
def group_query(draw, name):
    batch, key_heads, group, size = draw.number(1, 3), draw.one(1, 2), draw.one(1, 2, 3), draw.one(8, 16)
    heads, past = key_heads * group, draw.one(0, draw.number(1, 6))
    length = 1 if past and batch > 1 else draw.number(1, 6)
    total = past + length
    rotary = size == 16 and draw.chance()
    sized = lambda count: floats(draw, batch, length, count * size)  # noqa: E731
    packed = draw.chance(0.3)
    cache = lambda: floats(draw, batch, key_heads, past, size) if past else None  # noqa: E731
    values = {
        "q": sized(heads + 2 * key_heads if packed else heads),
        "k": None if packed else sized(key_heads),
        "v": None if packed else sized(key_heads),
        "pk": cache(),
        "pv": cache(),
        "counts": np.full(batch, total - 1, np.int32),
        "total": np.array(total, np.int32),
        "cos": floats(draw, total + 2, size // 2) if rotary else None,
        "sin": floats(draw, total + 2, size // 2) if rotary else None,
        "at": None,
        "bias": draw.one(None, floats(draw, draw.one(1, batch), draw.one(1, heads), length, total)),
        "sink": draw.one(None, floats(draw, heads)),
    }
    causal = draw.one(None, None, 0)
    window = None if causal == 0 else draw.one(None, 1, 3)
    attributes = {"num_heads": heads, "kv_num_heads": key_heads, "do_rotary": int(rotary), "rotary_interleaved": draw.one(0, 1) if rotary else None}
    attributes |= {"causal": causal, "local_window_size": window, "softcap": draw.one(None, 0.8), "scale": draw.one(None, 0.3)}
    case = single(draw, name, values, attributes, outputs=3, share=0, relative=1e-4, of_largest=1e-5)
    return case


@case_of("RotaryEmbedding")
def rotary(draw, name):
    batch, heads, length, size = draw.number(1, 3), draw.number(1, 3), draw.number(1, 6), 2 * draw.number(1, 8)
    turned = draw.one(0, 2 * draw.number(1, size // 2))
    x = floats(draw, batch, heads, length, size) if draw.chance() else floats(draw, batch, length, heads * size)
    rows, half = length + 3, (turned or size) // 2
    places = draw.one(np.array([draw.number(0, 3)]), draw.numpy.integers(0, rows, (batch, length)))
    attributes = {"interleaved": draw.one(0, 1), "num_heads": heads, "rotary_embedding_dim": turned}
    return single(draw, name, {"x": x, "at": places, "cos": floats(draw, rows, half), "sin": floats(draw, rows, half)}, attributes, of_largest=1e-6)


@case_of("MatMulNBits")
def bits(draw, name):
    width, block, n, k = draw.one(4, 4, 8), draw.one(16, 32, 64), draw.one(1, 5, 16, 33), draw.number(1, 150)
    count = -(-k // block)
    values = {
        "a": floats(draw, *draw.shape(0, 2, 4, zero=0), k),
        "b": draw.numpy.integers(0, 256, (n, count, block * width // 8)).astype("u1"),
        "s": (draw.array("float32", (n, count)) / 50).astype("f4"),
        "z": draw.one(None, draw.numpy.integers(0, 256, (n, -(-count * width // 8))).astype("u1")),
        "g": None,
        "c": draw.one(None, floats(draw, n)),
    }
    inputs = {"a": values["a"] if values["a"].ndim > 1 else values["a"][None]}
    constants = {key: value for key, value in values.items() if value is not None and key != "a"}
    keys = [key if value is not None else "" for key, value in values.items()]
    while not keys[-1]:
        keys.pop()
    attributes = {"N": n, "K": k, "bits": width, "block_size": block}
    node = helper.make_node(name, keys, ["y"], domain=DOMAIN, **attributes)
    return make(f"{name}{list(inputs['a'].shape)} {attributes}", [node], inputs, ["y"], constants=constants, relative=1e-4, of_largest=1e-5)
