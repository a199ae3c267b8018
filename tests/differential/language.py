"""Operators of language models and of new versions, which only the reference evaluator supports: caches, linear attention, convolutions with a state, bits."""

import numpy as np
from onnx import helper
from operators import case_of, single

#: The first version that has all of them.
NEWEST = 28


@case_of("SwiGLU")
def swiglu(draw, name):
    dtype, shape = draw.one("float32", "float32", "float64", "float16"), draw.shape(zero=0)
    values = {"a": draw.array(dtype, shape), "b": draw.array(dtype, shape)}
    return single(draw, name, values, {"alpha": draw.one(None, 0.5, 1.702)}, relative=2e-3 if dtype == "float16" else 2e-5, absolute=1e-6, opset=NEWEST)


@case_of("CumProd")
def cumulative_product(draw, name):
    shape = draw.shape(1, 4, zero=0)
    dtype = draw.one("float32", "int32", "int64")
    x = draw.array(dtype, shape)
    if dtype == "float32":
        # Powers of two near 1, so that all products are exact.
        x = np.asarray(2.0 ** draw.numpy.integers(-1, 2, shape) * draw.numpy.choice([1, -1], shape), dtype)
    attributes = {"exclusive": draw.one(0, 1), "reverse": draw.one(0, 1)}
    return single(draw, name, {"x": x, "axis": np.array(draw.axis(len(shape)), np.int64)}, attributes, share=1, opset=NEWEST)


@case_of("BitCast")
def bits(draw, name):
    types = draw.one(["float32", "int32", "uint32"], ["float64", "int64", "uint64"], ["float16", "int16", "uint16"], ["int8", "uint8"])
    source, target = draw.random.sample(types, 2)
    x = draw.array(source, draw.shape(zero=0))
    return single(draw, name, {"x": x}, {"to": helper.np_dtype_to_tensor_dtype(np.dtype(target))}, opset=NEWEST)


@case_of("TensorScatter")
def cache(draw, name):
    shape = draw.shape(2, 4, zero=0)
    axis = draw.number(1, len(shape) - 1)
    rows = draw.number(1, shape[axis])
    new = [rows if place == axis else extent for place, extent in enumerate(shape)]
    mode = draw.one("linear", "circular")
    last = shape[axis] - rows if mode == "linear" else shape[axis] + 3
    first = draw.numpy.integers(0, last + 1, [shape[0]]).astype(np.int64)
    dtype = draw.one("float32", "int32", "bool")
    values = {"x": draw.array(dtype, shape), "update": draw.array(dtype, new), "first": draw.one(None, first)}
    return single(draw, name, values, {"mode": mode, "axis": draw.one(axis, axis - len(shape))}, opset=NEWEST)


@case_of("LinearAttention")
def linear_attention(draw, name):
    batch, steps, heads, group = draw.number(1, 2), draw.number(1, 5), draw.number(1, 3), draw.number(1, 3)
    rows, columns = draw.number(1, 9), draw.number(1, 9)
    rule = draw.one("linear", "gated", "delta", "gated_delta")
    x = lambda *shape: draw.array("float32", shape)  # noqa: E731
    values = {"q": x(batch, steps, heads * group * rows), "k": x(batch, steps, heads * rows), "v": x(batch, steps, heads * columns)}
    # Keys of length 1 prevent the state from growing.
    keys = values["k"].reshape(batch, steps, heads, rows)
    values["k"] = (keys / np.sqrt(np.sum(keys * keys, -1, keepdims=True) + np.float32(1e-6))).reshape(values["k"].shape)
    values["past"] = draw.one(None, x(batch, heads, rows, columns))
    values["decay"] = -np.abs(x(batch, steps, heads * draw.one(1, rows))) if "gated" in rule else None
    values["beta"] = draw.numpy.random([batch, steps, draw.one(1, heads)], "float32") if "delta" in rule else None
    attributes = {"q_num_heads": heads * group, "kv_num_heads": heads, "update_rule": rule, "scale": draw.one(None, 0.5)}
    return single(draw, name, values, attributes, outputs=2, of_largest=2e-5, relative=2e-4, opset=NEWEST)


@case_of("CausalConvWithState")
def convolution_with_state(draw, name):
    batch, channels, length, kernel = draw.number(1, 2), draw.number(1, 5), draw.one(1, 2, 7, 33), draw.number(1, 5)
    x = lambda *shape: draw.array("float32", shape)  # noqa: E731
    values = {"x": x(batch, channels, length), "w": x(channels, 1, kernel), "b": draw.one(None, x(channels)), "past": draw.one(None, x(batch, channels, kernel - 1))}
    return single(draw, name, values, {"activation": draw.one(None, "none", "silu", "swish")}, outputs=2, of_largest=2e-6, relative=2e-5, opset=NEWEST)


@case_of("AttentionWindow")
def window(draw, name):
    batch, heads, group, size, queries, keys = draw.number(1, 2), draw.number(1, 2), draw.number(1, 2), draw.one(1, 4), draw.number(1, 5), draw.number(1, 7)
    x = lambda *shape: draw.array("float32", shape)  # noqa: E731
    values = {"q": x(batch, heads * group, queries, size), "k": x(batch, heads, keys, size), "v": x(batch, heads, keys, size)}
    values |= dict.fromkeys(["m", "past_k", "past_v"])
    values["lengths"] = draw.one(None, draw.numpy.integers(0, keys + 1, [batch]).astype(np.int64))
    attributes = {"is_causal": draw.one(None, 1), "left_window_size": draw.one(None, 0, 1, 3), "right_window_size": draw.one(None, 0, 1, 3)}
    return single(draw, "Attention", values, attributes, of_largest=2e-5, relative=2e-4, opset=25)
