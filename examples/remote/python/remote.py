"""What `cargo run -p remote` does, from stock Python with Apache TVM: imagekit on a board, on a photograph.

    python examples/remote/python/remote.py --photo FILE.ppm [--board HOST:PORT] [--profile release] [--pictures FOLDER]

Without a board the server is started under qemu. Needs `apache-tvm`, and what `tvm.rpc` imports (xtask/requirements-tvm.txt). Exit status 1 when a picture differs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tvm
from tvm import rpc

ROOT = Path(__file__).resolve().parents[3]
TARGET = "aarch64-unknown-linux-gnu"
LIBRARY = "libimagekit.so"
EMULATOR = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
RADIUS = 3


def build(profile: str) -> tuple[Path, Path, Path]:
    """The library for this machine and for the board, and the server for the board."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    cargo = ["cargo", "build", "--quiet", "--profile", profile, "--package", "imagekit"]
    server = ["--package", "kernpack-rpc", "--features", "kernpack-rpc/program", "--bins"]
    environment = {"CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": "aarch64-linux-gnu-gcc", **os.environ}
    for arguments in [["--lib"], ["--target", TARGET, "--lib", *server]]:
        subprocess.run([*cargo, *arguments], cwd=ROOT, env=environment, check=True)
    folder = "debug" if profile == "dev" else profile
    there = target / TARGET / folder
    return target / folder / LIBRARY, there / LIBRARY, there / "kernpack-rpc-server"


@contextlib.contextmanager
def board(address: str | None, server: Path) -> Iterator[tuple[str, int]]:
    """Host and port of the server; one under qemu ends with the block."""
    if address is not None:
        host, port = address.rsplit(":", 1)
        yield host, int(port)
        return
    command = [*EMULATOR, str(server), "--no-token", "--port", "0", "--emulator", " ".join(EMULATOR)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            host, port = process.stdout.readline().removeprefix("listening on ").rsplit(":", 1)
            yield host, int(port)
        finally:
            process.kill()


def read(path: Path) -> np.ndarray:
    """A PPM file (P6, 8 bits) as uint8[height, width, 3]."""
    kind, width, height, most, _ = path.read_bytes().split(maxsplit=4)
    assert (kind, most) == (b"P6", b"255"), f"{path} is no PPM file with 8 bits"
    size = 3 * int(width) * int(height)
    # White space after the header may be the first pixel: pixels are counted from the end.
    return np.frombuffer(path.read_bytes()[-size:], "uint8").reshape(int(height), int(width), 3)


def write(path: Path, gray: np.ndarray) -> None:
    """A PGM file."""
    height, width = gray.shape
    path.write_bytes(b"P5\n%d %d\n255\n" % (width, height) + np.clip(gray + 0.5, 0, 255).astype("uint8").tobytes())


def filters(library: tvm.runtime.Module, device: tvm.runtime.Device, photo: np.ndarray) -> dict[str, tuple]:
    """What each filter makes of the photograph, with its function and arguments."""

    def empty() -> tvm.runtime.Tensor:
        return tvm.runtime.empty(photo.shape[:2], "float32", device)

    colored = tvm.runtime.tensor(photo, device)
    gray = library["imagekit.to_gray"](colored)
    blurred, strength = empty(), empty()
    library["blur"](gray, blurred, RADIUS)
    library["sobel"](blurred, strength)
    return {
        "gray": (gray, "imagekit.to_gray", (colored,), 0.0),
        "blur": (blurred, "blur", (gray, empty(), RADIUS), 1e-3),
        "sobel": (strength, "sobel", (blurred, empty()), 1e-2),
        "edges": (library["edges"](colored, RADIUS), "edges", (colored, RADIUS), 1e-2),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--photo", type=Path, required=True)
    parser.add_argument("--board")
    parser.add_argument("--profile", default="release")
    parser.add_argument("--pictures", type=Path, default=Path("target/remote-python"))
    options = parser.parse_args()
    here, there, server = build(options.profile)
    photo = read(options.photo)
    options.pictures.mkdir(parents=True, exist_ok=True)
    differ = 0
    with board(options.board, server) as (host, port):
        session = rpc.connect(host, port)
        session.upload(str(there))
        library, device = session.load_module(LIBRARY), session.cpu(0)
        expected = filters(tvm.runtime.load_module(str(here)), tvm.cpu(0), photo)
        for name, (picture, function, arguments, tolerance) in filters(library, device, photo).items():
            timing = library.time_evaluator(function, device, number=1, repeat=3)(*arguments)
            pixels = picture.numpy()
            difference = float(np.abs(pixels - expected[name][0].numpy()).max())
            wrong = not difference <= tolerance
            differ += wrong
            print(f"  {name:<8} {timing.median * 1e3:11.3f} ms {difference:12.2e}{'  WRONG' if wrong else ''}")
            write(options.pictures / f"{name}.pgm", pixels)
    print(f"pictures: {options.pictures}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
