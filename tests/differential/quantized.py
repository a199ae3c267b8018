"""Networks of one to three layers, as `onnxruntime.quantization` writes them. `ALL` has a function for each of its schemes."""

import contextlib
import io
import logging
import platform
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from case import Case
from judges import in_child
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_dynamic, quantize_static

ALL = {}


def saturates():
    """Returns true on an x86-64 CPU without VNNI."""
    info = Path("/proc/cpuinfo")
    flags = info.read_text().split() if info.is_file() else []
    return platform.machine() == "x86_64" and not {"avx512_vnni", "avx_vnni"}.intersection(flags)


# Without VNNI, onnxruntime adds two products of an unsigned and a signed byte in 16 bits, and the
# sum saturates: the judge is then wrong. Weights of 7 bits keep every such sum below 2^15.
REDUCE_RANGE = saturates()


def scheme(function):
    """Registers a scheme."""
    ALL[function.__name__] = function
    return function


class Batches(CalibrationDataReader):
    """Inputs that determine the ranges."""

    def __init__(self, arrays):
        self.left = [{"x": array} for array in arrays]

    def get_next(self):
        return self.left.pop() if self.left else None


class Network:
    """A sequence of layers, over images or rows."""

    def __init__(self, draw):
        self.draw, self.nodes, self.constants = draw, [], []
        self.is_image = draw.chance()
        rows = draw.one([], [draw.number(1, 5)]) if not self.is_image else []
        self.shape = [draw.number(1, 3), draw.one(1, 3, 4, 8), draw.number(4, 9), draw.number(4, 9)] if self.is_image else [draw.number(1, 9), *rows, draw.number(2, 17)]
        self.given, self.last = list(self.shape), "x"
        for _ in range(draw.number(1, 3)):
            self.layer()

    def node(self, kind, *more, **attributes):
        """A node that reads the value before it and constants."""
        names = []
        for array in more:
            names.append(f"c{len(self.constants)}")
            self.constants.append(numpy_helper.from_array(array, names[-1]))
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.last, *names], [result], name=f"n{len(self.nodes)}", **attributes))
        self.last = result

    def weights(self, *shape, inputs=1):
        """Numbers for which a sum of `inputs` products is about 1: one quantization step then has a small effect on any formula."""
        return (self.draw.array("float32", shape) / inputs**0.5).astype("float32")

    def layer(self):
        """A layer with weights, and the operations after it."""
        draw, shape = self.draw, self.shape
        out = draw.one(1, 3, 8, 16)
        if self.is_image:
            groups = draw.one(1, 1, shape[1])
            out *= groups
            self.node("Conv", self.weights(out, shape[1] // groups, 3, 3, inputs=9 * shape[1] // groups), *draw.one([], [self.weights(out)]), group=groups, pads=[1] * 4)
            self.shape = [shape[0], out, *shape[2:]]
        elif len(shape) == 2 and draw.chance():
            turned = draw.chance()
            self.node("Gemm", self.weights(*((out, shape[1]) if turned else (shape[1], out)), inputs=shape[1]), *draw.one([], [self.weights(out)]), transB=int(turned))
            self.shape = [shape[0], out]
        else:
            self.node("MatMul", self.weights(shape[-1], out, inputs=shape[-1]))
            self.shape = [*shape[:-1], out]
        follows = draw.one(None, "Relu", "Relu", "Add", "Mul", "MaxPool", "AveragePool", "GlobalAveragePool", "Clip", "LeakyRelu", "Sigmoid", "Concat")
        if follows in ("Add", "Mul"):
            self.node(follows, self.weights(1, out, 1, 1) if self.is_image else self.weights(out))
        elif follows in ("MaxPool", "AveragePool") and self.is_image and min(self.shape[2:]) > 2:
            self.node(follows, kernel_shape=[2, 2], strides=[2, 2])
            self.shape = [*self.shape[:2], *(extent // 2 for extent in self.shape[2:])]
        elif follows == "GlobalAveragePool" and self.is_image:
            self.node(follows)
            self.shape = [*self.shape[:2], 1, 1]
        elif follows == "Clip":
            self.node(follows, np.array(0.0, "float32"), np.array(6.0, "float32"))
        elif follows == "Concat":
            self.node(follows, self.weights(*self.shape), axis=draw.axis(len(self.shape)))
            self.shape[self.nodes[-1].attribute[0].i] *= 2
        elif follows in ("Relu", "LeakyRelu", "Sigmoid"):
            self.node(follows)

    def model(self):
        info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.given)
        result = helper.make_tensor_value_info(self.last, onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "graph", [info], [result], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def quantized(draw, network, model, quantize):
    """The model as `quantize(model, path, numbers)` writes it, as bytes."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = Path(folder, "model.onnx")
        quantize(model, str(path), lambda: draw.array("float32", network.given))
        return path.read_bytes()


def case(draw, what, quantize):
    """A case of a network that `quantize` writes. A difference of one quantization step is allowed, because intermediate values may be rounded either way."""
    network = Network(draw)
    logging.disable(logging.WARNING)
    # Threads of onnxruntime in this process would be missing in the forked children.
    written, error, _ = in_child(lambda model: quantized(draw, network, model, quantize), network.model())
    if error:
        raise RuntimeError(f"{what}: {error}")
    model = onnx.load_from_string(written)
    layers = " ".join(node.op_type for node in network.nodes)
    return Case(f"{what}: {layers} of {network.given}", model, {"x": draw.array("float32", network.given)}, relative=1e-4, of_largest=0.03)


@scheme
def dynamic(draw):
    options = {"weight_type": draw.one(QuantType.QInt8, QuantType.QUInt8), "per_channel": draw.chance(), "reduce_range": draw.chance(0.3) or REDUCE_RANGE}
    return case(draw, f"dynamic {options}", lambda model, path, _: quantize_dynamic(model, path, **options))


def static(draw, quant_format):
    options = {
        "activation_type": draw.one(QuantType.QUInt8, QuantType.QInt8),
        "weight_type": draw.one(QuantType.QInt8, QuantType.QUInt8),
        "per_channel": draw.chance(),
        "calibrate_method": draw.one(CalibrationMethod.MinMax, CalibrationMethod.Percentile),
        "reduce_range": REDUCE_RANGE,
        "extra_options": {"ActivationSymmetric": draw.chance(0.3), "WeightSymmetric": draw.chance(0.7)},
    }
    if options["activation_type"] == QuantType.QInt8:
        options["weight_type"] = QuantType.QInt8

    def quantize(model, path, array):
        quantize_static(model, path, Batches([array() for _ in range(3)]), quant_format=quant_format, **options)

    return case(draw, f"{quant_format.name} {options}", quantize)


@scheme
def qdq(draw):
    return static(draw, QuantFormat.QDQ)


@scheme
def qoperator(draw):
    return static(draw, QuantFormat.QOperator)


@scheme
def optimized(draw):
    """As onnxruntime saves an optimized file, of floats or of bytes: it has operators of its own."""
    is_quantized = draw.chance()

    def write(model, path, _):
        source = f"{path}.source"
        if is_quantized:
            quantize_dynamic(model, source, weight_type=QuantType.QInt8, reduce_range=REDUCE_RANGE)
        else:
            onnx.save(model, source)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = path
        options.log_severity_level = 4
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    return case(draw, f"optimized {'bytes' if is_quantized else 'floats'}", write)
