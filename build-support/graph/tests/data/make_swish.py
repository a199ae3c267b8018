"""Writes swish.onnx: the operator Swish of the domain com.example, x sigmoid(beta x), of three numbers. Needs the package onnx."""

import pathlib

from onnx import TensorProto, helper

graph = helper.make_graph(
    [helper.make_node("Swish", ["x"], ["y"], name="swish", domain="com.example", beta=1.5)],
    "swish",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
)
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
pathlib.Path(__file__).with_name("swish.onnx").write_bytes(model.SerializeToString())
