"""PyTorch's tensors on the GPU, in both directions: no copy, the current stream, lifetimes."""

import gc

import gpu_kernels
import torch

assert torch.cuda.is_available(), "this PyTorch has no CUDA"
print("PyTorch", torch.__version__, torch.cuda.get_device_name(0))
generator = torch.Generator(device="cuda").manual_seed(1)


def rand(*shape):
    return torch.rand(*shape, device="cuda", generator=generator) * 2 - 1


for rows, inner, columns in ((1, 1, 1), (33, 65, 17), (200, 300, 100), (511, 129, 257)):
    a, b = rand(rows, inner), rand(inner, columns)
    c = torch.full((rows, columns), float("nan"), device="cuda")
    gpu_kernels.matmul(a, b, c)
    torch.testing.assert_close(c, (a.double() @ b.double()).float(), atol=2e-5, rtol=1e-4)
    y = torch.full_like(a, float("nan"))
    gpu_kernels.softmax(a, y)
    torch.testing.assert_close(y, torch.softmax(a.double(), dim=1).float(), atol=1e-6, rtol=1e-5)
    turned = torch.full((inner, rows), float("nan"), device="cuda")
    gpu_kernels.transpose(a, turned)
    assert torch.equal(turned, a.T)
print("PyTorch's tensors in place: right")

# A tensor of ours becomes one of PyTorch's that shares its memory and keeps it alive.
tensor = gpu_kernels.copy_to(torch.arange(1000, dtype=torch.float32), "cuda:0")
shared = torch.from_dlpack(tensor)
assert shared.device == torch.device("cuda", 0) and shared.data_ptr() == torch.from_dlpack(tensor).data_ptr()
shared += 1
gpu_kernels.saxpy(tensor, rand(1000) * 0, 1.0)
assert torch.equal(torch.from_dlpack(tensor).cpu(), torch.arange(1000, dtype=torch.float32) + 1)
del tensor
gc.collect()
torch.empty(1 << 20, device="cuda").fill_(7)
assert shared.cpu().tolist() == [float(index + 1) for index in range(1000)]
copied = torch.from_dlpack(gpu_kernels.copy_to(shared, "cpu"))
assert copied.device.type == "cpu" and torch.equal(copied, shared.cpu())
print("tensors of ours in PyTorch: right")

# The launch is enqueued in PyTorch's current stream, after the pending work, and the caller does
# not wait.
stream = torch.cuda.Stream()
torch.cuda.synchronize()
for round in range(20):
    with torch.cuda.stream(stream):
        x, y = torch.zeros(100_000, device="cuda"), torch.zeros(100_000, device="cuda")
        torch.cuda._sleep(20_000_000)
        x.fill_(round + 1.0)
        gpu_kernels.saxpy(y, x, 2.0)
        # The stream is still busy: the call did not wait for it.
        waits = stream.query()
        y += 1
        stream.synchronize()
    assert y.min().item() == y.max().item() == 2 * (round + 1.0) + 1, (round, y.min().item(), y.max().item())
    assert not waits, "the call waited for the stream"
print("the current stream: right")

# A long kernel of ours in a side stream; PyTorch waits for it through an event.
with torch.cuda.stream(stream):
    done = torch.zeros(1, device="cuda")
    gpu_kernels.work_for(done, 5.0, 50_000_000)
    event = stream.record_event()
torch.cuda.current_stream().wait_event(event)
assert (done + 1).item() == 6.0
print("events: right")

# Views: not contiguous, and with an offset.
base = rand(10, 100)
y = torch.zeros(100, device="cuda")
gpu_kernels.saxpy(y, base[3], 1.0)
assert torch.equal(y, base[3])
try:
    gpu_kernels.saxpy(torch.zeros(10, device="cuda"), base[:, 3], 1.0)
    raise AssertionError("expected an error")
except ValueError as error:
    assert str(error) == "x: expected a contiguous tensor", error
for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool):
    same = torch.from_dlpack(gpu_kernels.copy_to(torch.ones(3, device="cuda").to(dtype), "cuda:0"))
    assert same.dtype == dtype and same.float().sum().item() == 3.0
try:
    gpu_kernels.saxpy(torch.zeros(3), torch.zeros(3), 1.0)
    raise AssertionError("expected an error")
except ValueError as error:
    assert "expected a tensor on cuda, got one on cpu:0" in str(error), error
print("views, types and errors: right")

# Memory does not grow: each round frees its allocations.
torch.cuda.synchronize()
before = torch.cuda.mem_get_info()[0]
for _ in range(200):
    torch.from_dlpack(gpu_kernels.copy_to(shared, "cuda:0"))
torch.cuda.synchronize()
assert before - torch.cuda.mem_get_info()[0] < 32 << 20
print("all of it: right")
