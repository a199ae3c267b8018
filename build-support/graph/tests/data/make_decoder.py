"""Writes decoder.onnx, a network with a cache as exporters write them: two heads of keys for four
of queries, rotary embeddings, a mask of the caller and a causal one. Prints the 20 words that
follow [5, 17, 2, 11], from onnxruntime. Needs the packages onnx and onnxruntime."""

import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HEADS, CACHED, SIZE, WORDS = 4, 2, 8, 31
WIDTH = HEADS * SIZE
random = np.random.default_rng(7)
nodes, weights = [], []


def known(array):
    weights.append(numpy_helper.from_array(np.asarray(array), f"known_{len(weights)}"))
    return weights[-1].name


def ints(*numbers):
    return known(np.array(numbers, np.int64))


def weight(*shape):
    return known((random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))


def op(kind, *inputs, **attributes):
    nodes.append(helper.make_node(kind, list(inputs), [f"{kind}_{len(nodes)}"], **attributes))
    return nodes[-1].output[0]


past = op("Gather", op("Shape", "past.0.key"), known(np.int64(2)))
total = op("Add", past, op("Gather", op("Shape", "input_ids"), known(np.int64(1))))
places = op("Unsqueeze", op("Range", past, total, known(np.int64(1))), ints(0))
seen = op("Range", known(np.int64(0)), total, known(np.int64(1)))
causal = op("LessOrEqual", op("Unsqueeze", seen, ints(0, 1)), op("Unsqueeze", places, ints(2)))
mask = op("Unsqueeze", op("Cast", "attention_mask", to=TensorProto.BOOL), ints(1, 2))
mask = op("And", op("Unsqueeze", causal, ints(1)), mask)
bias = op("Where", mask, known(np.float32(0)), known(np.float32(-1e9)))
turns = (10000.0 ** -(np.arange(0, SIZE, 2) / SIZE)).astype(np.float32)
angles = op("Mul", op("Cast", op("Unsqueeze", places, ints(2)), to=TensorProto.FLOAT), known(turns))
angles = op("Unsqueeze", op("Concat", angles, angles, axis=2), ints(1))
cosines, sines = op("Cos", angles), op("Sin", angles)


def rotated(x):
    first = op("Slice", x, ints(0), ints(SIZE // 2), ints(3))
    second = op("Slice", x, ints(SIZE // 2), ints(SIZE), ints(3))
    turned = op("Concat", op("Neg", second), first, axis=3)
    return op("Add", op("Mul", x, cosines), op("Mul", turned, sines))


def normalized(x):
    mean = op("ReduceMean", op("Mul", x, x), ints(-1), keepdims=1)
    return op("Div", x, op("Sqrt", op("Add", mean, known(np.float32(1e-5)))))


def heads(x, count):
    shape = ints(0, 0, count, SIZE)
    return op("Transpose", op("Reshape", op("MatMul", x, weight(WIDTH, count * SIZE)), shape), perm=[0, 2, 1, 3])


def repeated(x):
    shape = op("Shape", x)
    batch, length = op("Slice", shape, ints(0), ints(1)), op("Slice", shape, ints(2), ints(3))
    more = op("Concat", batch, ints(CACHED, HEADS // CACHED), length, ints(SIZE), axis=0)
    flat = op("Concat", batch, ints(HEADS), length, ints(SIZE), axis=0)
    return op("Reshape", op("Expand", op("Unsqueeze", x, ints(2)), more), flat)


x = op("Gather", known(random.standard_normal((WORDS, WIDTH)).astype(np.float32)), "input_ids")
y = normalized(x)
queries, keys, values = rotated(heads(y, HEADS)), rotated(heads(y, CACHED)), heads(y, CACHED)
for name, new in (("key", keys), ("value", values)):
    nodes.append(helper.make_node("Concat", [f"past.0.{name}", new], [f"present.0.{name}"], axis=2))
scores = op("MatMul", queries, op("Transpose", repeated("present.0.key"), perm=[0, 1, 3, 2]))
scores = op("Add", op("Mul", scores, known(np.float32(SIZE**-0.5))), bias)
y = op("Transpose", op("MatMul", op("Softmax", scores), repeated("present.0.value")), perm=[0, 2, 1, 3])
x = op("Add", x, op("MatMul", op("Reshape", y, ints(0, 0, WIDTH)), weight(WIDTH, WIDTH)))
nodes.append(helper.make_node("MatMul", [normalized(x), weight(WIDTH, WORDS)], ["logits"]))


def value(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


of_cache = [f"0.{name}" for name in ("key", "value")]
inputs = [value("input_ids", TensorProto.INT64, "batch", "tokens")]
inputs += [value("attention_mask", TensorProto.INT64, "batch", "past + tokens")]
inputs += [value(f"past.{name}", TensorProto.FLOAT, "batch", CACHED, "past", SIZE) for name in of_cache]
outputs = [value("logits", TensorProto.FLOAT, "batch", "tokens", WORDS)]
outputs += [value(f"present.{name}", TensorProto.FLOAT, "batch", CACHED, "past + tokens", SIZE) for name in of_cache]
graph = helper.make_graph(nodes, "decoder", inputs, outputs, weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
onnx.checker.check_model(model)
path = pathlib.Path(__file__).with_name("decoder.onnx")
path.write_bytes(model.SerializeToString())

session = onnxruntime.InferenceSession(path)
words, new = [5, 17, 2, 11], 4
cache = [np.zeros((1, CACHED, 0, SIZE), np.float32) for _ in of_cache]
for _ in range(20):
    given = {"input_ids": np.array([words[-new:]]), "attention_mask": np.ones((1, len(words)), np.int64)}
    given.update({f"past.{name}": kept for name, kept in zip(of_cache, cache)})
    scores, *cache = session.run(None, given)
    words.append(int(scores[0, -1].argmax()))
    new = 1
print(words[4:])
