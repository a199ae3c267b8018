"""JAX's arrays on the GPU, in both directions. They are immutable, so kernels read them and write to tensors of ours."""

import gc

import gpu_kernels
import jax
import jax.numpy as jnp
import numpy

assert jax.default_backend() == "gpu", f"JAX uses {jax.default_backend()}"
print("JAX", jax.__version__, jax.devices()[0])
random = numpy.random.default_rng(1)


def rand(*shape):
    return random.uniform(-1, 1, shape).astype(numpy.float32)


for rows, columns in ((1, 1), (33, 65), (200, 1001)):
    values = rand(rows, columns)
    x = jnp.asarray(values) * 2
    y = gpu_kernels.copy_to(numpy.full((rows, columns), numpy.nan, numpy.float32), "cuda:0")
    gpu_kernels.softmax(x, y)
    powers = numpy.exp(values.astype(numpy.float64) * 2 - (values * 2).max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    numpy.testing.assert_allclose(numpy.asarray(jnp.from_dlpack(y)), expected, atol=1e-6)
    turned = gpu_kernels.copy_to(numpy.zeros((columns, rows), numpy.float32), "cuda:0")
    gpu_kernels.transpose(x, turned)
    assert (numpy.asarray(jnp.from_dlpack(turned)) == values.T * 2).all()
print("JAX's arrays as inputs: right")

tensor = gpu_kernels.copy_to(rand(1000), "cuda:0")
shared = jnp.from_dlpack(tensor)
expected = numpy.asarray(shared)
del tensor
gc.collect()
assert (numpy.asarray(shared) == expected).all() and (numpy.asarray(shared + 1) == expected + 1).all()
copied = gpu_kernels.copy_to(shared, "cpu")
assert (numpy.from_dlpack(copied) == expected).all()
print("tensors of ours in JAX: right")

# JAX's pending computations finish before our kernel reads the result.
big = jnp.asarray(rand(2000, 2000))
for round in range(5):
    x = big
    for _ in range(10):
        x = x @ big * 0.01
    x = x * 0 + (round + 1)
    y = gpu_kernels.copy_to(numpy.zeros((2000, 2000), numpy.float32), "cuda:0")
    gpu_kernels.saxpy(y, x, 2.0)
    found = jnp.from_dlpack(y)
    assert float(found.min()) == float(found.max()) == 2.0 * (round + 1)
print("order: right")
print("all of it: right")
