"""CuPy's arrays on the GPU, in both directions."""

import gc

import cupy
import gpu_kernels
import numpy

print("CuPy", cupy.__version__)
random = numpy.random.default_rng(1)


def rand(*shape):
    return random.uniform(-1, 1, shape).astype(numpy.float32)


for rows, inner, columns in ((1, 1, 1), (33, 65, 17), (200, 300, 100)):
    a, b = rand(rows, inner), rand(inner, columns)
    c = cupy.full((rows, columns), numpy.nan, numpy.float32)
    gpu_kernels.matmul(cupy.asarray(a), cupy.asarray(b), c)
    numpy.testing.assert_allclose(cupy.asnumpy(c), a.astype(numpy.float64) @ b, atol=2e-5)
    turned = cupy.full((inner, rows), numpy.nan, numpy.float32)
    gpu_kernels.transpose(cupy.asarray(a), turned)
    assert (cupy.asnumpy(turned) == a.T).all()
print("CuPy's arrays in place: right")

tensor = gpu_kernels.copy_to(rand(1000), "cuda:0")
shared = cupy.from_dlpack(tensor)
assert shared.data.ptr == cupy.from_dlpack(tensor).data.ptr
expected = cupy.asnumpy(shared) + 1
shared += 1
cupy.cuda.get_current_stream().synchronize()
assert (numpy.from_dlpack(gpu_kernels.copy_to(tensor, "cpu")) == expected).all()
del tensor
gc.collect()
assert (cupy.asnumpy(shared) == expected).all()
print("tensors of ours in CuPy: right")

# CuPy's pending work in its current stream runs before our launch, and CuPy waits for arrays that
# it imports.
stream = cupy.cuda.Stream(non_blocking=True)
sleep = cupy.RawKernel(
    'extern "C" __global__ void wait(long long cycles) { const long long start = clock64(); while (clock64() - start < cycles) {} }', "wait"
)
sleep((1,), (1,), (numpy.int64(1),))
cupy.cuda.Device().synchronize()
for round in range(10):
    with stream:
        x = cupy.zeros(100_000, numpy.float32)
        sleep((1,), (1,), (numpy.int64(20_000_000),))
        x.fill(round + 1.0)
        y = gpu_kernels.copy_to(numpy.zeros(100_000, numpy.float32), "cuda:0")
        gpu_kernels.saxpy(y, x, 2.0)
        found = cupy.from_dlpack(y) + 1
        stream.synchronize()
    assert float(found.min()) == float(found.max()) == 2 * (round + 1.0) + 1, (round, float(found.min()), float(found.max()))
print("streams: right")
print("all of it: right")
