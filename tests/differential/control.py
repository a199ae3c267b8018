"""Branches and loops: conditions, rounds and slices that are inputs, or known. They register in `operators.ALL`."""

import numpy as np
from case import make, parts
from onnx import TensorProto, helper
from operators import case_of


def body(name, nodes, inputs, outputs):
    """A subgraph of a node: names, types and shapes of inputs; names and types of outputs."""
    typed = [helper.make_tensor_value_info(key, kind, None) for key, kind in outputs]
    return helper.make_graph(nodes, name, [helper.make_tensor_value_info(key, kind, shape) for key, kind, shape in inputs], typed)


def formula(draw, operands, result):
    """One node on values of one shape."""
    kind = draw.one("Add", "Mul", "Sub", "Max", "Neg", "Relu", "Abs")
    count = 1 if kind in ("Neg", "Relu", "Abs") else 2
    return helper.make_node(kind, [draw.one(*operands) for _ in range(count)], [result])


@case_of("If")
def branches(draw, name):
    """A condition that is an input, computed, or known; branches read outer values, and one may be another If."""
    shape = draw.shape(0, 3, 5)
    values = {"x": draw.exact("float32", shape), "z": draw.exact("float32", shape)}
    nodes = []
    if draw.chance():
        values["c"] = np.array(draw.chance())
    else:
        nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Greater", ["s", "limit"], ["c"])]
        values["limit"] = np.float32(draw.number(-2, 2)).reshape(())
    sides = []
    for side in ("t", "e"):
        inner = [formula(draw, ["x", "z"], f"{side}0"), formula(draw, ["x", f"{side}0"], f"{side}1")]
        if draw.chance(0.3):
            ends = [body(f"{side}{end}", [formula(draw, [f"{side}1", "z"], f"{side}{end}")], [], [(f"{side}{end}", TensorProto.FLOAT)]) for end in (2, 3)]
            inner.append(helper.make_node("If", ["c"], [f"{side}4"], then_branch=ends[0], else_branch=ends[1]))
        sides.append(body(side, inner, [], [(inner[-1].output[0], TensorProto.FLOAT)]))
    nodes += [helper.make_node("If", ["c"], ["r"], then_branch=sides[0], else_branch=sides[1]), formula(draw, ["r", "x"], "y")]
    inputs, constants = parts(draw, values)
    return make(f"If of {list(values)} {shape}", nodes, inputs, ["r", "y"], constants=constants)


@case_of("Loop")
def rounds(draw, name):
    """A number of rounds and a condition, each known, an input, or absent; a state and rows."""
    shape = draw.shape(0, 2, 5)
    values = {"x": draw.exact("float32", shape), "n": np.array(draw.number(0, 5), np.int64), "go": np.array(draw.chance(0.9)), "most": np.array(draw.number(0, 6), np.int64)}
    ends_early = draw.chance(0.4)
    inner = [helper.make_node("Mul", ["state", "half"], ["small"]), formula(draw, ["small", "x"], "next"), formula(draw, ["next", "state"], "row")]
    if ends_early:
        inner.append(helper.make_node("Less", ["round", "most"], ["again"]))
    else:
        inner.append(helper.make_node("Identity", ["before"], ["again"]))
    inputs = [("round", TensorProto.INT64, []), ("before", TensorProto.BOOL, []), ("state", TensorProto.FLOAT, shape)]
    outputs = [("again", TensorProto.BOOL), ("next", TensorProto.FLOAT), ("row", TensorProto.FLOAT)]
    node = helper.make_node("Loop", ["n", draw.one("go", ""), "x"], ["last", "rows"], body=body("body", inner, inputs, outputs))
    given, constants = parts(draw, values, 0.6)
    # A number of rounds that is an input needs a bound.
    if "n" in given:
        constants["n"] = given.pop("n")
    constants["half"] = np.float32(0.5).reshape(())
    return make(f"Loop of {values['n']} rounds {shape}, {'until' if ends_early else 'while'} {values['most']}", [node], given, ["last", "rows"], constants=constants)


@case_of("Scan")
def slices(draw, name):
    """A state and slices of one or two inputs, from either end."""
    length, shape = draw.number(1, 5), draw.shape(0, 2, 4, zero=0)
    count = draw.number(1, 2)
    values = {"state": draw.exact("float32", shape), **{f"x{place}": draw.exact("float32", [length, *shape]) for place in range(count)}}
    slices = [f"slice{place}" for place in range(count)]
    inner = [helper.make_node("Mul", ["own", "half"], ["small"]), formula(draw, ["small", *slices], "next"), formula(draw, ["next", slices[-1]], "row")]
    inputs = [(key, TensorProto.FLOAT, shape) for key in ["own", *slices]]
    graph = body("body", inner, inputs, [("next", TensorProto.FLOAT), ("row", TensorProto.FLOAT)])
    attributes = {"num_scan_inputs": count, "scan_input_directions": [draw.number(0, 1) for _ in slices], "scan_output_directions": [draw.number(0, 1)]}
    node = helper.make_node("Scan", list(values), ["last", "rows"], body=graph, **attributes)
    inputs, constants = parts(draw, values)
    constants["half"] = np.float32(0.5).reshape(())
    return make(f"Scan of {length} {shape} {attributes}", [node], inputs, ["last", "rows"], constants=constants)
