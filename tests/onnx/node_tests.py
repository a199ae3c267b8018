"""Writes the node tests of the package onnx as files: `node_tests.py FOLDER`. Each becomes a folder with `model.onnx` and `test_data_set_*/{input,output}_*.pb`.

The package makes them when they are asked for, with numbers from a generator that it starts anew for each.
"""

import sys
import warnings
from pathlib import Path

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

# The protobuf messages of values.
WRITERS = {
    "map_type": numpy_helper.from_dict,
    "optional_type": numpy_helper.from_optional,
    "sequence_type": numpy_helper.from_list,
    "tensor_type": numpy_helper.from_array,
}
MESSAGES = (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)


def write_values(folder, kind, values, infos):
    for number, (value, info) in enumerate(zip(values, infos)):
        if not isinstance(value, MESSAGES):
            value = WRITERS[info.type.WhichOneof("value")](value, info.name)
        (folder / f"{kind}_{number}.pb").write_bytes(value.SerializeToString())


def main(folder):
    # Some tests need infinities, which they make by dividing by zero.
    warnings.simplefilter("ignore", RuntimeWarning)
    for case in load_model_tests(kind="node"):
        own = folder / case.name
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = own / f"test_data_set_{number}"
            data.mkdir(parents=True)
            write_values(data, "input", inputs, case.model.graph.input)
            write_values(data, "output", outputs, case.model.graph.output)
        (own / "model.onnx").write_bytes(case.model.SerializeToString())


main(Path(sys.argv[1]))
