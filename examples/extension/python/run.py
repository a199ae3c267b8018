"""What a library of its own adds to a system that it did not write: checks that say what they did.

Runs under the stock package `tvm_ffi`; where `tvm`, Apache TVM, can be imported as well, on its expressions, tensors and
compiled functions too (with the argument --apache-tvm it must be there). EXPR_LIBRARY and EXTENSION_LIBRARY name the
libraries. Exit status 1 when a check fails.
"""

import copy
import gc
import os
import pickle
import subprocess
import sys
import time
import traceback

import numpy as np
import tvm_ffi
import tvm_ffi.serialization

try:
    import tvm
    from tvm import te, tirx
except ImportError:
    if "--apache-tvm" in sys.argv:
        raise
    tvm = None

import extension
from extension import Add, IntVector, Var, bind_add, sym_add

CPU, EXT_DEV = tvm_ffi.device("cpu", 0), tvm_ffi.device("ext_dev", 0)


def expect(kind, part, call, *arguments):
    """Calls, and expects an error of this kind with this in its message."""
    try:
        result = call(*arguments)
    except kind as error:
        assert part in str(error), f"expected '{part}' in the error, got '{error}'"
        print(f"    {kind.__name__}: {error}")
        return error
    raise AssertionError(f"expected {kind.__name__}, got {result!r}")


# A type


def check_vector():
    """a vector that Python creates and indexes"""
    vector = IntVector([1, 2, 3])
    assert isinstance(vector, IntVector) and isinstance(vector, tvm_ffi.Object)
    assert (len(vector), vector[0], vector[1], vector[-1], list(vector), 3 in vector) == (3, 1, 2, 3, [1, 2, 3], True)
    vector[1] = 20
    vector.append(4)
    assert list(vector) == [1, 20, 3, 4] and repr(vector) == "IntVector([1, 20, 3, 4])"
    assert len(IntVector()) == 0 and list(IntVector(values=[0, 1])) == [0, 1]
    print(f"    {vector}: {len(vector)} elements, the last is {vector[-1]}")
    expect(IndexError, "index 4 is out of range for an IntVector of 4 elements", lambda: vector[4])
    expect(TypeError, "expected int, got str", IntVector, ["one"])


def check_vector_in_a_callback():
    """a callback gets the vector itself, not a copy"""

    def append_sum(vector):
        assert isinstance(vector, IntVector) and vector[2] == 3
        vector[0] = sum(vector)
        return vector

    vector = IntVector([1, 2, 3])
    result = tvm_ffi.convert(append_sum)(vector)
    assert result.same_as(vector) and list(vector) == [6, 2, 3]
    print(f"    the callback made it {list(vector)}")


def check_copies():
    """copies, files and comparisons, which every type has"""
    vector = IntVector([1, 2])
    for copied in (copy.copy(vector), copy.deepcopy(vector), pickle.loads(pickle.dumps(vector))):
        copied[0] = 10
        assert isinstance(copied, IntVector) and list(copied) == [10, 2] and list(vector) == [1, 2]
    text = tvm_ffi.serialization.to_json_graph_str(vector)
    assert list(tvm_ffi.serialization.from_json_graph_str(text)) == [1, 2]
    print(f"    {vector} in a file: {text}")
    x, y = Var("x"), Var("y")
    twice = pickle.loads(pickle.dumps(sym_add(x, x)))
    assert str(twice) == "x + x" and twice.a.same_as(twice.b) and not twice.a.same_as(x)
    for other, same in ((sym_add(y, y), True), (sym_add(x, y), False)):
        assert tvm_ffi.structural_equal(sym_add(x, x), other, map_free_vars=True) is same
    print("    x + x has the structure of y + y, not that of x + y")


# Functions


def check_bind_add():
    """a function that takes a function and returns another"""

    def add(a, b):
        return a + b

    f = bind_add(add, 1)
    assert isinstance(f, tvm_ffi.Function)
    assert f(2) == 3
    assert bind_add(lambda a, b: f"{a}{b}", 1)("x") == "1x", "the bound argument comes first"
    assert bind_add(f, 5)  # a Rust function that holds a Rust function that holds a Python function
    expect(TypeError, "expected Function, got int", bind_add, 1, 1)
    print("    bind_add(add, 1)(2) = 3")


@tvm_ffi.register_error
class SoldOut(ValueError):
    """What a callback raises."""


def check_errors_of_callbacks():
    """an error of a callback arrives as it left"""

    def sell(value):
        raise SoldOut(f"{value} is sold out")

    vector = IntVector([7])
    assert list(extension.map_vector(IntVector([1, 2]), lambda value: value * 10)) == [10, 20]
    error = expect(SoldOut, "7 is sold out", extension.map_vector, vector, sell)
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert "sell" in frames, frames
    expect(TypeError, "expected int, got str", extension.map_vector, vector, str)

    def grow(value):
        vector[0] = value + 1  # the library holds no lock while it calls
        return value

    assert list(extension.map_vector(vector, grow)) == [7] and vector[0] == 8


# Another library's objects


def check_sym_add():
    """a sum of another library's expressions"""
    a, b = Var("a"), Var("b")
    c = sym_add(a, b)
    assert isinstance(c, Add) and c.a.same_as(a) and c.b.same_as(b)
    assert (c.a.name, str(c.dtype), str(c)) == ("a", "int32", "a + b")
    print(f"    sym_add(a, b) = {c}, of the type expr.{type(c).__name__}; its fields hold the very objects")
    d = 1 + c + sym_add(b, a) + 2
    assert str(d) == "((1 + (a + b)) + (b + a)) + 2" and list(extension.variables(d)) == ["a", "b"]
    expect(TypeError, "cannot add int64 to int32", sym_add, a, Var("n", "int64"))
    expect(TypeError, "got expr.Var and int", sym_add, a, 1)


def check_deep_expressions():
    """an expression far deeper than the stack"""
    depth = 100_000
    x = Var("x")
    c = sym_add(x, x)
    assert str(c) == "x + x"
    for _ in range(depth - 1):
        c = sym_add(c, x)
    assert list(extension.variables(c)) == ["x"]
    text = str(c)
    assert text.count("x") == depth + 1
    print(f"    {depth} sums: {len(text)} characters")


# Objects in fields of objects


def check_tensor():
    """a tensor that is not there yet: x.op.name"""
    n = Var("n")
    x = extension.placeholder([4, n], "float32", "x")
    assert (x.op.name, str(x.dtype), x.value_index, len(x.shape)) == ("x", "float32", 0, 2)
    assert x.shape[0].value == 4 and x.shape[1].same_as(n)
    y = extension.add_one(x, "y")
    assert y.op.name == "y" and y.op.inputs[0].same_as(x) and y.op.inputs[0].op.name == "x"
    assert extension.op_name(y) == "y"
    assert list(extension.variables(y)) == ["n"]
    print(f"    y.op.name = {y.op.name!r}, y.op.inputs[0].op.name = {y.op.inputs[0].op.name!r}, shape {list(map(str, y.shape))}")
    expect(AttributeError, "", lambda: setattr(x, "value_index", 1))
    expect(ValueError, "a dimension cannot be negative, got -1", extension.placeholder, [-1], "float32", "x")
    expect(TypeError, "expected expr.Expr, got str", extension.placeholder, ["n"], "float32", "x")


# A device


def check_device():
    """tensors on a device of our own"""
    assert EXT_DEV.dlpack_device_type() == 12
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    there = extension.to_device(x, EXT_DEV)
    assert there.device == EXT_DEV and tuple(there.shape) == (2, 3)
    back = np.from_dlpack(extension.to_device(extension.ext_dev_add_one(there), CPU))
    np.testing.assert_array_equal(back, x + 1)
    print(f"    x + 1 on {there.device}: {back.tolist()}")
    assert extension.total(back) == 21
    expect(ValueError, "the tensor is on ext_dev:0", extension.total, there)
    expect(ValueError, "expected a tensor on ext_dev, got one on cpu:0", extension.ext_dev_add_one, x)
    expect(RuntimeError, "no library in this process provides vulkan devices", extension.to_device, x, tvm_ffi.device("vulkan", 0))
    expect(RuntimeError, "", np.from_dlpack, there)  # NumPy knows no such device


def check_memory_of_the_device():
    """views, strides and DLPack there, and memory that runs out"""
    gc.collect()
    before = extension.ext_dev_in_use()
    x = np.arange(24, dtype=np.int16).reshape(4, 6)
    back = lambda tensor: np.from_dlpack(extension.to_device(tensor, CPU))
    # The source may have any layout and element type; the copy is dense.
    for part in (x, x.T, x[::2, 1:5:3], x[::-1, ::-1], x[:0]):
        there = extension.to_device(part, EXT_DEV)
        np.testing.assert_array_equal(back(there), part)
    there = extension.to_device(x, EXT_DEV)
    rows = extension.rows(there, 1, 3)
    assert extension.ext_dev_in_use() == before + x.nbytes, "a view allocates nothing"
    # The capsule passes through DLPack's Python protocol, as in any framework.
    again = tvm_ffi.from_dlpack(rows)
    del there, rows
    assert again.device == EXT_DEV
    np.testing.assert_array_equal(back(again), x[1:3])
    expect(IndexError, "3..5 is not a range in the first dimension, which is 2", extension.rows, again, 3, 5)
    huge = np.zeros(65 << 20, dtype=np.uint8)
    expect(MemoryError, "out of memory: ext_dev:0 has", extension.to_device, huge, EXT_DEV)
    del again
    gc.collect()
    assert extension.ext_dev_in_use() == before, "everything was given back"
    print(f"    {x[1:3].tolist()} from a view, and nothing is left")


def check_device_api():
    """the device as Apache TVM looks it up"""
    device_api = tvm_ffi.get_global_func("device_api.ext_dev")
    if tvm is None:
        expect(RuntimeError, "device_api.cpu is not registered; import tvm first", device_api)
    else:
        assert device_api().value == tvm_ffi.get_global_func("device_api.cpu")().value
        assert tvm.ext_dev(0).exist
        print("    tvm.ext_dev(0).exist")


# Both libraries


def check_either_library_may_be_loaded_first():
    """the libraries in the other order"""
    program = "import extension as e; print(e.sym_add(e.Var('a'), e.Var('b')))"
    command = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "EXTENSION_FIRST": "1"},
        cwd=os.path.dirname(os.path.abspath(__file__)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert command.stdout == "a + b\n", command.stderr
    print("    extension, then expr: a + b")


# Apache TVM


def check_tvm_sym_add():
    """the same function on Apache TVM's expressions"""
    a, b = tirx.Var("a", "int32"), tirx.Var("b", "int32")
    c = sym_add(a, b)
    assert type(c) is type(a + b) and c.a.same_as(a) and c.b.same_as(b)
    assert list(extension.variables(c * 2 + a)) == ["a", "b"]
    print(f"    sym_add(a, b) = {c}, a {type(c).__module__}.{type(c).__name__}")
    expect(TypeError, "got ir.Var and expr.Var", sym_add, a, Var("b"))


def check_tvm_tensor():
    """Apache TVM's own x.op.name, read by Rust"""
    x = te.placeholder((4, tirx.Var("n", "int32")), name="x")
    y = te.compute(x.shape, lambda *i: x(*i) + 1.0, name="y")
    assert (extension.op_name(x), extension.op_name(y)) == (x.op.name, y.op.name) == ("x", "y")
    assert list(extension.variables(x)) == ["n"]
    print(f"    op_name(y) = {y.op.name!r}")


def check_tvm_tensors_on_the_device():
    """tensors that Apache TVM puts on our device, and ours that it takes back"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    there = tvm.runtime.tensor(x, tvm.ext_dev(0))
    assert str(there.device) == "ext_dev:0"
    more = extension.ext_dev_add_one(there)
    np.testing.assert_array_equal(more.numpy(), x + 1)
    target = tvm.runtime.empty((2, 3), "float32", tvm.ext_dev(0))
    more.copyto(target)
    np.testing.assert_array_equal(np.from_dlpack(extension.to_device(target, CPU)), x + 1)
    print(f"    TVM's tensor on {there.device}, plus one by Rust, back by TVM: {more.numpy().tolist()}")


def check_tvm_compiles_for_the_device():
    """a function that Apache TVM compiles for the target ext_dev, on tensors of either"""
    n = 10
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] + 1.0, name="y")
    module = tvm.IRModule.from_expr(te.create_prim_func([x, y]))
    function = tvm.compile(module, target=tvm.target.Target("ext_dev", host="llvm"))["main"]
    values = np.random.default_rng(0).uniform(size=n).astype(np.float32)
    theirs = tvm.runtime.tensor(values, tvm.ext_dev(0))
    ours = extension.to_device(values, EXT_DEV)
    result = tvm.runtime.empty((n,), "float32", tvm.ext_dev(0))
    for source in (theirs, ours):
        function(source, result)
        np.testing.assert_allclose(result.numpy(), values + 1)
    expect(Exception, "expected ext_dev", function, tvm.runtime.tensor(values), result)
    print(f"    {n} elements, from a tensor of TVM and from one of Rust")


CHECKS = [
    check
    for name, check in list(globals().items())
    if name.startswith("check_") and (tvm is not None or not name.startswith("check_tvm_"))
]


def main():
    start = time.monotonic()
    host = f"tvm_ffi {tvm_ffi.__version__}" + (f" and Apache TVM {tvm.__version__}" if tvm else "")
    print(f"under {host}")
    failed = 0
    for check in CHECKS:
        print(f"  {check.__doc__}")
        try:
            check()
        except Exception as error:
            traceback.print_exc()
            print(f"FAILED {check.__name__} - {error}")
            failed += 1
    print(f"{len(CHECKS) - failed} passed, {failed} failed in {time.monotonic() - start:.2f}s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
