"""Writes attention.onnx: how much each word of a text looks at each other, softmax(x x^T), with named dimensions of texts and words. Needs the package onnx."""

import pathlib

import onnx
from onnx import TensorProto, helper

graph = helper.make_graph(
    [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
    ],
    "attention",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "words", 2])],
    [helper.make_tensor_value_info("shares", TensorProto.FLOAT, ["batch", "words", "words"])],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
pathlib.Path(__file__).with_name("attention.onnx").write_bytes(model.SerializeToString())
