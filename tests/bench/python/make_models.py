"""Writes the models of `cargo xtask bench models`, with seeded weights: an MLP, a transformer and the same with weights of 8 bits, ResNet-18, a network like
MobileNetV2, a small U-Net and an LSTM of two layers.

usage: make_models.py FOLDER [MAGIKA]; MAGIKA is a model to copy.

Batch norms are folded into the convolutions before them, as exporters do it.
"""

import logging
import shutil
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model


class Maker:
    """A graph, built node by node; each function returns the name of its result."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.count = [], [], 0

    def weight(self, *shape, scale=1.0):
        array = (self.random.standard_normal(shape) * scale).astype(np.float32)
        return self.known(array)

    def known(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind, *inputs, **attributes):
        self.count += 1
        name = f"v{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind.lower()}_{self.count}", **attributes))
        return name

    def dense(self, x, inputs, outputs):
        return self.node("Gemm", x, self.weight(outputs, inputs, scale=inputs**-0.5), self.weight(outputs, scale=0.1), transB=1)

    def linear(self, x, inputs, outputs):
        product = self.node("MatMul", x, self.weight(inputs, outputs, scale=inputs**-0.5))
        return self.node("Add", product, self.weight(outputs, scale=0.1))

    def conv(self, x, inputs, outputs, window, stride=1, group=1, gain=2.0):
        depth = inputs // group
        scale = (gain / (depth * window * window)) ** 0.5
        weights = self.weight(outputs, depth, window, window, scale=scale), self.weight(outputs, scale=0.1)
        return self.node("Conv", x, *weights, kernel_shape=[window] * 2, strides=[stride] * 2, pads=[window // 2] * 4, group=group)

    def save(self, path, x, output):
        graph = helper.make_graph(
            self.nodes,
            path.stem,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        content = model.SerializeToString()
        # Writing an unchanged file would rebuild its dependents.
        if not path.is_file() or path.read_bytes() != content:
            save_model(model, str(path))


def mlp(path):
    make = Maker(1)
    x = make.node("Relu", make.dense("x", 784, 512))
    x = make.node("Relu", make.dense(x, 512, 512))
    make.save(path, [1, 784], make.dense(x, 512, 10))


def transformer(path, length=128, width=256, heads=4, hidden=1024, layers=2):
    make, size = Maker(2), width // heads

    def norm(x):
        ones, zeros = make.known(np.ones(width, np.float32)), make.known(np.zeros(width, np.float32))
        return make.node("LayerNormalization", x, ones, zeros, axis=-1, epsilon=1e-5)

    def split(x, order):
        shape = make.known(np.array([1, length, heads, size]))
        return make.node("Transpose", make.node("Reshape", x, shape), perm=order)

    x = "x"
    for _ in range(layers):
        y = norm(x)
        query, key, value = (make.linear(y, width, width) for _ in range(3))
        scores = make.node("MatMul", split(query, [0, 2, 1, 3]), split(key, [0, 2, 3, 1]))
        scores = make.node("Softmax", make.node("Mul", scores, make.known(np.array(size**-0.5, np.float32))), axis=-1)
        mixed = make.node("Transpose", make.node("MatMul", scores, split(value, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        mixed = make.node("Reshape", mixed, make.known(np.array([1, length, width])))
        x = make.node("Add", x, make.linear(mixed, width, width))
        y = make.linear(norm(x), width, hidden)
        # The exact gelu, as PyTorch exports it.
        bent = make.node("Erf", make.node("Div", y, make.known(np.array(2**0.5, np.float32))))
        bent = make.node("Mul", make.node("Mul", y, make.node("Add", bent, make.known(np.array(1, np.float32)))), make.known(np.array(0.5, np.float32)))
        x = make.node("Add", x, make.linear(bent, hidden, width))
    make.save(path, [1, length, width], norm(x))


def int8(path):
    """The transformer as onnxruntime's quantizer writes it: weights of 8 bits, each column with its scale; what they are multiplied with is quantized when the model runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.getLogger().setLevel(logging.ERROR)
    new = path.with_suffix(".new")
    quantize_dynamic(path.with_name("transformer.onnx"), new, per_channel=True, weight_type=QuantType.QInt8)
    if path.is_file() and path.read_bytes() == new.read_bytes():
        new.unlink()
    else:
        new.replace(path)


def resnet18(path):
    make = Maker(3)
    x = make.node("Relu", make.conv("x", 3, 64, 7, 2))
    x = make.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    inputs = 64
    for outputs, stride in [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]:
        y = make.node("Relu", make.conv(x, inputs, outputs, 3, stride))
        y = make.conv(y, outputs, outputs, 3, gain=0.5)
        if stride != 1 or inputs != outputs:
            x = make.conv(x, inputs, outputs, 1, stride, gain=1.0)
        x = make.node("Relu", make.node("Add", x, y))
        inputs = outputs
    x = make.node("Flatten", make.node("GlobalAveragePool", x), axis=1)
    make.save(path, [1, 3, 224, 224], make.dense(x, 512, 1000))


def mobilenet(path):
    make = Maker(4)
    limits = make.known(np.array(0, np.float32)), make.known(np.array(6, np.float32))

    def relu6(x):
        return make.node("Clip", x, *limits)

    x, inputs = relu6(make.conv("x", 3, 32, 3, 2)), 32
    for grow, outputs, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for number in range(count):
            own = stride if number == 0 else 1
            hidden = inputs * grow
            y = relu6(make.conv(x, inputs, hidden, 1)) if grow > 1 else x
            y = relu6(make.conv(y, hidden, hidden, 3, own, group=hidden))
            y = make.conv(y, hidden, outputs, 1, gain=1.0)
            x = make.node("Add", x, y) if own == 1 and inputs == outputs else y
            inputs = outputs
    x = relu6(make.conv(x, inputs, 1280, 1))
    x = make.node("Flatten", make.node("GlobalAveragePool", x), axis=1)
    make.save(path, [1, 3, 224, 224], make.dense(x, 1280, 1000))


def unet(path, side=128, depths=(16, 32, 64), bottom=128):
    make = Maker(5)

    def twice(x, inputs, outputs):
        for depth in (inputs, outputs):
            x = make.node("Relu", make.conv(x, depth, outputs, 3))
        return x

    x, inputs, kept = "x", 3, []
    for depth in depths:
        x = twice(x, inputs, depth)
        kept.append(x)
        x, inputs = make.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), depth
    x, inputs = twice(x, inputs, bottom), bottom
    for depth in reversed(depths):
        weights = make.weight(inputs, depth, 2, 2, scale=inputs**-0.5), make.weight(depth, scale=0.1)
        x = make.node("ConvTranspose", x, *weights, kernel_shape=[2, 2], strides=[2, 2])
        x, inputs = twice(make.node("Concat", kept.pop(), x, axis=1), 2 * depth, depth), depth
    make.save(path, [1, 3, side, side], make.node("Sigmoid", make.conv(x, inputs, 1, 1, gain=1.0)))


def lstm(path, length=32, width=128, hidden=256, layers=2):
    make, x = Maker(6), "x"
    one = make.known(np.array([1]))
    for _ in range(layers):
        weights = make.weight(1, 4 * hidden, width, scale=width**-0.5), make.weight(1, 4 * hidden, hidden, scale=hidden**-0.5)
        x = make.node("LSTM", x, *weights, make.weight(1, 8 * hidden, scale=0.1), hidden_size=hidden)
        x, width = make.node("Squeeze", x, one), hidden
    make.save(path, [length, 1, 128], x)


def large(path, width=2048, layers=30):
    """Half a gigabyte of weights, for the memory that a build takes."""
    make = Maker(8)
    x = "x"
    for _ in range(layers):
        x = make.node("Relu", make.linear(x, width, width))
    make.save(path, [1, width], x)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (mlp, transformer, int8, resnet18, mobilenet, unet, lstm):
        make(folder / f"{make.__name__}.onnx")
    for source in sys.argv[2:]:
        target = folder / "magika.onnx"
        if not target.is_file() or target.read_bytes() != Path(source).read_bytes():
            shutil.copyfile(source, target)
