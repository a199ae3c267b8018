"""Single operators with random attributes, shapes, types and special values. `ALL` has a function for each name, which returns a case."""

import numpy as np
from case import FLOATS, INTEGERS, make, parts
from onnx import TensorProto, helper

ALL = {}

#: The fraction of numbers at which formulas break, if a case has any.
SPECIAL = 0.2


def case_of(*names):
    """Registers a function of a draw and a name."""

    def register(function):
        for name in names:
            ALL[name] = function
        return function

    return register


def single(draw, name, values, attributes=None, outputs=1, share=0.3, **how):
    """A case of one node. `values` has arrays by names, and None for omitted inputs."""
    given = {key: value for key, value in values.items() if value is not None}
    inputs, constants = parts(draw, given, share)
    attributes = {key: value for key, value in (attributes or {}).items() if value is not None}
    names = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(name, [key if value is not None else "" for key, value in values.items()], names, **attributes)
    shapes = ", ".join(f"{value.dtype}{list(value.shape)}{'*' if key in constants else ''}" for key, value in given.items())
    return make(f"{name}({shapes}) {attributes}", [node], inputs, names, constants=constants, **how)


def special(draw):
    return draw.one(0.0, SPECIAL)


def broadcast(draw, shape):
    """A shape that broadcasts to `shape`, or that makes it larger."""
    kept = [1 if draw.chance(0.25) else extent for extent in shape]
    return kept[draw.number(0, len(kept)) if draw.chance(0.4) else 0 :]


UNARY = "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish IsInf IsNaN Log Mish Neg Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh Identity".split()


@case_of(*UNARY)
def unary(draw, name):
    whole = name in ("Abs", "Neg", "Relu", "Sign", "Identity") and draw.chance(0.4)
    dtype = draw.one("int32", "int64", "int8", "int16") if whole else draw.one("float32", "float32", "float64", "float16")
    if name in ("Mish", "HardSwish", "IsInf") and dtype == "float16":
        dtype = "float32"
    x = draw.array(dtype, draw.shape(), special(draw))
    if name in ("Sin", "Cos", "Tan"):
        x = np.where(np.abs(x) > 1e3, x.dtype.type(3), x)
    return single(draw, name, {"x": x})


@case_of("Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Gelu", "Shrink")
def activation(draw, name):
    number = lambda: draw.one(None, 0.1, 0.5, 1.0, 2.0)  # noqa: E731
    attributes, how = {"alpha": number()}, {}
    if name == "Selu":
        attributes["gamma"] = number()
    if name == "HardSigmoid":
        attributes["beta"] = number()
    if name == "Gelu":
        # Its factor 1 + tanh or 1 + erf loses digits near 0.
        attributes, how = {"approximate": draw.one(None, "none", "tanh")}, {"absolute": 2e-6}
    if name == "Shrink":
        attributes = {"lambd": number(), "bias": number()}
    return single(draw, name, {"x": draw.array("float32", draw.shape(), special(draw))}, attributes, **how)


@case_of("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "PRelu")
def binary(draw, name):
    whole = draw.chance(0.5) and name not in ("PRelu", "Pow")
    dtype = draw.one(*INTEGERS) if whole else draw.one(*FLOATS)
    shape = draw.shape()
    a, b = draw.array(dtype, shape, special(draw)), draw.array(dtype, broadcast(draw, shape), special(draw))
    attributes = {}
    if name == "Mod":
        attributes = {"fmod": 1 if not whole else draw.one(0, 1)}
    if name in ("Div", "Mod") and whole:
        b = np.where(b == 0, b.dtype.type(3), b)
        # The division of the smallest integer by -1 crashes onnxruntime.
        if np.dtype(dtype).kind == "i":
            a = np.where(a == np.iinfo(dtype).min, a.dtype.type(5), a)
    if name == "Pow" and draw.chance(0.4):
        return integer_power(draw, shape)
    if name == "Pow":
        b = draw.one(b, np.asarray(draw.one(0, 1, 2, 3, -1, 0.5, -0.5), dtype))
    # Divisors are not changed.
    elif name != "PRelu" and not (whole and name in ("Div", "Mod")) and draw.chance(0.3):
        a, b = b, a
    return single(draw, name, {"a": a, "b": b}, attributes)


def integer_power(draw, shape):
    """Integers, or floats with integer values, whose powers are far from the limits of their type."""
    base, exponent = draw.one("int32", "int64", "float32", "float64"), draw.one("int32", "int64", "float32")
    if base.startswith("f"):
        exponent = draw.one("int32", "int64")
    # A negative power of 0 is undefined.
    a = draw.numpy.choice([-9, -3, -2, -1, 1, 2, 3, 9], shape).astype(base)
    b = draw.numpy.integers(draw.one(0, -3), 7, draw.one([], broadcast(draw, shape))).astype(exponent)
    return single(draw, "Pow", {"a": a, "b": b}, share=0.5)


@case_of("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(draw, name):
    dtype = draw.one(*INTEGERS) if name.startswith("Bitwise") else "bool"
    shape = draw.shape()
    return single(draw, name, {"a": draw.array(dtype, shape, special(draw)), "b": draw.array(dtype, broadcast(draw, shape), special(draw))})


@case_of("Not", "BitwiseNot")
def complement(draw, name):
    return single(draw, name, {"x": draw.array("bool" if name == "Not" else draw.one(*INTEGERS), draw.shape(), special(draw))})


@case_of("BitShift")
def shift(draw, name):
    dtype = draw.one("uint8", "uint32", "uint64")
    shape = draw.shape()
    amounts = draw.numpy.integers(0, 8 * np.dtype(dtype).itemsize, broadcast(draw, shape)).astype(dtype)
    return single(draw, name, {"a": draw.array(dtype, shape, SPECIAL), "b": amounts}, {"direction": draw.one("LEFT", "RIGHT")})


@case_of("Where")
def where(draw, name):
    dtype = draw.one("float32", "int64", "uint8", "bool")
    shape = draw.shape()
    of = lambda kind: draw.array(kind, broadcast(draw, shape), special(draw))  # noqa: E731
    return single(draw, name, {"c": of("bool"), "a": draw.array(dtype, shape, special(draw)), "b": of(dtype)})


@case_of("Clip")
def clip(draw, name):
    dtype = draw.one("float32", "float64", "int32", "int8", "uint8", "int64")
    bound = lambda: draw.one(None, draw.array(dtype, [], special(draw)))  # noqa: E731
    return single(draw, name, {"x": draw.array(dtype, draw.shape(), special(draw)), "low": bound(), "high": bound()})


@case_of("Sum", "Mean")
def several(draw, name):
    shape = draw.shape()
    return single(draw, name, {f"x{place}": draw.array("float32", broadcast(draw, shape)) for place in range(draw.number(1, 4))}, of_largest=1e-6)


@case_of("Cast")
def cast(draw, name):
    source, target = draw.one(*FLOATS, *INTEGERS, "bool"), draw.one(*FLOATS, *INTEGERS, "bool")
    x = draw.array(source, draw.shape(), special(draw))
    if np.dtype(source).kind == "f" and np.dtype(target).kind in "iu":
        # Results out of range are undefined: numbers are within the range of the type, and of the
        # float's digits.
        info, digits = np.iinfo(target), 2.0 ** (np.finfo(source).nmant + 1)
        low, high = max(float(info.min), -digits, float(np.finfo(source).min)), min(float(info.max), digits, float(np.finfo(source).max))
        wide = draw.numpy.uniform(low, high, x.shape) * draw.one(1, 1, 1e-2, 0)
        with np.errstate(all="ignore"):
            x = np.where(np.isfinite(x) & (x > low) & (x < high) & (draw.numpy.random(x.shape) < 0.5), x, np.trunc(wide) + draw.one(0, 0.5, 0.75) * (np.abs(wide) < digits / 4))
            x = np.clip(x, low, high).astype(source)
        x = np.where((x >= low) & (x <= high), x, x.dtype.type(7))
    return single(draw, name, {"x": x}, {"to": helper.np_dtype_to_tensor_dtype(np.dtype(target))})


REDUCTIONS = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare".split()


@case_of(*REDUCTIONS)
def reduction(draw, name):
    dtype = draw.one("float32", "float32", "float64", "int32", "int64")
    if name in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL2") and np.dtype(dtype).kind != "f":
        dtype = "float32"
    shape = draw.shape(0, 4, zero=0)
    x = draw.array(dtype, shape, special(draw) if name in ("ReduceMax", "ReduceMin") else 0)
    if name == "ReduceLogSum":
        x = np.abs(x) + x.dtype.type(0.1)
    axes = None if draw.chance(0.2) else np.array(sorted(draw.random.sample(range(len(shape)), draw.number(0, len(shape)))), np.int64)
    if axes is not None and draw.chance(0.3):
        axes = axes - len(shape)
    attributes = {"keepdims": draw.one(None, 0, 1), "noop_with_empty_axes": draw.one(None, 0, 1)}
    return single(draw, name, {"x": x, "axes": axes}, attributes, share=1, of_largest=2e-6, relative=1e-4)


@case_of("ArgMax", "ArgMin")
def arg(draw, name):
    shape = draw.shape(1, 4, zero=0)
    attributes = {"axis": draw.axis(len(shape)), "keepdims": draw.one(0, 1), "select_last_index": draw.one(0, 1)}
    dtype = draw.one("float32", "int32", "uint8")
    return single(draw, name, {"x": with_nan(draw, draw.exact(dtype, shape))}, attributes)


def with_nan(draw, x):
    """Floats, occasionally with NaN."""
    if x.dtype.kind != "f" or draw.chance(0.7):
        return x
    return np.where(draw.numpy.random(x.shape) < draw.one(0.1, 0.5), x.dtype.type(np.nan), x)


@case_of("CumSum")
def cumulative(draw, name):
    shape = draw.shape(1, 4)
    values = {"x": draw.exact(draw.one("float32", "int32", "int64"), shape), "axis": np.array(draw.axis(len(shape)), np.int64)}
    return single(draw, name, values, {"exclusive": draw.one(0, 1), "reverse": draw.one(0, 1)}, share=1, of_largest=1e-6)


@case_of("Softmax", "LogSoftmax", "Hardmax")
def softmax(draw, name):
    shape = draw.shape(1, 4)
    return single(draw, name, {"x": draw.array("float32", shape)}, {"axis": draw.axis(len(shape))}, relative=1e-4, of_largest=1e-6)


@case_of("TopK")
def top_k(draw, name):
    shape = draw.shape(1, 3, zero=0)
    axis = draw.axis(len(shape))
    values = {"x": with_nan(draw, draw.exact(draw.one("float32", "int64"), shape)), "k": np.array([draw.number(1, shape[axis])], np.int64)}
    return single(draw, name, values, {"axis": axis, "largest": draw.one(0, 1), "sorted": 1}, outputs=2, share=1)


@case_of("Transpose")
def transpose(draw, name):
    shape = draw.shape(0, 5)
    order = draw.one(None, draw.random.sample(range(len(shape)), len(shape)))
    return single(draw, name, {"x": draw.array(draw.one("float32", "int8", "bool", "float16", "int64"), shape)}, {"perm": order or None})


@case_of("Slice")
def slices(draw, name):
    shape = draw.shape(1, 4)
    axes = draw.random.sample(range(len(shape)), draw.number(1, len(shape)))
    far = lambda extent: draw.one(0, 1, -1, extent, -extent, extent + 3, -extent - 3, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), draw.number(-9, 9))  # noqa: E731
    bounds = [(far(shape[axis]), far(shape[axis]), draw.one(1, 1, 2, 3, -1, -2)) for axis in axes]
    starts, ends, steps = (np.array(column, np.int64) for column in zip(*bounds))
    return single(draw, name, {"x": draw.array("float32", shape), "starts": starts, "ends": ends, "axes": np.array(axes, np.int64), "steps": steps}, share=1)


@case_of("Pad")
def pad(draw, name):
    mode = draw.one("constant", "constant", "reflect", "edge", "wrap")
    shape = draw.shape(1, 4, zero=0)
    low = -1 if mode == "constant" else 0
    pads = [draw.number(low, 3 if mode != "reflect" else min(3, extent - 1)) for extent in shape * 2]
    pads = [0 if extent < 3 and amount < 0 else amount for amount, extent in zip(pads, shape * 2)]
    value = draw.one(None, draw.array("float32", [], SPECIAL)) if mode == "constant" else None
    return single(draw, name, {"x": draw.array("float32", shape), "pads": np.array(pads, np.int64), "value": value}, {"mode": mode}, share=1)


@case_of("Concat")
def concat(draw, name):
    shape = draw.shape(1, 4)
    axis = draw.axis(len(shape))
    values = {}
    for place in range(draw.number(1, 5)):
        own = list(shape)
        own[axis] = draw.number(0, 6)
        values[f"x{place}"] = draw.array("float32", own)
    return single(draw, name, values, {"axis": axis})


@case_of("Split")
def split(draw, name):
    shape = draw.shape(1, 4, zero=0)
    axis = draw.axis(len(shape))
    count = draw.number(1, 4)
    sizes = [draw.number(0, 5) for _ in range(count)]
    shape[axis] = sum(sizes)
    return single(draw, name, {"x": draw.array("float32", shape), "split": np.array(sizes, np.int64)}, {"axis": axis}, outputs=count, share=1)


@case_of("Expand")
def expand(draw, name):
    shape = draw.shape(0, 4)
    return single(draw, name, {"x": draw.array("float32", broadcast(draw, shape)), "shape": np.array(shape, np.int64)}, share=1)


@case_of("Tile")
def tile(draw, name):
    shape = draw.shape(1, 3)
    repeats = np.array([draw.number(0 if draw.chance(0.1) else 1, 3) for _ in shape], np.int64)
    return single(draw, name, {"x": draw.array("int32", shape), "repeats": repeats}, share=1)


@case_of("Gather", "GatherElements")
def gather(draw, name):
    shape = draw.shape(1, 3, zero=0)
    axis = draw.axis(len(shape))
    index = draw.shape(0, 2) if name == "Gather" else [draw.number(1, extent) for extent in shape]
    indices = draw.numpy.integers(-shape[axis], shape[axis], index).astype(draw.one("int32", "int64"))
    return single(draw, name, {"x": draw.array("float32", shape), "i": indices}, {"axis": axis})


@case_of("ScatterElements")
def scatter(draw, name):
    shape = draw.shape(1, 3, zero=0)
    axis = draw.axis(len(shape))
    index = [draw.number(1, extent) for extent in shape]
    how = draw.one("none", "add", "mul", "max", "min")
    indices = draw.numpy.integers(-shape[axis], shape[axis], index)
    if how == "none":
        # Two updates of one place are undefined: every position along the axis is written once.
        index = list(shape)
        indices = np.argsort(draw.numpy.random(shape), axis=axis)
    return single(draw, name, {"x": draw.exact("float32", shape), "i": indices.astype(np.int64), "u": draw.exact("float32", index)}, {"axis": axis, "reduction": how})


@case_of("GatherND", "ScatterND")
def gather_places(draw, name):
    shape = draw.shape(1, 4, zero=0)
    batch = draw.number(0, len(shape) - 1) if name == "GatherND" else 0
    length = draw.number(1, len(shape) - batch)
    index = [*shape[:batch], *draw.shape(0, 2, 4)]
    columns = [draw.numpy.integers(-extent, extent, index) for extent in shape[batch : batch + length]]
    if name == "GatherND":
        return single(draw, name, {"x": draw.array("float32", shape), "i": np.stack(columns, -1)}, {"batch_dims": batch})
    how = draw.one("none", "add", "mul", "max", "min")
    if how == "none":
        # Two updates of one place are undefined.
        count = draw.number(0, int(np.prod(shape[:length])))
        places = draw.numpy.permutation(int(np.prod(shape[:length])))[:count]
        columns, index = list(np.unravel_index(places, shape[:length])), [count]
    updates = draw.exact("float32", [*index, *shape[length:]])
    return single(draw, name, {"x": draw.exact("float32", shape), "i": np.stack(columns, -1).astype(np.int64), "u": updates}, {"reduction": how})


@case_of("NonZero")
def non_zero(draw, name):
    x = draw.array(draw.one("float32", "int32", "int64", "bool", "uint8"), draw.shape(1, 4), special(draw))
    return single(draw, name, {"x": np.where(draw.numpy.random(x.shape) < 0.5, x.dtype.type(0), x)})


@case_of("Compress")
def compress(draw, name):
    shape = draw.shape(1, 3)
    axis = draw.one(None, draw.axis(len(shape)))
    length = int(np.prod(shape)) if axis is None else shape[axis]
    return single(draw, name, {"x": draw.array("float32", shape), "c": draw.array("bool", [draw.number(0, length)])}, {"axis": axis})


@case_of("DepthToSpace", "SpaceToDepth")
def blocks(draw, name):
    size = draw.number(1, 3)
    n, c, h, w = draw.number(1, 2), draw.number(1, 3), draw.number(1, 4), draw.number(1, 4)
    if name == "DepthToSpace":
        return single(draw, name, {"x": draw.array("float32", [n, c * size * size, h, w])}, {"blocksize": size, "mode": draw.one("DCR", "CRD")})
    return single(draw, name, {"x": draw.array("float32", [n, c, h * size, w * size])}, {"blocksize": size})


@case_of("Trilu")
def trilu(draw, name):
    k = draw.one(None, np.array(draw.number(-6, 6), np.int64))
    return single(draw, name, {"x": draw.array(draw.one("float32", "int64"), draw.shape(2, 4)), "k": k}, {"upper": draw.one(0, 1)}, share=1)


@case_of("OneHot")
def one_hot(draw, name):
    depth = draw.number(1, 6)
    values = {"i": draw.numpy.integers(-depth - 2, depth + 3, draw.shape(0, 3)), "depth": np.array(depth, np.int64), "v": draw.exact("float32", [2])}
    return single(draw, name, values, {"axis": draw.axis(values["i"].ndim + 1)}, share=1)


@case_of("Range")
def numbers(draw, name):
    dtype = draw.one("int64", "int32", "float32")
    bounds = {"start": draw.number(-9, 9), "limit": draw.number(-9, 9), "step": draw.one(1, 2, -1, -3)}
    nodes = [helper.make_node(name, list(bounds), ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
    constants = {key: np.array(value, dtype) for key, value in bounds.items()}
    return make(f"x + Range of {dtype}, {bounds}", nodes, {"x": draw.array(dtype, [draw.number(1, 3), 1])}, ["y"], constants=constants)


@case_of("Flatten")
def flatten(draw, name):
    shape = draw.shape(1, 4)
    return single(draw, name, {"x": draw.array("float32", shape)}, {"axis": draw.number(-len(shape), len(shape))})


@case_of("EyeLike")
def eye(draw, name):
    shape = [draw.number(1, 6), draw.number(1, 6)]
    return single(draw, name, {"x": draw.array("float32", shape)}, {"k": draw.number(-4, 4), "dtype": draw.one(None, TensorProto.INT64)})
