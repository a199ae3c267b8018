"""Imports libimagekit.so, runs every function of it on a photograph, and compares with NumPy and SciPy. Nothing else of Kernpack is installed.

    IMAGEKIT_LIBRARY    the library, for example target/release/libimagekit.so
    KERNPACK_DEMO_DIR   the folder that prepare.py filled; the pictures go into its folder python/

Exit status 1 when a check fails.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
from PIL import Image
from prepare import CROP, GAIN, RADIUS

# The number of timed calls per function. The shortest time is reported.
REPEATS = 5


class Report:
    """Prints one line per function and remembers whether all checks held."""

    def __init__(self, references: Path) -> None:
        self.references = references
        self.failed = 0
        self.row("function", "kernel", "check", "ms")

    @staticmethod
    def row(function: str, kernel: str, check: str, time: str) -> None:
        first, *rest = textwrap.wrap(check, 80)
        print(f"  {function:<16} {kernel:<10} {first:<80} {time:>8}".rstrip(), flush=True)
        for line in rest:
            print(" " * 36 + line)

    def verdict(self, function: str, kernel: str, good: bool, text: str, milliseconds: float | None = None) -> None:
        self.failed += not good
        shown = "" if milliseconds is None else f"{milliseconds:.3f}"
        self.row(function, kernel, ("ok    " if good else "WRONG ") + text, shown)

    def compare(self, function: str, kernel: str, reference: str, tolerance: float, call):
        """Times `call`, compares its result with a reference of prepare.py and returns it as an array."""
        best = float("inf")
        for _ in range(REPEATS):
            start = time.perf_counter()
            result = call()
            best = min(best, time.perf_counter() - start)
        # A copy: NumPy treats foreign memory as read-only, and older versions then do not export it.
        result = np.array(result if np.isscalar(result) or isinstance(result, np.ndarray) else np.from_dlpack(result))
        expected = np.load(self.references / f"{reference}.npy").reshape(result.shape)
        difference = np.abs(result.astype(np.float64) - expected).max()
        text = f"max difference {difference:.2g} (allowed {tolerance:g})" if difference else "no difference"
        self.verdict(function, kernel, bool(difference <= tolerance), text, best * 1e3)
        return result

    def expect_error(self, function: str, kernel: str, kind: type[Exception], part: str, call) -> None:
        """`call` must raise `kind` with `part` in the message."""
        try:
            call()
        except Exception as error:  # the report describes any exception
            message = str(error).strip().splitlines()[0]
            good = type(error) is kind and part in message
            self.verdict(function, kernel, good, f"{type(error).__name__}: {message}")
        else:
            self.verdict(function, kernel, False, f"no error, expected a {kind.__name__}")


def into(kernel, src: np.ndarray, *arguments) -> np.ndarray:
    """Calls a kernel that writes its result into its second argument."""
    dst = np.empty_like(src)
    kernel(src, dst, *arguments)
    return dst


def save(path: Path, image: np.ndarray, brightest: float = 255.0) -> None:
    """Writes a gray picture; `brightest` becomes white."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(image * (255.0 / brightest) + 0.5, 0, 255).astype(np.uint8)).save(path)


def bar_chart(bins: list[int], threshold: int) -> np.ndarray:
    """The histogram as a picture: one column per two pixels, bars up to the threshold darker."""
    chart = np.full((200, 512), 255.0)
    for level, count in enumerate(bins):
        height = 190 * count // max(bins)
        chart[200 - height :, 2 * level : 2 * level + 2] = 40 if level <= threshold else 150
    return chart


def main() -> int:
    library = os.environ["IMAGEKIT_LIBRARY"]
    folder = Path(os.environ["KERNPACK_DEMO_DIR"])
    pictures = folder / "python"

    # From a wheel, or with the file in a folder of sys.path under the name imagekit.so, this is `import imagekit`.
    spec = importlib.util.spec_from_file_location("imagekit", library)
    imagekit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(imagekit)
    photo = np.asarray(Image.open(folder / "photo.png").convert("RGB"))
    print(f"{library} in Python {sys.version.split()[0]} with NumPy {np.__version__}")
    print(f"photo of {photo.shape[1]} x {photo.shape[0]} pixels")
    # DLPack rejects read-only arrays, such as Pillow's.
    photo = photo.copy()
    report = Report(folder)

    gray = report.compare("to_gray", "Rust", "gray", 0, lambda: imagekit.to_gray(photo))
    save(pictures / "gray.png", gray)

    blurred = report.compare("blur", "C", "blur", 1e-3, lambda: into(imagekit.blur, gray, RADIUS))
    save(pictures / "blur.png", blurred)

    strength = report.compare("sobel", "LLVM IR", "sobel", 1e-2, lambda: into(imagekit.sobel, gray))
    save(pictures / "sobel.png", strength, strength.max())

    def sobel_on_cuda():
        """The picture goes to the device; what comes out there comes back."""
        import torch

        src = torch.from_numpy(gray).cuda()
        dst = torch.empty_like(src)
        imagekit.sobel_on_cuda(src, dst)
        return dst.cpu().numpy()

    try:
        report.compare("sobel_on_cuda", "CUDA", "sobel", 1e-2, sobel_on_cuda)
    except (ImportError, RuntimeError, AssertionError) as error:  # no PyTorch, no image, no driver, no device
        report.row("sobel_on_cuda", "CUDA", f"not run: {str(error).strip().splitlines()[0]}", "")

    try:
        report.compare("sobel_on_opencl", "OpenCL", "sobel", 1e-2, lambda: imagekit.sobel_on_opencl(gray))
    except RuntimeError as error:  # no driver, no device
        report.row("sobel_on_opencl", "OpenCL", f"not run: {str(error).strip().splitlines()[0]}", "")

    edges = report.compare("edges", "Rust+C+IR", "edges", 1e-2, lambda: imagekit.edges(photo, RADIUS))
    save(pictures / "edges.png", edges, edges.max())

    histogram = imagekit.histogram(gray)
    report.compare("histogram", "Rust", "histogram", 0, lambda: np.array(list(imagekit.histogram(gray).bins)))
    fields = [histogram.total, histogram.mean, histogram.min, histogram.max]
    report.compare("  its fields", "Rust", "statistics", 1e-9, lambda: np.array(fields))
    report.compare("contrast", "Rust", "contrast", 1e-12, lambda: imagekit.contrast(histogram))
    threshold = imagekit.otsu_threshold(histogram)
    report.compare("otsu_threshold", "Rust", "otsu_threshold", 0, lambda: imagekit.otsu_threshold(histogram))
    save(pictures / "histogram.png", bar_chart(list(histogram.bins), threshold))
    save(pictures / "threshold.png", np.where(gray > threshold, 255.0, 0.0))

    brighten = imagekit.make_scaler(GAIN)
    scaled = report.compare("make_scaler", "Rust", "scaled", 1e-4, lambda: brighten(gray))
    save(pictures / "scaled.png", scaled)

    def reverse(row, index):
        return np.from_dlpack(row)[::-1].copy()

    mirrored = report.compare("map_rows", "Rust", "mirrored", 0, lambda: imagekit.map_rows(gray, reverse))
    save(pictures / "mirrored.png", mirrored)

    rectangle = (CROP["top"], CROP["left"], CROP["height"], CROP["width"])
    cropped = report.compare("crop", "Rust", "crop", 0, lambda: imagekit.crop(gray, *rectangle))
    save(pictures / "crop.png", cropped)

    facts = imagekit.describe(gray)
    expected = {"height": gray.shape[0], "width": gray.shape[1], "dtype": "float32", "contiguous": True}
    report.verdict("describe", "Rust", facts == expected, f"{facts}")

    pgm = imagekit.to_pgm(gray)
    header = b"P5\n%d %d\n255\n" % (gray.shape[1], gray.shape[0])
    rounded = np.floor(gray + 0.5).astype(np.uint8).tobytes()
    report.verdict("to_pgm", "Rust", pgm == header + rounded, f"{len(pgm)} bytes, equal to NumPy's")

    def fail_at_row_7(row, index):
        if index == 7:
            raise ValueError("row 7 is not for sale")
        return row

    print("  errors, as they arrive:")
    outside = "top 400 + height 100"
    report.expect_error("crop", "Rust", ValueError, outside, lambda: imagekit.crop(gray, 400, 0, 100, 10))
    report.expect_error("map_rows", "Python", ValueError, "row 7", lambda: imagekit.map_rows(gray, fail_at_row_7))
    report.expect_error("blur", "C", TypeError, "argument 'src'", lambda: imagekit.blur(photo, gray, 1))
    report.expect_error("sobel", "LLVM IR", TypeError, "expected 2 arguments", lambda: imagekit.sobel(gray))
    report.expect_error("to_gray", "Rust", TypeError, "argument 'rgb'", lambda: imagekit.to_gray("photo"))
    report.expect_error("blurr", "", AttributeError, "no attribute 'blurr'", lambda: imagekit.blurr)

    print(f"\nascii_art, a Rust function that returns a string:\n{imagekit.ascii_art(gray, 72)}")
    print(f"pictures: {pictures}")
    if report.failed:
        print(f"{report.failed} checks FAILED", file=sys.stderr)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
