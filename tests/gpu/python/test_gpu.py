"""The kernels of tests/gpu from Python: against NumPy, and on PyTorch's tensors and streams where PyTorch has a GPU.

GPU_LIBRARY names the library. Without a GPU the launches are skipped, and the errors are tested.
"""

import os

import numpy as np
import pytest
import tvm_ffi


@pytest.fixture(scope="session")
def library():
    path = os.environ.get("GPU_LIBRARY")
    assert path, "set GPU_LIBRARY to the path of libgpu_kernels.so"
    return tvm_ffi.load_module(path)


@pytest.fixture(scope="session")
def gpu(library):
    try:
        library.cuda_device_count()
    except RuntimeError as error:
        pytest.skip(f"no GPU was found, so nothing was launched ({error})")
    return tvm_ffi.device("cuda:0")


@pytest.fixture(scope="session")
def torch(gpu):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return torch


def matrix(rows, columns):
    return np.random.default_rng(rows * 1000 + columns).uniform(-1, 1, (rows, columns)).astype(np.float32)


def softmax(x):
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def there(library, array, device):
    return library.copy_to(array, device)


def here(library, tensor):
    return np.from_dlpack(library.copy_to(tensor, tvm_ffi.device("cpu")))


def test_references_match_numpy(library):
    a, b = matrix(31, 45), matrix(45, 17)
    np.testing.assert_allclose(np.from_dlpack(library.matmul_on_cpu(a, b)), a.astype(np.float64) @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.from_dlpack(library.softmax_on_cpu(a)), softmax(a), rtol=1e-5)


def test_cpu_tensors_are_refused(library):
    if not library.imports:
        assert not os.environ.get("CI"), "the library was built without nvcc; see its build's warning"
        pytest.skip("the library was built without nvcc, so it carries no CUDA image")
    a = matrix(4, 4)
    with pytest.raises((RuntimeError, ValueError)) as caught:
        library.matmul(a, a, np.empty_like(a))
    assert "cuda" in str(caught.value).lower()


def test_no_gpu_is_said(library):
    try:
        assert library.cuda_device_count() > 0
    except RuntimeError as error:
        assert "CUDA driver" in str(error) or "NVIDIA driver" in str(error)


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (33, 17, 65), (128, 256, 64), (301, 299, 307)])
def test_matrix_products(library, gpu, m, n, k):
    a, b = matrix(m, k), matrix(k, n)
    expected = a.astype(np.float64) @ b
    on_gpu = [there(library, array, gpu) for array in (a, b, np.empty((m, n), np.float32))]
    library.matmul(*on_gpu)
    np.testing.assert_allclose(here(library, on_gpu[2]), expected, atol=1e-4)
    library.matmul_dynamic(*on_gpu, 256)
    np.testing.assert_allclose(here(library, on_gpu[2]), expected, atol=1e-4)


def test_softmax(library, gpu):
    x = matrix(64, 1000)
    on_gpu = [there(library, array, gpu) for array in (x, np.empty_like(x))]
    library.softmax(*on_gpu)
    np.testing.assert_allclose(here(library, on_gpu[1]), softmax(x), atol=1e-6)


def test_pytorch_tensors_and_streams(library, torch):
    a, b = torch.rand(200, 300, device="cuda"), torch.rand(300, 100, device="cuda")
    c = torch.empty(200, 100, device="cuda")
    library.matmul(a, b, c)
    torch.testing.assert_close(c, a @ b, atol=1e-3, rtol=1e-4)
    # The launch is enqueued in PyTorch's current stream, so it sees the results of earlier work
    # there.
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1000, 1000, device="cuda")
        for _ in range(100):
            x += 0.01
        y = torch.empty_like(x)
        library.softmax(x, y)
        torch.testing.assert_close(y, torch.softmax(x, dim=1))
