"""Models in Python: files of ONNX and networks of PyTorch as functions of arrays, and as libraries.

PYTHON_COMPILER_LIBRARY names the library; KERNPACK_TORCH_PYTHON a Python that has PyTorch.
"""

import os
import subprocess
import sys
from pathlib import Path

import models
import numpy as np
import pytest
import tvm_ffi
from compiler import PassContext, ir, te

FOLDER = Path(__file__).parent
PERCEPTRON = FOLDER.parents[2] / "build-support/graph/tests/data/perceptron.onnx"
FLOAT, INT64, BOOL = 1, 7, 9


def perceptron():
    """relu(x w + b) u, with a named batch dimension; an input, and the scores."""
    return np.arange(8, dtype=np.float32).reshape(2, 4) - 3, [[10.0, -10.0, 66.0], [-38.0, 72.0, 5.0]]


def varint(value):
    return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + varint(value // 128)


def field(number, value):
    """A field of a protobuf message: an integer, a text, or another message."""
    if isinstance(value, int):
        return varint(number * 8) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number * 8 + 2) + varint(len(value)) + value


def onnx(nodes, inputs, outputs, weights=None, opset=17):
    """The bytes of a model: nodes are (operator, inputs, outputs) with an operator that may have a domain, values (name, element type, extents or names of them), weights arrays of floats by name."""

    def value(name, element, dims):
        shape = b"".join(field(1, field(1 if isinstance(dim, int) else 2, dim)) for dim in dims)
        return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)))

    def node(op, takes, gives):
        domain, _, name = op.rpartition(".")
        return b"".join([*(field(1, value) for value in takes), *(field(2, value) for value in gives), field(4, name), field(7, domain)])

    graph = [field(1, node(*one)) for one in nodes] + [field(2, "small")]
    for name, array in (weights or {}).items():
        dims = b"".join(field(1, extent) for extent in array.shape)
        graph.append(field(5, dims + field(2, FLOAT) + field(8, name) + field(9, array.astype("<f4").tobytes())))
    graph += [field(11, value(*one)) for one in inputs] + [field(12, value(*one)) for one in outputs]
    return field(1, 8) + field(7, b"".join(graph)) + field(8, field(2, opset))


def test_dimensions_that_each_call_tells():
    path = PERCEPTRON.with_name("attention.onnx")
    model = models.from_onnx(path, dims_up_to={"batch": 5}, dims_in={"words": [4, 6]})
    assert "\n  batch is 1 to 5; shown is the graph of the largest" in str(model) and "\n  words is 4 or 6; " in str(model)
    run = models.compile(model)
    for batch, words in [(1, 4), (5, 6), (3, 4)]:
        shares = run(np.ones((batch, words, 2)))
        assert shares.shape == (batch, words, words) and np.allclose(shares, 1 / words)
    for shape, problem in [((1, 5, 2), "the dimension 'words' is 5, and has to be 4 or 6"), ((6, 4, 2), "the dimension 'batch' is 6, and has to be 1 to 5"), ((4, 2), "input 'x' has 3 dimensions")]:
        with pytest.raises(ValueError, match=problem):
            run(np.ones(shape))
    with pytest.raises(ValueError, match=r"say one extent, `dims=\{\"words\": extent\}`, or several that a call may have, `dims_in="):
        models.from_onnx(path, dims={"batch": 1}, dims_up_to={"words": 8})


def test_a_file():
    model = models.from_onnx(PERCEPTRON, dims={"batch": 2})
    described = [(argument.name, str(argument.dtype), tuple(argument.shape)) for argument in (*model.inputs, *model.outputs)]
    assert described == [("x", "float32", (2, 4)), ("scores", "float32", (2, 3))]
    assert "= Relu(" in str(model) and str(model).endswith("return scores\n"), str(model)
    weights = model.known_values()
    assert sorted(tuple(np.from_dlpack(value).shape) for value in weights.values())
    x, expected = perceptron()
    for level in range(4):
        run = models.compile(models.from_onnx(PERCEPTRON, dims={"batch": 2}, plain=level == 0), opt_level=level)
        np.testing.assert_array_equal(run(x), expected)
        np.testing.assert_array_equal(run(x=x.tolist()), expected)
    # Strides other than those of C are no matter.
    np.testing.assert_array_equal(run(np.asfortranarray(x)), expected)
    assert len(models.compile(model, opt_level=1).program.functions) > len(models.compile(model).program.functions)


def test_a_library_needs_no_compiler(tmp_path):
    run = models.compile(models.from_onnx(PERCEPTRON.read_bytes(), dims={"batch": 2}), "perceptron")
    path = tmp_path / "libperceptron.so"
    run.export_library(path)
    program = """
import sys, numpy as np, tvm_ffi
scores = np.empty((2, 3), np.float32)
tvm_ffi.load_module(sys.argv[1]).perceptron(np.arange(8, dtype=np.float32).reshape(2, 4) - 3, scores)
print(scores.tolist())
"""
    ended = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, f"{perceptron()[1]}\n"), ended.stderr


def test_results_whose_extents_depend_on_data():
    nodes = [("Relu", ["x"], ["y"]), ("NonZero", ["y"], ["places"])]
    source = onnx(nodes, [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", 3]), ("places", INT64, [2, "m"])])
    model = models.from_onnx(source, inputs={"x": [2, 3]})
    names = [(argument.name, argument.extents) for argument in model.outputs]
    assert names == [("y", None), ("places", "places_extents"), ("places_extents", None)]
    x = np.array([[1, -1, 2], [0, 3, -4]], np.float32)
    y, places = models.compile(model)(x)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    np.testing.assert_array_equal(places, np.nonzero(np.maximum(x, 0)))
    # One output alone.
    [only] = models.from_onnx(source, dims={"n": 2}, outputs=["y"]).outputs
    assert only.name == "y"


def test_inputs_that_are_known():
    nodes = [("Reshape", ["x", "shape"], ["rows"]), ("Not", ["rows"], ["y"])]
    source = onnx(nodes, [("x", BOOL, [6]), ("shape", INT64, [2])], [("y", BOOL, ["a", "b"])])
    model = models.from_onnx(source, constants={"shape": np.array([3, 2])})
    x = np.array([True, False, False, True, True, True])
    result = models.compile(model)(x)
    assert result.dtype == bool
    np.testing.assert_array_equal(result, ~x.reshape(3, 2))


def test_weights_of_half_the_size():
    # Integers that are the same in all of these types.
    w = (np.arange(32 * 16) % 7 - 3).reshape(32, 16).astype(np.float32)
    x = (np.arange(64) % 5 - 2).reshape(2, 32).astype(np.float32)
    source = onnx([("MatMul", ["x", "w"], ["y"])], [("x", FLOAT, [2, 32])], [("y", FLOAT, [2, 16])], {"w": w})
    for name in (None, "float16", "bfloat16"):
        model = models.from_onnx(source, weights=name)
        # The matrix is packed in panels, and its original is not kept.
        assert [str(value.dtype) for value in model.known_values().values() if np.prod(value.shape) == 512] == [name or "float32"]
        np.testing.assert_array_equal(models.compile(model)(x), x @ w)


def test_operators_that_onnx_does_not_have():
    source = onnx(
        [("Neg", ["x"], ["n"]), ("org.example.Shifted", ["n", ""], ["s"]), ("Relu", ["s"], ["y"])],
        [("x", FLOAT, [2, 3])],
        [("y", FLOAT, [2, 3])],
    )

    def shifted(attrs, inputs):
        data, missing = inputs
        assert dict(attrs) == {} and missing is None
        return te.compute(data.shape, lambda i, j: data[i, j] + 1.5, "shifted")

    x = np.array([[1, -1, 2], [0, 3, -4]], np.float32)
    for operator, kernels in [(shifted, 3), ((shifted, "elementwise"), 1)]:
        model = models.from_onnx(source, operators={"org.example.Shifted": operator})
        assert "s: f32[2, 3] = org.example.Shifted(n, _)" in str(model)
        run = models.compile(model)
        assert sum(".kernel" in function.name for function in run.program.functions) == kernels
        np.testing.assert_array_equal(run(x), np.maximum(1.5 - x, 0))

    def broken(attrs, inputs):
        raise ValueError("no")

    for operators, expected in [
        ({}, "operator org.example.Shifted is not supported, 1 node uses it ('s'): say what it computes, `operators={\"org.example.Shifted\": compute}`"),
        ({"org.example.Shifted": broken}, "node 's' (org.example.Shifted): no"),
        ({"org.example.Shifted": (shifted, "fast")}, "unknown pattern `fast`: the patterns are elementwise, injective,"),
    ]:
        with pytest.raises(ValueError) as raised:
            models.from_onnx(source, operators=operators)
        assert expected in str(raised.value), str(raised.value)


def test_a_pass_sees_the_program_of_a_model():
    seen = []

    def look(program, context):
        tvm_ffi.structural_walk(program, (ir.For, lambda loop: seen.append(loop.var.name)))
        context.note(f"{len(seen)} loops")
        return program

    model = models.from_onnx(PERCEPTRON, dims={"batch": 2})
    context = PassContext()
    context.pipeline = [look, "Simplify"]
    # The pipeline of the context is that of the kernels, not one more.
    with pytest.raises(ValueError, match="unknown pass `Nothing`"):
        broken = PassContext()
        broken.pipeline = ["Nothing"]
        models.compile(model, context=broken)
    model.lower("run", "llvm", context, 2)
    assert seen and any("loops" in note for note in context.take_notes())


def test_mistakes_are_named(tmp_path):
    x, _ = perceptron()
    run = models.compile(models.from_onnx(PERCEPTRON, dims={"batch": 2}))
    strange = onnx([("Snore", ["x"], ["y"])], [("x", FLOAT, [3])], [("y", FLOAT, [3])])
    (tmp_path / "cut.onnx").write_bytes(PERCEPTRON.read_bytes()[:100])
    for call, expected in [
        (lambda: models.from_onnx(PERCEPTRON), "input 'x': dimension 0 ('batch') is not known: say `dims={\"batch\": extent}`, or `inputs={\"x\": [..]}`"),
        (lambda: models.from_onnx(PERCEPTRON, inputs={"z": [1]}), "the model has no input 'z'; it has: x"),
        (lambda: models.from_onnx(PERCEPTRON, dims={"batch": 2}, outputs=["z"]), "the model has no value 'z'"),
        (lambda: models.from_onnx("nothing.onnx"), "nothing.onnx: cannot be read: No such file"),
        (lambda: models.from_onnx(tmp_path / "cut.onnx"), "cut.onnx: "),
        (lambda: models.from_onnx(strange), "operator Snore is not supported, 1 node uses it ('y'): say what it computes, `operators={\"Snore\": compute}`"),
        (lambda: models.compile(models.from_onnx(PERCEPTRON, dims={"batch": 2}), "7 up"), "`7 up` is not a name of a function: take `m7_up`"),
        (lambda: models.compile(models.from_onnx(PERCEPTRON, dims={"batch": 2}), opt_level=4), "opt_level is 4, and has to be 0, 1, 2 or 3"),
        (lambda: models.graph.from_onnx(3, {}), "a model is the path of a file or its bytes, got int"),
        (lambda: models.graph.from_onnx("a", {"dim": {}}), "unknown option `dim`: the options are dims, dims_up_to, dims_in, dims_range, dims_sum, inputs,"),
        (lambda: models.from_onnx(PERCEPTRON, dims={"batch": 2}, weights="int8"), "weights"),
        (lambda: run(), "run takes x; got 0 values by position, and none by name"),
        (lambda: run(x, x=x), "run takes x; got 1 values by position, and x by name"),
        (lambda: run(x[:1]), "input 'x' is [1, 4], and has to be [2, 4]"),
    ]:
        with pytest.raises(Exception) as raised:
            call()
        assert expected in str(raised.value), str(raised.value)


def test_any_extents_of_a_range():
    run = models.compile(models.from_onnx(PERCEPTRON, dims_range={"batch": [1, 8]}))
    for batch in [1, 2, 8]:
        x = np.linspace(-3, 4, batch * 4, dtype=np.float32).reshape(batch, 4)
        np.testing.assert_array_equal(run(x), models.compile(models.from_onnx(PERCEPTRON, dims={"batch": batch}))(x))
    with pytest.raises(ValueError, match="the dimension 'batch' is 9, and has to be 1 to 8"):
        run(np.zeros((9, 4), np.float32))
    with pytest.raises(ValueError, match="the model has no dimension 'rows' that is open"):
        models.from_onnx(PERCEPTRON, dims_range={"batch": [1, 8]}, dims_sum={"rows": "batch + 1"})
    even = models.compile(models.from_onnx(PERCEPTRON, dims_range={"batch": [2, 8, 2]}))
    x = np.linspace(-3, 4, 24, dtype=np.float32).reshape(6, 4)
    np.testing.assert_array_equal(even(x), run(x))
    with pytest.raises(ValueError, match="the dimension 'batch' is 3, and has to be a multiple of 2 from 2 to 8"):
        even(x[:3])
    with pytest.raises(ValueError, match="is given multiples of 4, and 2 is not one"):
        models.from_onnx(PERCEPTRON, dims_range={"batch": [2, 8, 4]})


def test_a_network_of_pytorch(tmp_path):
    system = os.environ.get("KERNPACK_TORCH_PYTHON")
    if not system:
        assert not os.environ.get("CI"), "KERNPACK_TORCH_PYTHON is not set"
        pytest.skip("KERNPACK_TORCH_PYTHON is not set to a Python with PyTorch (cargo xtask test sets it)")
    # Debian's PyTorch is where only the system's own packages are.
    subprocess.run([system, "-m", "venv", "--system-site-packages", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", "--only-binary=:all:"]
    subprocess.run([*install, "apache-tvm-ffi==0.1.15.post2"], check=True)
    # tvm_ffi would compile a faster way for this PyTorch, which takes a minute.
    environment = {**os.environ, "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1"}
    ended = subprocess.run([python, FOLDER / "torch_model.py", tmp_path], capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("the network and its library differ by at most"), ended.stdout
