"""Exports what Apache TVM 0.27 makes of small functions, a file for each thing that a loader has to do: export.py FOLDER.

`tests/apache_tvm.rs` runs them in Rust programs without anything of Apache in them. It prints a line `FILE` for each file, and
`skipped: FILE: WHY` for what this build of TVM cannot make.
"""

import sys
from pathlib import Path

import numpy
import tvm
from tvm import relax
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from tvm.support import cc

FOLDER = Path(sys.argv[1])
LENGTH = 1000


@T.prim_func(s_tir=True)
def scale(a: T.Buffer((LENGTH,), "float32"), b: T.Buffer((LENGTH,), "float32")):
    """b = 2 a + 1."""
    for i in range(LENGTH):
        with T.sblock("B"):
            v = T.axis.spatial(LENGTH, i)
            b[v] = a[v] * T.float32(2) + T.float32(1)


@T.prim_func(s_tir=True)
def parallel_square(a: T.Buffer((LENGTH,), "float32"), b: T.Buffer((LENGTH,), "float32")):
    """b = a a, on all threads."""
    for i in T.parallel(LENGTH):
        b[i] = a[i] * a[i]


@T.prim_func(s_tir=True)
def call_back(a: T.Buffer((LENGTH,), "float32"), b: T.Buffer((LENGTH,), "float32")):
    """Calls the host's function `apache_tvm_test.fill`."""
    T.evaluate(T.call_packed("apache_tvm_test.fill", a, b, 7))


@T.prim_func(s_tir=True)
def workspace(a: T.Buffer((LENGTH,), "float32"), b: T.Buffer((LENGTH,), "float32")):
    """b = a backwards, through memory that is too large for the stack."""
    c = T.alloc_buffer((64, LENGTH), "float32")
    for i, j in T.grid(64, LENGTH):
        c[i, j] = a[j]
    for j in range(LENGTH):
        b[j] = c[63, LENGTH - 1 - j]


def compiled(function, target="llvm", **attributes):
    """An executable of one function."""
    name = function.attrs["global_symbol"]
    module = tvm.IRModule({name: function})
    for key, value in attributes.items():
        module = module.with_attr(key, value)
    return tvm.compile(module, target=target)


def scheduled(target):
    """`scale` on a GPU of this kind, called from the CPU."""
    schedule = Schedule(tvm.IRModule({"scale": scale}))
    (loop,) = schedule.get_loops(schedule.get_sblock("B", func_name="scale"))
    outer, inner = schedule.split(loop, [None, 50])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    return tvm.compile(schedule.mod, target=tvm.target.Target(target, host="llvm"))


def with_image(path, target):
    """Exports a library with an image for a GPU, and the image's bytes in a file beside it."""
    executable = scheduled(target)
    executable.export_library(str(path))
    # The packed bytes: the data after the kind and the length.
    blob = path.read_bytes()
    kind = executable.mod.imports[0].kind.encode()
    at = blob.index(len(kind).to_bytes(8, "little") + kind) + 8 + len(kind)
    size = int.from_bytes(blob[at : at + 8], "little")
    path.with_suffix(".image").write_bytes(blob[at + 8 : at + 8 + size])


def virtual_machine(path):
    """A relax program: the library is not its root."""

    @I.ir_module
    class Program:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.add(x, x)
                R.output(y)
            return y

    relax.build(Program, target="llvm").export_library(str(path))


FILES = {
    "scale.so": lambda path: compiled(scale).export_library(str(path)),
    "parallel_square.so": lambda path: compiled(parallel_square).export_library(str(path)),
    "call_back.so": lambda path: compiled(call_back).export_library(str(path)),
    "workspace.so": lambda path: compiled(workspace).export_library(str(path)),
    "c_target.so": lambda path: compiled(scale, "c").export_library(str(path)),
    "system.a": lambda path: compiled(scale, system_lib_prefix="exported_").export_library(
        str(path), fcompile=cc.create_staticlib
    ),
    "virtual_machine.so": virtual_machine,
    "opencl.so": lambda path: with_image(path, "opencl"),
    "cuda.so": lambda path: with_image(path, "cuda"),
    "metal.so": lambda path: with_image(path, "metal"),
    "webgpu.so": lambda path: with_image(path, "webgpu"),
    "vulkan.so": lambda path: with_image(path, "vulkan"),
    "rocm.so": lambda path: with_image(path, "rocm"),
}

for name, write in FILES.items():
    try:
        write(FOLDER / name)
    except Exception as error:
        print(f"skipped: {name}: {str(error).strip().splitlines()[-1]}")
    else:
        print(name)
