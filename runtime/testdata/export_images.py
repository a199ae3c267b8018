"""Writes scale_metal.library_bin and scale_webgpu.library_bin: what Apache TVM 0.27 puts into a library for these targets.

Needs apache-tvm==0.27.0.post1 and a C++ compiler: python export_images.py FOLDER. (This build of TVM cannot make vulkan and rocm images.)
"""

import ctypes
import struct
import sys
from pathlib import Path

import tvm
from tvm.s_tir import Schedule
from tvm.script import ir as I  # noqa: F401
from tvm.script import tirx as T

FOLDER = Path(sys.argv[1])
N = 1000


@T.prim_func(s_tir=True)
def main(a: T.Buffer((N,), "float32"), b: T.Buffer((N,), "float32")):
    for i in range(N):
        with T.sblock("B"):
            vi = T.axis.spatial(N, i)
            b[vi] = a[vi] * T.float32(2) + T.float32(1)


@T.prim_func(s_tir=True)
def other(a: T.Buffer((N,), "float32"), b: T.Buffer((N,), "float32"), k: T.int32):
    for i in range(N):
        with T.sblock("B"):
            vi = T.axis.spatial(N, i)
            b[vi] = a[vi] * T.cast(k, "float32")


schedule = Schedule(tvm.IRModule({"main": main, "other": other}))
for name in ["main", "other"]:
    (loop,) = schedule.get_loops(schedule.get_sblock("B", func_name=name))
    outer, inner = schedule.split(loop, [None, 64])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")

for kind in ["metal", "webgpu"]:
    path = FOLDER / f"{kind}.so"
    tvm.compile(schedule.mod, target=tvm.target.Target(kind, host="llvm")).export_library(str(path))
    start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL(str(path)), "__tvm_ffi__library_bin"))
    (size,) = struct.unpack("<Q", ctypes.string_at(start, 8))
    (FOLDER / f"scale_{kind}.library_bin").write_bytes(ctypes.string_at(start, 8 + size))
