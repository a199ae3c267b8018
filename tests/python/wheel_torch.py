"""imagekit as its wheel installs it, with CPU tensors of PyTorch: run by test_wheel.py where PyTorch is installed."""

import torch

import imagekit

torch.manual_seed(7)
photo = torch.randint(0, 256, (40, 60, 3), dtype=torch.uint8)

gray = torch.from_dlpack(imagekit.to_gray(photo))
expected = photo.to(torch.float32) @ torch.tensor([0.299, 0.587, 0.114])
torch.testing.assert_close(gray, expected)

# No copy: the kernel writes into PyTorch's memory.
blurred = torch.empty_like(gray)
imagekit.blur(gray, blurred, 2)
padded = torch.nn.functional.pad(gray[None, None], (2, 2, 2, 2), mode="replicate")
torch.testing.assert_close(blurred, torch.nn.functional.avg_pool2d(padded, 5, stride=1)[0, 0], rtol=1e-4, atol=1e-3)

histogram = imagekit.histogram(gray)
assert histogram.total == gray.numel()
torch.testing.assert_close(torch.from_dlpack(imagekit.crop(gray.T, 1, 2, 3, 4)), gray.T[1:4, 2:6])
mirrored = imagekit.map_rows(gray, lambda row, index: torch.from_dlpack(row).flip(0).contiguous())
torch.testing.assert_close(torch.from_dlpack(mirrored), gray.flip(1))
print("imagekit works with PyTorch", torch.__version__)
