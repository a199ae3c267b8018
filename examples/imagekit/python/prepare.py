"""Decodes the photograph and computes what imagekit's functions must return, with NumPy and SciPy only.

Writes into $KERNPACK_DEMO_DIR:

    photo.png       the photograph that comes with scikit-learn (china.jpg), 640 x 427 pixels, RGB
    photo.ppm       the same, for programs without a library for PNG (examples/remote)
    *.npy           one reference per function, C order, float32 unless said otherwise

The Rust host and demo.py read these files; test_imagekit.py imports the functions.
"""

import os
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import ndimage
from sklearn.datasets import load_sample_image

# The arguments that both hosts pass.
RADIUS = 3
GAIN = 1.6
CROP = {"top": 15, "left": 60, "height": 240, "width": 300}


def gray(rgb: np.ndarray) -> np.ndarray:
    """Rec. 601 luma in double precision, rounded once."""
    return (rgb.astype(np.float64) @ [0.299, 0.587, 0.114]).astype(np.float32)


def histogram(image: np.ndarray) -> np.ndarray:
    """Counts per whole gray level (int64, 256 bins)."""
    return np.histogram(image, bins=256, range=(0, 256))[0].astype(np.int64)


def statistics(image: np.ndarray) -> np.ndarray:
    """Number of pixels, mean, least and greatest value (float64)."""
    return np.array([image.size, image.astype(np.float64).mean(), image.min(), image.max()])


def contrast(image: np.ndarray) -> float:
    """Michelson contrast: the range of the values over the sum of both ends."""
    low, high = float(image.min()), float(image.max())
    return (high - low) / (high + low)


def otsu_threshold(image: np.ndarray) -> int:
    """The gray level that separates the histogram into the two most distinct classes: dark is <= threshold."""
    counts = histogram(image).astype(np.float64)
    levels = np.arange(256)
    dark, dark_sum = np.cumsum(counts), np.cumsum(counts * levels)
    light, light_sum = dark[-1] - dark, dark_sum[-1] - dark_sum
    with np.errstate(divide="ignore", invalid="ignore"):
        between = dark * light * (dark_sum / dark - light_sum / light) ** 2
    return int(np.argmax(np.nan_to_num(between)))


def blur(image: np.ndarray, radius: int) -> np.ndarray:
    """Box blur with the border repeated."""
    mean = ndimage.uniform_filter(image.astype(np.float64), 2 * radius + 1, mode="nearest")
    return mean.astype(np.float32)


def sobel(image: np.ndarray) -> np.ndarray:
    """Gradient magnitude with the border repeated."""
    image = image.astype(np.float64)
    dy, dx = (ndimage.sobel(image, axis, mode="nearest") for axis in (0, 1))
    return np.hypot(dx, dy).astype(np.float32)


def edges(rgb: np.ndarray, radius: int) -> np.ndarray:
    """The three steps in a row: gray, blurred, edge strength."""
    return sobel(blur(gray(rgb), radius))


def scaled(image: np.ndarray, gain: float) -> np.ndarray:
    """Brightness times `gain`, cut off at 255."""
    return np.clip(image.astype(np.float64) * gain, 0, 255).astype(np.float32)


def crop(image: np.ndarray, top: int, left: int, height: int, width: int) -> np.ndarray:
    """A rectangle of the image."""
    return np.ascontiguousarray(image[top : top + height, left : left + width])


def mirrored(image: np.ndarray) -> np.ndarray:
    """Every row from right to left: what `map_rows` makes of a callback that reverses a row."""
    return np.ascontiguousarray(image[:, ::-1])


def main() -> None:
    folder = Path(os.environ["KERNPACK_DEMO_DIR"])
    folder.mkdir(parents=True, exist_ok=True)

    photo = load_sample_image("china.jpg")
    Image.fromarray(photo).save(folder / "photo.png")
    Image.fromarray(photo).save(folder / "photo.ppm")

    image = gray(photo)
    references = {
        "gray": image,
        "histogram": histogram(image),
        "statistics": statistics(image),
        "contrast": np.array([contrast(image)]),
        "otsu_threshold": np.array([otsu_threshold(image)]),
        "blur": blur(image, RADIUS),
        "sobel": sobel(image),
        "edges": edges(photo, RADIUS),
        "scaled": scaled(image, GAIN),
        "crop": crop(image, **CROP),
        "mirrored": mirrored(image),
    }
    for name, value in references.items():
        np.save(folder / f"{name}.npy", value)
    height, width, _ = photo.shape
    print(f"photo.png ({width} x {height}) and {len(references)} references from NumPy and SciPy are in {folder}")


if __name__ == "__main__":
    main()
