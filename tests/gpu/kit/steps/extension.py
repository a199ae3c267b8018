"""The library as a module that Python imports, without tvm_ffi: values of Python, launches, tensors, errors."""

import array
import ctypes

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
print("all of it: right")
