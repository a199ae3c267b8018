"""Models of MXNet, without MXNet: a checkpoint is a graph in JSON (`<prefix>-symbol.json`) and arrays (`<prefix>-0000.params`).

The format of the arrays is that of `NDArray::Save` in MXNet's src/ndarray/ndarray.cc: a list with a magic number, then for each array its
own magic number, storage type, shape, device and element type, then the names, `arg:<name>` or `aux:<name>`.
"""

import ast
import json
import os
import re
import struct

import numpy as np
import tvm

from .. import symbol as sym
from .._base import NNVMError

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_TYPES = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]


def from_mxnet(symbol, arg_params=None, aux_params=None):
    """A network of MXNet as a symbol and its parameters, arrays by name.

    `symbol` is a path of a file in JSON, its text, or an object with `tojson`. `arg_params` is a path of a file of parameters, its bytes,
    or a dictionary of arrays, as is `aux_params`.
    """
    graph = json.loads(_text_of(symbol))
    if not isinstance(graph, dict) or "nodes" not in graph or "heads" not in graph:
        raise NNVMError("not a graph of MXNet: its JSON has no `nodes` and `heads`")
    params = {}
    for given in (arg_params, aux_params):
        params.update(_arrays_of(given))
    outputs = _convert(graph, params)
    names = set(outputs.list_input_names())
    return outputs, {name: tvm.nd.array(value) for name, value in params.items() if name in names}


def _text_of(symbol):
    if hasattr(symbol, "tojson"):
        return symbol.tojson()
    text = os.fspath(symbol)
    if text.lstrip().startswith("{"):
        return text
    with open(text, encoding="utf-8") as file:
        return file.read()


def _arrays_of(given):
    if given is None:
        return {}
    if isinstance(given, dict):
        return {name: value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value) for name, value in given.items()}
    if isinstance(given, (bytes, bytearray)):
        return load_params(bytes(given))
    with open(given, "rb") as file:
        return load_params(file.read())


class _Reader:
    """Numbers of a file in little-endian order."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, size):
        if size < 0 or self.at + size > len(self.data):
            raise NNVMError(f"the file of parameters is cut: {size} bytes are missing at byte {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def numbers(self, form, count=1):
        size = struct.calcsize("<" + form)
        return [value for (value,) in struct.iter_unpack("<" + form, self.take(size * count))]

    def number(self, form):
        return self.numbers(form)[0]


def load_params(data):
    """The arrays of a file of parameters, by name without `arg:` and `aux:`."""
    reader = _Reader(data)
    if reader.number("Q") != _LIST_MAGIC:
        raise NNVMError("not a file of MXNet's parameters: its first bytes are not 12 01")
    reader.number("Q")
    arrays = [_array(reader) for _ in range(reader.number("Q"))]
    names = [reader.take(reader.number("Q")).decode(errors="replace") for _ in range(reader.number("Q"))]
    if len(names) != len(arrays):
        raise NNVMError(f"the file of parameters has {len(names)} names for {len(arrays)} arrays")
    return {re.sub("^(arg|aux):", "", name): array for name, array in zip(names, arrays)}


def _array(reader):
    magic = reader.number("I")
    if magic in (_V2, _V3):
        storage = reader.number("i")
        if storage not in (-1, 0):
            raise NNVMError(f"an array with sparse storage (type {storage}) is not supported: store it densely")
    if magic in (_V1, _V2, _V3):
        rank = reader.number("i" if magic == _V3 else "I")
        shape = reader.numbers("q", rank)
    else:
        # Before version 1 the number is the rank.
        shape = reader.numbers("I", magic)
    if not shape and magic != _V3 or any(extent < 0 for extent in shape):
        raise NNVMError(f"an array of shape {tuple(shape)} in the file of parameters")
    reader.take(8)
    code = reader.number("i")
    if not 0 <= code < len(_TYPES):
        raise NNVMError(f"an array with element type {code}: the types are 0 to {len(_TYPES) - 1}")
    dtype = np.dtype(_TYPES[code]).newbyteorder("<")
    count = 1
    for extent in shape:
        count *= extent
    return np.frombuffer(reader.take(count * dtype.itemsize), dtype=dtype).reshape(shape)


def _convert(graph, params):
    """The symbols of all nodes in their order; the result is that of the heads."""
    nodes = graph["nodes"]
    made = []

    def value(entry, place):
        outputs = made[entry[0]] if entry[0] < len(made) else []
        if entry[1] >= len(outputs):
            source = nodes[entry[0]]["name"] if entry[0] < len(nodes) else entry[0]
            raise NNVMError(f"{place}: output {entry[1]} of node '{source}' is not supported")
        return outputs[entry[1]]

    for node in nodes:
        name, op = node["name"], node["op"]
        attrs = _Attrs(name, op, {**node.get("param", {}), **node.get("attr", {}), **node.get("attrs", {})}, params)
        if op == "null":
            made.append([sym.Variable(name)])
            continue
        inputs = [value(entry, f"node '{name}' ({op})") for entry in node["inputs"]]
        if op not in _OPERATORS:
            raise NNVMError(f"node '{name}': MXNet's operator {op} is not supported")
        result = _OPERATORS[op](inputs, attrs, name)
        made.append(list(result) if isinstance(result, (list, tuple)) or len(result) > 1 else [result])
    outputs = [value(entry, "the outputs") for entry in graph["heads"]]
    return outputs[0] if len(outputs) == 1 else sym.Group(outputs)


class _Attrs:
    """The attributes of a node, by type. MXNet writes them as text: `(3, 3)`, `True`, `None`."""

    def __init__(self, name, op, texts, params):
        self.name, self.op, self.texts, self.params = name, op, texts, params

    def value(self, key, default=None):
        text = self.texts.get(key)
        if text is None or text == "None":
            return default
        try:
            # Python 2 wrote sizes of type long with an L.
            return ast.literal_eval(re.sub(r"\b(\d+)L\b", r"\1", text))
        except (ValueError, SyntaxError, TypeError):
            return text

    def ints(self, key, default=()):
        value = self.value(key, default)
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)

    def flag(self, key, default=False):
        return str(self.value(key, default)) in ("True", "true", "1")

    def need(self, key):
        value = self.value(key)
        if value is None:
            self.refuse(f"attribute `{key}` is missing")
        return value

    def expect_layout(self, *layouts):
        layout = self.value("layout")
        if layout is not None and layout not in layouts:
            self.refuse(f"layout {layout} is not supported: {' or '.join(layouts)} is")

    def refuse(self, problem):
        raise NNVMError(f"node '{self.name}' ({self.op}): {problem}")


def _window(attrs, rank=2):
    kernel = attrs.ints("kernel")
    if len(kernel) != rank:
        attrs.refuse(f"a kernel of {len(kernel)} dimensions is not supported, only of {rank}")
    one, zero = (1,) * rank, (0,) * rank
    return kernel, attrs.ints("stride") or one, attrs.ints("pad") or zero, attrs.ints("dilate") or one


def _convolution(inputs, attrs, name):
    kernel, stride, pad, dilate = _window(attrs)
    attrs.expect_layout("NCHW")
    return sym.conv2d(
        *inputs, channels=attrs.need("num_filter"), kernel_size=kernel, strides=stride, padding=pad, dilation=dilate,
        groups=attrs.value("num_group", 1), use_bias=not attrs.flag("no_bias"), name=name,
    )  # fmt: skip


def _deconvolution(inputs, attrs, name):
    kernel, stride, pad, dilate = _window(attrs)
    attrs.expect_layout("NCHW")
    # Zeros are no shape.
    if any(attrs.ints("target_shape")):
        attrs.refuse("attribute `target_shape` is not supported: use `pad` and `adj`")
    return sym.conv2d_transpose(
        *inputs, channels=attrs.need("num_filter"), kernel_size=kernel, strides=stride, padding=pad, dilation=dilate,
        output_padding=attrs.ints("adj") or (0, 0), groups=attrs.value("num_group", 1),
        use_bias=not attrs.flag("no_bias", True), name=name,
    )  # fmt: skip


def _pooling(inputs, attrs, name):
    kind = attrs.value("pool_type", "max")
    if kind not in ("max", "avg"):
        attrs.refuse(f"pool_type {kind} is not supported: max and avg are")
    attrs.expect_layout("NCHW")
    if attrs.flag("global_pool"):
        return getattr(sym, f"global_{kind}_pool2d")(inputs[0], name=name)
    kernel, stride, pad, _ = _window(attrs)
    convention = attrs.value("pooling_convention", "valid")
    if convention not in ("valid", "full"):
        attrs.refuse(f"pooling_convention {convention} is not supported: valid and full are")
    data, full = inputs[0], convention == "full"
    if kind == "max":
        return sym.max_pool2d(data, pool_size=kernel, strides=stride, padding=pad, ceil_mode=full, name=name)
    include = attrs.flag("count_include_pad", True)
    if include and full:
        # The elements that complete the last window are not counted, in contrast to those of `pad`.
        if any(pad):
            data = sym.pad(data, pad_width=((0, 0), (0, 0), *((one, one) for one in pad)))
        pad, include = (0, 0), False
    return sym.avg_pool2d(
        data, pool_size=kernel, strides=stride, padding=pad, ceil_mode=full, count_include_pad=include, name=name
    )


def _dense(inputs, attrs, name):
    data, *rest = inputs
    if attrs.flag("flatten", True):
        data = sym.flatten(data)
    return sym.dense(data, *rest, units=attrs.need("num_hidden"), use_bias=not attrs.flag("no_bias"), name=name)


def _batch_norm(inputs, attrs, name):
    result = sym.batch_norm(
        *inputs, axis=attrs.value("axis", 1), epsilon=attrs.value("eps", 1e-3), scale=not attrs.flag("fix_gamma", True), name=name
    )
    return result


def _activation(inputs, attrs, name):
    kind = attrs.need("act_type")
    if kind == "softrelu":
        # exp does not overflow: log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)).
        return sym.elemwise_add(sym.relu(inputs[0]), sym.log(sym.exp(-sym.abs(inputs[0])) + 1.0), name=name)
    if kind == "softsign":
        return sym.elemwise_div(inputs[0], sym.abs(inputs[0]) + 1.0, name=name)
    if kind not in ("relu", "sigmoid", "tanh"):
        attrs.refuse(f"act_type {kind} is not supported")
    return getattr(sym, kind)(inputs[0], name=name)


def _leaky_relu(inputs, attrs, name):
    kind, slope = attrs.value("act_type", "leaky"), attrs.value("slope", 0.25)
    if kind == "leaky":
        return sym.leaky_relu(inputs[0], alpha=slope, name=name)
    if kind == "prelu":
        slope = attrs.params.get(inputs[1].attr("name"))
        if slope is not None and slope.size == 1:
            # One slope for all channels.
            below = sym.broadcast_mul(sym.relu(-inputs[0]), inputs[1])
            return sym.elemwise_sub(sym.relu(inputs[0]), below, name=name)
        return sym.prelu(inputs[0], inputs[1], name=name)
    if kind == "elu":
        return -slope * sym.relu(1 - sym.exp(inputs[0])) + sym.relu(inputs[0])
    if kind == "rrelu":
        slope = (attrs.value("lower_bound", 0.125) + attrs.value("upper_bound", 0.334)) / 2
        return sym.leaky_relu(inputs[0], alpha=slope, name=name)
    return attrs.refuse(f"act_type {kind} is not supported")


def _reduction(op):
    def convert(inputs, attrs, name):
        axis = attrs.value("axis", ())
        axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        # Without axes MXNet reduces over all of them, with `exclude`, too.
        exclude = bool(axes) and attrs.flag("exclude")
        return getattr(sym, op)(inputs[0], axis=axes, keepdims=attrs.flag("keepdims"), exclude=exclude, name=name)

    return convert


def _pad(inputs, attrs, name):
    if attrs.value("mode") != "constant":
        attrs.refuse(f"mode {attrs.value('mode')} is not supported: constant is")
    widths = attrs.ints("pad_width")
    pairs = tuple(zip(widths[::2], widths[1::2]))
    return sym.pad(inputs[0], pad_width=pairs, pad_value=attrs.value("constant_value", 0.0), name=name)


def _split(inputs, attrs, name):
    parts = sym.split(inputs[0], indices_or_sections=attrs.need("num_outputs"), axis=attrs.value("axis", 1), name=name)
    if attrs.flag("squeeze_axis"):
        return [sym.squeeze(part, axis=attrs.value("axis", 1)) for part in parts]
    return list(parts)


def _slice(inputs, attrs, name):
    begin, end, largest = attrs.ints("begin"), attrs.ints("end"), (1 << 31) - 1
    stride = [1 if one is None else one for one in attrs.ints("step")]
    stride += [1] * (len(begin) - len(stride))
    # Open ends are those of the axis in the direction of the step.
    begin = tuple((0 if step > 0 else largest) if one is None else one for one, step in zip(begin, stride))
    end = tuple((largest if step > 0 else -largest) if one is None else one for one, step in zip(end, stride))
    return sym.strided_slice(inputs[0], begin=begin, end=end, stride=tuple(stride), name=name)


def _slice_axis(inputs, attrs, name):
    axis, begin, end = attrs.need("axis"), attrs.need("begin"), attrs.value("end")
    if axis < 0:
        attrs.refuse("a negative axis is not supported")
    largest = (1 << 31) - 1
    return sym.strided_slice(inputs[0], begin=(0,) * axis + (begin,), end=(largest,) * axis + (largest if end is None else end,), name=name)


def _lrn(inputs, attrs, name):
    return sym.lrn(
        inputs[0], size=attrs.need("nsize"), axis=1, alpha=attrs.value("alpha", 1e-4), beta=attrs.value("beta", 0.75),
        bias=attrs.value("knorm", 2.0), name=name,
    )  # fmt: skip


def _l2_normalization(inputs, attrs, name):
    if attrs.value("mode", "instance") != "channel":
        attrs.refuse("only mode channel is supported")
    return sym.l2_normalize(inputs[0], eps=attrs.value("eps", 1e-10), axis=(1,), name=name)


def _upsampling(inputs, attrs, name):
    if attrs.need("sample_type") != "nearest":
        attrs.refuse(f"sample_type {attrs.value('sample_type')} is not supported: nearest is")
    if len(inputs) > 1:
        attrs.refuse(f"{len(inputs)} inputs are not supported: concatenate them after UpSampling")
    return sym.upsampling(inputs[0], scale=attrs.need("scale"), name=name)


def _reshape(inputs, attrs, name):
    if attrs.flag("reverse"):
        attrs.refuse("attribute `reverse` is not supported")
    return sym.reshape(inputs[0], shape=attrs.need("shape"), name=name)


def _dropout(inputs, attrs, name):
    if attrs.value("mode", "training") != "training":
        attrs.refuse(f"mode {attrs.value('mode')} is not supported: training is")
    return inputs[0]


def _softmax(op):
    def convert(inputs, attrs, name):
        temperature = attrs.value("temperature", 1.0)
        if len(inputs) != 1:
            attrs.refuse("input `length` is not supported")
        data = inputs[0] if temperature == 1.0 else inputs[0] / temperature
        return getattr(sym, op)(data, axis=attrs.value("axis", -1), name=name)

    return convert


def _softmax_of_rows(data, name):
    """The softmax over all axes but the first."""
    layer = data if data.attr("op_name") != "dense" else next(iter(data.get_children()))
    if layer.attr("op_name") == "flatten":
        return sym.softmax(data, axis=1, name=name)
    return sym.reshape_like(sym.softmax(sym.flatten(data), axis=1), data, name=name)


def _softmax_output(inputs, attrs, name):
    if attrs.flag("multi_output"):
        return sym.softmax(inputs[0], axis=1, name=name)
    if attrs.flag("preserve_shape"):
        return sym.softmax(inputs[0], axis=-1, name=name)
    return _softmax_of_rows(inputs[0], name)


def _softmax_activation(inputs, attrs, name):
    if attrs.value("mode", "instance") == "channel":
        return sym.softmax(inputs[0], axis=1, name=name)
    return _softmax_of_rows(inputs[0], name)


def _place(op):
    """`argmax` and `argmin`, whose results are floats in MXNet."""

    def convert(inputs, attrs, name):
        axis = attrs.value("axis", ())
        axes = axis if isinstance(axis, tuple) else (axis,)
        place = getattr(sym, op)(inputs[0], axis=axes, keepdims=attrs.flag("keepdims"))
        return sym.cast(place, dtype="float32", name=name)

    return convert


def _take(inputs, attrs, name):
    if attrs.value("mode", "clip") != "clip":
        attrs.refuse(f"mode {attrs.value('mode')} is not supported: clip is")
    return sym.take(inputs[0], inputs[1], axis=attrs.value("axis", 0), name=name)


def _dot(inputs, attrs, name):
    turned = [attrs.flag("transpose_a"), attrs.flag("transpose_b")]
    factors = [sym.transpose(one, axes=(1, 0)) if turn else one for one, turn in zip(inputs, turned)]
    return sym.matmul(*factors, name=name)


def _hard_sigmoid(inputs, attrs, name):
    line = inputs[0] * attrs.value("alpha", 0.2) + attrs.value("beta", 0.5)
    return sym.clip(line, a_min=0, a_max=1, name=name)


def _same(op, **renamed):
    """An operator of the same meaning; `renamed` are its attributes here, by those of MXNet with a default."""

    def convert(inputs, attrs, name):
        options = {}
        for own, (key, default) in renamed.items():
            value = attrs.need(key) if default is _NEEDED else attrs.value(key, default)
            if value is not None:
                options[own] = value
        return getattr(sym, op)(*inputs, name=name, **options)

    return convert


_NEEDED = object()


def _scalar(op):
    return lambda inputs, attrs, name: getattr(sym._internal, f"__{op}_scalar__")(inputs[0], scalar=attrs.need("scalar"), name=name)


def _first(op=None):
    """An operator of the first input alone; labels of losses are left out."""
    if op is None:
        return lambda inputs, attrs, name: inputs[0]
    return lambda inputs, attrs, name: getattr(sym, op)(inputs[0], name=name)


_OPERATORS = {
    "Activation": _activation,
    "BatchNorm": _batch_norm,
    "BatchNorm_v1": _batch_norm,
    "BlockGrad": _first(),
    "CuDNNBatchNorm": _batch_norm,
    "Cast": _same("cast", dtype=("dtype", _NEEDED)),
    "Concat": lambda inputs, attrs, name: sym.concatenate(*inputs, axis=attrs.value("dim", 1), name=name),
    "Convolution": _convolution,
    "Convolution_v1": _convolution,
    "Deconvolution": _deconvolution,
    "Dropout": _dropout,
    "ElementWiseSum": lambda inputs, attrs, name: sym.elemwise_sum(*inputs, num_args=len(inputs), name=name),
    "Embedding": lambda inputs, attrs, name: sym.take(inputs[1], inputs[0], axis=0, name=name),
    "Flatten": _same("flatten"),
    "FullyConnected": _dense,
    "L2Normalization": _l2_normalization,
    "LRN": _lrn,
    "LeakyReLU": _leaky_relu,
    "LinearRegressionOutput": _first(),
    "LogisticRegressionOutput": _first("sigmoid"),
    "MAERegressionOutput": _first(),
    "MakeLoss": _first(),
    "Pad": _pad,
    "Pooling": _pooling,
    "Pooling_v1": _pooling,
    "Reshape": _reshape,
    "SliceChannel": _split,
    "Softmax": _softmax_output,
    "SoftmaxActivation": _softmax_activation,
    "SoftmaxOutput": _softmax_output,
    "UpSampling": _upsampling,
    "_copy": _first(),
    "identity": _first(),
    "add_n": lambda inputs, attrs, name: sym.elemwise_sum(*inputs, num_args=len(inputs), name=name),
    "argmax": _place("argmax"),
    "argmin": _place("argmin"),
    "broadcast_to": _same("broadcast_to", shape=("shape", _NEEDED)),
    "clip": _same("clip", a_min=("a_min", _NEEDED), a_max=("a_max", _NEEDED)),
    "crop": _slice,
    "dot": _dot,
    "expand_dims": _same("expand_dims", axis=("axis", _NEEDED)),
    "flatten": _same("flatten"),
    "hard_sigmoid": _hard_sigmoid,
    "log_softmax": _softmax("log_softmax"),
    "make_loss": _first(),
    "pad": _pad,
    "reciprocal": lambda inputs, attrs, name: sym._internal.__rdiv_scalar__(inputs[0], scalar=1.0, name=name),
    "reshape": _reshape,
    "rsqrt": lambda inputs, attrs, name: sym._internal.__pow_scalar__(inputs[0], scalar=-0.5, name=name),
    "slice": _slice,
    "slice_axis": _slice_axis,
    "slice_like": _same("slice_like", axis=("axes", ())),
    "softmax": _softmax("softmax"),
    "split": _split,
    "square": lambda inputs, attrs, name: sym.elemwise_mul(inputs[0], inputs[0], name=name),
    "squeeze": _same("squeeze", axis=("axis", ())),
    "stop_gradient": _first(),
    "take": _take,
    "transpose": _same("transpose", axes=("axes", ())),
    "where": _same("where"),
}
for _name in ("abs", "ceil", "exp", "floor", "log", "negative", "relu", "round", "sigmoid", "sqrt", "tanh", "trunc", "ones_like", "zeros_like"):
    _OPERATORS[_name] = _same(_name)
for _name in ("max", "mean", "min", "prod", "sum"):
    _OPERATORS[_name] = _reduction(_name)
    _OPERATORS[f"{_name}_axis"] = _reduction(_name)
for _name in ("add", "sub", "mul", "div", "mod"):
    _OPERATORS[f"elemwise_{_name}"] = _same(f"elemwise_{_name}")
    _OPERATORS[f"broadcast_{_name}"] = _same(f"broadcast_{_name}")
for _theirs, _ours in {"_plus": "add", "_Plus": "add", "_minus": "sub", "_Minus": "sub", "_mul": "mul", "_Mul": "mul", "_div": "div", "_Div": "div"}.items():
    _OPERATORS[_theirs] = _same(f"elemwise_{_ours}")
    _OPERATORS[f"{_theirs}_scalar"] = _OPERATORS[f"{_theirs}Scalar"] = _scalar(_ours)
for _theirs, _ours in {
    "broadcast_plus": "add", "broadcast_minus": "sub", "broadcast_maximum": "max", "broadcast_minimum": "min",
    "broadcast_power": "pow", "_maximum": "max", "_Maximum": "max", "_minimum": "min", "_Minimum": "min", "_power": "pow",
    "_Power": "pow", "_grad_add": "add",
}.items():  # fmt: skip
    _OPERATORS[_theirs] = _same(f"broadcast_{_ours}")
for _theirs, _ours in {
    "_rminus_scalar": "rsub", "_RMinusScalar": "rsub", "_rdiv_scalar": "rdiv", "_RDivScalar": "rdiv", "_power_scalar": "pow",
    "_PowerScalar": "pow", "_rpower_scalar": "rpow", "_RPowerScalar": "rpow",
}.items():  # fmt: skip
    _OPERATORS[_theirs] = _scalar(_ours)
