"""Random graphs: values with several readers, small exact numbers first, formulas after them."""

from collections import namedtuple

import numpy as np
from case import make
from onnx import TensorProto, helper

#: Operators with an exact result for exact operands, which keep the shape.
EXACT = ("Neg", "Abs", "Relu", "Floor", "Round", "Sign", "Identity")
#: Formulas: they are not followed by comparisons, because a last digit would decide.
ROUNDED = ("Sigmoid", "Tanh", "Exp", "Softplus", "Erf", "HardSwish", "Softsign", "Atan")
#: The maximum number of elements.
MOST = 8192

#: A value of a graph, float32, and whether each number is exact.
Value = namedtuple("Value", "name shape exact")

STEPS = []


def step(function):
    """Registers a function that adds nodes after a value, or nothing if it does not fit."""
    STEPS.append(function)
    return function


class Graph:
    """Nodes, constants, inputs and values."""

    def __init__(self, draw):
        self.draw, self.nodes, self.constants, self.inputs, self.values = draw, [], {}, {}, []

    def node(self, kind, *operands, **attributes):
        """Adds a node: operands are names, or constants. Its result is not a value of the graph yet."""
        name = f"v{len(self.nodes)}"
        names = [operand if isinstance(operand, str) else self.constant(operand) for operand in operands]
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return name

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def value(self, name, shape, exact=False):
        self.values.append(Value(name, [int(extent) for extent in shape], exact))

    def start(self, shape):
        """An input of exact numbers."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.draw.exact("float32", shape)
        self.value(name, shape, True)


def whole(*numbers):
    return np.array(numbers, np.int64)


def broadcast(one, other):
    """The shape that two shapes broadcast to, if it is small."""
    try:
        shape = np.broadcast_shapes(one, other)
    except ValueError:
        return None
    return shape if np.prod(shape, dtype=float) <= MOST else None


@step
def exact(graph, value):
    kind = graph.draw.one(*EXACT)
    if value.exact or kind not in ("Floor", "Round", "Sign"):
        graph.value(graph.node(kind, value.name), value.shape, value.exact)


@step
def rounded(graph, value):
    bounded = graph.node("Clip", value.name, np.float32(-4), np.float32(4))
    graph.value(graph.node(graph.draw.one(*ROUNDED), bounded), value.shape)


@step
def binary(graph, value):
    fits = [other for other in graph.values if broadcast(other.shape, value.shape) is not None]
    if not fits:
        return
    other = graph.draw.one(*fits)
    both = value.exact and other.exact
    # Products of products are not exact any more.
    kind = graph.draw.one("Add", "Sub", "Max", "Min", *([] if both else ["Mul"]))
    operands = graph.draw.one([value.name, other.name], [other.name, value.name])
    graph.value(graph.node(kind, *operands), broadcast(other.shape, value.shape), both)


@step
def scalar(graph, value):
    draw = graph.draw
    kind, number = draw.one(("Add", 0), ("Add", 1), ("Mul", 0), ("Mul", 1), ("Mul", -1), ("Mul", 2), ("Sub", 0.5), ("Div", 1), ("Div", 2), ("Div", -1), ("Max", 0))
    of = draw.one([], [1], [1] * (len(value.shape) + draw.number(0, 1)))
    graph.value(graph.node(kind, value.name, np.full(of, number, np.float32)), np.broadcast_shapes(of, value.shape), value.exact)


@step
def reduce(graph, value):
    rank = len(value.shape)
    if not rank:
        return
    kind = graph.draw.one("ReduceSum", "ReduceMax", "ReduceMean", "ReduceMin")
    # The sum of nothing is defined.
    kind = "ReduceSum" if 0 in value.shape else kind
    axis, keep = graph.draw.number(0, rank - 1), graph.draw.number(0, 1)
    shape = [1 if place == axis else extent for place, extent in enumerate(value.shape) if keep or place != axis]
    name = graph.node(kind, value.name, whole(axis - graph.draw.one(0, rank)), keepdims=keep)
    graph.value(name, shape, value.exact and kind != "ReduceMean")


@step
def transpose(graph, value):
    order = graph.draw.random.sample(range(len(value.shape)), len(value.shape))
    if order:
        graph.value(graph.node("Transpose", value.name, perm=order), [value.shape[place] for place in order], value.exact)


@step
def reshape(graph, value):
    size = int(np.prod(value.shape))
    if not size:
        return
    first = graph.draw.one(*(extent for extent in range(1, min(size, 12) + 1) if size % extent == 0))
    given, shape = graph.draw.one(([first, -1], [first, size // first]), ([-1], [size]), ([1, first, size // first], [1, first, size // first]))
    graph.value(graph.node("Reshape", value.name, whole(*given)), shape, value.exact)


@step
def cut(graph, value):
    if not value.shape:
        return
    draw = graph.draw
    axis, pace = draw.number(0, len(value.shape) - 1), draw.one(1, 1, 2, -1)
    extent = value.shape[axis]
    if not extent:
        return
    start, end = draw.number(0, extent - 1), (draw.number(1, extent + 2) if pace > 0 else -(2**62))
    count = len(range(*slice(start, end if pace > 0 else None, pace).indices(extent)))
    if count:
        name = graph.node("Slice", value.name, whole(start), whole(end), whole(axis), whole(pace))
        graph.value(name, [*value.shape[:axis], count, *value.shape[axis + 1 :]], value.exact)


@step
def pad(graph, value):
    rank = len(value.shape)
    pads = [graph.draw.number(0, 2) for _ in range(2 * rank)]
    if rank:
        shape = [extent + pads[place] + pads[rank + place] for place, extent in enumerate(value.shape)]
        graph.value(graph.node("Pad", value.name, whole(*pads)), shape, value.exact)


@step
def softmax(graph, value):
    rank = len(value.shape)
    if rank and 0 not in value.shape:
        graph.value(graph.node(graph.draw.one("Softmax", "LogSoftmax"), value.name, axis=graph.draw.axis(rank)), value.shape)


@step
def matmul(graph, value):
    columns = graph.draw.one(1, 3, 8, 16)
    if value.shape:
        weights = graph.draw.exact("float32", [value.shape[-1], columns]) / np.float32(4)
        graph.value(graph.node("MatMul", value.name, weights), [*value.shape[:-1], columns])


@step
def gather(graph, value):
    if value.shape and 0 not in value.shape:
        axis = graph.draw.number(0, len(value.shape) - 1)
        index = graph.draw.numpy.integers(-value.shape[axis], value.shape[axis], graph.draw.shape(0, 2, 4, zero=0))
        name = graph.node("Gather", value.name, np.asarray(index), axis=axis)
        graph.value(name, [*value.shape[:axis], *np.shape(index), *value.shape[axis + 1 :]], value.exact)


@step
def where(graph, value):
    if value.exact:
        condition = graph.node("Greater", value.name, np.float32(graph.draw.one(0, 1, -2)))
        sides = graph.draw.one([value.name, np.float32(0)], [np.float32(1), value.name])
        graph.value(graph.node("Where", condition, *sides), value.shape, True)


@step
def concat(graph, value):
    if value.shape:
        axis = graph.draw.number(0, len(value.shape) - 1)
        shape = [*value.shape[:axis], 2 * value.shape[axis], *value.shape[axis + 1 :]]
        graph.value(graph.node("Concat", value.name, value.name, axis=axis), shape, value.exact)


@step
def norm(graph, value):
    if value.shape and 0 not in value.shape:
        scale = graph.draw.exact("float32", value.shape[-1:])
        graph.value(graph.node("LayerNormalization", value.name, scale, axis=-1, epsilon=0.1), value.shape)


@step
def cast(graph, value):
    if value.exact:
        # Fractions are cut, and the digits of half precision suffice for numbers that stay small.
        between = graph.draw.one(TensorProto.INT32, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.INT16, TensorProto.FLOAT16)
        small = graph.node("Clip", value.name, np.float32(-32), np.float32(31.875))
        number = graph.node("Cast", small, to=between)
        graph.value(graph.node("Cast", number, to=TensorProto.FLOAT), value.shape, True)


@step
def whole_numbers(graph, value):
    """Arithmetic of integers, with wrap-around."""
    if value.exact:
        kind, dtype, number = graph.draw.one(("Mul", "int8", 37), ("Add", "int8", 120), ("Sub", "uint8", 200), ("Mul", "int32", 3), ("Div", "int32", -3), ("Mod", "int64", 5), ("Max", "int32", 2), ("BitwiseAnd", "int32", 6))
        small = graph.node("Abs", graph.node("Clip", value.name, np.float32(-32), np.float32(31.875)))
        cast = graph.node("Cast", small, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        made = graph.node(kind, cast, np.array(number, dtype))
        graph.value(graph.node("Cast", made, to=TensorProto.FLOAT), value.shape, True)


def graph(draw):
    """A graph of about 3 to 20 nodes. Values without readers are outputs, and some others."""
    made = Graph(draw)
    for _ in range(draw.number(1, 3)):
        made.start(draw.shape(0, 4, 6, zero=0.04))
    wanted = draw.number(3, 20)
    for _ in range(4 * wanted):
        value = made.values[-1] if draw.chance(0.6) else draw.one(*made.values)
        if len(made.nodes) >= wanted or np.prod(value.shape, dtype=float) > MOST:
            break
        draw.one(*STEPS)(made, value)
    if not made.nodes:
        made.value(made.node("Identity", made.values[0].name), made.values[0].shape)
    read = {name for node in made.nodes for name in node.input}
    produced = [node.output[0] for node in made.nodes]
    outputs = [name for name in produced if name not in read or draw.chance(0.1)]
    kinds = " ".join(node.op_type for node in made.nodes)
    return make(kinds, made.nodes, made.inputs, outputs, constants=made.constants, relative=1e-3, of_largest=1e-4, absolute=1e-5)
