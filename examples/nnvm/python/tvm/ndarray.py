"""Arrays and the devices where they are."""

import numpy as np
import tvm_ffi

_DEVICES = {"cpu": "cpu", "llvm": "cpu", "gpu": "cuda", "cuda": "cuda", "opencl": "opencl"}


class TVMContext:
    """A device: its kind (`device_type`: "cpu", "cuda", ..) and its number."""

    def __init__(self, device_type, device_id):
        self.device_type = device_type
        self.device_id = device_id

    @property
    def exist(self):
        """True if arrays can be on the device."""
        return self.device_type == "cpu"

    def __eq__(self, other):
        return isinstance(other, TVMContext) and (self.device_type, self.device_id) == (other.device_type, other.device_id)

    def __hash__(self):
        return hash((self.device_type, self.device_id))

    def __repr__(self):
        return f"{self.device_type}({self.device_id})"


def context(dev_type, dev_id=0):
    """The device of a name, as in `context("cpu", 0)`."""
    kind = _DEVICES.get(str(dev_type).split()[0])
    if kind is None:
        raise ValueError(f"unknown device {dev_type!r}: the names are {', '.join(_DEVICES)}")
    return TVMContext(kind, dev_id)


def cpu(dev_id=0):
    """The CPU."""
    return TVMContext("cpu", dev_id)


def gpu(dev_id=0):
    """A GPU by CUDA."""
    return TVMContext("cuda", dev_id)


class NDArray:
    """An array. `handle` is the tensor of the library, which shares its memory."""

    def __init__(self, handle):
        self.handle = handle

    @property
    def shape(self):
        return tuple(self.handle.shape)

    @property
    def dtype(self):
        return str(self.handle.dtype)

    @property
    def ctx(self):
        return cpu(0)

    context = ctx

    def asnumpy(self):
        """A copy of the elements."""
        return self._view().copy()

    def __array__(self, dtype=None, copy=None):
        return self.asnumpy() if dtype is None else self.asnumpy().astype(dtype)

    def copyto(self, target):
        """Copies the elements to an array of the same shape, or to a device. Returns that array."""
        if isinstance(target, TVMContext):
            return array(self, target)
        if self.shape != target.shape:
            raise ValueError(f"an array of shape {self.shape} is not copied to one of shape {target.shape}")
        target[:] = self
        return target

    def __getitem__(self, indices):
        return self._view()[indices]

    def __setitem__(self, indices, value):
        self._view()[indices] = value.asnumpy() if isinstance(value, NDArray) else value

    def same_as(self, other):
        """True if both are the same array."""
        return self.handle.same_as(other.handle)

    def _view(self):
        return np.from_dlpack(self.handle)

    def __repr__(self):
        return f"<tvm.NDArray shape={self.shape}, {self.ctx}>\n{self.asnumpy()!r}"


def empty(shape, dtype="float32", ctx=None):
    """An array; its elements are undefined."""
    _on_cpu(ctx)
    return NDArray(tvm_ffi.from_dlpack(np.empty(shape, dtype=dtype)))


def array(arr, ctx=None):
    """A copy of an array of NumPy or of this module."""
    _on_cpu(ctx)
    if isinstance(arr, NDArray):
        arr = arr.asnumpy()
    arr = np.asarray(arr)
    return NDArray(tvm_ffi.from_dlpack(np.array(arr, dtype=arr.dtype.newbyteorder("="), order="C")))


def _on_cpu(ctx):
    if ctx is not None and ctx.device_type != "cpu":
        raise ValueError(f"arrays on {ctx} are not supported: use tvm.cpu()")
