"""A library as Apache TVM's compiler makes them (tests/c/generated.c) in stock Python. libtvm_ffi has nothing for its
context symbols, so it would crash; a library of ours that has kernels or modules brings them, unless Apache TVM has."""

import os
import subprocess
from pathlib import Path

import pytest
import tvm_ffi

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    ours = os.environ.get("IMAGEKIT_LIBRARY")
    assert ours, "set IMAGEKIT_LIBRARY to the path of libimagekit.so (cargo build -p imagekit)"
    tvm_ffi.load_module(ours)
    library = tmp_path_factory.mktemp("generated") / "generated.so"
    options = ["-std=gnu11", "-O1", "-shared", "-fPIC", "-I", TESTS.parent / "build-support/include"]
    subprocess.run(["cc", *options, TESTS / "c/generated.c", "-o", library], check=True)
    return tvm_ffi.load_module(str(library))


@pytest.mark.parametrize("num_task", [0, 1, 2, 3, 16, 100])
def test_a_parallel_loop_with_workspaces_and_a_barrier(generated, num_task):
    assert generated.sum_of_squares(1000, num_task) == sum(i * i for i in range(1000))


def test_launches(generated):
    assert generated.tasks(5) == 5
    assert generated.tasks(0) >= 1
    assert generated.nested() == 3


@pytest.mark.parametrize("task", range(4))
def test_the_error_of_a_task(generated, task):
    with pytest.raises(ValueError, match="^Assert fail: task must not run$"):
        generated.failing(task)
    assert generated.failing(4) == 0


def test_workspaces(generated):
    assert generated.workspaces() == 40
    with pytest.raises(ValueError, match="is not a workspace that this thread has allocated and not yet freed"):
        generated.free_stranger()
    with pytest.raises(RuntimeError, match="no library in this process provides vulkan devices"):
        generated.workspace_on(7)


def test_a_packed_call(generated):
    tvm_ffi.register_global_func("test.context.twice", lambda x: 2 * x, override=True)
    assert generated.call_twice(21) == 42


def test_a_wrong_argument(generated):
    with pytest.raises(TypeError, match="Mismatched type on argument #0 when calling: `tasks`, expected int"):
        generated.tasks("five")


def test_the_child_of_a_fork(generated):
    """The child of a fork, multiprocessing's default on Linux, has no threads of the pool."""
    assert generated.sum_of_squares(1000, 4) == 332833500
    child = os.fork()
    if child == 0:
        os._exit(42 if generated.sum_of_squares(1000, 4) == 332833500 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 42

