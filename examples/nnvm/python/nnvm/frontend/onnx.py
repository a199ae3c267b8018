"""ONNX models as symbols, with the package `onnx`.

`kernpack.graph.from_onnx` compiles more models, and faster ones; this is for programs that work on symbols.
"""

import numpy as np
import tvm

from .. import symbol as sym
from .._base import NNVMError


def from_onnx(model):
    """An ONNX model (a `ModelProto`, or the path of one) as a symbol and its parameters, arrays by name.

    Inputs of the graph become variables of the same names. Weights become parameters.
    """
    import onnx

    if not hasattr(model, "graph"):
        model = onnx.load(model)
    return _Converter(onnx.shape_inference.infer_shapes(model), onnx).run()


class _Converter:
    def __init__(self, model, onnx):
        self.onnx = onnx
        self.graph = graph = model.graph
        self.version = max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=1)
        values = [*graph.input, *graph.value_info, *graph.output]
        self.ranks = {one.name: len(one.type.tensor_type.shape.dim) for one in values if one.type.tensor_type.HasField("shape")}
        self.ranks.update((one.name, len(one.dims)) for one in graph.initializer)
        self.types = {one.name: one.type.tensor_type.elem_type for one in values}
        self.arrays = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
        self.symbols = {}
        self.constants = {}

    def run(self):
        for value in self.graph.input:
            if value.name not in self.arrays:
                self.symbols[value.name] = sym.Variable(value.name)
        for node in self.graph.node:
            self.node(node)
        outputs = [self.symbol(value.name) for value in self.graph.output]
        result = outputs[0] if len(outputs) == 1 else sym.Group(outputs)
        names = set(result.list_input_names())
        return result, {name: tvm.nd.array(np.atleast_1d(array)) for name, array in self.arrays.items() if name in names}

    def symbol(self, name):
        """The symbol of a value. A weight becomes a variable where it is first read; NNVM has no scalars, and one becomes (1,)."""
        if name not in self.symbols:
            if name not in self.arrays:
                raise NNVMError(f"no node gives the value '{name}'")
            self.symbols[name] = sym.Variable(name, shape=self.arrays[name].shape or (1,))
        return self.symbols[name]

    def node(self, node):
        use = _Use(self, node)
        if node.op_type == "Constant":
            self.arrays[node.output[0]] = array = use.value()
            self.ranks[node.output[0]] = array.ndim
            return
        convert = _OPERATORS.get(node.op_type)
        if convert is None or node.domain not in ("", "ai.onnx"):
            raise NNVMError(f"{use.place}: the operator is not supported here; kernpack.graph.from_onnx supports more")
        result = convert(use)
        results = list(result) if isinstance(result, list) else [result]
        for name, value in zip(node.output, results):
            self.symbols[name] = value


class _Use:
    """A node with its inputs and attributes."""

    def __init__(self, converter, node):
        self.converter = converter
        self.names = list(node.input)
        self.attrs = {attr.name: converter.onnx.helper.get_attribute_value(attr) for attr in node.attribute}
        self.name = node.name or node.output[0]
        self.place = f"node '{self.name}' ({node.op_type})"
        self.outputs = len(node.output)

    def has(self, number):
        return number < len(self.names) and self.names[number] != ""

    def __getitem__(self, number):
        return self.converter.symbol(self.names[number])

    def inputs(self):
        return [self.converter.symbol(name) for name in self.names if name]

    def constant(self, number, attr=None, default=None):
        """The numbers of an attribute, or of an input that is a weight."""
        if attr is not None and attr in self.attrs:
            return self.attrs[attr]
        if not self.has(number):
            return default
        array = self.converter.arrays.get(self.names[number])
        if array is None:
            raise NNVMError(f"{self.place}: input {number} has to be a constant")
        return array.tolist()

    def get(self, attr, default=None):
        value = self.attrs.get(attr, default)
        return value.decode() if isinstance(value, bytes) else value

    def need(self, attr):
        if attr not in self.attrs:
            raise NNVMError(f"{self.place}: attribute `{attr}` is missing")
        return self.attrs[attr]

    def value(self):
        """The array of a Constant."""
        for attr, dtype in (("value_float", "float32"), ("value_floats", "float32"), ("value_int", "int64"), ("value_ints", "int64")):
            if attr in self.attrs:
                return np.asarray(self.attrs[attr], dtype=dtype)
        return self.converter.onnx.numpy_helper.to_array(self.need("value"))

    def number(self, position, attr, default):
        """A number that is an attribute, or an input that is a weight with one element."""
        value = np.asarray(self.constant(position, attr, default))
        if value.size != 1:
            self.refuse(f"`{attr}` has {value.size} numbers, expected one")
        return value.item()

    def dtype(self, position):
        """The element type of an input; float32 if it is not known."""
        name = self.names[position]
        if name in self.converter.arrays:
            return self.converter.arrays[name].dtype
        code = self.converter.types.get(name, 0)
        return self.converter.onnx.helper.tensor_dtype_to_np_dtype(code) if code else np.dtype("float32")

    def refuse(self, problem):
        raise NNVMError(f"{self.place}: {problem}")

    def window(self):
        """Strides, dilations and padding of two dimensions."""
        if self.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            self.refuse(f"auto_pad {self.get('auto_pad')} is not supported: use pads")
        strides, dilations = self.get("strides", [1, 1]), self.get("dilations", [1, 1])
        pads = self.get("pads", [0, 0, 0, 0])
        if len(strides) != 2 or len(pads) != 4:
            self.refuse("only two dimensions are supported")
        return tuple(strides), tuple(dilations), tuple(pads)

    def rank(self, number):
        """The number of dimensions of an input."""
        if self.names[number] not in self.converter.ranks:
            self.refuse(f"the rank of input {number} is not known")
        return self.converter.ranks[self.names[number]]

    def shape_of(self, number):
        """The shape of a weight."""
        array = self.converter.arrays.get(self.names[number])
        if array is None:
            self.refuse(f"input {number} has to be a weight")
        return array.shape


def _conv(use):
    strides, dilations, pads = use.window()
    shape = use.shape_of(1)
    return sym.conv2d(
        *use.inputs(), channels=shape[0], kernel_size=shape[2:], strides=strides, dilation=dilations, padding=pads,
        groups=use.get("group", 1), use_bias=use.has(2),
    )  # fmt: skip


def _conv_transpose(use):
    strides, dilations, pads = use.window()
    if pads[:2] != pads[2:] or "output_shape" in use.attrs:
        use.refuse("uneven pads and output_shape are not supported")
    shape = use.shape_of(1)
    groups = use.get("group", 1)
    return sym.conv2d_transpose(
        *use.inputs(), channels=shape[1] * groups, kernel_size=shape[2:], strides=strides, dilation=dilations, padding=pads[:2],
        output_padding=tuple(use.get("output_padding", (0, 0))), groups=groups, use_bias=use.has(2),
    )  # fmt: skip


def _pool(op):
    def convert(use):
        strides, dilations, pads = use.window()
        if dilations != (1, 1) or use.outputs > 1:
            use.refuse("dilations and the output Indices are not supported")
        data, options = use[0], {"ceil_mode": bool(use.get("ceil_mode", 0))}
        if op == "avg_pool2d":
            options["count_include_pad"] = bool(use.get("count_include_pad", 0))
            if all(options.values()):
                # The elements that complete the last window are not counted, in contrast to those of `pads`.
                data = sym.pad(data, pad_width=((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
                pads, options["count_include_pad"] = (0, 0), False
        return getattr(sym, op)(data, pool_size=tuple(use.need("kernel_shape")), strides=strides, padding=pads, **options)

    return convert


def _gemm(use):
    a, b = use[0], use[1]
    if use.get("transA", 0):
        a = sym.transpose(a)
    if not use.get("transB", 0):
        b = sym.transpose(b)
    units = use.shape_of(1)[0 if use.get("transB", 0) else 1]
    result = sym.dense(a, b, units=units, use_bias=False)
    if use.get("alpha", 1.0) != 1.0:
        result = result * use.get("alpha")
    return sym.broadcast_add(result, use[2] * use.get("beta", 1.0)) if use.has(2) else result


def _binary(op):
    def convert(use):
        left, right = use[0], use[1]
        if use.converter.version < 7 and use.get("broadcast", 0) and "axis" in use.attrs:
            # The second input is along the axes of the first one from `axis` on.
            axis = use.get("axis")
            behind = use.rank(0) - (axis + use.rank(0) if axis < 0 else axis) - use.rank(1)
            right = sym.expand_dims(right, axis=-1, num_newaxis=behind) if behind > 0 else right
        return getattr(sym, op)(left, right)

    return convert


def _dropout(use):
    if use.number(2, None, 0):
        use.refuse("training is not supported")
    return use[0]


def _batch_norm(use):
    if use.get("training_mode", 0) or not use.get("spatial", 1):
        use.refuse("training_mode 1 and spatial 0 are not supported")
    return sym.batch_norm(*use.inputs(), epsilon=use.get("epsilon", 1e-5))


def _elementwise(op):
    return lambda use: getattr(sym, op)(*use.inputs())


def _fold(op):
    def convert(use):
        first, *rest = use.inputs()
        for other in rest:
            first = getattr(sym, op)(first, other)
        return first

    return convert


def _reduce(op):
    def convert(use):
        axes = use.constant(1, "axes", [])
        if not axes and use.get("noop_with_empty_axes", 0):
            return use[0]
        return getattr(sym, op)(use[0], axis=tuple(axes), keepdims=bool(use.get("keepdims", 1)))

    return convert


def _reshape(use):
    shape = tuple(use.constant(1, "shape"))
    if use.get("allowzero", 0) and 0 in shape:
        use.refuse("tensors without elements (allowzero) are not supported")
    return sym.reshape(use[0], shape=shape)


def _flatten(use):
    if use.get("axis", 1) != 1:
        use.refuse("axis other than 1 is not supported")
    return sym.flatten(use[0])


def _split(use):
    sizes = use.constant(1, "split")
    axis = use.get("axis", 0)
    at = use.outputs if sizes is None else tuple(int(end) for end in np.cumsum(sizes)[:-1])
    return list(sym.split(use[0], indices_or_sections=at, axis=axis))


def _slice(use):
    starts, ends = use.constant(1, "starts"), use.constant(2, "ends")
    axes = use.constant(3, "axes", list(range(len(starts))))
    steps = use.constant(4, None, [1] * len(starts))
    axes = [axis + use.rank(0) if axis < 0 else axis for axis in axes]
    largest = (1 << 31) - 1
    rank = max(axes) + 1
    begin, end, stride = [0] * rank, [largest] * rank, [1] * rank
    for axis, a, b, step in zip(axes, starts, ends, steps):
        begin[axis], end[axis], stride[axis] = max(min(a, largest), -largest), max(min(b, largest), -largest), step
    return sym.strided_slice(use[0], begin=tuple(begin), end=tuple(end), stride=tuple(stride))


def _pad(use):
    if use.get("mode", "constant") != "constant":
        use.refuse(f"mode {use.get('mode')} is not supported: constant is")
    pads = use.constant(1, "pads")
    half = len(pads) // 2
    value = use.number(2, "value", 0.0)
    axes = use.constant(3, None)
    if axes is not None:
        rank = use.rank(0)
        by_axis = {axis % rank: (pads[place], pads[half + place]) for place, axis in enumerate(axes)}
        pads = [by_axis.get(axis, (0, 0))[side] for side in (0, 1) for axis in range(rank)]
        half = rank
    if min(pads, default=0) < 0:
        use.refuse(f"negative pads {pads} are not supported")
    return sym.pad(use[0], pad_width=tuple(zip(pads[:half], pads[half:])), pad_value=value)


def _clip(use):
    dtype = use.dtype(0)
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    convert = int if dtype.kind in "iu" else float
    low, high = use.number(1, "min", limits.min), use.number(2, "max", limits.max)
    if (low, high) == (limits.min, limits.max):
        return use[0]
    return sym.clip(use[0], a_min=convert(low), a_max=convert(high))


def _cast(use):
    dtype = use.converter.onnx.helper.tensor_dtype_to_np_dtype(use.need("to"))
    return sym.cast(use[0], dtype=str(dtype))


def _unsqueeze(use):
    data, axes = use[0], use.constant(1, "axes")
    if len(axes) > 1 and min(axes) < 0:
        rank = use.rank(0) + len(axes)
        axes = [axis + rank if axis < 0 else axis for axis in axes]
    for axis in sorted(axes):
        data = sym.expand_dims(data, axis=axis)
    return data


def _elu(use):
    return use.get("alpha", 1.0) * (sym.relu(1 - sym.exp(use[0])) * -1.0) + sym.relu(use[0])


def _prelu(use):
    shape, rank = use.shape_of(1), use.rank(0)
    if len(shape) == rank - 1 and shape[0] > 1 and all(extent == 1 for extent in shape[1:]):
        return sym.prelu(use[0], sym.reshape(use[1], shape=(-1,)))
    # Slopes that are not by channel are broadcast.
    return sym.relu(use[0]) - sym.broadcast_mul(sym.relu(-use[0]), use[1])


def _matmul(use):
    if use.rank(0) != 2 or use.rank(1) != 2:
        use.refuse("only products of two matrices are supported")
    return sym.matmul(use[0], use[1])


def _softmax(op):
    def convert(use):
        # Before version 13 all axes from `axis` on were one.
        axis = use.get("axis", 1 if use.converter.version < 13 else -1)
        if use.converter.version < 13 and axis not in (-1, use.rank(0) - 1):
            use.refuse(f"axis {axis} of {use.rank(0)} is not supported in version {use.converter.version}: only the last one is")
        return getattr(sym, op)(use[0], axis=axis)

    return convert


def _lrn(use):
    size = use.need("size")
    if size % 2 == 0:
        use.refuse(f"an even size ({size}) is not supported: the window would be at another place")
    return sym.lrn(use[0], size=size, axis=1, alpha=use.get("alpha", 1e-4), beta=use.get("beta", 0.75), bias=use.get("bias", 1.0))


def _gather(use):
    indices = np.asarray(use.constant(1))
    if (indices < 0).any():
        use.refuse("negative indices are not supported")
    axis = use.get("axis", 0)
    result = sym.take(use[0], use[1], axis=axis)
    # NNVM has no scalars: an index is an array of one.
    return sym.squeeze(result, axis=axis) if indices.ndim == 0 else result


def _softplus(use):
    # exp does not overflow: log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)).
    return sym.relu(use[0]) + sym.log(sym.exp(-sym.abs(use[0])) + 1.0)


_OPERATORS = {
    "AveragePool": _pool("avg_pool2d"),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": lambda use: sym.concatenate(*use.inputs(), axis=use.need("axis")),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Dropout": _dropout,
    "Elu": _elu,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "HardSigmoid": lambda use: sym.clip(use[0] * use.get("alpha", 0.2) + use.get("beta", 0.5), a_min=0, a_max=1),
    "Identity": lambda use: use[0],
    "LRN": _lrn,
    "LeakyRelu": lambda use: sym.leaky_relu(use[0], alpha=use.get("alpha", 0.01)),
    "LogSoftmax": _softmax("log_softmax"),
    "MatMul": _matmul,
    "Max": _fold("broadcast_max"),
    "MaxPool": _pool("max_pool2d"),
    "Mean": lambda use: _fold("broadcast_add")(use) / len(use.names),
    "Min": _fold("broadcast_min"),
    "PRelu": _prelu,
    "Pad": _pad,
    "Reciprocal": lambda use: 1.0 / use[0],
    "Reshape": _reshape,
    "Slice": _slice,
    "Softmax": _softmax("softmax"),
    "Softplus": _softplus,
    "Softsign": lambda use: use[0] / (sym.abs(use[0]) + 1.0),
    "Split": _split,
    "Squeeze": lambda use: sym.squeeze(use[0], axis=tuple(use.constant(1, "axes", []))),
    "Sum": _fold("broadcast_add"),
    "Transpose": lambda use: sym.transpose(use[0], axes=tuple(use.get("perm", ()))),
    "Unsqueeze": _unsqueeze,
}
for _theirs, _ours in {
    "Abs": "abs", "Ceil": "ceil", "Exp": "exp", "Floor": "floor", "GlobalAveragePool": "global_avg_pool2d",
    "GlobalMaxPool": "global_max_pool2d", "Log": "log", "Neg": "negative", "Relu": "relu", "Sigmoid": "sigmoid", "Sqrt": "sqrt",
    "Tanh": "tanh",
}.items():  # fmt: skip
    _OPERATORS[_theirs] = _elementwise(_ours)
for _name in ("Add", "Div", "Mul", "Pow", "Sub"):
    _OPERATORS[_name] = _binary(f"broadcast_{_name.lower()}")
for _name in ("Max", "Mean", "Min", "Prod", "Sum"):
    _OPERATORS[f"Reduce{_name}"] = _reduce(_name.lower())
