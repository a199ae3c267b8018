"""A network of PyTorch as a function, and as a library: `python torch_model.py FOLDER`, where the library goes.

PYTHON_COMPILER_LIBRARY names the library of the compiler.
"""

import sys
from pathlib import Path

import models
import numpy as np
import torch
import tvm_ffi
from torch import nn


class Block(nn.Module):
    """Two convolutions with norms, and what goes around them."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        )  # fmt: skip

    def forward(self, x):
        return torch.relu(x + self.body(x))


class Network(nn.Module):
    """Pictures of 3 channels to 5 scores, and the features that they come from."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.GELU(), nn.MaxPool2d(2))
        self.block = Block(16)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x):
        features = self.norm(self.block(self.stem(x)).mean((2, 3)))
        return torch.softmax(self.head(features), 1), features


def main():
    torch.manual_seed(7)
    network = Network()
    # Norms with other statistics than those of a new network.
    network.train()
    with torch.no_grad():
        for _ in range(3):
            network(torch.randn(8, 3, 32, 32))
    network.eval()
    x = torch.randn(2, 3, 32, 32)
    run = models.compile(models.from_torch(network, (x,)), "network")
    with torch.no_grad():
        expected = [value.numpy() for value in network(x)]
    got = run(x.numpy())
    for mine, theirs in zip(got, expected):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    path = Path(sys.argv[1]) / "libnetwork.so"
    run.export_library(path)
    outputs = [torch.empty(value.shape) for value in expected]
    tvm_ffi.load_module(str(path)).network(x, *outputs)
    for mine, theirs in zip(outputs, got):
        np.testing.assert_array_equal(mine.numpy(), theirs)
    difference = max(np.abs(mine - theirs).max() for mine, theirs in zip(got, expected))
    print(f"the network and its library differ by at most {difference:.1e}; {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
