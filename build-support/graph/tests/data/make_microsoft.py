"""Writes microsoft.onnx: nodes of onnxruntime's operators, each with the results of onnxruntime 1.32.

All inputs of the nodes are initializers. The expected results are initializers as well, with the
names of the outputs behind `want `.
"""

import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
DOMAIN = "com.microsoft"
random = np.random.default_rng(31)
onnxruntime.set_default_logger_severity(4)
nodes, initializers, outputs = [], [], []


def f(*shape):
    return random.standard_normal(shape).astype(np.float32)


def i(*values):
    return np.array(values, np.int32)


def u8(*shape):
    return random.integers(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return random.integers(-128, 128, shape).astype(np.int8)


def n(value, dtype=np.float32):
    return np.array(value, dtype)


def results(node, given, names):
    """The results of onnxruntime for a node."""
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in given.items()]
    of_type = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, None) if name.endswith(".scores") else onnx.ValueInfoProto(name=name)  # noqa: E731
    graph = helper.make_graph([node], "g", infos, [of_type(name) for name in names])
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, given)


def case(name, operator, inputs, attributes=None, made=("y",), domain=DOMAIN, checked=None):
    """Adds a node. `checked` changes a result whose elements onnxruntime does not specify."""
    given = {f"{name}.{place}": array for place, array in enumerate(inputs) if array is not None}
    names = [f"{name}.{place}" if array is not None else "" for place, array in enumerate(inputs)]
    own = [f"{name}.{result}" if result else "" for result in made]
    node = helper.make_node(operator, names, own, name=name, domain=domain, **(attributes or {}))
    nodes.append(node)
    initializers.extend(numpy_helper.from_array(array, key) for key, array in given.items())
    used = [result for result in own if result]
    for result, array in zip(used, results(node, given, used)):
        # Values that no output needs are dropped.
        outputs.extend(onnx.ValueInfoProto(name=name) for name in (result, "want " + result))
        array = np.asarray(array) if checked is None else checked(result.rsplit(".", 1)[1], np.asarray(array))
        initializers.append(numpy_helper.from_array(array, "want " + result))


def activations():
    case("gelu", "Gelu", [f(3, 7)])
    case("quick_gelu", "QuickGelu", [f(3, 7)])
    case("quick_gelu_alpha", "QuickGelu", [f(3, 7)], {"alpha": 0.5})
    case("bias_gelu", "BiasGelu", [f(2, 3, 7), f(7)])
    case("fast_gelu", "FastGelu", [f(3, 7)])
    case("fast_gelu_bias", "FastGelu", [f(3, 7), f(7)])


def norms():
    x, skip, row = f(2, 3, 8), f(2, 3, 8), lambda: f(8)
    case("skip", "SkipLayerNormalization", [x, skip, row(), row()])
    case("skip_bias", "SkipLayerNormalization", [x, f(1, 3, 8), row(), row(), row()], {"epsilon": 0.5}, ("y", "", "", "sum"))
    case("skip_rows", "SkipLayerNormalization", [x, f(3, 8), row(), None, row()], made=("y", "", "", "sum"))
    case("skip_flat", "SkipLayerNormalization", [f(3, 8), f(3, 8), row(), row()])
    case("skip_rms", "SkipSimplifiedLayerNormalization", [x, skip, row()])
    case("skip_rms_bias", "SkipSimplifiedLayerNormalization", [x, f(3, 8), row(), row()], {"epsilon": 0.5}, ("y", "", "", "sum"))
    case("rms", "SimplifiedLayerNormalization", [x, row()], made=("y", "inverse"), domain="")
    case("rms_axis", "SimplifiedLayerNormalization", [x, f(3, 8)], {"axis": 1, "epsilon": 0.1}, domain="")
    words, segments = i([1, 2, 0], [3, 1, 1]), i([0, 1, 0], [1, 1, 0])
    tables = [f(5, 8), f(6, 8), f(2, 8), row(), row()]
    every = ("y", "count", "sum")
    case("embed", "EmbedLayerNormalization", [words, segments, *tables, i([1, 1, 0], [2, 0, 1])], {"epsilon": 1e-3}, every)
    case("embed_words", "EmbedLayerNormalization", [words, None, *tables[:2], None, *tables[3:]], made=every)
    case("embed_places", "EmbedLayerNormalization", [words, segments, *tables, None, i([4, 0, 2])], made=every)


def products():
    case("matmul", "FusedMatMul", [f(2, 3, 4), f(4, 5)], {"alpha": 0.5})
    case("matmul_vector", "FusedMatMul", [f(4), f(4, 5)], {"transA": 1})
    for turns in range(4):
        a, b = turns & 1, turns >> 1
        case(f"matmul_matrices_{a}{b}", "FusedMatMul", [f(*(4, 3) if a else (3, 4)), f(*(5, 4) if b else (4, 5))], {"transA": a, "transB": b, "alpha": 2.0})
        case(f"matmul_batches_{a}{b}", "FusedMatMul", [f(2, *(4, 3) if a else (3, 4)), f(2, *(5, 4) if b else (4, 5))], {"transA": a, "transB": b})
    case("matmul_moved", "FusedMatMul", [f(3, 2, 4), f(2, 4, 5)], {"transBatchA": 1})
    case("matmul_moved_a", "FusedMatMul", [f(4, 2, 3), f(2, 4, 5)], {"transBatchA": 1, "transA": 1})
    case("matmul_moved_b", "FusedMatMul", [f(2, 3, 4), f(5, 2, 4)], {"transBatchB": 1, "transB": 1})
    case("matmul_moved_four", "FusedMatMul", [f(3, 2, 2, 4), f(2, 2, 4, 5)], {"transBatchA": 1})
    image, weights, bias = f(1, 2, 5, 6), f(3, 2, 3, 3), f(3)
    case("conv", "FusedConv", [image, weights, bias], {"activation": "Relu", "pads": [1, 1, 1, 1]})
    case("conv_sum", "FusedConv", [image, weights, bias, f(1, 3, 5, 6)], {"activation": "Relu", "pads": [1, 1, 1, 1]})
    case("conv_leaky", "FusedConv", [image, weights], {"activation": "LeakyRelu", "activation_params": [0.2], "strides": [2, 1]})
    case("conv_clip", "FusedConv", [image, weights, bias], {"activation": "Clip", "activation_params": [-0.5, 1.0]})
    case("conv_hard", "FusedConv", [image, weights, bias], {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]})
    case("conv_swish", "FusedConv", [image, weights, bias], {"activation": "HardSwish"})
    case("gemm", "FusedGemm", [f(3, 4), f(5, 4), f(5)], {"activation": "Relu", "transB": 1, "alpha": 0.5, "beta": 2.0})
    case("gemm_leaky", "FusedGemm", [f(3, 4), f(4, 5), f(5)], {"activation": "LeakyRelu", "activation_alpha": 0.3})
    case("gemm_selu", "FusedGemm", [f(3, 4), f(4, 5)], {"activation": "Selu", "activation_alpha": 0.3, "activation_gamma": 1.5})


def bytes_with_scales():
    for kind, of, zero in (("u", u8, 100), ("i", i8, -3)):
        number = lambda value, kind=of(1).dtype: n(value, kind)  # noqa: E731
        q = lambda *shape, scale=0.02: [of(*shape), n(scale), number(zero)]  # noqa: E731
        # Not a multiple of the other scales: results are then not in the middle of two bytes.
        result = [n(0.0531), number(zero + 7)]
        case(f"q_add_{kind}", "QLinearAdd", [*q(2, 3, 4), *q(4, scale=0.03), *result])
        case(f"q_mul_{kind}", "QLinearMul", [*q(2, 3, 4), *q(3, 1, scale=0.03), *result])
        case(f"q_leaky_{kind}", "QLinearLeakyRelu", [*q(3, 40), *result], {"alpha": 0.2})
        case(f"q_sigmoid_{kind}", "QLinearSigmoid", [*q(3, 40), n(1 / 256), number(0 if kind == "u" else -128)])
        case(f"q_softmax_{kind}", "QLinearSoftmax", [*q(3, 9), n(1 / 256), number(0 if kind == "u" else -128)], {"opset": 13})
        case(f"q_where_{kind}", "QLinearWhere", [random.integers(0, 2, (3, 1)).astype(bool), *q(3, 4), *q(4, scale=0.03), *result])
        case(f"q_pool_{kind}", "QLinearAveragePool", [*q(1, 2, 5, 6), *result], {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1], "strides": [2, 1]})
        case(f"q_pool_all_{kind}", "QLinearAveragePool", [*q(1, 2, 5, 6), *result], {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1})
        case(f"q_pool_last_{kind}", "QLinearAveragePool", [*q(1, 5, 6, 2), *result], {"kernel_shape": [2, 2], "channels_last": 1})
        case(f"q_global_{kind}", "QLinearGlobalAveragePool", [*q(2, 3, 4, 5), *result])
        case(f"q_global_last_{kind}", "QLinearGlobalAveragePool", [*q(2, 4, 5, 3), *result], {"channels_last": 1})
        case(f"q_concat_{kind}", "QLinearConcat", [*result, *q(2, 3), of(2, 4), *result, *q(2, 1, scale=0.1)], {"axis": -1})
        case(f"q_gemm_{kind}", "QGemm", [*q(4, 6), i8(6, 5), (0.01 * (1 + np.arange(5))).astype("f"), np.array([1, -2, 0, 3, 5], "i1"), random.integers(-500, 500, 5).astype("i4"), *result])
        case(f"q_gemm_turned_{kind}", "QGemm", [*q(6, 4), *q(5, 6), None, n(0.2), number(5)], {"transA": 1, "transB": 1, "alpha": 0.5})
        case(f"q_gemm_floats_{kind}", "QGemm", [*q(4, 6), *q(6, 5), random.integers(-500, 500, (4, 1)).astype("i4")])


def dynamic_products():
    b, columns = i8(6, 5), (0.01 * (1 + np.arange(5))).astype("f")
    case("dynamic", "DynamicQuantizeMatMul", [f(2, 3, 6), b, n(0.02), n(3, np.int8), f(5)])
    case("dynamic_columns", "DynamicQuantizeMatMul", [f(3, 6), b, columns, i8(5)])
    case("dynamic_plain", "DynamicQuantizeMatMul", [f(3, 6), u8(6, 5), n(0.02)])
    case("to_float", "MatMulIntegerToFloat", [u8(2, 3, 6), b, n(0.02), columns, n(7, np.uint8), i8(5), f(5)])
    case("to_float_plain", "MatMulIntegerToFloat", [u8(3, 6), u8(6, 5), n(0.02), n(0.5)])


def recurrent():
    def weights(directions, rows, per_column):
        shape = (directions, 16) if per_column else (directions,)
        scales = (0.004 + 0.001 * random.random(shape)).astype(np.float32)
        # onnxruntime only takes zeros for columns.
        zeros = np.zeros(shape, np.int8) if per_column else random.integers(-3, 4, shape).astype(np.int8)
        return i8(directions, rows, 16), [scales, zeros]

    for name, directions, per_column in (("lstm", 1, False), ("lstm_both", 2, True)):
        (w, of_w), (r, of_r) = weights(directions, 6, per_column), weights(directions, 4, per_column)
        attributes = {"hidden_size": 4, "direction": "forward" if directions == 1 else "bidirectional"}
        case(name, "DynamicQuantizeLSTM", [f(5, 2, 6), w, r, f(directions, 32), None, None, None, None, *of_w, *of_r], attributes, ("y", "h", "c"))


def bits():
    for name, width, block, depth in (("four", 4, 16, 40), ("four_long", 4, 32, 64), ("eight", 8, 16, 20)):
        count = -(-depth // block)
        b, scales = u8(5, count, block * width // 8), (0.1 * f(5, count)).astype(np.float32)
        attributes = {"N": 5, "K": depth, "bits": width, "block_size": block}
        case(f"bits_{name}", "MatMulNBits", [f(2, 3, depth), b, scales], attributes)
        zeros = u8(5, -(-count * width // 8))
        case(f"bits_{name}_zeros", "MatMulNBits", [f(3, depth), b, scales, zeros, None, f(5)], attributes)
        if width == 4:
            case(f"bits_{name}_floats", "MatMulNBits", [f(3, depth), b, scales, 8 + f(5, count)], attributes)


def attention():
    x, weights, bias = f(2, 4, 6), f(6, 24), f(24)
    own = {"num_heads": 2}
    causal = {"num_heads": 2, "unidirectional": 1}
    case("attention", "Attention", [x, weights, bias], own, ("y", "present"))
    case("attention_plain", "Attention", [x, weights], {"num_heads": 2, "scale": 0.3})
    case("attention_sizes", "Attention", [x, f(6, 14), f(14)], {"num_heads": 2, "qkv_hidden_sizes": [4, 4, 6]})
    masks = {
        "keys": i([0, 1, 1, 1], [0, 0, 1, 1]),
        "nothing": i([0, 0, 0, 0], [1, 0, 2, -1]),
        "pairs": random.integers(0, 2, (2, 4, 4)).astype(np.int32),
        "lengths": i(2, 4),
        "ranges": i(4, 3, 1, 0),
    }
    for name, mask in masks.items():
        case(f"attention_{name}", "Attention", [x, weights, bias, mask], own)
        case(f"attention_causal_{name}", "Attention", [x, weights, bias, mask], causal)
    case("attention_causal", "Attention", [x, weights, bias], causal)
    case("attention_filter", "Attention", [x, weights, bias, masks["keys"]], {"num_heads": 2, "mask_filter_value": -1.5})
    past, mask = f(2, 2, 2, 3, 4), random.integers(0, 2, (2, 7)).astype(np.int32)
    case("attention_past", "Attention", [x, weights, bias, mask, past], causal, ("y", "present"))
    case("attention_bias", "Attention", [x, weights, bias, masks["keys"], None, f(1, 2, 4, 4)], own)


def multi_head():
    query, key, value, bias = f(2, 3, 8), f(2, 5, 8), f(2, 5, 6), f(22)
    own, causal, every = {"num_heads": 2}, {"num_heads": 2, "unidirectional": 1}, ("y", "key", "value", "scores")
    case("heads", "MultiHeadAttention", [query, key, value], own)
    case("heads_bias", "MultiHeadAttention", [query, key, value, bias, i([0, 1, 1, 0, 1], [1, 1, 1, 1, 0])], own, every)
    case("heads_lengths", "MultiHeadAttention", [query, key, value, bias, i(2, 4)], {"num_heads": 2, "scale": 0.2})
    case("heads_pairs", "MultiHeadAttention", [query, key, value, None, random.integers(0, 2, (2, 3, 5)).astype(np.int32), f(2, 1, 3, 5)], own)
    case("heads_split", "MultiHeadAttention", [query, f(2, 2, 5, 4), f(2, 2, 5, 4), f(24)], own)
    new = [f(2, 3, 8) for _ in range(3)]
    case("heads_causal", "MultiHeadAttention", new, causal)
    past = [f(2, 2, 4, 4), f(2, 2, 4, 4)]
    case("heads_past", "MultiHeadAttention", [*new, f(24), i([1, 0, 1, 1, 1, 0, 1], [0, 1, 1, 1, 1, 1, 1]), None, *past], causal, every)
    for name, heads in (("three", f(2, 3, 16)), ("four", f(2, 2, 3, 8))):
        tables = [f(10, 4), f(10, 4)]
        case(f"rotary_{name}", "RotaryEmbedding", [heads, np.array([[0, 1, 2], [4, 3, 9]]), *tables])
        case(f"rotary_first_{name}", "RotaryEmbedding", [heads, np.array([2]), *tables], {"interleaved": 1})
        half = [f(10, 2), f(10, 2)]
        case(f"rotary_part_{name}", "RotaryEmbedding", [heads, np.array([2]), *half], {"num_heads": 2, "rotary_embedding_dim": 4})


def group_query():
    own, every = {"num_heads": 4, "kv_num_heads": 2}, ("y", "key", "value")
    parts = lambda length, size: [f(2, length, heads * size) for heads in (4, 2, 2)]  # noqa: E731
    prompt, token = parts(5, 8), parts(1, 8)
    # onnxruntime only rotates heads of 16 elements and their multiples.
    long, wide = parts(3, 16), parts(1, 16)
    rotary = {**own, "do_rotary": 1}
    tables = [f(12, 8), f(12, 8)]

    def query(name, parts, past, counts, total, rest=(), attributes=own):
        # onnxruntime leaves what is behind the keys of a batch as it was in memory.
        def checked(result, array):
            if result == "y" or past[0] is None:
                return array
            array = array.copy()
            for batch, count in enumerate(counts):
                behind = array[batch, :, count + 1 :]
                old = past[0 if result == "key" else 1][batch, :, count + 1 :]
                behind[...] = 0
                behind[:, : old.shape[1]] = old
            return array

        case(f"group_{name}", "GroupQueryAttention", [*parts, *past, i(*counts), n(total, np.int32), *rest], attributes, every, checked=checked)

    none, past = [None, None], [f(2, 2, 8, 8), f(2, 2, 8, 8)]
    deep = [f(2, 2, 4, 16), f(2, 2, 4, 16)]
    query("prompt", prompt, none, [4, 4], 5)
    query("packed", [f(2, 5, 8 * 8), None, None], none, [4, 4], 5)
    query("token", token, past, [5, 8], 9)
    query("place", token, past, [3, 5], 6)
    query("chunk", [part[:1] for part in prompt], [part[:1] for part in past], [12], 13)
    query("rotary", long, none, [2, 2], 3, tables, {**rotary, "rotary_interleaved": 1})
    query("rotary_token", wide, deep, [2, 4], 5, tables, rotary)
    query("rotary_places", wide, deep, [2, 4], 5, [*tables, np.array([[3], [7]])], rotary)
    query("rotary_first", long, none, [2, 2], 3, [*tables, np.array([[2, 9, 9], [7, 1, 1]])], rotary)
    query("window", prompt, none, [4, 4], 5, (), {**own, "local_window_size": 2})
    query("window_token", token, past, [5, 8], 9, (), {**own, "local_window_size": 3})
    query("cap", prompt, none, [4, 4], 5, [None, None, None, f(1, 4, 5, 5)], {**own, "softcap": 0.7, "scale": 0.4})
    query("smooth", prompt, none, [4, 4], 5, (), {**own, "smooth_softmax": 1})
    query("sink", token, past, [5, 8], 9, [None] * 4 + [f(4)])
    query("both_ways", prompt, none, [2, 4], 5, (), {**own, "causal": 0})
    query("padded", prompt, none, [2, 4], 5)


def rest():
    case("rotary_number", "RotaryEmbedding", [f(2, 3, 16), np.array(2), f(10, 4), f(10, 4)])
    case("rms_wide", "SimplifiedLayerNormalization", [f(2, 8).astype(np.float64), f(8).astype(np.float64)], made=("y", "inverse"), domain="")


def main():
    for family in (activations, norms, products, bytes_with_scales, dynamic_products, recurrent, bits, attention, multi_head, group_query, rest):
        family()
    graph = helper.make_graph(nodes, "microsoft", [], outputs, initializers)
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=8)
    (pathlib.Path(__file__).parent / "microsoft.onnx").write_bytes(model.SerializeToString())
    print(len(nodes), "nodes")


main()
