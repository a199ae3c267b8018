"""Programs for NNVM: graphs, passes, builds, checkpoints of MXNet, ONNX models, training. PYTHON_COMPILER_LIBRARY names the library."""

import json
import struct
import subprocess
import sys
import threading

import nnvm
import nnvm.compiler
import nnvm.testing
import numpy as np
import onnx
import onnx.reference
import pytest
import tvm
from nnvm import sym
from nnvm.compiler import graph_attr, graph_util
from nnvm.testing.check_computation import check_function
from onnx import TensorProto, helper, numpy_helper
from tvm.contrib import graph_runtime, util

RNG = np.random.RandomState(7)


def floats(*shape):
    return RNG.uniform(-1, 1, shape).astype("float32")


def run(net, shapes, inputs, params=None, opt_level=2):
    """The outputs of a network that is built at a level."""
    with nnvm.compiler.build_config(opt_level=opt_level):
        graph, library, params = nnvm.compiler.build(net, "llvm", shape=shapes, params=params)
    module = graph_runtime.create(graph, library, tvm.cpu(0))
    module.set_input(**params)
    module.run(**inputs)
    return [module.get_output(number).asnumpy() for number in range(module.get_num_outputs())]


# Symbols.


def test_names_and_attributes():
    data = sym.Variable("data")
    with nnvm.attribute.AttrScope(__group__="4"), nnvm.name.Prefix("net_"):
        net = sym.relu(sym.dense(data, units=3))
    assert net.list_input_names() == ["data", "net_dense0_weight", "net_dense0_bias"]
    assert net.list_output_names() == ["net_relu0_output"]
    assert net.list_attr(recursive=True)["net_dense0$units"] == "3"
    assert net.attr("__group__") == "4" and net.attr("op_name") == "relu" and net.attr("units") is None
    assert net.get_children().list_output_names() == ["net_dense0_output"]
    assert net.get_internals()["net_dense0_output"].attr("units") == "3"
    assert data.get_children() is None and data.attr("op_name") == "null"
    other = net(data=sym.tanh(sym.Variable("y"), name="t"))
    assert other.list_input_names()[0] == "y" and net.list_input_names()[0] == "data"
    assert sym.batch_norm(data, name="b").list_output_names() == ["b_output"]


def test_mistakes():
    x = sym.Variable("x")
    for program, error, text in [
        (lambda: sym.elemwise_add(x), nnvm.NNVMError, "expected 2 inputs, lhs and rhs, got 1"),
        (lambda: sym.dense(x, unit=3), nnvm.NNVMError, "attribute `unit` is unknown; known: units, use_bias"),
        (lambda: sym.dense(x, wheight=x, units=3), nnvm.NNVMError, "no input `wheight`"),
        (lambda: sym.relu(3), TypeError, "input 0 is to be a Symbol, got int"),
        (lambda: sym.convolve(x), AttributeError, "convolve"),
        (lambda: x["y"], nnvm.NNVMError, "the outputs are x"),
        (lambda: x[1], IndexError, "output 1 of 1"),
        (lambda: nnvm.graph.create(x).apply("NoPass"), nnvm.NNVMError, "NoPass"),
        (lambda: nnvm.compiler.build(x + 1, "llvm"), nnvm.NNVMError, "shapes of variable 'x'"),
        (lambda: nnvm.compiler.build(x + 1), RuntimeError, "no target"),
        (lambda: nnvm.compiler.build_config(opt_levl=3), ValueError, "unknown option opt_levl"),
        (lambda: tvm.context("tpu"), ValueError, "unknown device 'tpu'"),
        (lambda: tvm.nd.array(np.zeros(2), tvm.gpu()), ValueError, "use tvm.cpu()"),
        (lambda: graph_util.gradients(sym.argmax(x), x), nnvm.NNVMError, "no FGradient"),
    ]:
        with pytest.raises(error) as raised:
            program()
        assert text in str(raised.value)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: 2 + x, lambda x, y: 2 - x,
        lambda x, y: 2 / x, lambda x, y: x**2, lambda x, y: 2**x, lambda x, y: -x / 2, lambda x, y: (x - 1) * 3,
    ],
)  # fmt: skip
def test_arithmetic(program):
    values = {"x": floats(3, 4) + 2, "y": floats(4) + 3}
    net = program(sym.Variable("x"), sym.Variable("y"))
    shapes = {name: values[name].shape for name in net.list_input_names()}
    [result] = run(net, shapes, {name: values[name] for name in shapes})
    np.testing.assert_allclose(result, program(**values), rtol=1e-5)


def test_transposed_products():
    a, b = floats(5, 3, 2), floats(7, 6, 5)
    net = sym.matmul(sym.Variable("a"), sym.Variable("b"), transpose_a=True, transpose_b=True)
    [result] = run(net, {"a": a.shape, "b": b.shape}, {"a": a, "b": b})
    np.testing.assert_allclose(result, np.tensordot(a.T, b.T, 1), rtol=1e-5)


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"begin": (1, 0), "end": (3, 4)}, np.s_[1:3, 0:4]),
        ({"begin": (1, 1, 0), "end": (3, 4)}, np.s_[1:3, 1:4]),
        ({"begin": (1,), "end": (4, -1, 2)}, np.s_[1:4, :-1, :2]),
        ({"begin": (-1,), "end": (-4,), "stride": (-1, -2)}, np.s_[-1:-4:-1, ::-2]),
    ],
)
def test_slices(attrs, expected):
    x = floats(4, 5, 3)
    [result] = run(sym.strided_slice(sym.Variable("x"), **attrs), {"x": x.shape}, {"x": x})
    np.testing.assert_array_equal(result, x[expected])


def test_unread_inputs():
    """A variable whose shape alone is read is still an input."""
    net = sym.ones_like(sym.Variable("x"))
    [result] = run(net, {"x": (2, 3)}, {"x": floats(2, 3)})
    assert (result == 1).all() and result.shape == (2, 3)


def in_thread(program):
    """The result of a function in another thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(program()))
    thread.start()
    thread.join()
    return results[0]


def test_scopes_of_threads():
    def outside():
        x = sym.Variable("x")
        target = tvm.target.current_target(allow_none=True)
        return x.attr("__group__"), sym.relu(x).attr("name"), nnvm.compiler.BuildConfig.current.opt_level, target

    def inside():
        with nnvm.attribute.AttrScope(__group__="other"), nnvm.name.Prefix("other_"), nnvm.compiler.build_config(opt_level=0):
            return outside()

    default = outside()
    with nnvm.attribute.AttrScope(__group__="4"), nnvm.name.Prefix("net_"), nnvm.compiler.build_config(opt_level=3), tvm.target.create("llvm"):
        group, name, level, target = in_thread(outside)
        assert (group, level, target) == (None, 2, None)
        # Names are numbered by all threads together.
        assert name.startswith("relu") and name != default[1]
        assert in_thread(inside) == ("other", "other_relu0", 0, None)
        assert outside() == ("4", "net_relu0", 3, "llvm")
    assert outside()[0] is None
    # A scope can be used again inside itself.
    scope = nnvm.name.Prefix("a_")
    with scope:
        with scope:
            pass
        assert sym.relu(sym.Variable("x")).attr("name") == "a_relu0"
    assert not isinstance(nnvm.name.NameManager.current, nnvm.name.Prefix)


# Graphs and passes.


def test_json_and_inference():
    net = sym.conv2d(sym.Variable("x", shape=(1, 4, 8, 8), dtype=0), channels=2, kernel_size=(3, 3), name="c")
    graph = nnvm.graph.create(net)
    again = nnvm.graph.load_json(graph.json())
    assert again.json() == graph.json()
    graph_util.check_graph_equal(graph, again)
    with pytest.raises(ValueError, match="Graph compare error"):
        graph_util.check_graph_equal(graph, nnvm.graph.create(sym.relu(net)))
    # Attributes of variables are compared on request. Defaults and spellings of operators' parameters do not differ.
    pool = lambda **attrs: sym.max_pool2d(sym.Variable("x", **attrs.pop("of", {})), pool_size=(2, 2), **attrs)  # noqa: E731
    plain, spelled = (nnvm.graph.create(pool(**attrs)) for attrs in ({}, {"strides": [1, 1], "of": {"shape": (1, 2, 4, 4)}}))
    graph_util.check_graph_equal(plain, spelled)
    with pytest.raises(ValueError, match="attributes of x"):
        graph_util.check_graph_equal(plain, spelled, compare_variable_attrs=True)
    with pytest.raises(ValueError, match="other attributes"):
        graph_util.check_graph_equal(plain, nnvm.graph.create(pool(strides=(2, 2))))
    shapes, results = graph_util.infer_shape(again)
    assert shapes == [[1, 4, 8, 8], [2, 4, 3, 3], [2]] and results == [[1, 2, 6, 6]]
    assert graph_util.infer_dtype(again) == (["float32"] * 3, ["float32"])
    # What a call gives is before what a variable says.
    assert graph_util.infer_shape(again, x=(2, 4, 9, 9))[1] == [[2, 2, 7, 7]]
    typed = nnvm.graph.create(net).apply(["InferShape", "InferType"])
    assert "shape=[[1, 2, 6, 6]], dtype=[0]" in typed.ir(join_entry_attrs=["shape", "dtype"])
    assert typed.index.num_nodes == 4 and typed.index.entry_id("c_weight") == 1


def test_layouts():
    net = sym.max_pool2d(sym.Variable("x"), pool_size=(2, 2), name="p")
    graph = graph_attr.set_layout_inputs(nnvm.graph.create(net), "NHWC").apply("CorrectLayout")
    assert dict(zip([node["name"] for node in graph.index.nodes], graph.json_attr("layout"))) == {
        "x": "NHWC", "x_NCHW": "NCHW", "p": "NCHW",
    }  # fmt: skip
    # The library is compiled with the changes of layout.
    data = floats(1, 4, 4, 3)
    compiled, library, _ = nnvm.compiler.build(net, "llvm", {"x": data.shape}, layout={"x": "NHWC"})
    module = graph_runtime.create(compiled, library, tvm.cpu())
    module.run(x=data)
    windows = data.transpose(0, 3, 1, 2)
    expected = np.max([windows[:, :, i : i + 3, j : j + 3] for i in (0, 1) for j in (0, 1)], axis=0)
    np.testing.assert_allclose(module.get_output(0).asnumpy(), expected)


# Builds.


def test_levels_agree():
    x = sym.Variable("data")
    x = sym.conv2d(x, channels=8, kernel_size=(3, 3), padding=(1, 1), name="c")
    x = sym.relu(sym.batch_norm(x, name="b"))
    x = sym.dense(sym.flatten(sym.global_avg_pool2d(x)), units=5, name="d")
    net, params = nnvm.testing.utils.create_workload(sym.softmax(x), 2, (3, 8, 8), seed=3)
    params["b_moving_mean"], params["b_moving_var"] = tvm.nd.array(floats(8)), tvm.nd.array(floats(8) + 2)
    data = floats(2, 3, 8, 8)
    results = [run(net, {"data": data.shape}, {"data": data}, params, level)[0] for level in range(4)]
    np.testing.assert_allclose(results[0].sum(axis=1), [1, 1], rtol=1e-5)
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-4)


def test_target_hosts():
    x = sym.Variable("x")
    build = lambda target, host: nnvm.compiler.build(x + 1, target, {"x": (3,)}, target_host=host)  # noqa: E731
    for target, host in (("llvm -mcpu=x86-64", "llvm"), ("llvm", "llvm -mcpu=x86-64"), ("llvm", tvm.target.create("llvm"))):
        graph, library, _ = build(target, host)
        module = graph_runtime.create(graph, library, tvm.cpu())
        module.run(x=np.zeros(3, "float32"))
        assert module.get_output(0).asnumpy().tolist() == [1, 1, 1]
    # The machine of the host is added to the options of the target.
    of = nnvm.compiler.build_module._cpu_target("llvm -mcpu=cortex-a72", "llvm -mtriple=aarch64-linux-gnu -mcpu=generic")
    assert of == "llvm -mcpu=cortex-a72 -mtriple=aarch64-linux-gnu"
    for host in ("cuda", "llvm -mtriple=aarch64-linux-gnu"):
        with pytest.raises(nnvm.NNVMError, match="expected the machine of"):
            build("llvm -mtriple=x86_64-linux-gnu", host)


def test_time_evaluator():
    graph, library, _ = nnvm.compiler.build(sym.Variable("x") + 1, "llvm", {"x": (3,)})
    module = graph_runtime.create(graph, library, tvm.cpu())
    measured = module.module.time_evaluator("run", tvm.cpu(), number=2, repeat=3)()
    assert len(measured.results) == 3 and min(measured.results) > 0
    np.testing.assert_allclose(measured.mean, np.mean(measured.results))
    # A kernel with its arguments; the number of calls grows until they take long enough.
    [name] = [node["attrs"]["func_name"] for node in graph.index.nodes if node["op"] == "tvm_op"]
    x, y = tvm.nd.array(floats(3)), tvm.nd.empty((3,))
    assert library.time_evaluator(name, tvm.cpu(0), number=1, min_repeat_ms=1)(x, y).mean > 0
    np.testing.assert_allclose(y.asnumpy(), x.asnumpy() + 1)
    with pytest.raises(ValueError, match="tvm.cpu()"):
        library.time_evaluator(name, tvm.gpu())
    with pytest.raises(AttributeError, match="no function"):
        library.time_evaluator("none", tvm.cpu())


def test_small_networks():
    squeezenet, dqn, dcgan = nnvm.testing.squeezenet, nnvm.testing.dqn, nnvm.testing.dcgan
    # The published numbers of parameters of SqueezeNet.
    for version, count in (("1.0", 1248424), ("1.1", 1235496)):
        net, params = squeezenet.get_workload(version=version)
        assert sum(value.asnumpy().size for value in params.values()) == count
        assert graph_util.infer_shape(nnvm.graph.create(net), data=(2, 3, 224, 224))[1] == [[2, 1000]]
    net, params = dqn.get_workload(1, num_actions=4)
    assert {name: value.shape for name, value in params.items() if name.endswith("weight")} == {
        "conv1_weight": (32, 4, 8, 8), "conv2_weight": (64, 32, 4, 4), "conv3_weight": (64, 64, 3, 3), "fc4_weight": (512, 3136),
        "fc5_weight": (4, 512),
    }  # fmt: skip
    net, params = dcgan.get_workload(2, ngf=4, random_len=8)
    [image] = run(net, {"data": (2, 8)}, {"data": floats(2, 8)}, params)
    assert image.shape == (2, 3, 64, 64) and 0 < abs(image).max() < 1
    for program in (lambda: squeezenet.get_symbol(10, "2.0"), lambda: dcgan.get_symbol((3, 32, 32))):
        with pytest.raises(ValueError):
            program()


@pytest.mark.parametrize("network", ["mlp", "resnet", "mobilenet"])
def test_networks(network):
    net, params = getattr(nnvm.testing, network).get_workload(1, num_classes=10, image_shape=(3, 32, 32))
    [result] = run(net, {"data": (1, 3, 32, 32)}, {"data": floats(1, 3, 32, 32)}, params, 1)
    assert result.shape == (1, 10) and abs(result.sum() - 1) < 1e-4


DEPLOYED = """
import sys, numpy as np, nnvm.compiler, tvm
from tvm.contrib import graph_runtime
folder = sys.argv[1]
library = tvm.module.load(folder + "/deploy.so")
with open(folder + "/deploy.json") as file:
    module = graph_runtime.create(file.read(), library, tvm.cpu(0))
with open(folder + "/deploy.params", "rb") as file:
    module.load_params(bytearray(file.read()))
module.run(data=np.load(folder + "/data.npy"))
np.save(folder + "/result.npy", module.get_output(0).asnumpy())
"""


def test_deployed(tmp_path):
    """Library, graph and parameters in files, and another process that runs them."""
    net = sym.tanh(sym.dense(sym.Variable("data"), units=4, name="fc"))
    weight, bias, data = floats(4, 6), floats(4), floats(2, 6)
    params = {"fc_weight": tvm.nd.array(weight), "fc_bias": tvm.nd.array(bias)}
    with nnvm.compiler.build_config(opt_level=3):
        graph, library, params = nnvm.compiler.build(net, "llvm", {"data": data.shape}, params=params)
    library.export_library(str(tmp_path / "deploy.so"))
    (tmp_path / "deploy.json").write_text(graph.json())
    (tmp_path / "deploy.params").write_bytes(nnvm.compiler.save_param_dict(params))
    np.save(tmp_path / "data.npy", data)
    subprocess.run([sys.executable, "-c", DEPLOYED, str(tmp_path)], check=True, cwd=__file__.rsplit("/", 1)[0])
    np.testing.assert_allclose(np.load(tmp_path / "result.npy"), np.tanh(data @ weight.T + bias), rtol=1e-5)


# Training.


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_training(kind):
    x, target, weight = sym.Variable("x"), sym.Variable("target"), sym.Variable("weight")
    error = sym.dense(x, weight, units=1, use_bias=False) - target
    loss = sym.sum(error**2)
    optimizer = getattr(nnvm.compiler.optimizer, kind)(learning_rate=0.02 if kind == "SGD" else 0.2)
    step = optimizer.minimize(loss, var=weight)
    data, wanted = floats(16, 3), np.float32([[1, -2, 3]])
    graph, library, state = nnvm.compiler.build(step, "llvm", {"x": (16, 3), "target": (16, 1), "weight": (1, 3)})
    module = graph_runtime.create(graph, library, tvm.cpu())
    module.set_input(**state)
    module.set_input(x=data, target=data @ wanted.T, weight=np.zeros((1, 3), "float32"))
    for _ in range(400):
        module.run()
    np.testing.assert_allclose(module.get_output(0).asnumpy(), wanted, atol=2e-2)


def test_initial_values():
    """They are those of a variable, not of all variables of its name in the process."""
    first = sym.Variable("w", init=np.float32([1, 2])) + sym.Variable("x")
    second = sym.Variable("w", init=sym.ones_like(sym.Variable("x"))) * sym.Variable("x")
    plain = sym.Variable("w") + sym.Variable("x")
    shapes = {"x": (2,)}
    state = lambda net: nnvm.compiler.build(net, "llvm", shapes)[2]  # noqa: E731
    assert state(first)["w"].asnumpy().tolist() == [1, 2] and state(second)["w"].asnumpy().tolist() == [1, 1]
    with pytest.raises(nnvm.NNVMError, match="'w'"):
        state(plain)
    # An array is copied.
    value = np.float32([3, 4])
    net = sym.Variable("u", init=value) + sym.Variable("x")
    value[:] = 7
    assert state(net)["u"].asnumpy().tolist() == [3, 4]
    given = np.float32([5, 6])
    params = nnvm.compiler.build(plain, "llvm", shapes, params={"w": given})[2]
    assert params["w"].asnumpy().tolist() == [5, 6]
    # A value that is given takes the place of the initial one, and the shapes have to agree.
    params = nnvm.compiler.build(first, "llvm", shapes, params={"w": given})[2]
    assert params["w"].asnumpy().tolist() == [5, 6]
    with pytest.raises(nnvm.NNVMError, match="expected an initial value of shape"):
        nnvm.compiler.build(first, "llvm", {"x": (3,), "w": (3,)})
    # The shape of an initial value may be that of a parameter.
    net = sym.Variable("v", init=sym.ones_like(sym.Variable("x"))) + sym.Variable("x")
    assert nnvm.compiler.build(net, "llvm", params={"x": given})[2]["v"].asnumpy().tolist() == [1, 1]
    # Outputs, composed symbols, graphs and their passes keep them.
    values = [sym.Group([first, first])[1], first(x=sym.Variable("x")), first.get_internals()[first.list_output_names()[0]]]
    values += [first.list_input_variables()[0] + sym.Variable("x"), nnvm.graph.create(first).apply(["OrderMutation", "CorrectLayout"])]
    assert [state(net)["w"].asnumpy().tolist() for net in values] == [[1, 2]] * len(values)
    # As in NNVM, this function alone knows names only.
    [value] = nnvm.compiler.initialize_variables({"w": (2,), "x": (2,)}, "float32").values()
    assert value.asnumpy().tolist() == [1, 1]


def test_two_optimizers():
    """Two models with optimizers of one name; the second is made before the first is built."""
    def model(size):
        weight = sym.Variable(f"weight{size}")
        loss = sym.sum((weight - 3) ** 2)
        return nnvm.compiler.optimizer.Adam(learning_rate=0.5).minimize(loss, var=weight)

    for size, step in [(size, model(size)) for size in (2, 5)]:
        graph, library, state = nnvm.compiler.build(step, "llvm", {f"weight{size}": (size,)})
        assert {name: value.shape for name, value in state.items()} == {"Adam_t": (1,), "Adam_m0": (size,), "Adam_v0": (size,)}
        module = graph_runtime.create(graph, library, tvm.cpu())
        module.set_input(**state)
        module.set_input(**{f"weight{size}": np.zeros(size, "float32")})
        for _ in range(200):
            module.run()
        np.testing.assert_allclose(module.get_output(0).asnumpy(), np.full(size, 3), atol=1e-2)


def test_gradients():
    x, y = sym.Variable("x"), sym.Variable("y")
    shape = {"x": (3, 4), "y": (4,)}
    check_function(sym.Group([x * 2 + y, sym.exp(x)]), lambda x, y: [x * 2 + y, np.exp(x)], shape=shape, numerical_grads=True)
    check_function(3**x, lambda x: 3**x, lambda x, head_grads: [np.log(3) * 3**x * head_grads], shape={"x": (2, 3)})
    kinds = [(sym.clip(x, a_min=-0.5, a_max=0.5), lambda x: np.clip(x, -0.5, 0.5), lambda x, head_grads: [head_grads * (abs(x) <= 0.5)])]
    kinds.append((sym.reshape_like(x, y), lambda x, y: x.reshape(y.shape), lambda x, y, head_grads: [head_grads.reshape(x.shape), 0 * y]))
    kinds.append((sym.expand_like(x, y, axis=(0,)), lambda x, y: x + 0 * y, lambda x, y, head_grads: [head_grads.sum(axis=0), 0 * y]))
    kinds.append((sym.greater(x, y), lambda x, y: (x > y) * 1.0, lambda x, y, head_grads: [0 * x, 0 * y]))
    of = [{"x": (4, 5)}, {"x": (2, 6), "y": (3, 4)}, {"x": (3,), "y": (2, 3)}, {"x": (2, 3), "y": (2, 3)}]
    for (net, forward, backward), shapes in zip(kinds, of):
        check_function(net, forward, backward, shape=shapes, numerical_grads=False)
    # Dense layers of any rank, and powers whose slope is a product of 0 and infinity.
    dense = sym.dense(x, sym.Variable("w"), sym.Variable("b"), units=2)
    for of in ((4,), (3, 4), (2, 3, 4)):
        check_function(dense, lambda x, w, b: x @ w.T + b, shape={"x": of, "w": (2, 4), "b": (2,)}, numerical_grads=True)
    check_function(x**0, lambda x: x**0, lambda x, head_grads: [0 * x], values={"x": np.float32([0, 2])}, shape=(2,), numerical_grads=False)
    for wrong in (lambda x: x + 1, lambda x: x[:1]):
        with pytest.raises(AssertionError):
            check_function(x * 2, wrong, shape={"x": (3, 4)}, numerical_grads=False)
    with pytest.raises(AssertionError, match="the gradient by x"):
        check_function(sym.block_grad(x * 2), numerical_grads=True, shape={"x": (2,)})


# Models of others.


def checkpoint(folder, nodes, params, heads):
    """Files as MXNet writes them. Nodes are (operator, name, inputs, attributes)."""
    numbers = {name: number for number, (_, name, _, _) in enumerate(nodes)}
    listed = [
        {"op": op, "name": name, "attrs": attrs, "inputs": [[numbers[one], 0, 0] for one in inputs]} for op, name, inputs, attrs in nodes
    ]
    arguments = [number for number, node in enumerate(listed) if node["op"] == "null"]
    text = json.dumps({"nodes": listed, "arg_nodes": arguments, "heads": [[numbers[head], 0, 0] for head in heads]})
    data = struct.pack("<QQQ", 0x112, 0, len(params))
    for array in params.values():
        data += struct.pack("<IiI", 0xF993FAC9, 0, array.ndim) + struct.pack(f"<{array.ndim}q", *array.shape)
        data += struct.pack("<iii", 1, 0, 0) + array.tobytes()
    data += struct.pack("<Q", len(params)) + b"".join(struct.pack("<Q", len(name)) + name.encode() for name in params)
    (folder / "net-symbol.json").write_text(text)
    (folder / "net-0000.params").write_bytes(data)
    return str(folder / "net-symbol.json"), str(folder / "net-0000.params")


def test_mxnet(tmp_path):
    arrays = {"arg:c_weight": floats(4, 3, 3, 3), "arg:b_gamma": floats(4), "arg:b_beta": floats(4), "arg:fc_weight": floats(5, 36), "arg:fc_bias": floats(5)}
    arrays.update({"aux:b_moving_mean": floats(4), "aux:b_moving_var": floats(4) + 2})
    variables = [("null", name.split(":")[1], [], {}) for name in arrays]
    files = checkpoint(
        tmp_path,
        [
            ("null", "data", [], {}), *variables, ("null", "softmax_label", [], {}),
            ("Convolution", "c", ["data", "c_weight"], {"kernel": "(3, 3)", "num_filter": "4", "no_bias": "True", "pad": "(1, 1)"}),
            ("BatchNorm", "b", ["c", "b_gamma", "b_beta", "b_moving_mean", "b_moving_var"], {"fix_gamma": "False", "eps": "0.001"}),
            ("Activation", "a", ["b"], {"act_type": "relu"}),
            ("Pooling", "p", ["a"], {"kernel": "(2, 2)", "stride": "(2, 2)", "pool_type": "max"}),
            ("_mul_scalar", "s", ["p"], {"scalar": "0.5"}),
            ("FullyConnected", "fc", ["s", "fc_weight", "fc_bias"], {"num_hidden": "5"}),
            ("SoftmaxOutput", "softmax", ["fc", "softmax_label"], {}),
        ],
        arrays,
        ["softmax"],
    )  # fmt: skip
    net, params = nnvm.frontend.from_mxnet(*files)
    assert sorted(params) == sorted(name.split(":")[1] for name in arrays)
    data = floats(2, 3, 6, 6)
    [result] = run(net, {"data": data.shape}, {"data": data}, params, 3)
    at = {name.split(":")[1]: value for name, value in arrays.items()}
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    x = np.einsum("ncyxij,ocij->noyx", windows, at["c_weight"])
    by_channel = lambda name: at[name].reshape(1, -1, 1, 1)  # noqa: E731
    x = (x - by_channel("b_moving_mean")) / np.sqrt(by_channel("b_moving_var") + 1e-3) * by_channel("b_gamma") + by_channel("b_beta")
    x = np.maximum(x, 0).reshape(2, 4, 3, 2, 3, 2).max(axis=(3, 5)) * 0.5
    x = x.reshape(2, -1) @ at["fc_weight"].T + at["fc_bias"]
    expected = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def softmax(x, axis):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize(
    ("op", "attrs", "shape", "wanted"),
    [
        ("SoftmaxOutput", {}, (2, 3, 4), lambda x: softmax(x.reshape(2, -1), 1).reshape(x.shape)),
        ("SoftmaxOutput", {"multi_output": "True"}, (2, 3, 4), lambda x: softmax(x, 1)),
        ("SoftmaxOutput", {"preserve_shape": "True"}, (2, 3, 4), lambda x: softmax(x, 2)),
        ("SoftmaxActivation", {}, (2, 3, 4), lambda x: softmax(x.reshape(2, -1), 1).reshape(x.shape)),
        ("softmax", {"temperature": "2.0"}, (2, 3), lambda x: softmax(x / 2, 1)),
        ("Activation", {"act_type": "softrelu"}, (2, 3), lambda x: np.logaddexp(0, x)),
        ("slice", {"begin": "(None, 1)", "end": "(None, None)", "step": "(None, 2)"}, (2, 5), lambda x: x[:, 1::2]),
        ("slice", {"begin": "(0, None)", "end": "(2, None)", "step": "(1, -1)"}, (2, 5), lambda x: x[:, ::-1]),
        ("sum", {"axis": "(1L,)", "exclude": "True"}, (2, 3, 4), lambda x: x.sum(axis=(0, 2))),
        ("mean", {"axis": "()", "exclude": "True"}, (2, 3), lambda x: x.mean().reshape(1)),
        ("max_axis", {"axis": "-1"}, (2, 3), lambda x: x.max(axis=1)),
        ("argmax", {"axis": "1"}, (2, 3), lambda x: x.argmax(axis=1).astype("float32")),
        ("_RMinusScalar", {"scalar": "1.0"}, (2, 3), lambda x: 1 - x),
        ("square", {}, (2, 3), lambda x: x * x),
        # Three windows of two in six elements with one of padding; the last window has one element that counts.
        (
            "Pooling", {"kernel": "(1, 3)", "stride": "(1, 3)", "pad": "(0, 1)", "pool_type": "avg", "pooling_convention": "full"},
            (1, 1, 1, 6), lambda x: np.stack([x[..., :2].sum(-1) / 3, x[..., 2:5].sum(-1) / 3, x[..., 5:].sum(-1) / 2], -1),
        ),
    ],
)  # fmt: skip
def test_mxnet_operators(op, attrs, shape, wanted):
    nodes = [{"op": "null", "name": "x", "inputs": []}, {"op": op, "name": "y", "attrs": attrs, "inputs": [[0, 0, 0]]}]
    net, _ = nnvm.frontend.from_mxnet(json.dumps({"nodes": nodes, "heads": [[1, 0, 0]]}))
    data = floats(*shape) * 100 if attrs.get("act_type") == "softrelu" else floats(*shape)
    [result] = run(net, {"x": shape}, {"x": data})
    np.testing.assert_allclose(result, wanted(data), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "attrs", "head", "text"),
    [
        ("Pooling", {"kernel": "(2, 2)", "layout": "NHWC"}, 0, "layout NHWC is not supported"),
        ("Reshape", {"shape": "(-1, 2)", "reverse": "True"}, 0, "attribute `reverse` is not supported"),
        ("Dropout", {"mode": "always"}, 0, "mode always is not supported"),
        ("Dropout", {}, 1, "output 1 of node 'y' is not supported"),
    ],
)
def test_mxnet_refusals(op, attrs, head, text):
    nodes = [{"op": "null", "name": "x", "inputs": []}, {"op": op, "name": "y", "attrs": attrs, "inputs": [[0, 0, 0]]}]
    with pytest.raises(nnvm.NNVMError, match=text):
        nnvm.frontend.from_mxnet(json.dumps({"nodes": nodes, "heads": [[1, head, 0]]}))


@pytest.mark.parametrize("slopes", [1, 3])
def test_mxnet_prelu(slopes):
    nodes = [{"op": "null", "name": name, "inputs": []} for name in ("x", "y_gamma")]
    nodes.append({"op": "LeakyReLU", "name": "y", "attrs": {"act_type": "prelu"}, "inputs": [[0, 0, 0], [1, 0, 0]]})
    slope, data = floats(slopes), floats(2, 3, 4)
    net, params = nnvm.frontend.from_mxnet(json.dumps({"nodes": nodes, "heads": [[2, 0, 0]]}), {"y_gamma": slope})
    [result] = run(net, {"x": data.shape}, {"x": data}, params)
    np.testing.assert_allclose(result, np.where(data > 0, data, data * slope.reshape(1, -1, 1)), rtol=1e-5)


def test_mxnet_mistakes(tmp_path):
    with pytest.raises(nnvm.NNVMError, match="no `nodes` and `heads`"):
        nnvm.frontend.from_mxnet("{}")
    files = checkpoint(tmp_path, [("null", "data", [], {}), ("RNN", "r", ["data"], {})], {"arg:w": floats(2, 2)}, ["r"])
    with pytest.raises(nnvm.NNVMError, match="node 'r': MXNet's operator RNN is not supported"):
        nnvm.frontend.from_mxnet(*files)
    whole = (tmp_path / "net-0000.params").read_bytes()
    for cut in range(len(whole)):
        with pytest.raises(nnvm.NNVMError, match="cut"):
            nnvm.frontend.mxnet.load_params(whole[:cut])
    for number, value in ((0, 0x113), (24, 1 << 30), (36, -1)):
        wrong = bytearray(whole)
        struct.pack_into("<i", wrong, number, value)
        with pytest.raises(nnvm.NNVMError):
            nnvm.frontend.mxnet.load_params(bytes(wrong))


def onnx_model(nodes, inputs, outputs, weights, version=13):
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)  # noqa: E731
    graph = helper.make_graph(
        nodes, "test", [value(*one) for one in inputs.items()], [value(*one) for one in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def test_onnx():
    node = helper.make_node
    weights = {"w": floats(4, 3, 3, 3), "b": floats(4), "g": floats(16, 5), "c": floats(5), "shape": np.int64([0, -1])}
    nodes = [
        node("Conv", ["x", "w", "b"], ["1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("LeakyRelu", ["1"], ["2"], alpha=0.1),
        node("AveragePool", ["2"], ["3"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", ["3", "shape"], ["4"]),
        node("Gemm", ["4", "g", "c"], ["5"], alpha=0.5),
        node("Split", ["5"], ["6", "7", "8", "9", "10"], axis=1),
        node("Sum", ["6", "7", "10"], ["11"]),
        node("Clip", ["11"], ["y"]),
        node("Softmax", ["5"], ["z"]),
    ]
    model = onnx_model(nodes, {"x": (2, 3, 8, 8)}, {"y": (2, 1), "z": (2, 5)}, weights)
    data = floats(2, 3, 8, 8)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, {"x": data})
    net, params = nnvm.frontend.from_onnx(model)
    for level in (0, 3):
        results = run(net, {"x": data.shape}, {"x": data}, params, level)
        for result, wanted in zip(results, expected):
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "attrs", "shape", "constants", "version"),
    [
        ("Unsqueeze", {}, (2, 3), [np.int64([-2, -1])], 13),
        ("Unsqueeze", {}, (2, 3), [np.int64([0, -1])], 13),
        ("Mul", {}, (2, 3), [np.float32(2)], 13),
        ("Gather", {"axis": 1}, (2, 3), [np.int64(1)], 13),
        ("Clip", {}, (2, 3), [np.float32([0.25])], 13),
        ("ReduceMean", {"noop_with_empty_axes": 1}, (2, 3), [np.int64([])], 18),
        ("ReduceMean", {"keepdims": 0}, (2, 3, 4), [np.int64([-1])], 18),
        ("Slice", {}, (2, 5), [np.int64([-1]), np.int64([np.iinfo("int64").min]), np.int64([-1]), np.int64([-2])], 13),
        ("Pad", {}, (2, 3, 4), [np.int64([1, 2]), np.float32(3), np.int64([-1])], 18),
        ("PRelu", {}, (2, 3, 4), [np.float32([0.25])], 13),
        ("PRelu", {}, (2, 3, 4), [np.float32([[0.25], [0.5], [0.75]])], 13),
        ("Softplus", {}, (2, 3), [], 13),
    ],
)
def test_onnx_operators(op, attrs, shape, constants, version):
    names = [f"c{number}" for number in range(len(constants))]
    weights = {name: np.asarray(array) for name, array in zip(names, constants)}
    scale = 100 if op == "Softplus" else 1
    data = floats(*shape) * np.float32(scale)
    node = helper.make_node(op, ["x", *names], ["y"], **attrs)
    graph = helper.make_graph(
        [node], "test", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    [expected] = onnx.reference.ReferenceEvaluator(model).run(None, {"x": data})
    net, params = nnvm.frontend.from_onnx(model)
    if net.attr("op_name") == "null":
        assert op == "ReduceMean" and net.attr("name") == "x"
        return
    [result] = run(net, {"x": shape}, {"x": data}, params)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "version", "text"),
    [
        ("MatMul", [(2, 3, 4), (2, 4, 5)], {}, 13, "only products of two matrices"),
        ("Softmax", [(2, 3, 4)], {"axis": 1}, 11, "axis 1 of 3 is not supported in version 11"),
        ("MaxPool", [(1, 1, 8, 8)], {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, 13, "auto_pad SAME_UPPER"),
        ("LRN", [(1, 4, 3, 3)], {"size": 4}, 13, "an even size"),
        ("Erf", [(2, 3)], {}, 13, "kernpack.graph.from_onnx supports more"),
    ],
)
def test_onnx_refusals(op, shapes, attrs, version, text):
    names = [f"x{number}" for number in range(len(shapes))]
    result = [None] * (4 if op == "MaxPool" else len(shapes[0]))
    model = onnx_model([helper.make_node(op, names, ["y"], name="n", **attrs)], dict(zip(names, shapes)), {"y": result}, {}, version)
    with pytest.raises(nnvm.NNVMError, match=rf"node 'n' \({op}\): .*{text}"):
        nnvm.frontend.from_onnx(model)


def test_arrays():
    assert tvm.ndarray is tvm.nd and isinstance(tvm.nd.empty((2,)), tvm.ndarray.NDArray)
    one = tvm.nd.array(np.arange(6, dtype="int32").reshape(2, 3).T)
    assert one.shape == (3, 2) and one.dtype == "int32" and one[1, 1] == 4
    copy = one.copyto(tvm.nd.empty((3, 2), "int32"))
    one[:] = 0
    assert copy.asnumpy().sum() == 15 and one.asnumpy().sum() == 0
    with pytest.raises(ValueError, match="not copied"):
        one.copyto(tvm.nd.empty((3, 4), "int32"))
    assert (np.float32(2) * sym.Variable("x")).attr("scalar") == "2.0"
    assert sym.reshape(sym.Variable("x"), shape=(np.int64(2), -1)).attr("shape") == "(2, -1)"
    folder = util.tempdir()
    path = folder.relpath("a")
    assert path.startswith(folder.temp_dir) and folder.listdir() == []
