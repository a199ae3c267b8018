"""The example as a test: every function against NumPy and SciPy, on a photograph and on awkward sizes, and every error.

IMAGEKIT_LIBRARY names the library.
"""

import importlib.util
import os
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import prepare
import pytest
import tvm_ffi
from sklearn.datasets import load_sample_image


def path():
    path = os.environ.get("IMAGEKIT_LIBRARY")
    assert path, "set IMAGEKIT_LIBRARY to the path of libimagekit.so"
    return path


@pytest.fixture(scope="session")
def loaded():
    """The library as tvm_ffi loads it."""
    return tvm_ffi.load_module(path())


@pytest.fixture(scope="session")
def imported():
    """The same file as an extension module."""
    spec = importlib.util.spec_from_file_location("imagekit", path())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", params=["loaded", "imported"])
def imagekit(request):
    """Both ways to the same functions."""
    return request.getfixturevalue(request.param)


def is_imported(imagekit):
    return not isinstance(imagekit, tvm_ffi.Module)


def to_gray_of(imagekit):
    """A name with a dot is taken as it is by tvm_ffi; that of the module in front is left out by import."""
    return imagekit.to_gray if is_imported(imagekit) else imagekit["imagekit.to_gray"]


@pytest.fixture(scope="session")
def photo():
    return load_sample_image("china.jpg").copy()


@pytest.fixture(scope="session")
def gray(photo):
    return prepare.gray(photo)


def random_gray(height, width):
    return np.random.default_rng(height * 1000 + width).uniform(0, 255, (height, width)).astype(np.float32)


def into(kernel, src, *arguments):
    """Calls a kernel that writes into its second argument; every element must be written."""
    dst = np.full_like(src, np.nan)
    assert kernel(src, dst, *arguments) is None
    return dst


# Results


def test_to_gray(imagekit, photo, gray):
    result = np.from_dlpack(to_gray_of(imagekit)(photo))
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, gray)


def test_to_gray_takes_any_strides(imagekit, photo):
    flipped = photo[::-1, ::2, ::-1]  # upside down, every second column, BGR
    result = np.from_dlpack(to_gray_of(imagekit)(flipped))
    np.testing.assert_array_equal(result, prepare.gray(flipped))


SIZES = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (1, 40), (40, 1), (5, 8), (17, 9), (33, 65)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("radius", [0, 1, 2, 7, 100])
def test_blur(imagekit, size, radius):
    src = random_gray(*size)
    np.testing.assert_allclose(into(imagekit.blur, src, radius), prepare.blur(src, radius), atol=1e-3)


def test_blur_works_in_place(imagekit, gray):
    image = gray.copy()
    imagekit.blur(image, image, 3)
    np.testing.assert_allclose(image, prepare.blur(gray, 3), atol=1e-3)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sobel(imagekit, size):
    src = random_gray(*size)
    np.testing.assert_allclose(into(imagekit.sobel, src), prepare.sobel(src), atol=1e-2)


def test_kernels_take_images_without_pixels(imagekit):
    for size in [(0, 5), (5, 0)]:
        into(imagekit.blur, np.zeros(size, np.float32), 2)
        into(imagekit.sobel, np.zeros(size, np.float32))


def test_photo_through_all_filters(imagekit, photo, gray):
    np.testing.assert_allclose(into(imagekit.blur, gray, prepare.RADIUS), prepare.blur(gray, prepare.RADIUS), atol=1e-3)
    np.testing.assert_allclose(into(imagekit.sobel, gray), prepare.sobel(gray), atol=1e-2)
    edges = np.from_dlpack(imagekit.edges(photo, prepare.RADIUS))
    np.testing.assert_allclose(edges, prepare.edges(photo, prepare.RADIUS), atol=1e-2)


def test_histogram_is_an_object_with_fields(imagekit, gray):
    histogram = imagekit.histogram(gray)
    assert list(histogram.bins) == prepare.histogram(gray).tolist()
    total, mean, low, high = prepare.statistics(gray)
    # total, mean, min and max are fields of the base type, imagekit.Statistics.
    assert (histogram.total, histogram.min, histogram.max) == (total, low, high)
    assert histogram.mean == pytest.approx(mean, rel=1e-12)
    if is_imported(imagekit):
        assert type(histogram) is imagekit.Histogram and isinstance(histogram, imagekit.Statistics)
        return
    assert isinstance(histogram, tvm_ffi.Object)
    assert type(histogram).__tvm_ffi_type_info__.type_key == "imagekit.Histogram"
    assert type(histogram).__tvm_ffi_type_info__.parent_type_info.type_key == "imagekit.Statistics"


def test_fields_cannot_be_written(imagekit, gray):
    histogram = imagekit.histogram(gray)
    with pytest.raises(AttributeError):
        histogram.total = 0
    assert histogram.total == gray.size


def test_objects_go_back_into_the_library(imagekit, gray):
    histogram = imagekit.histogram(gray)
    assert imagekit.otsu_threshold(histogram) == prepare.otsu_threshold(gray)
    assert imagekit.contrast(histogram) == pytest.approx(prepare.contrast(gray), rel=1e-12)


def test_crop_takes_any_strides(imagekit, gray):
    np.testing.assert_array_equal(np.from_dlpack(imagekit.crop(gray.T, 5, 7, 30, 20)), gray.T[5:35, 7:27])
    assert np.from_dlpack(imagekit.crop(gray, 427, 640, 0, 0)).shape == (0, 0)


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (1, 40), (17, 9), (1000, 1000)])
def test_gamma(imagekit, size):
    image = random_gray(*size)
    result = np.from_dlpack(imagekit.gamma(image, 0.5))
    assert (result.dtype, result.shape) == (np.float32, size)
    np.testing.assert_allclose(result, 255 * np.sqrt(image / 255), rtol=1e-5)


def test_gamma_takes_any_strides(imagekit, gray):
    flipped = gray.T[::-1, ::3]
    np.testing.assert_allclose(np.from_dlpack(imagekit.gamma(flipped, 2)), flipped**2 / 255, rtol=1e-5)


@pytest.mark.parametrize("size", [(1, 2), (17, 9), (2000, 300)])
def test_stretch_rows_in_place(imagekit, size):
    image = random_gray(*size)
    low, high = image.min(axis=1, keepdims=True), image.max(axis=1, keepdims=True)
    expected = (image - low) / (high - low) * 255
    assert imagekit.stretch_rows(image) is None
    np.testing.assert_allclose(image, expected, rtol=1e-4, atol=1e-3)
    assert imagekit.stretch_rows(np.zeros((3, 0), np.float32)) is None


def test_stretch_rows_writes_only_what_it_is_given(imagekit):
    image = random_gray(6, 8)
    before = image.copy()
    imagekit.stretch_rows(image[1:5:2, 2:5])
    touched = np.zeros(image.shape, bool)
    touched[1:5:2, 2:5] = True
    np.testing.assert_array_equal(image[~touched], before[~touched])
    np.testing.assert_allclose(image[1:5:2, 2:5].max(axis=1), 255, rtol=1e-5)


def test_parallel_functions_from_many_threads(imagekit):
    image = random_gray(200, 300)
    expected = np.from_dlpack(imagekit.gamma(image, 1.5))

    def run(_):
        return np.array_equal(np.from_dlpack(imagekit.gamma(image, 1.5)), expected)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(run, range(200)))


def test_map_rows_calls_python(imagekit, gray):
    indices = []

    def reverse(row, index):
        indices.append(index)
        return np.from_dlpack(row)[::-1].copy()

    np.testing.assert_array_equal(np.from_dlpack(imagekit.map_rows(gray, reverse)), prepare.mirrored(gray))
    assert indices == list(range(gray.shape[0]))


def test_make_scaler_returns_a_function(imagekit, gray):
    brighten, darken = imagekit.make_scaler(1.6), imagekit.make_scaler(0.5)
    assert is_imported(imagekit) or isinstance(brighten, tvm_ffi.Function)
    np.testing.assert_allclose(np.from_dlpack(brighten(gray)), prepare.scaled(gray, 1.6), atol=1e-4)
    np.testing.assert_allclose(np.from_dlpack(darken(gray)), prepare.scaled(gray, 0.5), atol=1e-4)


def test_a_returned_function_is_a_callback_too(imagekit, gray):
    brighten = imagekit.make_scaler(1.6)
    scaled = imagekit.map_rows(gray, lambda row, index: brighten(row))
    np.testing.assert_allclose(np.from_dlpack(scaled), prepare.scaled(gray, 1.6), atol=1e-4)


def test_describe(imagekit, gray, photo):
    assert dict(imagekit.describe(gray).items()) == {
        "height": 427, "width": 640, "dtype": "float32", "contiguous": True
    }
    assert dict(imagekit.describe(photo[:, ::2]).items()) == {
        "height": 427, "width": 320, "dtype": "uint8", "contiguous": False
    }


def test_to_pgm(imagekit):
    file = imagekit.to_pgm(np.array([[0, 1.4, 1.5], [254.6, 255, 300]], np.float32))
    assert file == b"P5\n3 2\n255\n" + bytes([0, 1, 2, 255, 255, 255])


def test_ascii_art(imagekit):
    ramp = np.tile(np.linspace(0, 255, 20, dtype=np.float32), (4, 1))
    assert imagekit.ascii_art(ramp, 20) == "@@%%##**++==--::..\n" * 2


# Errors: the kind is the exception class, and the message contains function, argument, the expected and the actual value.


def check_error(kind, message, function, *arguments):
    with pytest.raises(kind) as caught:
        function(*arguments)
    assert type(caught.value) is kind
    assert str(caught.value) == message


TO_GRAY = "imagekit.to_gray(rgb: Tensor): "
CROP = "crop(image: Tensor, top: int, left: int, height: int, width: int): "
BLUR = "blur(src: float32[height, width], dst: float32[height, width], radius: int): "
SOBEL = "sobel(src: float32[height, width], dst: float32[height, width]): "
MATRIX = "expected a contiguous, aligned float32 tensor of 2 dimensions in CPU memory"


def test_wrong_argument_count(imagekit, gray):
    check_error(TypeError, TO_GRAY + "expected 1 argument, got 0", to_gray_of(imagekit))
    check_error(TypeError, CROP + "expected 5 arguments, got 2", imagekit.crop, gray, 1)
    check_error(TypeError, BLUR + "expected 3 arguments, got 2", imagekit.blur, gray, gray)
    check_error(TypeError, SOBEL + "expected 2 arguments, got 1", imagekit.sobel, gray)


def test_wrong_argument_type(imagekit, gray):
    check_error(TypeError, TO_GRAY + "argument 'rgb': expected Tensor, got str", to_gray_of(imagekit), "photo")
    check_error(TypeError, CROP + "argument 'left': expected int, got float", imagekit.crop, gray, 0, 1.5, 2, 2)
    check_error(TypeError, BLUR + "argument 'src': expected Tensor, got None", imagekit.blur, None, gray, 1)
    check_error(TypeError, BLUR + "argument 'radius': expected int, got float", imagekit.blur, gray, gray, 1.5)
    check_error(TypeError, SOBEL + f"argument 'dst': {MATRIX}", imagekit.sobel, gray, "dst")
    check_error(
        TypeError,
        "map_rows(image: Tensor, callback: Function): argument 'callback': expected Function, got int",
        imagekit.map_rows, gray, 1,
    )
    check_error(
        TypeError,
        "otsu_threshold(histogram: imagekit.Histogram): argument 'histogram': expected imagekit.Histogram, got Tensor",
        imagekit.otsu_threshold, gray,
    )


def test_wrong_dtype(imagekit, gray, photo):
    check_error(
        TypeError, TO_GRAY + "argument 'rgb': expected a tensor of uint8, got one of float32",
        to_gray_of(imagekit), gray,
    )
    wide = gray.astype(np.float64)
    check_error(
        TypeError, BLUR + "argument 'src': expected float32, got a type of 64 bits and DLPack code 2",
        imagekit.blur, wide, gray, 1,
    )
    check_error(TypeError, SOBEL + f"argument 'src': {MATRIX}", imagekit.sobel, photo, gray)


def test_not_contiguous(imagekit, gray):
    half = gray[:, ::2]
    check_error(
        ValueError,
        BLUR + "argument 'src': expected contiguous rows, got strides (640, 2); make a contiguous copy first",
        imagekit.blur, half, gray, 1,
    )
    check_error(TypeError, SOBEL + f"argument 'src': {MATRIX}", imagekit.sobel, half, gray)


def test_misaligned(imagekit):
    memory = np.zeros(4 * 4 * 4 + 1, np.uint8)
    crooked = memory[1:].view(np.float32).reshape(4, 4)
    straight = np.zeros((4, 4), np.float32)
    check_error(
        ValueError, BLUR + "argument 'dst': expected data aligned to 4 bytes; make a copy first",
        imagekit.blur, straight, crooked, 1,
    )
    check_error(TypeError, SOBEL + f"argument 'src': {MATRIX}", imagekit.sobel, crooked, straight)
    with pytest.raises(ValueError, match="argument 'gray': .*misaligned"):
        imagekit.histogram(crooked)


def test_wrong_shape(imagekit, gray):
    check_error(
        ValueError, "expected 3 channels, red, green and blue, got 4",
        to_gray_of(imagekit), np.zeros((2, 2, 4), np.uint8),
    )
    check_error(
        ValueError, BLUR + "argument 'dst': expected the shape of src, (427, 640), got (2, 2)",
        imagekit.blur, gray, np.zeros((2, 2), np.float32), 1,
    )
    check_error(
        ValueError, SOBEL + "argument 'dst': expected the shape of src",
        imagekit.sobel, gray, np.zeros((2, 2), np.float32),
    )
    check_error(
        ValueError, "expected an image of shape (height, width), got shape [2]",
        imagekit.histogram, np.zeros(2, np.float32),
    )


def test_what_parallel_functions_refuse(imagekit, gray):
    check_error(
        TypeError, "gamma(gray: Tensor, exponent: float): argument 'gray': expected a tensor of float32, got one of float64",
        imagekit.gamma, gray.astype(np.float64), 1,
    )  # fmt: skip
    check_error(
        ValueError,
        "stretch_rows(image: Tensor): the rows of argument 'image' are not contiguous: shape [3, 2], strides [1, 3] (in elements); "
        "pass a contiguous copy, for example numpy.ascontiguousarray(x)",
        imagekit.stretch_rows, np.ones((2, 3), np.float32).T,
    )  # fmt: skip
    check_error(
        ValueError,
        "stretch_rows(image: Tensor): argument 'image' has no dimensions, so it has no rows; give it the shape of one row",
        imagekit.stretch_rows, np.ones((), np.float32),
    )  # fmt: skip


def test_wrong_values(imagekit, gray):
    check_error(
        ValueError,
        "the rectangle does not lie inside the image: top 400 + height 100, but the image's height is 427",
        imagekit.crop, gray, 400, 0, 100, 10,
    )
    check_error(
        ValueError,
        "the rectangle does not lie inside the image: left -1 + width 10, but the image's width is 640",
        imagekit.crop, gray, 0, -1, 10, 10,
    )
    with pytest.raises(ValueError, match="top 9223372036854775807 \\+ height 1"):
        imagekit.crop(gray, 2**63 - 1, 0, 1, 1)
    check_error(ValueError, BLUR + "argument 'radius': -1 is not from 0 to 1000", imagekit.blur, gray, gray, -1)
    check_error(
        ValueError, SOBEL + "argument 'dst': overlaps src; give the result memory of its own",
        imagekit.sobel, gray[:-1], gray[1:],
    )
    check_error(
        ValueError, "pixel 1 is 256, not a gray level from 0 to 255",
        imagekit.histogram, np.array([[0, 256]], np.float32),
    )
    check_error(ValueError, "expected a gain of 0 or more, got -2", imagekit.make_scaler, -2)
    check_error(ValueError, "expected 1 to 640 columns, got 0", imagekit.ascii_art, gray, 0)


def test_missing_function(loaded):
    with pytest.raises(AttributeError):
        loaded.blurr
    assert not loaded.implements_function("blurr")
    assert loaded.implements_function("blur")


def test_sobel_on_cuda_says_what_is_missing(imagekit, gray):
    """A NumPy array is never on a CUDA device, so this fails everywhere, each time for a reason that is named."""
    with pytest.raises((RuntimeError, ValueError)) as caught:
        imagekit.sobel_on_cuda(gray, np.empty_like(gray))
    assert "cuda" in str(caught.value).lower()


def test_sobel_on_opencl(imagekit, gray):
    """The image goes to the device and comes back."""
    try:
        strength = imagekit.sobel_on_opencl(gray)
    except RuntimeError as error:
        if os.environ.get("KERNPACK_OPENCL") == "require" or os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    np.testing.assert_allclose(np.from_dlpack(strength), into(imagekit.sobel, gray), atol=1e-2)


ALONE = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("imagekit", sys.argv[1])
imagekit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(imagekit)
ramp = np.tile(np.arange(40, dtype=np.float32) ** 2, (30, 1))
wanted = np.empty_like(ramp)
imagekit.sobel(ramp, wanted)
for _ in range(2):
    np.testing.assert_allclose(imagekit.sobel_on_opencl(ramp).numpy(), wanted, atol=1e-2)
try:
    imagekit.sobel_on_cuda(ramp, wanted)
except (RuntimeError, ValueError) as error:
    assert "must be loaded as a module" not in str(error), error
assert "tvm_ffi" not in sys.modules
print("passed")
"""


@pytest.mark.parametrize("alone", ["0", "1"], ids=["libtvm_ffi", "own"])
def test_device_kernels_where_the_library_is_imported_and_nothing_else(imported, gray, alone):
    """Nothing has called the loader of modules, which restores the images of devices: the library does it by itself."""
    try:
        imported.sobel_on_opencl(gray)
    except RuntimeError as error:
        if os.environ.get("KERNPACK_OPENCL") == "require" or os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    environment = {**os.environ, "KERNPACK_PYTHON_ALONE": alone}
    ended = subprocess.run([sys.executable, "-c", ALONE, path()], capture_output=True, text=True, env=environment)
    assert (ended.stdout, ended.returncode) == ("passed\n", 0), ended.stderr


def test_device_modules_report_errors(loaded, tmp_path):
    images = {image.kind: image for image in loaded.imports}
    assert "opencl" in images
    if "cuda" not in images:
        assert not os.environ.get("CI"), "imagekit was built without nvcc; see its build's warning"
        pytest.skip("imagekit was built without nvcc, so it carries no CUDA image")
    image = images["cuda"]
    # C++ calls the module through its vtable and expects exceptions.
    with pytest.raises(ValueError, match="the image is in format 'fatbin', not 'ptx'"):
        image.write_to_file(str(tmp_path / "image.ptx"), "ptx")
    with pytest.raises(RuntimeError, match="Cyclic dependency detected during import"):
        image.import_module(image)
    image.write_to_file(str(tmp_path / "image.fatbin"), "fatbin")
    assert (tmp_path / "image.fatbin").read_bytes()[:4] == bytes.fromhex("50ed55ba")


def test_callback_errors_arrive_as_they_left(imagekit, gray):
    def fail_at_row_7(row, index):
        if index == 7:
            raise ValueError("row 7 is not for sale")
        return row

    with pytest.raises(ValueError) as caught:
        imagekit.map_rows(gray, fail_at_row_7)
    assert str(caught.value) == "row 7 is not for sale"
    # Readable: the callback's own line, the Rust function with its file (by way of tvm_ffi), the caller's line, in the order of the calls.
    frames = traceback.extract_tb(caught.value.__traceback__)
    names = [frame.name for frame in frames]
    assert names[0] == "test_callback_errors_arrive_as_they_left"
    assert names[-1] == "fail_at_row_7"
    in_rust = any("map_rows" in frame.name and frame.filename.endswith("rows.rs") for frame in frames)
    assert in_rust != is_imported(imagekit), frames


def test_callback_with_an_exception_class_of_its_own(loaded, gray):
    @tvm_ffi.register_error
    class SoldOut(RuntimeError):
        pass

    def sell(row, index):
        raise SoldOut("come back tomorrow")

    with pytest.raises(SoldOut, match="come back tomorrow"):
        loaded.map_rows(gray, sell)


def test_callback_returns_something_else(imagekit, gray):
    with pytest.raises(TypeError, match="expected Tensor, got int"):
        imagekit.map_rows(gray, lambda row, index: 5)
    with pytest.raises(ValueError, match=r"returned shape \[1\] for row 0, expected \[640\]"):
        imagekit.map_rows(gray, lambda row, index: np.zeros(1, np.float32))


def test_rust_errors_have_a_traceback(loaded, gray):
    with pytest.raises(ValueError) as caught:
        loaded.crop(gray, 400, 0, 100, 10)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any(frame.filename.endswith("crop.rs") for frame in frames), frames


# The description of the library


def test_metadata(loaded):
    assert loaded.get_function_metadata("crop")["arg_names"] == ["image", "top", "left", "height", "width"]
    assert tvm_ffi.get_global_func_metadata("imagekit.crop") == loaded.get_function_metadata("crop")
    schema = tvm_ffi.core.TypeSchema.from_json_str(loaded.get_function_metadata("crop")["type_schema"])
    assert repr(schema) == "Callable[[Tensor, int, int, int, int], Tensor]"
    schema = tvm_ffi.core.TypeSchema.from_json_str(loaded.get_function_metadata("describe")["type_schema"])
    assert repr(schema) == "Callable[[Tensor], Map[str, Any]]"


def test_parallel_functions_describe_what_callers_call(loaded):
    schema = tvm_ffi.core.TypeSchema.from_json_str(loaded.get_function_metadata("gamma")["type_schema"])
    assert repr(schema) == "Callable[[Tensor, float], Tensor]"
    schema = tvm_ffi.core.TypeSchema.from_json_str(loaded.get_function_metadata("stretch_rows")["type_schema"])
    assert repr(schema) == "Callable[[Tensor], None]"
    doc = loaded.get_function_doc("stretch_rows").splitlines()
    assert doc[0].startswith("Stretches each row of a gray image in place")
    assert doc[-1] == "Runs in parallel over rows of `image` (f32); writes to `image`."
    assert loaded.get_function_doc("gamma").endswith("over elements of `gray` (f32); returns a new tensor.")


def test_documentation(loaded):
    assert loaded.get_function_doc("crop").splitlines()[0] == "Copies a rectangle out of a gray image."
    assert loaded.get_function_doc("imagekit.to_gray").startswith("Converts an RGB image to gray")


def test_kernels_are_described(loaded):
    # The comment before the kernel in C, and the declaration in it.
    assert loaded.get_function_doc("blur").splitlines()[0].startswith("Box blur: each pixel of `dst` becomes the mean")
    metadata = loaded.get_function_metadata("blur")
    assert metadata["arg_names"] == ["src", "dst", "radius"]
    schema = tvm_ffi.core.TypeSchema.from_json_str(metadata["type_schema"])
    assert repr(schema) == "Callable[[Tensor, Tensor, int], None]"
    # OpenCL C needs no declaration; the launch parameters follow the kernel's own.
    metadata = loaded.get_function_metadata("sobel_opencl")
    assert metadata["arg_names"][:5] == ["src", "dst", "height", "width", "grid_x"]
    assert loaded.get_function_doc("sobel_opencl").startswith("Edge strength by the Sobel operator, on an OpenCL device")


def test_global_functions(loaded, photo, gray):
    names = {name for name in tvm_ffi.registry.list_global_func_names() if name.startswith("imagekit.")}
    assert names == {
        f"imagekit.{name}"
        for name in [
            "to_gray", "histogram", "otsu_threshold", "contrast", "crop", "map_rows", "make_scaler", "describe", "to_pgm",
            "ascii_art", "edges", "gamma", "stretch_rows", "sobel_on_cuda", "sobel_on_opencl", "blur", "sobel", "cpu_level",
        ]
    }  # fmt: skip
    result = tvm_ffi.get_global_func("imagekit.to_gray")(photo)
    np.testing.assert_array_equal(np.from_dlpack(result), gray)
    assert into(tvm_ffi.get_global_func("imagekit.sobel"), gray).max() > 0
    assert "type_schema" in tvm_ffi.get_global_func_metadata("imagekit.crop")


def test_objects_outlive_the_module_variable(gray):
    module = tvm_ffi.load_module(os.environ["IMAGEKIT_LIBRARY"], keep_module_alive=False)
    histogram, brighten = module.histogram(gray), module.make_scaler(1.6)
    del module
    assert histogram.total == gray.size
    assert np.from_dlpack(brighten(gray)).shape == gray.shape
