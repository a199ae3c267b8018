"""A case: a model, arrays for its inputs, and the tolerances of its results."""

import random
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

#: The default version of the operators of models.
OPSET = 22

FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")


class NotMade(Exception):
    """A case that a third-party tool refused to make."""


@dataclass
class Case:
    """A case, which the judges compare."""

    #: A description of the case.
    what: str
    #: The model.
    model: onnx.ModelProto
    #: Arrays by the names of inputs.
    inputs: dict
    #: The allowed difference, as a fraction of the expected number; 0 compares bits.
    relative: float = 2e-5
    #: The allowed difference, as a fraction of the largest finite number of the output: the
    #: rounding of sums with cancellation.
    of_largest: float = 0.0
    #: The allowed difference of any number: the rounding of intermediate values, which are about 1.
    absolute: float = 0.0


class Draw:
    """Random choices. One seed gives one case on every machine."""

    def __init__(self, seed):
        self.random = random.Random(str(seed))
        self.numpy = np.random.default_rng(self.random.getrandbits(63))

    def one(self, *choices):
        """One of these."""
        return self.random.choice(choices)

    def chance(self, share=0.5):
        """True with this probability."""
        return self.random.random() < share

    def number(self, low, high):
        """A whole number from `low` to `high`, both included."""
        return self.random.randint(low, high)

    def shape(self, least=0, most=4, extent=9, zero=0.03):
        """A shape of `least` to `most` axes: mostly small extents, some of 1, few of 0, and occasionally one that fills vectors."""
        extents = [self.one(1, self.number(1, extent), self.number(2, extent)) for _ in range(self.number(least, most))]
        if extents and self.chance(0.3):
            extents[self.number(0, len(extents) - 1)] = self.one(16, 17, 31, 33, 64)
        if extents and self.chance(zero):
            extents[self.number(0, len(extents) - 1)] = 0
        return extents

    def axis(self, rank):
        """An axis, counted from either end."""
        return self.number(-rank, rank - 1)

    def array(self, dtype, shape, special=0.0):
        """Numbers of a type; the fraction `special` of them are values at which formulas break."""
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return self.numpy.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            few = self.numpy.integers(0 if dtype.kind == "u" else -9, 10, shape)
            edges = [np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).max - 1, 0, 1, np.iinfo(dtype).max // 2 + 1]
            edges += [-1] if dtype.kind == "i" else []
        else:
            few = self.numpy.standard_normal(shape) * self.one(1, 1, 1, 4)
            info = np.finfo(dtype)
            edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny, info.smallest_subnormal, 1e4, -20.0, 88.0]
        result = np.asarray(few).astype(dtype)
        if special:
            with np.errstate(all="ignore"):
                chosen = self.numpy.choice(np.array(edges).astype(dtype) if dtype.kind == "f" else np.array(edges, dtype), shape)
            result = np.where(self.numpy.random(shape) < special, chosen, result)
        return np.asarray(result, dtype)

    def exact(self, dtype, shape):
        """Floats that are multiples of 1/8 or small integers: sums and products of few of them are exact, so that comparisons are, too."""
        if np.dtype(dtype).kind != "f":
            return self.array(dtype, shape)
        return np.asarray(self.numpy.integers(-32, 33, shape) / 8, dtype)


def make(what, nodes, inputs, outputs, *, constants=None, opset=OPSET, relative=2e-5, of_largest=0.0, absolute=0.0):
    """A case of nodes, arrays for inputs and constants, and the names of outputs, whose types and shapes follow."""
    of_type = helper.np_dtype_to_tensor_dtype
    inputs, constants = ({name: np.asarray(value) for name, value in (values or {}).items()} for values in (inputs, constants))
    infos = [helper.make_tensor_value_info(name, of_type(value.dtype), list(value.shape)) for name, value in inputs.items()]
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "graph", infos, [onnx.ValueInfoProto(name=name) for name in outputs], initializers)
    others = [helper.make_opsetid(domain, 1) for domain in sorted({node.domain for node in nodes} - {""})]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *others], ir_version=10)
    return Case(what, onnx.shape_inference.infer_shapes(model, data_prop=True), inputs, relative, of_largest, absolute)


def parts(draw, values, share=0.3):
    """Inputs and constants: each array except the first is a constant with this probability."""
    inputs, constants = {}, {}
    for place, (name, value) in enumerate(values.items()):
        (constants if place and draw.chance(share) else inputs)[name] = value
    return inputs, constants
