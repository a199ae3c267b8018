"""The same library through the package tvm_ffi, whose wheel the kit contains: NumPy's arrays, and PyTorch's tensors and streams."""

import os

import numpy
import tvm_ffi

kit = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
library = tvm_ffi.load_module(os.path.join(kit, "lib", "gpu_kernels.so"))
print("tvm_ffi", getattr(tvm_ffi, "__version__", "?"), os.path.dirname(tvm_ffi.__file__))
gpu, cpu = tvm_ffi.device("cuda:0"), tvm_ffi.device("cpu")
random = numpy.random.default_rng(1)


def there(array):
    return library.copy_to(array, gpu)


def here(tensor):
    return numpy.from_dlpack(library.copy_to(tensor, cpu))


for rows, inner, columns in ((1, 1, 1), (33, 65, 17), (200, 300, 100)):
    a = random.uniform(-1, 1, (rows, inner)).astype(numpy.float32)
    b = random.uniform(-1, 1, (inner, columns)).astype(numpy.float32)
    c = there(numpy.full((rows, columns), numpy.nan, numpy.float32))
    library.matmul(there(a), there(b), c)
    numpy.testing.assert_allclose(here(c), a.astype(numpy.float64) @ b, atol=2e-5)
print("NumPy's arrays: right")
try:
    library.saxpy(a, a, 1.0)
    raise AssertionError("expected an error")
except ValueError as error:
    assert "expected a tensor on cuda, got one on cpu:0" in str(error), error
print("errors: right")

try:
    import torch
except ImportError:
    torch = None
if torch is not None and torch.cuda.is_available():
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    for round in range(20):
        with torch.cuda.stream(stream):
            x, y = torch.zeros(100_000, device="cuda"), torch.zeros(100_000, device="cuda")
            torch.cuda._sleep(20_000_000)
            x.fill_(round + 1.0)
            library.saxpy(y, x, 2.0)
            y += 1
            stream.synchronize()
        assert y.min().item() == y.max().item() == 2 * (round + 1.0) + 1, round
    tensor = there(numpy.arange(10, dtype=numpy.float32))
    assert torch.from_dlpack(tensor).cpu().tolist() == list(range(10))
    print("PyTorch's tensors and current stream: right")
else:
    print("PyTorch with CUDA is not here: its part is left out")
print("all of it: right")
