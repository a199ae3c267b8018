"""The library as a module that Python imports, without tvm_ffi: values of Python, launches, tensors, errors."""

import array
import ctypes
import types

import gpu_kernels

assert "tvm_ffi" not in __import__("sys").modules


def here(tensor):
    """The float32 values of a tensor, copied to the CPU."""
    return memoryview(gpu_kernels.copy_to(tensor, "cpu")).cast("B").cast("f").tolist()


def message(call, *arguments):
    try:
        call(*arguments)
    except (RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("expected an error")


assert gpu_kernels.cuda_device_count() >= 1
for count in (1, 255, 256, 257, 10_007):
    x = array.array("f", (index % 1000 for index in range(count)))
    y = array.array("f", (1 for _ in range(count)))
    x_there, y_there = gpu_kernels.copy_to(x, "cuda:0"), gpu_kernels.copy_to(y, "cuda:0")
    assert (x_there.device, x_there.dtype, tuple(x_there.shape)) == ("cuda:0", "float32", (count,)), x_there
    gpu_kernels.saxpy(y_there, x_there, 2.0)
    # Whole numbers: exact.
    assert here(y_there) == [index % 1000 * 2.0 + 1 for index in range(count)], count
print("launches: right")

rows, columns = 33, 70
matrix = memoryview((ctypes.c_float * columns * rows)(*[(ctypes.c_float * columns)(*range(r * columns, (r + 1) * columns)) for r in range(rows)]))
source = gpu_kernels.copy_to(matrix, "cuda:0")
turned = gpu_kernels.copy_to(memoryview((ctypes.c_float * rows * columns)()), "cuda:0")
gpu_kernels.transpose(source, turned)
assert here(turned) == [float(r * columns + c) for c in range(columns) for r in range(rows)]
print("a two-dimensional grid: right")

for place in ("cuda_host:0", "cuda_managed:0"):
    y_there = gpu_kernels.copy_to(array.array("f", [1, 2, 3]), place)
    gpu_kernels.saxpy(y_there, gpu_kernels.copy_to(array.array("f", [1, 1, 1]), "cuda:0"), 1.0)
    gpu_kernels.synchronize("cuda:0")
    assert here(y_there) == [2.0, 3.0, 4.0], place
print("pinned and managed memory: right")

x = array.array("f", [1, 2])
text = message(gpu_kernels.saxpy, x, x, 1.0)
assert "expected a tensor on cuda, got one on cpu:0" in text, text
text = message(gpu_kernels.copy_to, x, "cuda:99")
assert text.startswith("RuntimeError: cuda:99 does not exist"), text
text = message(gpu_kernels.saxpy, gpu_kernels.copy_to(x, "cuda:0"), gpu_kernels.copy_to(array.array("f", [1]), "cuda:0"), 1.0)
assert text == "ValueError: x has 1 elements, but y has 2", text
try:
    memoryview(gpu_kernels.copy_to(x, "cuda:0"))
    raise AssertionError("expected an error")
except BufferError as error:
    assert "the memory of a device" in str(error), error
print("errors: right")


class Exchange(ctypes.Structure):
    """The fields of DLPackExchangeAPI that are read here."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("version", "previous", "allocate", "managed_of", "object_of", "borrow", "current_stream")]


def table_of(cls):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Exchange.from_address(get(cls.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


class Framework(types.SimpleNamespace):
    """An array of a framework with a current stream, like PyTorch's: its class is in the same package as the native base class."""

    __module__ = "types"

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None, **named):
        Framework.asked.append(stream)
        return self.tensor.__dlpack__(**named)


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
def borrow(array, out):
    return ours_borrow(array.tensor, out)


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
def managed_of(array, out):
    return ours_managed_of(array.tensor, out)


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def current_stream(kind, index, out):
    out[0] = Framework.stream
    return 0


ours = table_of(type(y_there))
ours_borrow = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(ours.borrow)
ours_managed_of = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))(ours.managed_of)
theirs = Exchange.from_buffer_copy(ours)
for name, function in (("borrow", borrow), ("managed_of", managed_of), ("current_stream", current_stream)):
    setattr(theirs, name, ctypes.cast(function, ctypes.c_void_p).value)
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
Framework.__dlpack_c_exchange_api__ = new(ctypes.addressof(theirs), b"dlpack_exchange_api", None)

tensor = gpu_kernels.copy_to(array.array("f", [1, 2, 3]), "cuda:0")
before = gpu_kernels.stream_for(tensor)
for Framework.stream in (0x1000, 0x2000):
    Framework.asked = []
    # Nothing is launched: the stream is only a number.
    assert gpu_kernels.stream_for(Framework(tensor)) == Framework.stream
    assert Framework.asked == [Framework.stream], Framework.asked
    assert gpu_kernels.stream_for(tensor) == before, "the stream of before comes back"
# The default stream is represented by None.
Framework.stream, Framework.asked = 0, []
assert gpu_kernels.stream_for(Framework(tensor)) == 0 and Framework.asked == [None]
gpu_kernels.saxpy(Framework(tensor), Framework(tensor), 1.0)
assert here(tensor) == [2.0, 4.0, 6.0]
print("a framework's current stream: right")
print("all of it: right")
