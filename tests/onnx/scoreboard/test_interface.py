"""Tests of `kernpack_onnx.backend` in addition to those of ONNX: devices, the forms of values, and messages of mistakes."""

import kernpack_onnx.backend as backend
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(nodes, inputs, outputs, initializers=(), opset=17, **options):
    """A model of nodes (operator, inputs, outputs, attributes) and values (name, element type, extents)."""
    made = [helper.make_node(node[0], node[1], node[2], **(node[3] if len(node) > 3 else {})) for node in nodes]
    infos = [[helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs)]
    graph = helper.make_graph(made, "small", *infos, list(initializers))
    return helper.make_model(graph, **{"opset_imports": [helper.make_opsetid("", opset)], "ir_version": 8, **options})


def added(shape=(2, 3), **options):
    return model([("Add", ["a", "b"], ["c"])], [("a", FLOAT, shape), ("b", FLOAT, shape)], [("c", FLOAT, shape)], **options)


A = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_devices():
    assert backend.supports_device("CPU") and backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA") and not backend.supports_device("CUDA:1")
    assert backend.is_compatible(added()) and not backend.is_compatible(added(), "CUDA")
    with pytest.raises(BackendIsNotSupposedToImplementIt, match="device CUDA is not supported: this backend runs models on the CPU"):
        backend.prepare(added(), "CUDA")


def test_values_by_position_and_by_name():
    prepared = backend.prepare(added())
    for given in ([A, A + 1], (A, A + 1), {"b": A + 1, "a": A}):
        results = prepared.run(given)
        assert isinstance(results, tuple) and len(results) == 1
        np.testing.assert_array_equal(results[0], 2 * A + 1)
    # Arrays whose elements are not in order, and read-only ones.
    turned = np.asfortranarray(A)
    turned.flags.writeable = False
    np.testing.assert_array_equal(prepared.run([turned, A[::-1]])[0], A + A[::-1])


def test_extents_that_a_call_tells():
    prepared = backend.prepare(added(("rows", 3)))
    for rows in (1, 4, 1):
        x = np.ones((rows, 3), np.float32)
        np.testing.assert_array_equal(prepared.run([x, x])[0], x + x)
    reshaped = backend.prepare(model([("Reshape", ["x", "s"], ["y"])], [("x", FLOAT, (2, 3)), ("s", INT64, (2,))], [("y", FLOAT, None)]))
    for shape in ((3, 2), (6, 1)):
        assert reshaped.run([A, np.array(shape)])[0].shape == shape


def test_more_variants_than_are_kept():
    prepared = backend.prepare(added(("rows", 3)))
    for rows in [*range(1, backend.VARIANTS + 3), 1]:
        x = np.full((rows, 3), rows, np.float32)
        np.testing.assert_array_equal(prepared.run([x, x])[0], x + x)


def test_inputs_with_a_value_in_the_file():
    default = helper.make_tensor("b", FLOAT, (2, 3), [1.0] * 6)
    prepared = backend.prepare(added(initializers=[default]))
    np.testing.assert_array_equal(prepared.run([A])[0], A + 1)
    np.testing.assert_array_equal(prepared.run([A, A])[0], A + A)
    np.testing.assert_array_equal(prepared.run({"a": A, "b": A * 2})[0], A * 3)


def test_element_types_that_numpy_lacks():
    for element in ("bfloat16", "float8_e4m3fn", "int4", "uint4", "int2", "float4_e2m1fn"):
        dtype = np.dtype(getattr(ml_dtypes, element))
        kind = helper.np_dtype_to_tensor_dtype(dtype)
        x = np.array([1, 0, 1, 1]).astype(dtype)
        same = model([("Identity", ["x"], ["y"])], [("x", kind, (4,))], [("y", kind, (4,))], opset=25, ir_version=13)
        (y,) = backend.run_model(same, [x])
        assert y.dtype == dtype
        np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))


def test_one_node():
    (y,) = backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [A - 2])
    np.testing.assert_array_equal(y, np.maximum(A - 2, 0))
    split = helper.make_node("Split", ["x"], ["y", "z"], axis=1, num_outputs=2)
    y, z = backend.run_node(split, {"x": np.ones((2, 4), np.float32)}, opset_version=18)
    assert y.shape == z.shape == (2, 2)
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT32)
    (y,) = backend.run_node(cast, [A], outputs_info=[(np.int32, (2, 3))])
    assert y.dtype == np.int32
    (y,) = backend.run_node(helper.make_node("Add", ["x", "x"], ["y"]), [A])
    np.testing.assert_array_equal(y, A + A)


def custom():
    return model([("Snore", ["x"], ["y"], {"domain": "org.example"})], [("x", FLOAT, (2, 3))], [("y", FLOAT, (2, 3))], opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("org.example", 1)])


@pytest.mark.parametrize(
    ("call", "kind", "expected"),
    [
        (lambda: backend.prepare(added(opset=99)), ValueError, ["99", "28"]),
        (lambda: backend.prepare(added(("rows", 3), opset=99)), ValueError, ["99", "28"]),
        (lambda: backend.prepare(added(ir_version=99)), ValueError, ["version 99 of the file format", "newest that is supported is 14"]),
        (lambda: backend.prepare(custom()), ValueError, ["operator org.example.Snore is not supported"]),
        (lambda: backend.prepare("model.onnx"), TypeError, ["a model is an onnx.ModelProto, got str: read a file by onnx.load(path)"]),
        (lambda: backend.prepare(added(), speed=3), TypeError, ["prepare takes a model and a device only, got speed as well"]),
        (lambda: backend.run_model(added(), [A]), TypeError, ["'b' is missing: the model takes a, b"]),
        (lambda: backend.run_model(added(), []), TypeError, ["'a', 'b' is missing: the model takes a, b"]),
        (lambda: backend.run_model(added(), [A, A, A]), TypeError, ["the model takes 2 inputs (a, b), got 3"]),
        (lambda: backend.run_model(added(), {"a": A, "x": A}), TypeError, ["the model has no input 'x'; it has: a, b"]),
        (lambda: backend.run_model(added(), [A, None]), TypeError, ["input 'b' is None, and has to be an array"]),
        (lambda: backend.run_model(added(), [A, A.astype(np.float64)]), TypeError, ["input 'b' is float64, and has to be float32"]),
        (lambda: backend.run_model(added(), [A, A[:1]]), ValueError, ["input 'b' is [1, 3], and has to be [2, 3]"]),
        (lambda: backend.run_model(added(), [A, A.reshape(-1)]), ValueError, ["input 'b' is [6], and has to be [2, 3]"]),
        (lambda: backend.run_model(added(("n", 3)), [A, A[:, :2]]), ValueError, ["input 'b' is [2, 2], and has to be [any, 3]"]),
        (lambda: backend.run_model(added(), [A, "text"]), TypeError, ["input 'b' is <U4, and has to be float32"]),
        (lambda: backend.prepare(added()).run([A, A], threads=2), TypeError, ["run takes inputs only, got threads as well"]),
        (lambda: backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [A, A]), TypeError, ["Relu has 1 inputs (x), got 2"]),
        (lambda: backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [A], fast=1), TypeError, ["run_node takes opset_version as an option, got fast as well"]),
        (lambda: backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [A], opset_version=99), Exception, ["99"]),
    ],
)  # fmt: skip
def test_mistakes_are_named(call, kind, expected):
    with pytest.raises(kind) as raised:
        call()
    for text in expected:
        assert text in str(raised.value), str(raised.value)
    # A mistake of a caller never counts as an unsupported test.
    assert not isinstance(raised.value, BackendIsNotSupposedToImplementIt)


def test_sequences_and_texts():
    infos = [helper.make_tensor_sequence_value_info("s", FLOAT, None), helper.make_tensor_value_info("i", INT64, ())]
    node = helper.make_node("SequenceAt", ["s", "i"], ["y"])
    picked = helper.make_model(helper.make_graph([node], "small", infos, [helper.make_tensor_value_info("y", FLOAT, None)]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    prepared = backend.prepare(picked)
    for index in (0, 1):
        np.testing.assert_array_equal(prepared.run([[A, A[:1]], np.array(index)])[0], [A, A[:1]][index])
    with pytest.raises(TypeError, match="input 's' is a sequence and takes a list of arrays, got ndarray"):
        prepared.run([A, np.array(0)])
    text = TensorProto.STRING
    joined = model([("StringConcat", ["a", "b"], ["c"])], [("a", text, (2,)), ("b", text, (2,))], [("c", text, (2,))], opset=20)
    assert list(backend.run_model(joined, [np.array(["a", "b"]), np.array(["x", "y"], object)])[0]) == ["ax", "by"]
    with pytest.raises(TypeError, match="input 'b' is float32, and has to be an array of texts"):
        backend.run_model(joined, [np.array(["a", "b"]), A[0, :2]])


def test_models_are_kept_apart():
    first, second = backend.prepare(added()), backend.prepare(model([("Mul", ["a", "b"], ["c"])], [("a", FLOAT, (2, 3)), ("b", FLOAT, (2, 3))], [("c", FLOAT, (2, 3))]))
    for _ in range(2):
        np.testing.assert_array_equal(first.run([A, A])[0], A + A)
        np.testing.assert_array_equal(second.run([A, A])[0], A * A)
    assert onnx.checker.check_model(added()) is None
