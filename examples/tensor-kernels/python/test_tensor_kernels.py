"""The example as a test: every kernel against NumPy, on awkward sizes, and the errors of wrong arguments.

TENSOR_KERNELS_LIBRARY names the library.
"""

import math
import os

import numpy as np
import pytest
import tvm_ffi

ROWS = [1, 2, 13, 33]
SIZES = [1, 2, 3, 7, 8, 9, 31, 32, 33, 100, 1027]


@pytest.fixture(scope="session")
def kernels():
    path = os.environ.get("TENSOR_KERNELS_LIBRARY")
    assert path, "set TENSOR_KERNELS_LIBRARY to the path of libtensor_kernels.so"
    return tvm_ffi.load_module(path)


def random(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def output(shape, dtype=np.float32):
    """Every element must be written."""
    return np.full(shape, np.nan if dtype == np.float32 else -77, dtype)


def close(actual, expected, tolerance=2e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax_of(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("m", ROWS)
def test_dense_gelu(kernels, m):
    a, w, bias, out = random(m, 256), random(512, 256, seed=1), random(512), output((m, 512))
    kernels.dense_gelu(a, w, bias, out)
    close(out, gelu(a.astype(np.float64) @ w.T.astype(np.float64) + bias), 1e-4)


def test_conv2d(kernels):
    x, weights, out = random(1, 56, 56, 64), random(3, 3, 64, 64), output((1, 56, 56, 64))
    kernels.conv2d(x, weights, out)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))).astype(np.float64)
    expected = sum(
        np.einsum("nyxc,co->nyxo", padded[:, i : i + 56, j : j + 56], weights[i, j].astype(np.float64))
        for i in range(3)
        for j in range(3)
    )
    close(out, expected, 2e-4)


@pytest.mark.parametrize("n", SIZES)
def test_softmax(kernels, n):
    x, out = random(5, n), output((5, n))
    kernels.softmax(x, out)
    close(out, softmax_of(x.astype(np.float64)))


@pytest.mark.parametrize("m", ROWS)
def test_layer_norm(kernels, m):
    x, scale, shift, out = random(m, 1024), random(1024), random(1024, seed=1), output((m, 1024))
    kernels.layer_norm(x, scale, shift, out)
    exact = x.astype(np.float64)
    normal = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
    close(out, normal * scale + shift, 1e-4)


def test_attention(kernels):
    q, k, v, out = random(128, 64), random(128, 64, seed=1), random(128, 64, seed=2), output((128, 64))
    kernels.attention(q, k, v, out)
    close(out, softmax_of((q.astype(np.float64) @ k.T) / 8) @ v, 1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (5, 8), (17, 33), (64, 100)])
def test_heat_step(kernels, shape):
    x, out = random(*shape), output(shape)
    kernels.heat_step(x, 0.1, out)
    expected = x.astype(np.float64)
    inner = x[1:-1, 1:-1]
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    expected[1:-1, 1:-1] = inner + (around - 4 * inner) * np.float32(0.1)
    close(out, expected)


@pytest.mark.parametrize("m", ROWS)
@pytest.mark.parametrize("n", [1, 7, 32, 33])
def test_running_sum(kernels, m, n):
    x, out = random(m, n), output((m, n))
    kernels.running_sum(x, out)
    close(out, np.cumsum(x.astype(np.float64), axis=0), 1e-4)


@pytest.mark.parametrize("n", SIZES)
def test_row_argmax(kernels, n):
    x = np.random.default_rng(n).integers(0, 5, (7, n)).astype(np.float32)
    index, value = output((7,), np.int64), output((7,))
    kernels.row_argmax(x, index, value)
    np.testing.assert_array_equal(index, x.argmax(-1))
    np.testing.assert_array_equal(value, x.max(-1))


@pytest.mark.parametrize("n", [0, *SIZES])
def test_histogram(kernels, n):
    x, counts = np.random.default_rng(n).integers(0, 256, n).astype(np.uint8), output((256,), np.int32)
    kernels.histogram(x, counts)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=256))


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 3), (17, 9)])
def test_resize(kernels, shape):
    image, out = random(*shape, 3), output((shape[0] * 2, shape[1] * 2, 3))
    kernels.resize(image, out)

    def weights(size):
        at = (np.arange(2 * size) + 0.5) / 2 - 0.5
        before = np.floor(at).astype(int)
        matrix = np.zeros((2 * size, size))
        for row, (first, share) in enumerate(zip(before, at - before, strict=True)):
            matrix[row, max(first, 0)] += 1 - share
            matrix[row, min(first + 1, size - 1)] += share
        return matrix

    # Outside of the image its border is repeated.
    vertical, horizontal = weights(shape[0]), weights(shape[1])
    expected = np.einsum("ya,xb,abc->yxc", vertical, horizontal, image.astype(np.float64))
    close(out, expected, 1e-4)


def test_wrong_arguments_are_named(kernels):
    x = random(4, 8)
    with pytest.raises(ValueError, match=r"softmax\(x: Tensor\(\[m, n\], float32\), out: Tensor\(\[m, n\], float32\)\)"):
        kernels.softmax(x, output((4, 9)))
    with pytest.raises(ValueError, match="out overlaps another argument"):
        kernels.softmax(x, x)
    with pytest.raises(TypeError, match="Expected 2 arguments"):
        kernels.softmax(x)
    with pytest.raises(TypeError, match="x.dtype"):
        kernels.softmax(x.astype(np.float64), output((4, 8)))


def test_arrays_need_not_be_aligned(kernels):
    memory = np.zeros(4 * 8 * 4 + 4, np.uint8)
    x, out = memory[4:].view(np.float32).reshape(4, 8), output((4, 8))
    x[...] = random(4, 8)
    kernels.softmax(x, out)
    close(out, softmax_of(x.astype(np.float64)))


def test_shapes_and_types_are_documented(kernels):
    assert kernels.get_function_metadata("softmax")["type_schema"]
