"""Exports a library with an OpenCL kernel: export_addone.py OUT. Needs Apache TVM 0.27."""

import sys

import tvm
from tvm import te
from tvm.s_tir import Schedule

a = te.placeholder((16,), "float32", name="A")
b = te.compute((16,), lambda i: a[i] + 1.0, name="B")
function = te.create_prim_func([a, b]).with_attr("global_symbol", "addone")
schedule = Schedule(tvm.IRModule({"addone": function}))
(loop,) = schedule.get_loops(schedule.get_sblock("B", func_name="addone"))
outer, inner = schedule.split(loop, [None, 8])
schedule.bind(outer, "blockIdx.x")
schedule.bind(inner, "threadIdx.x")
target = tvm.target.Target("opencl", host="llvm")
tvm.compile(schedule.mod, target=target).export_library(sys.argv[1])
