"""The library beside onnxruntime with the same model, on several photographs: the same five classes, and the same scores.

IMAGENET_LIBRARY and IMAGENET_MODEL name the library and its model, IMAGENET_PHOTOS a folder with photographs (`cargo xtask imagenet` sets them).
"""

import io
import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm_ffi
from PIL import Image

FOLDER = Path(os.environ["IMAGENET_PHOTOS"])
PHOTOS = sorted(FOLDER.glob("*.jpg"))
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Of onnxruntime's own difference between optimized and not.
TIMES = 10
LEAST = 1e-6


def session(level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(os.environ["IMAGENET_MODEL"], options, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="session")
def library():
    return tvm_ffi.load_module(os.environ["IMAGENET_LIBRARY"])


@pytest.fixture(scope="session")
def sessions():
    """Without optimizations, and with all."""
    levels = onnxruntime.GraphOptimizationLevel
    return session(levels.ORT_DISABLE_ALL), session(levels.ORT_ENABLE_ALL)


def saved(picture, kind, **options):
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def variants():
    """Photographs as files of many kinds, by name."""
    for path in PHOTOS:
        yield path.name, path.read_bytes()
    picture = Image.open(PHOTOS[0])
    yield "progressive JPEG", saved(picture, "JPEG", progressive=True, quality=85)
    yield "gray JPEG", saved(picture.convert("L"), "JPEG")
    yield "portrait PNG", saved(picture.transpose(Image.Transpose.ROTATE_90), "PNG")
    yield "transparent PNG", saved(picture.convert("RGBA"), "PNG")
    yield "gray PNG", saved(picture.convert("L"), "PNG")
    yield "PNG with a palette", saved(picture.convert("P", palette=Image.Palette.ADAPTIVE), "PNG")
    yield "small PNG", saved(picture.resize((40, 30)), "PNG")
    yield "large JPEG", saved(picture.resize((2000, 1500)), "JPEG")


FILES = dict(variants()) if PHOTOS else {}


def reference(content):
    """What torchvision's Resize(256), CenterCrop(224) and Normalize make of a photograph."""
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    width, height = picture.size
    size = (256, 256 * height // width) if width <= height else (256 * width // height, 256)
    picture = picture.resize(size, Image.Resampling.BILINEAR)
    left, top = round((size[0] - 224) / 2), round((size[1] - 224) / 2)
    pixels = np.asarray(picture.crop((left, top, left + 224, top + 224)), np.float32) / 255
    return ((pixels - np.float32(MEAN)) / np.float32(DEVIATION)).transpose(2, 0, 1)[None]


def shares(scores):
    exponents = np.exp((scores - scores.max()).astype(np.float64))
    return exponents / exponents.sum()


def test_there_are_photographs():
    assert len(PHOTOS) >= 2 and len(FILES) >= 10


@pytest.mark.parametrize("name", FILES)
def test_the_same_five_classes(library, sessions, name):
    x = np.from_dlpack(library.prepare(FILES[name]))
    plain, optimized = (one.run(None, {one.get_inputs()[0].name: x})[0][0] for one in sessions)
    tolerance = max(TIMES * np.abs(plain - optimized).max(), LEAST * np.abs(plain).max())
    scores = np.empty((1, 1000), np.float32)
    library.resnet18(x, scores)
    difference = np.abs(scores[0] - plain).max()
    print(f"{name}: scores up to {np.abs(plain).max():.2f}, largest difference {difference:.1e}, tolerance {tolerance:.1e}")
    assert difference <= tolerance
    found = library.classify_bytes(FILES[name])
    expected = np.argsort(-plain, kind="stable")[:5]
    assert [one.number for one in found] == expected.tolist()
    np.testing.assert_allclose([one.score for one in found], shares(plain)[expected], rtol=2 * tolerance)
    assert [one.label for one in found] == [f"class {number}" for number in expected]


@pytest.mark.parametrize("name", FILES)
def test_what_the_network_sees(library, name):
    x = np.from_dlpack(library.prepare(FILES[name]))
    assert (x.shape, x.dtype) == ((1, 3, 224, 224), np.float32)
    # Pillow rounds to 8 bits after each direction; decoders of JPEG files may differ by a few levels of 255 where colors change.
    difference = np.abs(x - reference(FILES[name])) * np.float32(DEVIATION)[:, None, None] * 255
    print(f"{name}: differs from Pillow by {difference.mean():.2f} levels of 255, at most by {difference.max():.1f}")
    assert difference.mean() <= 0.75 and difference.max() <= 16


def test_scores_are_shares(library):
    for content in FILES.values():
        found = [one.score for one in library.classify_bytes(content)]
        assert found == sorted(found, reverse=True) and 0 < sum(found) <= 1


def test_what_is_no_photograph(library, tmp_path):
    broken = PHOTOS[0].read_bytes()
    (tmp_path / "text.jpg").write_text("no photograph")
    for call, kind, expected in [
        (lambda: library.classify_path(str(tmp_path / "nothing.jpg")), RuntimeError, "nothing.jpg: No such file"),
        (lambda: library.classify_path(str(tmp_path / "text.jpg")), ValueError, "text.jpg: neither a JPEG nor a PNG file"),
        (lambda: library.classify_bytes(broken[:200]), ValueError, "not a JPEG file that can be read"),
        (lambda: library.resnet18(np.zeros((1, 3, 224, 223), np.float32), np.zeros((1, 1000), np.float32)), ValueError, "224"),
    ]:
        with pytest.raises(kind, match=expected):
            call()


def test_hostile_files_are_errors(library):
    """Files with some bytes changed are decoded, or refused; nothing else happens."""
    random = np.random.default_rng(1)
    for content in (FILES["small PNG"], saved(Image.open(io.BytesIO(FILES["small PNG"])).convert("RGB"), "JPEG")):
        for _ in range(200):
            changed = bytearray(content)
            for place in random.integers(0, len(changed), 4):
                changed[place] = random.integers(256)
            try:
                assert np.isfinite(np.from_dlpack(library.prepare(bytes(changed)))).all()
            except ValueError as error:
                assert str(error)
