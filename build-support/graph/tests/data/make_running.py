"""Writes running.onnx: sum = x + total, next = sum / 2. What is `next` in one call is `total` in the following one. Needs the package onnx."""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

graph = helper.make_graph(
    [
        helper.make_node("Add", ["x", "total"], ["sum"]),
        helper.make_node("Mul", ["sum", "half"], ["next"]),
    ],
    "running",
    [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "total")],
    [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("sum", "next")],
    [numpy_helper.from_array(np.array(0.5, np.float32), "half")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
pathlib.Path(__file__).with_name("running.onnx").write_bytes(model.SerializeToString())
