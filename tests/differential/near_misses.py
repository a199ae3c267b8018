"""Patterns that rules rewrite, with one thing changed: an axis, a constant, a shape, a second reader. `ALL` has a function for each."""

import numpy as np
from case import make
from onnx import helper

ALL = {}


def pattern(function):
    """Registers a pattern."""
    ALL[function.__name__] = function
    return function


class Chain:
    """A sequence of nodes."""

    def __init__(self, draw, shape, dtype="float32"):
        self.draw, self.nodes, self.constants, self.count = draw, [], {}, 0
        self.inputs = {"x": draw.array(dtype, shape)}

    def __call__(self, kind, *operands, **attributes):
        """Adds a node: operands are names, or constants."""
        names = [operand if isinstance(operand, str) else self.constant(operand) for operand in operands]
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [result], **attributes))
        return result

    def constant(self, value):
        """A constant, or occasionally an input, so that its value is unknown."""
        name = f"c{len(self.constants) + len(self.inputs)}"
        value = np.asarray(value)
        value = value.astype(np.float32) if value.dtype == np.float64 else value
        (self.inputs if self.draw.chance(0.1) and value.dtype.kind == "f" else self.constants)[name] = value
        return name

    def case(self, what, last):
        """The case. Occasionally an intermediate value is an output as well."""
        outputs = [last]
        inner = [node.output[0] for node in self.nodes if node.output[0] != last]
        if inner and self.draw.chance(0.3):
            outputs.append(self.draw.one(*inner))
        return make(what, self.nodes, self.inputs, outputs, constants=self.constants, relative=5e-4, of_largest=2e-5)


def axes(*numbers):
    return np.array(numbers, np.int64)


def near(draw, value, *others):
    """Mostly the value of the pattern."""
    return value if draw.chance(0.7) else draw.one(*others)


@pattern
def layer_norm(draw):
    shape = draw.shape(2, 4, 8, zero=0)
    last = len(shape) - 1
    c = Chain(draw, shape)
    mean = c("ReduceMean", "x", axes(near(draw, -1, 0, last - 1)), keepdims=1)
    centred = c("Sub", *near(draw, ("x", mean), (mean, "x")))
    square = near(draw, c("Pow", centred, np.float32(near(draw, 2, 3, 1))), c("Mul", centred, centred), c("Mul", centred, "x"))
    variance = c("ReduceMean", square, axes(near(draw, -1, 0)), keepdims=1)
    root = c("Sqrt", c("Add", c("Abs", variance) if draw.chance(0.3) else c("Relu", variance), np.full(near(draw, [], [1], [1] * (last + 2)), near(draw, 1e-3, 0.5), np.float32)))
    normal = c("Div", *near(draw, (centred, root), ("x", root)))
    scaled = c("Mul", normal, draw.array("float32", near(draw, shape[-1:], [1], shape[-2:])))
    return c.case("layer norm", c("Add", scaled, draw.array("float32", near(draw, shape[-1:], [1]))))


@pattern
def gelu(draw):
    c = Chain(draw, draw.shape(1, 3))
    if draw.chance():
        inner = c("Erf", near(draw, c("Div", "x", np.float32(near(draw, 1.4142135, 1.5))), c("Mul", "x", np.float32(0.70710677))))
    else:
        cube = c("Mul", c("Pow", "x", np.float32(near(draw, 3, 2))), np.float32(near(draw, 0.044715, 0.05)))
        inner = c("Tanh", c("Mul", c("Add", "x", cube), np.float32(0.7978846)))
    outer = c("Mul", near(draw, "x", inner), c("Add", inner, np.float32(near(draw, 1, 2))))
    return c.case("gelu", c("Mul", outer, np.float32(near(draw, 0.5, 0.25))))


@pattern
def softmax(draw):
    shape = draw.shape(1, 3, zero=0)
    axis = draw.axis(len(shape))
    c = Chain(draw, shape)
    shifted = c("Exp", c("Sub", "x", c("ReduceMax", "x", axes(near(draw, axis, -1, 0)), keepdims=1)))
    return c.case("softmax", c("Div", shifted, c("ReduceSum", shifted, axes(near(draw, axis, 0)), keepdims=1)))


@pattern
def swish(draw):
    shape = draw.shape(1, 3)
    c = Chain(draw, shape)
    other = c("Add", "x", np.float32(1))
    return c.case("swish", c("Mul", near(draw, "x", other), c(near(draw, "Sigmoid", "HardSigmoid"), near(draw, "x", other))))


@pattern
def normalized_convolution(draw):
    n, c_in, c_out, size = draw.number(1, 2), draw.number(1, 4), draw.one(1, 4, 8), draw.number(2, 6)
    c = Chain(draw, [n, c_in, size, size])
    conv = c("Conv", "x", draw.array("float32", [c_out, c_in, 1, 1]))
    if draw.chance(0.3):
        conv = c(draw.one("Relu", "Neg"), conv)
    if draw.chance(0.5):
        rest = [draw.array("float32", [c_out]) for _ in range(3)] + [np.abs(draw.array("float32", [c_out])) + np.float32(0.3)]
        return c.case("conv, batch norm", c("Relu", c("BatchNormalization", conv, *rest)))
    of = near(draw, [c_out, 1, 1], [1, c_out, 1, 1], [size], [size, 1], [1], [n, c_out, size, size])
    return c.case("conv, scale, bias", c("Add", c("Mul", conv, draw.array("float32", of)), draw.array("float32", near(draw, [c_out, 1, 1], [size], [1]))))


@pattern
def matmul_bias(draw):
    m, k, n = draw.number(1, 6), draw.number(1, 9), draw.one(1, 4, 16)
    batch = draw.shape(0, 2, 3, zero=0)
    c = Chain(draw, [*batch, m, k])
    product = c("MatMul", "x", draw.array("float32", near(draw, [k, n], [1, k, n])))
    bias = draw.array("float32", near(draw, [n], [1], [m, 1], [m, n], [2, 1, 1, m, n]))
    summed = c(near(draw, "Add", "Sub", "Mul"), product, bias)
    return c.case("matmul, bias", c(near(draw, "Relu", "Sigmoid", "Neg"), summed))


@pattern
def neutral(draw):
    """Operations without effect, except where they broadcast, or for NaN and signed zeros."""
    shape = draw.shape(0, 3)
    c = Chain(draw, shape)
    c.inputs["x"] = draw.array("float32", shape, 0.3)
    value = "x"
    for _ in range(draw.number(1, 3)):
        kind, number = draw.one(("Add", 0.0), ("Add", -0.0), ("Mul", 1.0), ("Mul", 0.0), ("Sub", 0.0), ("Div", 1.0), ("Pow", 1.0), ("Max", -np.inf), ("Min", np.inf), ("Mul", -1.0))
        of = draw.one([], [1], [2, *[1] * len(shape)], shape)
        operands = [value, np.full(of, number, np.float32)]
        value = c(kind, *(operands[::-1] if kind in ("Add", "Mul") and draw.chance() else operands))
    return c.case("neutral", value)


@pattern
def same(draw):
    """Both operands are the same value."""
    shape = draw.shape(0, 3)
    c = Chain(draw, shape)
    c.inputs["x"] = draw.array("float32", shape, 0.3)
    value = near(draw, "x", c("Neg", "x"))
    kind = draw.one("Sub", "Div", "Max", "Add", "Mul", "Equal", "Less", "GreaterOrEqual")
    result = c(kind, value, near(draw, value, "x"))
    if kind in ("Equal", "Less", "GreaterOrEqual"):
        result = c("Where", result, value, near(draw, value, np.float32(2)))
    return c.case(f"{kind} of one value", result)


@pattern
def moves(draw):
    """Sequences of transposes, reshapes, slices and joins."""
    shape = [draw.number(1, 4), draw.number(1, 4), draw.number(1, 4), draw.one(1, 8)]
    c = Chain(draw, shape)
    value = "x"
    for _ in range(draw.number(2, 5)):
        kind = draw.one("transpose", "flat", "slice", "relu", "squeeze")
        if kind == "transpose":
            order = draw.random.sample(range(4), 4)
            value, shape = c("Transpose", value, perm=order), [shape[place] for place in order]
        elif kind == "flat":
            shape = draw.one([shape[0] * shape[1], 1, *shape[2:]], [shape[0], shape[1] * shape[2], shape[3], 1], [*shape[:2], shape[2] * shape[3], 1], shape[:1] + [1] + [shape[1] * shape[2]] + shape[3:])
            value = c("Reshape", value, axes(*shape))
        elif kind == "slice":
            axis = draw.number(0, 3)
            pace = draw.one(1, 1, -1, 2)
            bounds = (0, 2**31) if pace > 0 else (-1, -(2**31))
            value = c("Slice", value, axes(bounds[0]), axes(bounds[1]), axes(axis), axes(pace))
            shape = [len(range(extent)[::pace]) if place == axis else extent for place, extent in enumerate(shape)]
        elif kind == "relu":
            value = c(draw.one("Relu", "Neg"), value)
        else:
            value = c("Unsqueeze", c("ReduceSum", value, axes(1), keepdims=0), axes(draw.one(0, 1)))
            shape = [shape[0], 1, *shape[2:]] if c.constants.get(c.nodes[-1].input[1], axes(9))[0] == 1 else [1, shape[0], *shape[2:]]
    return c.case("moves", value)


@pattern
def attention(draw):
    batch, heads, steps, size = draw.number(1, 2), draw.number(1, 3), draw.number(1, 6), draw.one(2, 4, 8)
    c = Chain(draw, [batch, steps, heads * size])
    split = axes(batch, steps, heads, size)

    def head(order):
        return c("Transpose", c("Reshape", c("MatMul", "x", draw.array("float32", [heads * size, heads * size])), split), perm=order)

    q, k, v = head([0, 2, 1, 3]), head(near(draw, [0, 2, 3, 1], [0, 2, 3, 1])), head([0, 2, 1, 3])
    scores = c(near(draw, "Mul", "Div"), c("MatMul", q, k), np.float32(near(draw, 0.35355338, 2)))
    if draw.chance():
        mask = np.where(draw.numpy.random(near(draw, [batch, 1, 1, steps], [steps, steps], [1])) < 0.3, np.float32(near(draw, -1e9, -np.inf)), np.float32(0))
        mask.flat[0] = 0
        scores = c("Add", scores, mask.astype("float32"))
    probabilities = c("Softmax", scores, axis=near(draw, -1, -2, 1))
    if draw.chance(0.3):
        probabilities = c("Where", c("IsNaN", probabilities), np.float32(0), probabilities)
    joined = c("Reshape", c("Transpose", c("MatMul", probabilities, v), perm=near(draw, [0, 2, 1, 3], [0, 1, 2, 3])), axes(batch, steps, heads * size))
    return c.case("attention", joined)


@pattern
def quantized(draw):
    c = Chain(draw, draw.shape(1, 3, zero=0))
    c.inputs["x"] = draw.exact("float32", c.inputs["x"].shape)
    scale = lambda: np.float32(near(draw, 0.125, 0.25))  # noqa: E731
    zero = near(draw, np.uint8(128), np.uint8(3))
    value = c("DequantizeLinear", c("QuantizeLinear", "x", scale(), zero), scale(), near(draw, zero, np.uint8(7)))
    value = c(draw.one("Relu", "Neg", "Abs"), value)
    return c.case("quantized", c("DequantizeLinear", c("QuantizeLinear", value, scale(), zero), scale(), zero))


@pattern
def padded(draw):
    n, channels, size = draw.number(1, 2), draw.number(1, 3), draw.number(3, 6)
    c = Chain(draw, [n, channels, size, size])
    pads = [0, near(draw, 0, 1), draw.number(0, 2), draw.number(0, 2)] * 2
    value = c("Pad", "x", axes(*pads), np.float32(near(draw, 0, 1, -np.inf)))
    channels += 2 * pads[1]
    if draw.chance():
        return c.case("pad, conv", c("Conv", value, draw.array("float32", [4, channels, 2, 2]), pads=near(draw, [0, 0, 0, 0], [1, 0, 1, 0])))
    return c.case("pad, pool", c(draw.one("MaxPool", "AveragePool"), value, kernel_shape=[2, 2], strides=[2, 2]))


@pattern
def casts(draw):
    c = Chain(draw, draw.shape(1, 3))
    c.inputs["x"] = draw.numpy.integers(0, 100, c.inputs["x"].shape).astype("float32") + np.float32(draw.one(0, 0.5))
    value = "x"
    for _ in range(draw.number(2, 4)):
        value = c("Cast", value, to=draw.one(1, 3, 5, 6, 7, 10, 11))
    return c.case("casts", c("Cast", value, to=1))


@pattern
def reduced_twice(draw):
    shape = draw.shape(2, 4, zero=0)
    c = Chain(draw, shape)
    kind = draw.one("ReduceSum", "ReduceMax", "ReduceMean", "ReduceMin")
    keep = draw.number(0, 1)
    first = c(kind, "x", axes(draw.axis(len(shape))), keepdims=keep)
    rank = len(shape) - (1 - keep)
    return c.case("reduced twice", c(near(draw, kind, "ReduceSum", "ReduceMax"), first, axes(draw.axis(rank)), keepdims=draw.number(0, 1)))


@pattern
def table(draw):
    """Rows of a table selected by one-hot products, and the operations after them."""
    rows, width = draw.number(2, 6), draw.one(1, 4, 8)
    c = Chain(draw, [1])
    c.inputs = {"x": draw.numpy.integers(-rows, rows, draw.shape(1, 2, 4, zero=0))}
    hot = c("OneHot", "x", np.array([rows], np.int64), np.array(near(draw, [0, 1], [1, 0], [0, 2]), np.float32), axis=near(draw, -1, 0))
    weights = draw.array("float32", [rows, width])
    if c.nodes[-1].attribute[0].i == 0 and c.inputs["x"].shape[-1] != rows:
        weights = draw.array("float32", [c.inputs["x"].shape[-1], width])
    value = c("MatMul", hot, weights)
    after = draw.one("Softmax", "LayerNormalization", "Add", "ReduceSum", "Transpose")
    if after == "LayerNormalization":
        value = c(after, value, draw.array("float32", [width]), axis=-1)
    elif after == "Add":
        value = c(after, value, draw.array("float32", near(draw, [width], [1])))
    elif after == "ReduceSum":
        value = c(after, value, axes(near(draw, -1, 0)), keepdims=0)
    else:
        value = c(after, value, **({"axis": near(draw, -1, 0)} if after == "Softmax" else {}))
    return c.case("table", value)
