"""Exports what Apache TVM 0.27 makes of small functions, a file for each thing that a loader has to do: export.py FOLDER.

`tests/apache_tvm.rs` runs them in a Rust program without anything of Apache in it. On stdout: a line `FILE` for each file, and
`skipped: FILE: WHY` for what this build of TVM can not make.
"""

import subprocess
import sys
from pathlib import Path

import numpy
import tvm
from tvm import relax, te
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

FOLDER = Path(sys.argv[1])
LENGTH = 1000


@T.prim_func(s_tir=True)
def scale(a: T.Buffer((LENGTH,), "float32"), b: T.Buffer((LENGTH,), "float32")):
    """b = 2 a + 1"""
    for i in range(LENGTH):
        b[i] = a[i] * T.float32(2) + T.float32(1)


@T.prim_func(s_tir=True)
def parallel_square(a: T.Buffer((LENGTH,), "float32"), b: T.Buffer((LENGTH,), "float32")):
    """b = a a, on all threads"""
    for i in T.parallel(LENGTH):
        b[i] = a[i] * a[i]


@T.prim_func(s_tir=True)
def call_back(a: T.Buffer((LENGTH,), "float32"), b: T.Buffer((LENGTH,), "float32")):
    """Lets the function `apache_tvm_test.fill` of the host do the work."""
    T.evaluate(T.call_packed("apache_tvm_test.fill", a.data, b.data, 7))


def exported(name, write):
    """Writes a file, and says so."""
    try:
        write(FOLDER / name)
    except Exception as error:
        print(f"skipped: {name}: {str(error).strip().splitlines()[-1]}")
        return
    print(name)
