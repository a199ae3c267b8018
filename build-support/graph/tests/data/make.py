"""Writes perceptron.onnx: relu(x w + b) u, with a named batch dimension. Needs the package onnx."""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(7)


def weight(name, shape):
    return numpy_helper.from_array(rng.integers(-3, 4, shape).astype(np.float32), name)


graph = helper.make_graph(
    [
        helper.make_node("Gemm", ["x", "w", "b"], ["hidden"], transB=1),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "u"], ["scores"]),
    ],
    "perceptron",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])],
    [weight("w", (5, 4)), weight("b", (5,)), weight("u", (5, 3))],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
pathlib.Path(__file__).with_name("perceptron.onnx").write_bytes(model.SerializeToString())
x = np.arange(8, dtype=np.float32).reshape(2, 4) - 3
w, b, u = (numpy_helper.to_array(tensor) for tensor in graph.initializer)
print(x.tolist(), (np.maximum(x @ w.T + b, 0) @ u).tolist())
