"""Random graphs: values that are read several times, small exact numbers first, formulas behind them."""

import numpy as np
from case import make
from onnx import helper

#: What computes an exact result of exact operands, and keeps the shape.
EXACT = ("Neg", "Abs", "Relu", "Floor", "Round", "Sign", "Identity")
#: Formulas: what compares does not follow them, because a last digit would decide.
ROUNDED = ("Sigmoid", "Tanh", "Exp", "Softplus", "Erf", "HardSwish", "Softsign", "Atan")


class Graph:
    """Nodes, and values by their shapes. All values are float32."""

    def __init__(self, draw):
        self.draw, self.nodes, self.constants, self.inputs = draw, [], {}, {}
        #: Names with shape and with whether each number is exact.
        self.values = []

    def add(self, kind, operands, shape, exact=False, **attributes):
        """A node whose result has this shape; its name."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, operands, [name], **attributes))
        self.values.append((name, list(shape), exact))
        return name

    def constant(self, value):
        """A constant; its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def start(self, shape):
        """An input of exact numbers."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.draw.exact("float32", shape)
        self.values.append((name, list(shape), True))

    def grow(self):
        """One more node, of a random kind."""
        draw = self.draw
        name, shape, exact = self.values[-1] if draw.chance(0.6) else draw.one(*self.values)
        rank = len(shape)
        step = draw.one("exact", "rounded", "binary", "binary", "scalar", "reduce", "transpose", "reshape", "slice", "pad", "softmax", "matmul", "gather", "where", "concat", "norm", "cast")
        if step == "exact":
            kind = draw.one(*EXACT)
            if exact or kind not in ("Floor", "Round", "Sign"):
                self.add(kind, [name], shape, exact)
        elif step == "rounded":
            self.add("Clip", [name, self.constant(np.float32(-4)), self.constant(np.float32(4))], shape, exact)
            self.add(draw.one(*ROUNDED), [self.values[-1][0]], shape)
        elif step == "binary":
            fits = [value for value in self.values if self.broadcasts(value[1], shape)]
            if not fits:
                return
            other, of, is_exact = draw.one(*fits)
            # Products of products leave what is exact.
            kind = draw.one("Add", "Sub", "Max", "Min", "Mul") if not (exact and is_exact) else draw.one("Add", "Sub", "Max", "Min")
            self.add(kind, draw.one([name, other], [other, name]), np.broadcast_shapes(of, shape), exact and is_exact)
        elif step == "scalar":
            kind = draw.one("Add", "Mul", "Sub", "Div", "Max")
            number = draw.one(0, 1, -1, 2, 0.5) if kind != "Div" else draw.one(1, 2, -1, 0.5)
            of = draw.one([], [1], [1] * (rank + draw.number(0, 1)))
            self.add(kind, [name, self.constant(np.full(of, number, np.float32))], np.broadcast_shapes(of, shape), exact)
        elif step == "reduce" and rank:
            axis, keep = draw.number(0, rank - 1), draw.number(0, 1)
            kind = draw.one("ReduceSum", "ReduceMax", "ReduceMean", "ReduceMin")
            result = [1 if place == axis else extent for place, extent in enumerate(shape) if keep or place != axis]
            self.add(kind, [name, self.constant(np.array([axis - draw.one(0, rank)], np.int64))], result, exact and kind != "ReduceMean", keepdims=keep)
        elif step == "transpose" and rank > 1:
            order = draw.random.sample(range(rank), rank)
            self.add("Transpose", [name], [shape[place] for place in order], exact, perm=order)
        elif step == "reshape" and rank:
            size = int(np.prod(shape))
            first = draw.one(*(extent for extent in range(1, min(size, 12) + 1) if size % extent == 0))
            self.add("Reshape", [name, self.constant(np.array(draw.one([first, -1], [-1], [1, first, size // first]), np.int64))], draw.one([first, size // first]), exact)
            shown = self.constants[self.nodes[-1].input[1]].tolist()
            self.values[-1] = (self.values[-1][0], [first, size // first] if shown[0] == first and len(shown) == 2 else [size] if shown == [-1] else [1, first, size // first], exact)
        elif step == "slice" and rank:
            axis = draw.number(0, rank - 1)
            start, end, pace = draw.number(0, max(shape[axis] - 1, 0)), draw.number(1, shape[axis] + 2), draw.one(1, 1, 2, -1)
            count = len(range(*slice(start, end if pace > 0 else None, pace).indices(shape[axis])))
            if count:
                bounds = [np.array([number], np.int64) for number in (start, end if pace > 0 else -(2**62), axis, pace)]
                self.add("Slice", [name, *map(self.constant, bounds)], [count if place == axis else extent for place, extent in enumerate(shape)], exact)
        elif step == "pad" and rank:
            pads = [draw.number(0, 2) for _ in shape * 2]
            self.add("Pad", [name, self.constant(np.array(pads, np.int64))], [extent + pads[place] + pads[rank + place] for place, extent in enumerate(shape)], exact)
        elif step == "softmax" and rank:
            self.add(draw.one("Softmax", "LogSoftmax"), [name], shape, axis=draw.number(-rank, rank - 1))
        elif step == "matmul" and rank:
            n = draw.one(1, 3, 8, 16)
            self.add("MatMul", [name, self.constant(draw.exact("float32", [shape[-1], n]) / 4)], [*shape[:-1], n])
        elif step == "gather" and rank:
            axis = draw.number(0, rank - 1)
            index = draw.numpy.integers(-shape[axis], shape[axis], draw.shape(0, 2, 4, zero=0))
            self.add("Gather", [name, self.constant(index)], [*shape[:axis], *index.shape, *shape[axis + 1 :]], exact, axis=axis)
        elif step == "where" and exact:
            self.add("Greater", [name, self.constant(np.float32(draw.one(0, 1, -2)))], shape)
            condition, _, _ = self.values.pop()
            self.add("Where", draw.one([condition, name, self.constant(np.float32(0))], [condition, self.constant(np.float32(1)), name]), shape, True)
        elif step == "concat" and rank:
            axis = draw.number(0, rank - 1)
            self.add("Concat", [name, name], [extent * (2 if place == axis else 1) for place, extent in enumerate(shape)], exact, axis=axis)
        elif step == "norm" and rank:
            self.add("LayerNormalization", [name, self.constant(draw.exact("float32", shape[-1:]))], shape, axis=-1, epsilon=0.1)
        elif step == "cast" and exact:
            kind = draw.one(6, 7, 11)
            self.add("Round", [name], shape, True)
            self.add("Cast", [self.values[-1][0]], shape, to=kind)
            whole, _, _ = self.values.pop()
            self.add("Cast", [whole], shape, True, to=1)

    @staticmethod
    def broadcasts(one, other):
        """Whether two shapes broadcast to something small."""
        try:
            return np.prod(np.broadcast_shapes(one, other), dtype=float) < 4096
        except ValueError:
            return False


def graph(draw):
    """A graph of 3 to 20 nodes. Values that nothing reads are outputs, and some others."""
    made = Graph(draw)
    for _ in range(draw.number(1, 3)):
        made.start(draw.shape(0, 4, 6, zero=0))
    wanted = draw.number(3, 20)
    for _ in range(4 * wanted):
        if len(made.nodes) >= wanted or np.prod(made.values[-1][1], dtype=float) > 8192:
            break
        made.grow()
    if not made.nodes:
        made.add("Identity", [made.values[0][0]], made.values[0][1])
    read = {name for node in made.nodes for name in node.input}
    produced = [node.output[0] for node in made.nodes]
    outputs = [name for name in produced if name not in read or draw.chance(0.1)]
    kinds = " ".join(node.op_type for node in made.nodes)
    return make(kinds, made.nodes, {name: value for name, value in made.inputs.items()}, outputs, constants=made.constants, relative=1e-3, of_largest=1e-4)
