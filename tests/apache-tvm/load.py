"""Our libraries in a process of Apache TVM 0.27: load.py ORDER LIBRARY..., where ORDER is `tvm-first` or `library-first`.

The libraries are libconversions.so (tests/conversions-lib) and libimagekit.so (examples/imagekit). Says `ok` for each; exit status 1
when a check fails. `tests/apache_tvm.rs` runs it, with the version of apache-tvm-ffi that TVM pins, too.
"""

import sys
from pathlib import Path

import numpy as np
import tvm_ffi

ORDER, *LIBRARIES = sys.argv[1:]
assert ORDER in ("tvm-first", "library-first"), ORDER
assert "tvm" not in sys.modules

if ORDER == "tvm-first":
    import tvm

    MODULES = [tvm.runtime.load_module(path) for path in LIBRARIES]
else:
    MODULES = [tvm_ffi.load_module(path) for path in LIBRARIES]
    import tvm


def tensor(values):
    """An array of TVM's."""
    result = tvm.runtime.tensor(values)
    assert isinstance(result, tvm.runtime.Tensor)
    return result


def fails(kind, message, call, *arguments):
    """Makes a call that must fail with this error."""
    try:
        call(*arguments)
    except kind as error:
        assert message in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")


def conversions(library):
    """Functions of values, callbacks, arrays and objects."""
    assert library.kind == "library" and library["add"](40, 2) == 42
    assert tvm.get_global_func("conversions.add")(1, 2) == 3
    assert library["apply"](lambda x: x * 2, 21) == 42
    assert library["sum_f32"](tensor(np.array([1, 2, 4], "float32"))) == 7.0
    array = tensor(np.array([1, 2, 3], "int32"))
    library["increase_i32"](array, 5)
    assert array.numpy().tolist() == [6, 7, 8]
    copy = tensor(np.zeros((2, 3), "int32"))
    library["copy_i32"](tensor(np.arange(6, dtype="int32").reshape(2, 3)), copy)
    np.testing.assert_array_equal(copy.numpy(), np.arange(6).reshape(2, 3))
    dtype, device, shape = library["tensor_facts"](tensor(np.zeros((4, 5), "float16")))
    assert (str(dtype), str(device), tuple(shape)) == ("float16", "cpu:0", (4, 5))
    assert tuple(library["coordinates"](library["point"](3, 4))) == (3, 4)
    fails(TypeError, "add(a: int, b: int): argument 'a': expected int, got str", library["add"], "x", 2)
    fails(ValueError, "zero", library["apply"], raise_value_error, 0)
    # A module of TVM's compiler, passed to our module, which imports it.
    compiled = tvm.compile(tvm.IRModule({"scale": scale()}), target="llvm").mod
    assert library["module_kind"](compiled) == "llvm"
    library.import_module(compiled)
    assert [module.kind for module in library.imports] == ["llvm"]
    output = tensor(np.zeros(8, "float32"))
    library.get_function("scale", query_imports=True)(tensor(np.arange(8, dtype="float32")), output)
    assert output.numpy().tolist() == [2.0 * i for i in range(8)]
    library.clear_imports()
    assert list(library.imports) == [] and not library.implements_function("scale", True)


def raise_value_error(x):
    """A callback that fails."""
    raise ValueError(f"zero is {x}")


def scale():
    """A function for TVM's compiler."""
    a = tvm.te.placeholder((8,), "float32", name="A")
    b = tvm.te.compute((8,), lambda i: a[i] * 2.0, name="B")
    return tvm.te.create_prim_func([a, b]).with_attr("global_symbol", "scale")


def imagekit(library):
    """Kernels in Rust, C and LLVM IR, objects, and an image for CUDA if it was built."""
    picture = np.random.default_rng(1).integers(0, 256, (5, 7, 3), dtype="uint8")
    gray = library["imagekit.to_gray"](tensor(picture))
    weights = np.array([0.299, 0.587, 0.114], "float32")
    np.testing.assert_allclose(gray.numpy(), picture.astype("float32") @ weights, rtol=1e-5)
    cropped = library["crop"](gray, 1, 2, 3, 4)
    assert isinstance(cropped, tvm.runtime.Tensor)
    np.testing.assert_array_equal(cropped.numpy(), gray.numpy()[1:4, 2:6])
    rows = library["map_rows"](gray, lambda row, index: tensor(row.numpy() * 2))
    np.testing.assert_array_equal(rows.numpy(), gray.numpy() * 2)
    histogram = library["histogram"](gray)
    assert sum(histogram.bins) == histogram.total == gray.numpy().size
    flat, blurred, edges = (tensor(np.full((5, 7), value, "float32")) for value in (3, np.nan, np.nan))
    library["blur"](flat, blurred, 2)
    np.testing.assert_allclose(blurred.numpy(), flat.numpy(), atol=1e-5)
    library["sobel"](flat, edges)
    np.testing.assert_array_equal(edges.numpy()[1:-1, 1:-1], 0)
    assert str(library["describe"](gray)["dtype"]) == "float32"
    kinds = [module.kind for module in library.imports]
    # With a CUDA compiler there is a CUDA image, too.
    assert sorted(kinds) in (["opencl"], ["cuda", "opencl"]), kinds
    for image in library.imports:
        assert image.is_binary_serializable() and image.get_write_formats()


for module, path in zip(MODULES, LIBRARIES):
    name = Path(path).stem.removeprefix("lib")
    {"conversions": conversions, "imagekit": imagekit}[name](module)
    print(f"{name}: ok")
print(f"tvm_ffi {tvm_ffi.__version__}")
