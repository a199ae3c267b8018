"""imagekit as its wheel installs it, with NumPy: run by test_wheel.py in a fresh environment."""

import sys

import imagekit
import numpy as np

photo = np.random.default_rng(7).integers(0, 255, (40, 60, 3), np.uint8)

gray = np.from_dlpack(imagekit.to_gray(photo))
np.testing.assert_allclose(gray, photo @ np.array([0.299, 0.587, 0.114], np.float32), rtol=1e-5)

histogram = imagekit.histogram(gray)
assert type(histogram) is imagekit.Histogram and isinstance(histogram, imagekit.Statistics)
assert histogram.total == gray.size and sum(histogram.bins) == gray.size
assert abs(histogram.mean - gray.mean(dtype=np.float64)) < 1e-6
assert 0 <= imagekit.otsu_threshold(histogram) < 256

blurred, strength = np.empty_like(gray), np.empty_like(gray)
imagekit.blur(gray, blurred, 2)
imagekit.sobel(blurred, strength)
np.testing.assert_allclose(np.from_dlpack(imagekit.edges(photo, 2)), strength, atol=1e-3)

mirrored = imagekit.map_rows(gray, lambda row, index: np.from_dlpack(row)[::-1].copy())
np.testing.assert_array_equal(np.from_dlpack(mirrored), gray[:, ::-1])
corner = imagekit.crop(gray, 1, 2, 3, 4)
np.testing.assert_array_equal(np.from_dlpack(corner), gray[1:4, 2:6])
assert imagekit.to_pgm(gray).startswith(b"P5\n60 40\n255\n")

assert (imagekit.crop.__doc__ or "").startswith("Copies a rectangle out of a gray image.")
assert (imagekit.Histogram.__doc__ or "").startswith("Statistics with the number of pixels per gray level.")
assert imagekit.__version__ == "0.1.0" and "crop" in imagekit.__all__
try:
    imagekit.crop(gray, 100, 0, 1, 1)
except ValueError as error:
    assert str(error).startswith("the rectangle does not lie inside the image: top 100"), error
else:
    sys.exit("a rectangle outside the image was cut out")
print("imagekit works with NumPy", np.__version__)
