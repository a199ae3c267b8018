"""Single operators of networks: products, convolutions, pools, norms, recurrent layers, quantization, images. They register in `operators.ALL`."""

import ml_dtypes
import numpy as np
from case import make
from onnx import TensorProto, helper
from operators import SPECIAL, broadcast, case_of, single, special, with_nan


@case_of("MatMul")
def matmul(draw, name):
    m, k, n = (draw.one(1, draw.number(1, 9), 16, 33) for _ in range(3))
    batch = draw.shape(0, 2, 4, zero=0)
    a, b = [*broadcast(draw, batch), m, k], [*batch, k, n]
    a, b = ([k] if draw.chance(0.1) else a), ([k] if draw.chance(0.1) else b)
    dtype = draw.one("float32", "float32", "float64", "int32", "float16", "bfloat16")
    values = {"a": draw.array(number(dtype), a), "b": draw.array(number(dtype), b)}
    if dtype == "bfloat16":
        return brief(draw, name, values, {})
    return single(draw, name, values, of_largest=5e-6, relative=1e-4)


def number(dtype):
    """The type in which arrays of a type are drawn."""
    return "float32" if dtype == "bfloat16" else dtype


def brief(draw, name, values, attributes):
    """A case of one node in bfloat16, which NumPy and most runtimes lack: inputs are cast to it, and results from it. All numbers are exact in bfloat16."""
    values = {key: value.astype(ml_dtypes.bfloat16).astype("float32") for key, value in values.items() if value is not None}
    nodes = [helper.make_node("Cast", [key], [f"{key}_brief"], to=TensorProto.BFLOAT16) for key in values]
    attributes = {key: value for key, value in attributes.items() if value is not None}
    nodes += [helper.make_node(name, [f"{key}_brief" for key in values], ["brief"], **attributes), helper.make_node("Cast", ["brief"], ["y"], to=TensorProto.FLOAT)]
    first = next(iter(values))
    constants = {key: value for key, value in values.items() if key != first and draw.chance()}
    inputs = {key: value for key, value in values.items() if key not in constants}
    shapes = ", ".join(f"bfloat16{list(value.shape)}" for value in values.values())
    # Other sums are rounded to 8 digits in between.
    return make(f"{name}({shapes}) {attributes}", nodes, inputs, ["y"], constants=constants, of_largest=2e-2, relative=1e-2)


@case_of("Gemm")
def gemm(draw, name):
    m, k, n = (draw.one(1, draw.number(1, 9), 16, 33) for _ in range(3))
    left, right = draw.one(0, 1), draw.one(0, 1)
    c = draw.one(None, [m, n], [n], [1, n], [m, 1], [1], [])
    values = {"a": draw.array("float32", [k, m] if left else [m, k]), "b": draw.array("float32", [n, k] if right else [k, n])}
    values["c"] = None if c is None else draw.array("float32", c)
    attributes = {"transA": left, "transB": right, "alpha": draw.one(None, 0.5, 2.0), "beta": draw.one(None, 0.0, 0.25)}
    return single(draw, name, values, attributes, of_largest=5e-6, relative=1e-4)


def window(draw, rank, extents):
    """Kernel, strides, dilations and pads that fit the extents, as attributes."""
    kernel = [draw.number(1, min(4, extent)) for extent in extents]
    dilations = [draw.one(1, 1, 2) if (size - 1) * 2 + 1 <= extent else 1 for size, extent in zip(kernel, extents)]
    attributes = {"kernel_shape": kernel, "dilations": draw.one(None, dilations)}
    attributes["strides"] = draw.one(None, [draw.number(1, 3) for _ in range(rank)])
    how = draw.one("pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
    if how == "pads":
        attributes["pads"] = draw.one(None, [draw.number(0, size - 1) for size in kernel * 2])
    else:
        attributes["auto_pad"] = how
        if how != "VALID":
            attributes["dilations"] = None
    return attributes


@case_of("Conv")
def conv(draw, name):
    rank = draw.one(1, 2, 2, 2, 3)
    extents = [draw.number(1, 9) for _ in range(rank)]
    groups = draw.one(1, 1, 2, 3)
    per, out = draw.one(1, 2, 8), groups * draw.one(1, 2, 8)
    attributes = window(draw, rank, extents)
    values = {"x": draw.array("float32", [draw.number(1, 2), groups * per, *extents]), "w": draw.array("float32", [out, per, *attributes["kernel_shape"]])}
    values["b"] = draw.one(None, draw.array("float32", [out]))
    dtype = draw.one("float32", "float32", "float32", "float64", "float16", "bfloat16")
    if dtype != "float32":
        # Only the reference supports these types, and it pads differently if the padding is
        # automatic.
        attributes.pop("auto_pad", None)
    if dtype == "bfloat16":
        return brief(draw, name, values, {**attributes, "group": groups})
    values = {key: None if value is None else value.astype(dtype) for key, value in values.items()}
    return single(draw, name, values, {**attributes, "group": groups}, share=0.7, of_largest=5e-6, relative=1e-4)


@case_of("QLinearConv", "ConvInteger")
def byte_conv(draw, name):
    extents = [draw.number(1, 9) for _ in range(draw.one(1, 2, 2, 2))]
    groups = draw.one(1, 1, 2, 3)
    per, out = draw.one(1, 2, 4, 8), groups * draw.one(1, 2, 8)
    attributes = {**window(draw, len(extents), extents), "group": groups}
    x_type, w_type = draw.one(("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"))
    x = draw.array(x_type, [draw.number(1, 2), groups * per, *extents], special(draw))
    w = draw.array(w_type, [out, per, *attributes["kernel_shape"]], special(draw))
    if name == "ConvInteger":
        return single(draw, name, {"x": x, "w": w, "xz": draw.one(None, draw.array(x_type, [])), "wz": draw.one(None, np.zeros([], w_type))}, attributes, share=0.7)
    # Powers of two, so that each judge rounds the same numbers.
    scale = lambda of: np.asarray(2.0 ** draw.numpy.integers(-4, 2, of), "float32")  # noqa: E731
    by_channel = draw.one([], [out])
    values = {"x": x, "xs": scale([]), "xz": draw.array(x_type, []), "w": w, "ws": scale(by_channel), "wz": np.zeros(by_channel, w_type)}
    if not by_channel and w_type == "uint8":
        values["wz"] = draw.array(w_type, [])
    values.update(ys=np.float32(2.0 ** draw.number(0, 5)).reshape(()), yz=draw.array(x_type, []), b=draw.one(None, draw.numpy.integers(-900, 900, [out]).astype("int32")))
    return single(draw, name, values, attributes, share=0.7)


@case_of("Attention")
def attention(draw, name):
    batch, heads, size, v_size = draw.number(1, 2), draw.one(1, 2, 3), draw.one(1, 4, 8), draw.one(1, 4, 8)
    shared = draw.one(1, 1, 2)
    q_length, length = draw.number(1, 5), draw.number(1, 6)
    joined = draw.chance()
    of = lambda count, long, wide: draw.array("float32", [batch, long, count * wide] if joined else [batch, count, long, wide])  # noqa: E731
    values = {"q": of(heads * shared, q_length, size), "k": of(heads, length, size), "v": of(heads, length, v_size)}
    attributes = {"is_causal": draw.one(None, 0, 1), "scale": draw.one(None, 0.5)}
    if joined:
        attributes.update(q_num_heads=heads * shared, kv_num_heads=heads)
    if draw.chance(0.5):
        mask = draw.array(draw.one("float32", "bool"), draw.one([q_length, length], [batch, 1, q_length, length], [1, heads * shared, q_length, length]))
        # The result of a fully masked row differs between judges.
        if mask.dtype == bool:
            mask[..., 0] = True
        values["m"] = mask
    else:
        attributes["softcap"] = draw.one(None, None, 2.0)
    return single(draw, name, values, attributes, of_largest=2e-5, relative=2e-4, opset=23)


@case_of("ConvTranspose")
def conv_transpose(draw, name):
    rank = draw.one(1, 2, 2)
    groups = draw.one(1, 1, 2)
    per, out = draw.one(1, 2, 4), draw.one(1, 2, 4)
    kernel = [draw.number(1, 4) for _ in range(rank)]
    strides = [draw.number(1, 3) for _ in range(rank)]
    attributes = {"kernel_shape": kernel, "strides": strides, "group": groups}
    attributes["pads"] = draw.one(None, [draw.number(0, (size - 1) // 2) for size in kernel * 2])
    attributes["output_padding"] = draw.one(None, [draw.number(0, stride - 1) for stride in strides])
    values = {"x": draw.array("float32", [draw.number(1, 2), groups * per, *(draw.number(2, 6) for _ in range(rank))]), "w": draw.array("float32", [groups * per, out, *kernel])}
    values["b"] = draw.one(None, draw.array("float32", [groups * out]))
    return single(draw, name, values, attributes, share=0.7, of_largest=5e-6, relative=1e-4)


@case_of("MaxPool", "AveragePool", "LpPool")
def pool(draw, name):
    rank = draw.one(1, 2, 2, 3) if name != "LpPool" else 2
    extents = [draw.number(3, 9) for _ in range(rank)]
    attributes = window(draw, rank, extents)
    attributes["ceil_mode"] = draw.one(None, 0, 1) if "auto_pad" not in attributes else None
    outputs = 1
    if name == "MaxPool":
        outputs = draw.one(1, 1, 2)
    elif name == "AveragePool":
        attributes["count_include_pad"] = draw.one(None, 0, 1)
    else:
        attributes["p"] = draw.one(1, 2)
        attributes["ceil_mode"] = None
        attributes["dilations"] = None
    if attributes.get("pads") and attributes["ceil_mode"]:
        attributes["pads"] = None
    x = draw.exact("float32", [draw.number(1, 2), draw.number(1, 5), *extents])
    if name == "MaxPool" and outputs == 1 and draw.chance(0.3):
        x = np.where(draw.numpy.random(x.shape) < 0.2, np.float32(draw.one(np.inf, -np.inf)), x)
    # Here the maximum with NaN is NaN, as in PyTorch, but not for these judges.
    if name != "MaxPool":
        x = with_nan(draw, x)
    return single(draw, name, {"x": x}, attributes, outputs=outputs, of_largest=1e-6)


@case_of("GlobalAveragePool", "GlobalMaxPool")
def global_pool(draw, name):
    x = draw.array("float32", [draw.number(1, 2), draw.number(1, 5), *draw.shape(1, 3, zero=0)])
    x = with_nan(draw, x) if name == "GlobalAveragePool" else x
    return single(draw, name, {"x": x}, of_largest=2e-6)


@case_of("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization", "LRN", "LpNormalization")
def normalization(draw, name):
    shape = [draw.number(1, 3), draw.one(1, 2, 4, 6), *draw.shape(1, 2, zero=0)]
    values = {"x": draw.array("float32", shape)}
    attributes = {"epsilon": draw.one(None, 1e-3)}
    positive = lambda size: np.abs(draw.array("float32", size)) + np.float32(0.2)  # noqa: E731
    how = {"of_largest": 1e-5, "relative": 2e-4}
    if name == "BatchNormalization":
        values.update(s=draw.array("float32", shape[1:2]), b=draw.array("float32", shape[1:2]), m=draw.array("float32", shape[1:2]), v=positive(shape[1:2]))
    elif name in ("InstanceNormalization", "GroupNormalization"):
        values.update(s=draw.array("float32", shape[1:2]), b=draw.array("float32", shape[1:2]))
        if name == "GroupNormalization":
            attributes["num_groups"] = draw.one(*(groups for groups in (1, 2, 3) if shape[1] % groups == 0))
    elif name in ("LayerNormalization", "RMSNormalization"):
        axis = draw.number(-len(shape), -1)
        values["s"] = draw.array("float32", shape[axis:])
        if name == "LayerNormalization":
            values["b"] = draw.one(None, draw.array("float32", shape[axis:]))
        else:
            how["opset"] = 23
        attributes["axis"] = axis
    elif name == "LRN":
        attributes = {"size": draw.one(1, 3, 5), "alpha": draw.one(None, 0.1), "beta": draw.one(None, 0.5), "bias": draw.one(None, 2.0)}
    else:
        attributes = {"axis": draw.axis(len(shape)), "p": draw.one(1, 2)}
    return single(draw, name, values, attributes, **how)


@case_of("Einsum")
def einsum(draw, name):
    extents = {letter: draw.number(1, 6) for letter in "abcdef"}
    equation = draw.one("ab,bc->ac", "ab,cb->ca", "abc,acd->abd", "abc,cd->abd", "abcd,aecd->acbe", "ab->ba", "ab->a", "ab,ab->", "a,b->ab", "aab->ab", "ab,bc,cd->ad", "abc->", "abc,ac->b")
    names = equation.split("->")[0].split(",")
    return single(draw, name, {f"x{place}": draw.array("float32", [extents[letter] for letter in letters]) for place, letters in enumerate(names)}, {"equation": equation}, of_largest=5e-6, relative=1e-4)


@case_of("QuantizeLinear", "DequantizeLinear")
def quantize(draw, name):
    shape = draw.shape(1, 4, zero=0)
    axis = draw.axis(len(shape))
    of = draw.one([], [shape[axis]])
    dtype = draw.one("int8", "uint8")
    scale = np.asarray(2.0 ** draw.numpy.integers(-4, 2, of), "float32")
    zero = draw.one(None, draw.array(dtype, of))
    if name == "QuantizeLinear":
        attributes = {"axis": axis, "output_dtype": helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if zero is None else None}
        return single(draw, name, {"x": np.asarray(draw.exact("float32", shape) * 3, "float32"), "s": scale, "z": zero}, attributes)
    return single(draw, name, {"x": draw.array(dtype, shape, SPECIAL), "s": scale, "z": zero}, {"axis": axis})


@case_of("DynamicQuantizeLinear")
def dynamic_quantize(draw, name):
    return single(draw, name, {"x": draw.exact("float32", draw.shape(1, 3, zero=0))}, outputs=3)


@case_of("MatMulInteger")
def matmul_integer(draw, name):
    m, k, n = (draw.one(1, draw.number(1, 9), 16, 33) for _ in range(3))
    left, right = draw.one("int8", "uint8"), draw.one("int8", "uint8")
    values = {"a": draw.array(left, [m, k], SPECIAL), "b": draw.array(right, [k, n], SPECIAL)}
    values["az"] = draw.one(None, draw.array(left, []))
    values["bz"] = draw.one(None, draw.array(right, []), draw.array(right, [n]))
    return single(draw, name, values, share=0.6)


@case_of("Resize")
def resize(draw, name):
    shape = [draw.number(1, 2), draw.number(1, 3), draw.number(1, 7), draw.number(1, 7)]
    mode = draw.one("nearest", "linear", "cubic")
    attributes = {"mode": mode, "coordinate_transformation_mode": draw.one("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")}
    if mode == "nearest":
        attributes["nearest_mode"] = draw.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    sizes = np.array(shape[:2] + [draw.number(1, 12), draw.number(1, 12)], np.int64)
    scales = np.array([1, 1, draw.one(0.5, 1, 2, 3), draw.one(0.5, 1, 2, 3)], np.float32)
    if draw.chance():
        scales = np.maximum(scales, np.float32(1))
        return single(draw, name, {"x": draw.array("float32", shape), "roi": None, "scales": scales}, attributes, share=1, of_largest=1e-5)
    return single(draw, name, {"x": draw.array("float32", shape), "roi": None, "scales": None, "sizes": sizes}, attributes, share=1, of_largest=1e-5)


@case_of("GridSample")
def grid(draw, name):
    n, c = draw.number(1, 2), draw.number(1, 3)
    attributes = {"mode": draw.one("linear", "nearest", "cubic"), "padding_mode": draw.one("zeros", "border", "reflection"), "align_corners": draw.one(0, 1)}
    at = (draw.numpy.random([n, draw.number(1, 5), draw.number(1, 5), 2]) * 3 - 1.5).astype("float32")
    return single(draw, name, {"x": draw.array("float32", [n, c, draw.number(2, 6), draw.number(2, 6)]), "grid": at}, attributes, of_largest=1e-4)


@case_of("LSTM", "GRU", "RNN")
def recurrent(draw, name):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    steps, batch, size, hidden = draw.number(1, 4), draw.number(1, 3), draw.number(1, 5), draw.one(1, 4, 8)
    direction = draw.one("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    values = {"x": draw.array("float32", [steps, batch, size]), "w": draw.array("float32", [ways, gates * hidden, size]), "r": draw.array("float32", [ways, gates * hidden, hidden])}
    values["b"] = draw.one(None, draw.array("float32", [ways, 2 * gates * hidden]))
    values["n"] = draw.one(None, draw.numpy.integers(1, steps + 1, [batch]).astype("int32"))
    values["h"] = draw.one(None, draw.array("float32", [ways, batch, hidden]))
    attributes = {"hidden_size": hidden, "direction": direction}
    if name == "GRU":
        attributes["linear_before_reset"] = draw.one(0, 1)
    return single(draw, name, values, attributes, outputs=2, share=0.6, of_largest=1e-4)


@case_of("ReverseSequence")
def reverse(draw, name):
    time, batch = draw.number(1, 6), draw.number(1, 4)
    lengths = draw.numpy.integers(1, time + 1, [batch])
    first = draw.chance()
    shape = [time, batch] if first else [batch, time]
    return single(draw, name, {"x": draw.array("float32", [*shape, *draw.shape(0, 2)]), "n": lengths}, {"time_axis": 0 if first else 1, "batch_axis": 1 if first else 0})
