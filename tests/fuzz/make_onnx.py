"""Writes the models in corpus/onnx that have names: `python make_onnx.py`, with the package onnx. Each is small, and shows the reader something else."""

import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
FOLDER = pathlib.Path(__file__).parent / "corpus/onnx"


def write(name, nodes, inputs, outputs, weights=(), opset=21, functions=(), dtype=FLOAT):
    def values(shapes):
        return [helper.make_tensor_value_info(one, dtype, shape) for one, shape in shapes.items()]

    constants = [numpy_helper.from_array(np.asarray(value), one) for one, value in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), constants)
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid("own", 1)] * bool(functions)
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), producer_name="", ir_version=9)
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString())


def f32(*shape):
    return (np.arange(np.prod(shape), dtype=np.float32) % 5 - 2).reshape(shape)


node = helper.make_node
FOLDER.mkdir(parents=True, exist_ok=True)
write("perceptron", [node("Gemm", ["x", "w", "b"], ["h"], transB=1), node("Relu", ["h"], ["y"])], {"x": ["N", 4]}, {"y": ["N", 3]}, {"w": f32(3, 4), "b": f32(3)})
write("convolution", [node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1], strides=[2, 1]), node("MaxPool", ["h"], ["y"], kernel_shape=[2, 2])], {"x": [1, 2, 5, 6]}, {"y": None}, {"w": f32(2, 2, 3, 3)})
write("transposed-convolution", [node("ConvTranspose", ["x", "w"], ["y"], strides=[2], output_padding=[1], group=2)], {"x": [1, 2, 3]}, {"y": None}, {"w": f32(2, 1, 2)})
write("normalization", [node("LayerNormalization", ["x", "s"], ["h"], axis=-1), node("Softmax", ["h"], ["y"])], {"x": [2, 3, 4]}, {"y": None}, {"s": f32(4)})
write("shapes", [node("Shape", ["x"], ["s"]), node("Gather", ["s", "i"], ["n"]), node("Unsqueeze", ["n", "a"], ["m"]), node("Concat", ["m", "k"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"])], {"x": ["N", 4, 2]}, {"y": None}, {"i": np.int64(0), "a": np.array([0]), "k": np.array([-1])})
write("slices", [node("Slice", ["x", "b", "e", "a", "s"], ["h"]), node("Pad", ["h", "p"], ["y"], mode="reflect")], {"x": [7, 3]}, {"y": None}, {"b": np.array([-1, 0]), "e": np.array([-100, 9]), "a": np.array([0, 1]), "s": np.array([-2, 1]), "p": np.array([1, 0, 2, 1])})
write("reductions", [node("ReduceMean", ["x", "a"], ["h"], keepdims=0), node("ArgMax", ["h"], ["i"], axis=0), node("Cast", ["i"], ["y"], to=FLOAT)], {"x": [3, 2, 4]}, {"y": None}, {"a": np.array([-1])})
write("quantized", [node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0), node("MatMul", ["x", "w"], ["y"])], {"x": [2, 3]}, {"y": None}, {"q": np.arange(6, dtype=np.int8).reshape(3, 2), "s": f32(3) * 0.1 + 0.3, "z": np.zeros(3, np.int8)})
branch = {f"{name}_branch": helper.make_graph([node(op, ["x"], [name])], name, [], [helper.make_tensor_value_info(name, FLOAT, [2])]) for name, op in [("then", "Neg"), ("else", "Abs")]}
write("branches", [node("If", ["c"], ["y"], **branch)], {"x": [2]}, {"y": [2]}, {"c": np.bool_(True)})
own = helper.make_function("own", "Twice", ["a"], ["b"], [node("Constant", [], ["two"], value_float=2.0), node("Mul", ["a", "two"], ["b"])], [helper.make_opsetid("", 21)], attributes=["axis"])
write("functions", [helper.make_node("Twice", ["x"], ["h"], domain="own"), helper.make_node("Twice", ["h"], ["y"], domain="own", axis=1)], {"x": ["M"]}, {"y": None}, functions=[own])
write("function-of-onnx", [node("MeanVarianceNormalization", ["x"], ["y"])], {"x": [1, 2, 2, 2]}, {"y": None})
write("generated", [node("Range", ["b", "e", "s"], ["r"]), node("ConstantOfShape", ["n"], ["o"], value=numpy_helper.from_array(np.array([3], np.float32))), node("Where", ["c", "r", "o"], ["h"]), node("Add", ["h", "x"], ["y"])], {"x": [4]}, {"y": None}, {"b": np.float32(0), "e": np.float32(4), "s": np.float32(1), "n": np.array([4]), "c": np.array([True, False, True, True])})
write("moved", [node("Transpose", ["x"], ["a"], perm=[2, 0, 1]), node("Split", ["a"], ["b", "c"], axis=0, num_outputs=2), node("Expand", ["c", "n"], ["d"]), node("Tile", ["b", "r"], ["e"]), node("Concat", ["d", "e"], ["y"], axis=0)], {"x": [2, 3, 4]}, {"y": None}, {"n": np.array([2, 2, 3]), "r": np.array([1, 1, 1])})
write("text-and-numbers", [node("Constant", [], ["w"], value_floats=[1.0, float("nan"), -0.0]), node("Clip", ["x", "l"], ["h"]), node("Add", ["h", "w"], ["y"])], {"x": [3]}, {"y": None}, {"l": np.float32(-1)})
write("no-elements", [node("Concat", ["x", "w"], ["h"], axis=0), node("ReduceSum", ["h"], ["y"])], {"x": [0, 2]}, {"y": None}, {"w": np.zeros((0, 2), np.float32)})
write("old", [node("BatchNormalization", ["x", "s", "s", "s", "s"], ["h"], epsilon=1e-3), node("Dropout", ["h"], ["y"], ratio=0.3)], {"x": [1, 2, 3]}, {"y": None}, {"s": np.abs(f32(2)) + 1}, opset=9)
write("products", [node("MatMul", ["x", "t"], ["h"]), node("Transpose", ["h"], ["u"]), node("Gemm", ["u", "u"], ["y"], transA=1, alpha=0.5)], {"x": [2, 3]}, {"y": None}, {"t": f32(3, 3)})
def sparse(name, shape, places):
    return helper.make_sparse_tensor(numpy_helper.from_array(f32(len(places)), name), numpy_helper.from_array(np.array(places)), shape)


model = helper.make_model(
    helper.make_graph(
        [node("Constant", [], ["c"], sparse_value=sparse("", [2], [1])), node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "c"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        sparse_initializer=[sparse("w", [3, 2], [1, 4])],
    ),
    opset_imports=[helper.make_opsetid("", 21)],
    producer_name="",
    ir_version=9,
)
(FOLDER / "sparse.onnx").write_bytes(model.SerializeToString())
write("unknown-value", [node("Add", ["x", "w"], ["y"])], {"x": [2]}, {"y": None})
