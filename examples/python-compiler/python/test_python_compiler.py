"""The example as a test: from tensor expressions to libraries, with passes, rules and targets in Python.

PYTHON_COMPILER_LIBRARY names the library.
"""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
import tvm_ffi
from compiler import PassContext, PassOptions, binary, build, graph, ir, math, module, pipeline, reduce, rules, schedule, target, te

F32 = "float32"


def array(view):
    """The memory of a tensor that is lent to a callback: stock `tvm_ffi` makes DLPack capsules of tensors that own their memory only."""
    return np.ctypeslib.as_array(ctypes.cast(view.data_ptr(), ctypes.POINTER(ctypes.c_float)), tuple(view.shape))


def product(m=None):
    """c = a w^T, and what it is made of."""
    m = te.size("m") if m is None else m
    a, w, k = te.placeholder([m, 64], F32, "a"), te.placeholder([32, 64], F32, "w"), te.reduce_axis(0, 64, "k")
    c = te.compute([m, 32], lambda i, j: reduce.sum(a[i, k] * w[j, k], k), "c")
    return a, w, c, k


def random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F32)


def elementwise(body, name="f", context=None, size=None):
    """A function of one vector."""
    n = te.size("n") if size is None else size
    x = te.placeholder([n], F32, "x")
    y = te.compute([n], lambda i: body(x[i]), "y")
    s = schedule.create([y])
    return s.lower([x, y], name, PassContext()), s, x, y


def test_a_scheduled_product():
    a, w, c, k = product()
    s = schedule.create([c])
    i, j = c.op.axes
    io, ii = s[c].split(i, 4)
    jo, ji = s[c].split(j, 8)
    ko, ki = s[c].split(k, 4)
    s[c].reorder([io, jo, ko, ii, ki, ji])
    s[c].vectorize(ji)
    s[c].unroll(ki)
    s[c].parallel(io)
    assert str(s) == (
        "parallel i.outer in 0..floordiv(m + 3, 4)\n"
        "  for j.outer in 0..4\n"
        "    begin c over i.inner, j.inner\n"
        "    for k.outer in 0..16\n"
        "      for i.inner in 0..4\n"
        "        unrolled k.inner in 0..4\n"
        "          vectorized j.inner in 0..8\n"
        "            update c\n"
    )
    assert list(s[c].annotations) == ["parallel", "", "", "", "unrolled", "vectorized"]
    function = pipeline.lower(s, [a, w, c], "product", PassContext())
    kernels = build(function, "llvm")
    for m in (0, 1, 3, 4, 37):
        x, y, out = random(m, 64), random(32, 64), np.full((m, 32), np.nan, F32)
        kernels.product(x, y, out)
        np.testing.assert_allclose(out, x @ y.T, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match=r"product\(a: Tensor\(\[m, 64\], float32\)"):
        kernels.product(random(3, 64), random(32, 64), random(4, 32))


def reciprocal(program, context):
    """A pass: x / c becomes x * (1 / c)."""
    count = 0

    def rewrite(expr):
        nonlocal count
        if expr.op != ir.BinaryOp.get("Div") or not isinstance(expr.b, ir.Float):
            return expr
        count += 1
        return expr.a * (1.0 / expr.b.value)

    program = tvm_ffi.structural_map(program, (ir.Binary, rewrite))
    context.note(f"{count} divisions became products")
    return program


def test_a_pass_in_python():
    n = te.size("n")
    x = te.placeholder([n], F32, "x")
    y = te.compute([n], lambda i: math.sqrt(x[i] / 4.0) / 8.0 + x[i] / x[i], "y")
    s = schedule.create([y])
    passes = list(pipeline.usual())
    assert passes[0] == "Simplify"
    context = PassContext(PassOptions(verify=True, dump=True))
    context.pipeline = [*passes[:1], reciprocal, *passes[1:]]
    function = pipeline.lower(s, [x, y], "f", context)
    assert list(context.take_notes()) == ["2 divisions became products"]
    assert list(context.take_notes()) == []
    dumps = list(context.take_dumps())
    assert [name for name, _ in dumps[:3]] == ["Flat", "Simplify", "function"]
    before, after = dumps[1][1], dumps[2][1]
    assert "x[i] / 4.0" in before and "x[i] * 0.25" in after and "x[i] / x[i]" in after
    values, out = np.abs(random(100)), np.empty(100, F32)
    build(function, "llvm").f(values, out)
    np.testing.assert_allclose(out, np.sqrt(values / 4) / 8 + 1, rtol=1e-6)


def test_a_pass_by_name_and_its_mistakes():
    _, s, x, y = elementwise(lambda x: x * 2.0)
    seen = []

    @tvm_ffi.register_global_func("python_compiler.look", override=True)
    def look(program, context):
        seen.append(type(program).__name__)
        return program

    context = PassContext()
    context.pipeline = ["Simplify", "python_compiler.look"]
    pipeline.lower(s, [x, y], "f", context)
    assert seen == ["LoweredFunc"]

    def fails(program, context):
        raise IndexError("not today")

    for passes, expected in [
        ([fails], "not today"),
        ([lambda program, context: 1], "pass function gave int; a pass gives the program back"),
        (["Simplfy"], "unknown pass `Simplfy`"),
        ([1], "a pipeline is a list of names and functions, got int"),
    ]:
        context.pipeline = passes
        with pytest.raises(Exception, match=expected):
            pipeline.lower(s, [x, y], "f", context)


def test_a_schedule_by_rules_and_a_rule_in_python():
    a, w, c, _ = product()
    d = te.compute(c.shape, lambda i, j: binary.Max(c[i, j], 0.0), "d")
    context, s = PassContext(), schedule.create([d])
    rules.schedule(s, "llvm -mcpu=x86-64-v3", context)
    assert any("rule `gemm`" in note for note in context.take_notes())
    kernels = build(pipeline.lower(s, [a, w, d], "relu", context), "llvm")
    x, y, out = random(33, 64), random(32, 64), np.empty((33, 32), F32)
    kernels.relu(x, y, out)
    np.testing.assert_allclose(out, np.maximum(x @ y.T, 0), rtol=1e-4, atol=1e-4)

    asked = []

    def serial(s, stage, description):
        asked.append((stage.name, description.vector_bits))
        return "left to others" if stage.name != "d" else None

    context.rules = rules.insert(rules.usual(), "first", "serial", serial)
    s = schedule.create([d])
    rules.schedule(s, "llvm -mcpu=x86-64-v4", context)
    assert ("d", 512) in asked
    notes = list(context.take_notes())
    assert any("`serial`" in note for note in notes), notes


@pytest.mark.parametrize("kind", ["llvm", "c"])
def test_an_exported_library_needs_no_compiler(tmp_path, kind):
    n = te.size("n")
    x = te.placeholder([n, 100], F32, "x")
    # Too large for the stack: it uses memory of the runtime.
    e = te.compute([n, 100], lambda i, j: math.exp(x[i, j]), "e")
    y = te.compute([n, 100], lambda i, j: e[i, 99 - j] * 2.0, "y")
    s = schedule.create([y])
    s[y].parallel(y.op.axes[0])
    kernels = build(pipeline.lower(s, [x, y], "mirrored", PassContext()), kind)
    assert kernels.kind == kind
    path = tmp_path / "libmirrored.so"
    include = os.path.join(os.path.dirname(__file__), "../../../build-support/include")
    module.export_library(kernels, str(path), ["-O2", f"-I{include}"])
    program = """
import sys, numpy as np, tvm_ffi
kernels = tvm_ffi.load_module(sys.argv[1])
x = np.random.default_rng(0).standard_normal((50, 100)).astype("float32")
y = np.empty_like(x)
kernels.mirrored(x, y)
assert np.allclose(y, 2 * np.exp(x[:, ::-1]), rtol=1e-5)
try:
    kernels.mirrored(x, y[:3])
except ValueError as error:
    print(error)
"""
    for loads_compiler in (False, True):
        code = f"import tvm_ffi; keep = tvm_ffi.load_module({os.environ['PYTHON_COMPILER_LIBRARY']!r})\n" * loads_compiler + program
        ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        assert "Mismatched y.shape[0]" in ended.stdout


def test_object_code_for_another_machine(tmp_path):
    function, *_ = elementwise(lambda x: math.tanh(x))
    kernels = build(function, "llvm -mtriple=aarch64-unknown-linux-gnu")
    with pytest.raises(Exception, match="the module is for aarch64-unknown-linux-gnu; export it and load the library there"):
        kernels.f(np.zeros(3, F32), np.zeros(3, F32))
    kernels.write_to_file(str(tmp_path / "f.o"), "o")
    assert (tmp_path / "f.o").read_bytes()[18:20] == b"\xb7\x00", "the machine in the header of the file is AArch64"
    assert "fmla" in kernels.inspect_source("s")


def test_a_target_in_python():
    @tvm_ffi.register_global_func("kernpack.target.build.twice", override=True)
    def build_twice(program, text):
        assert text == "twice -mcpu=x86-64-v3"
        return build(program, "llvm")

    function, *_ = elementwise(lambda x: x + 1.0)
    out = np.empty(3, F32)
    build(function, "twice -mcpu=x86-64-v3").f(np.ones(3, F32), out)
    assert out.tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="no target of kind `quantum`"):
        build(function, "quantum")
    with pytest.raises(Exception, match="unknown option `-O3` of the target"):
        build(function, "llvm -O3")
    assert target.host().startswith("llvm -mtriple=")
    assert target.describe("llvm -mcpu=x86-64-v3").vector_bits == 256


def on_opencl():
    """The first OpenCL device, and the function that copies tensors."""
    if not tvm_ffi.get_global_func("kernpack.device.exists")("opencl:0"):
        assert os.environ.get("KERNPACK_OPENCL") != "require", "there is no OpenCL device"
        pytest.skip("there is no OpenCL device")
    return "opencl:0", tvm_ffi.get_global_func("kernpack.tensor.to")


def test_threads_of_an_opencl_device(tmp_path):
    device, to = on_opencl()
    n = te.size("n")
    x = te.placeholder([n], F32, "x")
    y = te.compute([n], lambda i: x[i] * 3.0 + 1.0, "y")
    s = schedule.create([y])
    block, thread = s[y].split(y.op.axes[0], 64)
    s[y].bind(block, te.thread_axis(None, "blockIdx.x"))
    s[y].bind(thread, te.thread_axis(None, "threadIdx.x"))
    context = PassContext(options=PassOptions(warp_size=1))
    context.pipeline = pipeline.device()
    program = pipeline.lower(s, [x, y], "f", context)
    assert [str(function.name) for function in program.functions] == ["f", "f_kernel0"]
    kernels = build(program, "opencl")
    values = random(100)
    there, out = to(values, device), to(np.zeros(100, F32), device)
    kernels.f(there, out)
    np.testing.assert_allclose(np.from_dlpack(to(out, "cpu")), values * 3 + 1, rtol=1e-6)
    with pytest.raises(Exception, match="Mismatched x.device_type on argument #0"):
        kernels.f(values, out)
    # The kernels travel in the library. The loader of their kind is registered on request, because
    # Apache TVM's runtime has one of the same name.
    tvm_ffi.get_global_func("kernpack.module.enable")("opencl")
    path = tmp_path / "libdevice.so"
    module.export_library(kernels, str(path), [])
    loaded = tvm_ffi.load_module(str(path))
    out = to(np.zeros(100, F32), device)
    loaded.f(there, out)
    np.testing.assert_allclose(np.from_dlpack(to(out, "cpu")), values * 3 + 1, rtol=1e-6)
    # Stages that are not bound to threads would run on the host.
    with pytest.raises(Exception, match="accesses memory of the device from the host"):
        pipeline.lower(schedule.create([y]), [x, y], "f", context)


def test_rules_and_a_pass_for_an_opencl_device():
    device, to = on_opencl()
    m, n = te.size("m"), te.size("n")
    x = te.placeholder([m, n], F32, "x")
    k, l = te.reduce_axis(0, n, "k"), te.reduce_axis(0, n, "l")
    most = te.compute([m], lambda i: reduce.max(x[i, k], k), "most")
    e = te.compute([m, n], lambda i, j: math.exp(x[i, j] - most[i]), "e")
    total = te.compute([m], lambda i: reduce.sum(e[i, l], l), "total")
    y = te.compute([m, n], lambda i, j: e[i, j] / total[i], "y")
    s, seen = schedule.create([y]), []

    def look(program, _):
        seen.extend(str(function.name) for function in program.functions)
        return program

    context = PassContext(options=PassOptions(warp_size=1))
    context.pipeline = [*pipeline.device(), look]
    rules.schedule(s, "opencl", context)
    assert "stage `y`: rule `threads`" in list(context.take_notes())
    kernels = build(pipeline.lower(s, [x, y], "softmax", context), "opencl")
    assert seen == ["softmax", *(f"softmax_kernel{number}" for number in range(len(seen) - 1))]
    values = random(37, 100)
    out = to(np.zeros_like(values), device)
    kernels.softmax(to(values, device), out)
    powers = np.exp(values - values.max(1, keepdims=True))
    np.testing.assert_allclose(np.from_dlpack(to(out, "cpu")), powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_several_functions_in_a_module():
    functions = [elementwise(lambda x: x + 1.0, "plus")[0], elementwise(lambda x: x * 3.0, "times")[0]]
    for program in (functions, ir.IrModule(functions, {})):
        kernels = build(program, "llvm")
        out = np.empty(3, F32)
        kernels.plus(np.ones(3, F32), out)
        kernels.times(out, out_of := np.empty(3, F32))
        assert out_of.tolist() == [6, 6, 6]


def test_results_of_other_kinds():
    n = te.size("n")
    x, k = te.placeholder([n, 16], F32, "x"), te.reduce_axis(0, 16, "k")
    index, value = te.compute([n], lambda i: reduce.argmax([k, x[i, k]], k), "largest")
    state = te.placeholder([n, 16], F32, "state")
    first = te.compute([1, 16], lambda _, j: x[0, j], "first")
    update = te.compute([n, 16], lambda t, j: state[t - 1, j] + x[t, j], "update")
    sums = te.scan(first, update, state, "sums")
    calls = []

    @tvm_ffi.register_global_func("python_compiler.reverse", override=True)
    def reverse(source, result):
        calls.append(tuple(source.shape))
        array(result)[...] = array(source)[::-1]

    def call(sources, results):
        tensors = [te.tensor_argument(sources[0], 1), te.tensor_argument(results[0], 2)]
        return ir.Call(ir.CallKind.get("Packed"), "python_compiler.reverse", tensors, "int32")

    [mirrored] = te.extern_op("mirrored", [x], [x.shape], [F32], call)
    s = schedule.create([index, sums, mirrored])
    args = [x, index, value, sums, mirrored]
    kernels = build(pipeline.lower(s, args, "f", PassContext()), "llvm")
    values = random(7, 16)
    outs = np.empty(7, np.int64), np.empty(7, F32), np.empty((7, 16), F32), np.empty((7, 16), F32)
    kernels.f(values, *outs)
    np.testing.assert_array_equal(outs[0], values.argmax(1))
    np.testing.assert_array_equal(outs[1], values.max(1))
    np.testing.assert_allclose(outs[2], values.cumsum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(outs[3], values[::-1])
    assert calls == [(7, 16)]


def test_operators():
    i, j = te.size("i"), te.var("j", "int64")
    for expr, text in [
        (i + 1, "i + 1"),
        (1 - i, "1 - i"),
        (-j, "0 - j"),
        (i * j // 2, "floordiv(i * j, 2)"),
        (7 % j, "floormod(7, j)"),
        ((i < j) & (3 <= j), "i < j && j >= 3"),
        (~(i > j), "!(i > j)"),
        (te.cast(i, F32) / 2, "i as f32 / 2.0"),
    ]:
        assert str(expr) == text


def test_mistakes_are_named():
    a, w, c, k = product()
    s = schedule.create([c])
    s[c].split(k, 4)
    for call, expected in [
        (lambda: s[c].split(k, 4), "split: `k` of stage `c` is no longer a loop"),
        (lambda: s[c].vectorise(k), "neither a field nor a function kernpack.schedule.vectorise"),
        (lambda: a[1], "`a`"),
        (lambda: a[1, 2] + w, "argument 'b': expected Union"),
        (lambda: te.compute([3], lambda i, j: i, "f"), "missing 1 required positional argument"),
        (lambda: reduce.median(a[1, 2], k), "no reduction `median` of 1 values"),
        (lambda: s.lower([a, c], "f", PassContext()), "`w`"),
        (lambda: s.lower([a, w, c, 3], "f", PassContext()), "a tensor and its buffer, or a variable, got int"),
    ]:
        with pytest.raises(Exception) as raised:
            call()
        assert expected in str(raised.value), str(raised.value)
        assert ".rs:" not in str(raised.value), "no places in the compiler"


def test_programs_are_objects():
    function, *_ = elementwise(lambda x: math.exp(x) * 2.0)
    again = ir.parse(str(function)).functions[0]
    assert tvm_ffi.structural_equal(function, again)
    text = tvm_ffi.get_global_func("ffi.ToJSONGraphString")(function, None)
    assert tvm_ffi.structural_equal(tvm_ffi.get_global_func("ffi.FromJSONGraphString")(text), function)
    loops = []
    tvm_ffi.structural_walk(function, (ir.For, lambda loop: loops.append(loop.var.name)))
    assert loops == ["i"]
    copy = ir.LoweredFunc("g", function.params, function.ret, function.kind, function.thread_axes, function.body, {})
    out = np.empty(2, F32)
    build(copy, "llvm").g(np.zeros(2, F32), out)
    assert out.tolist() == [2, 2]


def apply(op, *inputs, name="", **attrs):
    """An operator of NNVM on graphs."""
    return graph.apply_op(op, name, list(inputs), {}, {key: str(value) for key, value in attrs.items()})


def run(net, inputs, params=None):
    """Builds a graph and runs it once."""
    shapes = {key: tvm_ffi.Shape(value.shape) for key, value in inputs.items()}
    built, code, params = graph.build(net, "llvm", shapes, "float32", params or {})
    executor = getattr(graph, "executor.create")(graph.save_json(built), code)
    executor.load_params(graph.save_param_dict(params))
    for key, value in inputs.items():
        executor.set_input(key, tvm_ffi.from_dlpack(value))
    executor.run()
    return np.from_dlpack(executor.get_output(0))


def test_a_graph_from_python():
    x, w = random(2, 5), random(3, 5)
    net = apply("relu", apply("dense", graph.variable("x", {}), name="fc", units=3, use_bias=False))
    assert list(graph.list_input_names(net, "all")) == ["x", "fc_weight"]
    result = run(net, {"x": x}, {"fc_weight": tvm_ffi.from_dlpack(w)})
    np.testing.assert_allclose(result, np.maximum(x @ w.T, 0), rtol=1e-5, atol=1e-6)
    text = graph.save_json(net)
    assert graph.save_json(graph.load_json(text)) == text


def test_an_operator_and_a_pass_in_python():
    graph.op_register("python.swish", "x * sigmoid(beta x)", ["data"], 1, 1)
    graph.op_set_attr("python.swish", "FInferShape", lambda attrs, ins, outs: (ins, list(ins)), 10)
    graph.op_set_attr("python.swish", "TOpPattern", 0, 10)

    def compute(attrs, inputs, outputs):
        x, beta = inputs[0], float(attrs["beta"])
        return [te.compute(list(x.shape), lambda *i: x[i] / (math.exp(x[i] * -beta) + 1.0), "swish")]

    graph.op_set_attr("python.swish", "FTVMCompute", compute, 10)
    net = apply("negative", apply("python.swish", graph.variable("x", {}), beta=2.0))
    x = random(4, 6)
    expected = -x / (1 + np.exp(-2.0 * x))
    np.testing.assert_allclose(run(net, {"x": x}), expected, rtol=1e-5, atol=1e-6)

    seen = []
    graph.pass_register("python.Look", lambda g: (seen.append(len(g.nodes())), g)[1], [], [])
    graph.apply(net, ["python.Look", "PrintGraphIR"])
    assert seen == [3]
    with pytest.raises(ValueError, match="pass GraphCompile needs graph attribute `shape`: apply InferShape before it"):
        graph.apply(net, ["GraphCompile"])
