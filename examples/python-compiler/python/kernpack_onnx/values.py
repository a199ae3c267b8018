"""Values of ONNX as arrays of NumPy, and these as tensors of the compiler."""

import ctypes
import re

import ml_dtypes
import numpy as np
import onnx
import tvm_ffi
from compiler import graph
from onnx import helper

#: The code of bfloat16 in DLPack, and where the code of its element type stands in a DLTensor.
BFLOAT, CODE_AT = 4, 20

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Value:
    """An input or output of a model: its name, and what the model says of its type."""

    def __init__(self, info):
        self.name, kind = info.name, info.type
        self.is_optional = kind.WhichOneof("value") == "optional_type"
        if self.is_optional:
            kind = kind.optional_type.elem_type
        self.is_sequence = kind.WhichOneof("value") == "sequence_type"
        if self.is_sequence:
            kind = kind.sequence_type.elem_type
        self.element = kind.tensor_type.elem_type
        self.is_text = self.element == onnx.TensorProto.STRING
        self.dims = None
        if kind.tensor_type.HasField("shape"):
            self.dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.tensor_type.shape.dim]

    @property
    def is_open(self):
        """Tells whether the model leaves open what the compiler has to know."""
        return self.is_optional or self.is_sequence or self.dims is None or None in self.dims

    @property
    def is_count(self):
        """Tells whether the value is an integer, or a list of them: an extent, an axis, a shape."""
        return self.dtype is not None and self.dtype.kind in "iub" and not self.is_sequence and self.dims is not None and len(self.dims) < 2

    @property
    def dtype(self):
        """The element type, or None where the model does not say it."""
        return np.dtype(helper.tensor_dtype_to_np_dtype(self.element)) if self.element else None

    def check(self, value):
        """The value, if it is one that the model takes."""
        if value is None:
            if not self.is_optional:
                raise TypeError(f"input '{self.name}' is None, and has to be {'a list of arrays' if self.is_sequence else 'an array'}")
            return None
        if self.is_sequence:
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"input '{self.name}' is a sequence and takes a list of arrays, got {type(value).__name__}")
            return [self._array(one, f"input '{self.name}', tensor {number}") for number, one in enumerate(value)]
        return self._array(value, f"input '{self.name}'")

    def _array(self, value, what):
        array = np.asarray(value)
        if self.is_text:
            if array.dtype.kind not in "OUS":
                raise TypeError(f"{what} is {array.dtype}, and has to be an array of texts")
        elif self.dtype is not None and array.dtype != self.dtype:
            raise TypeError(f"{what} is {array.dtype}, and has to be {self.dtype}")
        if self.dims is not None and not self.is_sequence:
            fits = len(self.dims) == array.ndim and all(dim in (None, extent) for dim, extent in zip(self.dims, array.shape))
            if not fits:
                wanted = ", ".join("any" if dim is None else str(dim) for dim in self.dims)
                raise ValueError(f"{what} is {list(array.shape)}, and has to be [{wanted}]")
        return array

    def told(self, value, is_constant, options):
        """Tells the options of the compiler what has to be known of a value, and gives that as a key."""
        if value is None:
            if self.is_optional:
                options["absent"].append(self.name)
            return None
        if isinstance(value, list):
            options["sequences"][self.name] = [one.shape for one in value]
            return tuple(one.shape for one in value)
        if is_constant:
            options["constants"][self.name] = value
            return value.shape, value.tobytes()
        if self.dims is None or None in self.dims:
            options["inputs"][self.name] = value.shape
            return value.shape
        return None


def dtype(of):
    """An element type of NumPy or of ml_dtypes, by itself or its name."""
    return np.dtype(of)


def info_of(name, value):
    """What a model says of an input that has this value."""
    if isinstance(value, (list, tuple)) and all(isinstance(one, np.ndarray) for one in value):
        element = helper.np_dtype_to_tensor_dtype(value[0].dtype) if value else onnx.TensorProto.FLOAT
        return helper.make_tensor_sequence_value_info(name, element, None)
    array = np.asarray(value)
    element = onnx.TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, element, array.shape)


def shapes(by_name):
    """Shapes of the compiler."""
    return {name: tvm_ffi.Shape(shape) for name, shape in by_name.items()}


def shape_list(list_of_shapes):
    """A list of shapes of the compiler."""
    return [tvm_ffi.Shape(shape) for shape in list_of_shapes]


def stored(array):
    """An array as the compiler keeps its elements: integers of 2 and 4 bits and small floats have a byte each."""
    name = array.dtype.name
    if name in ("int4", "int2"):
        return array.astype(np.int8)
    if name in ("uint4", "uint2"):
        return array.astype(np.uint8)
    if name.startswith(("float8_", "float6_", "float4_")):
        return array.view(np.uint8)
    return array


def restored(array, wanted):
    """The reverse of `stored`."""
    if wanted is None or array.dtype == wanted:
        return array
    if wanted.name in ("int4", "int2", "uint4", "uint2"):
        return array.astype(wanted)
    if wanted.itemsize == array.dtype.itemsize:
        return array.view(wanted)
    raise TypeError(f"the compiled model gives {array.dtype}, where the model says {wanted}")


def tensor(array):
    """An array as a tensor without a copy, where its elements lie in order and may be written."""
    array = stored(np.asarray(array))
    array = np.require(array, requirements=["C", "W"]).reshape(array.shape)
    if array.dtype != ml_dtypes.bfloat16:
        return tvm_ffi.from_dlpack(array)
    # NumPy does not export bfloat16: it is passed as integers, and the element type is then set.
    capsule = array.view(np.uint16).__dlpack__()
    ctypes.c_uint8.from_address(_pointer_of(capsule, b"dltensor") + CODE_AT).value = BFLOAT
    return tvm_ffi.from_dlpack(Capsule(capsule))


class Capsule:
    """What has a tensor of DLPack to give, once."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return 1, 0


def to_texts(value):
    """An array as the models of texts take it."""
    array = np.asarray(value)
    if array.dtype.kind not in "OUS":
        return tensor(array)
    texts = [one.decode() if isinstance(one, bytes) else str(one) for one in array.reshape(-1)]
    return graph.Texts(tvm_ffi.Shape(array.shape), texts)


def from_texts(value):
    """An array of what a model of texts gave."""
    if isinstance(value, tvm_ffi.Tensor):
        return np.from_dlpack(value).copy()
    return np.array([str(text) for text in value.texts], object).reshape(tuple(value.shape))


def results(compiled, outputs, given):
    """Calls a compiled model, and gives its outputs as the model has them: arrays, lists of arrays, or None."""
    model = compiled.model
    taken = [stored(value) for value in given]
    made = model.output_shapes([tvm_ffi.Shape(value.shape) for value in taken])
    own = {argument.name: np.empty(tuple(shape), _numpy(argument.dtype)) for argument, shape in zip(model.outputs, made)}
    compiled.module.get_function(compiled.name)(*map(tensor, taken), *map(tensor, own.values()))
    extents = {argument.extents for argument in model.outputs if argument.extents is not None}
    flat = []
    for argument in model.outputs:
        if argument.name in extents:
            continue
        result = own[argument.name]
        if argument.extents is not None:
            result = result[tuple(slice(extent) for extent in own[argument.extents])]
        flat.append((argument.name, result))
    return tuple(_structured(outputs, flat))


def _structured(outputs, flat):
    """The outputs: tensors of a sequence are those that no output behind it takes."""
    sequences = sum(value.is_sequence for value in outputs)
    tensors = len(outputs) - sequences
    for number, value in enumerate(outputs):
        if value.is_sequence:
            behind = sum(not other.is_sequence for other in outputs[number + 1 :])
            count = len(flat) - behind if sequences == 1 else _of_sequence(value, flat)
            sequences -= 1
            yield [restored(result, value.dtype) for _, result in flat[:count]]
            del flat[:count]
        elif value.is_optional and len(flat) < tensors:
            yield None
        elif flat:
            yield restored(flat.pop(0)[1], value.dtype)
        else:
            raise RuntimeError(f"the compiled model has no output '{value.name}': please report this model")
        tensors -= not value.is_sequence
    if flat:
        raise RuntimeError(f"the compiled model has another output '{flat[0][0]}': please report this model")


def _of_sequence(value, flat):
    """How many of the next tensors belong to a sequence: their names are its own as an identifier, and a number from 0 on."""
    own = "".join(letter.lower() if letter.isascii() and letter.isalnum() else "_" for letter in value.name)
    own = f"m{own}" if own[:1].isdigit() or not own else own
    count = 0
    while count < len(flat) and re.fullmatch(rf"{own}_{count}(_\d+)?", flat[count][0]):
        count += 1
    return count


def _numpy(of):
    name = str(of)
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
