"""Calls extension modules with the same functions. See ../README.md for what it reads and prints.

Usage: caller.py NAME=PATH... imports each module; the name `tvm_ffi` loads the library at the path through the package tvm_ffi.
"""

import importlib.machinery
import importlib.util
import itertools
import sys
import time

import numpy

# The function of the module, the code of the case, and a check of the last result. `f` is the
# function, `r` a record, `R` its class.
CASES = {
    "add": ("add", "f(20, 22)", "== 42"),
    "keywords": ("add", "f(a=20, b=22)", "== 42"),
    "keyword": ("add", "f(20, b=22)", "== 42"),
    "float": ("half", "f(5.0)", "== 2.5"),
    "text_5": ("length", "f('hello')", "== 5"),
    "text_40": ("length", f"f('{'x' * 40}')", "== 40"),
    "list": ("sum_list", "f(numbers)", "== 190"),
    "none": ("nothing", "f()", "is None"),
    "result_5": ("short_text", "f()", "== 'hello'"),
    "result_31": ("long_text", "f()", "== 'a text that is 31 characters by'"),
    "tuple": ("divide", "f(7, 2)", "[0] == 3"),
    "error": ("fail", "f(7)", "== 'code 7 is not allowed'"),
    "callback": ("apply", "f(same, 7)", "== 7"),
    "view": ("element_count", "f(array)", "== 1000"),
    "array": ("zeros", "f(16)", ".shape[0] == 16"),
    "int_field": ("add", "r.count", "== 7"),
    "float_field": ("add", "r.scale", "== 2.5"),
    "text_field": ("add", "r.label", "== 'label'"),
    "method_0": ("add", "r.get()", "== 7"),
    "method_1": ("add", "r.plus(1)", "== 8"),
    "constructor": ("add", "R(7, 2.5, 'label')", ".count == 7"),
    "argument": ("count_of", "f(r)", "== 7"),
    "object": ("record", "f(7)", ".count == 7"),
}

LOOP = """
def run(rounds):
    f, r, R, numbers, array, same = VALUES
    start = clock()
    for _ in repeat(None, rounds):
        result = {call}
    elapsed = clock() - start
    assert result {check}, result
    return elapsed
"""

ERROR_LOOP = """
def run(rounds):
    f, r, R, numbers, array, same = VALUES
    start = clock()
    for _ in repeat(None, rounds):
        try:
            {call}
        except ValueError as error:
            result = error
    elapsed = clock() - start
    assert str(result) {check}, result
    return elapsed
"""

EMPTY_LOOP = """
def run(rounds):
    start = clock()
    for _ in repeat(None, rounds):
        pass
    return clock() - start
"""


def load(name, path):
    """The module or library, and its class."""
    if name == "tvm_ffi":
        import tvm_ffi
        from tvm_ffi import dataclasses

        module = tvm_ffi.load_module(path)

        @dataclasses.c_class("bench_ours.Record")
        class Record(tvm_ffi.Object):
            count: int
            scale: float
            label: str

        return module, Record
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path, loader=loader))
    loader.exec_module(module)
    return module, module.Record


def compiled(template, **names):
    """A separate function for each case and module, so that the interpreter specializes each of them. It measures the CPU time of the thread."""
    names.update(clock=time.thread_time_ns, repeat=itertools.repeat)
    exec(template, names)
    return names["run"]


def runners(module, record_class):
    record = record_class(7, 2.5, "label")
    numbers, array = list(range(20)), numpy.zeros(1000, "float32")
    found = {}
    for case, (name, call, check) in CASES.items():
        template = ERROR_LOOP if case == "error" else LOOP
        values = (getattr(module, name), record, record_class, numbers, array, lambda x: x)
        found[case] = compiled(template.format(call=call, check=check), VALUES=values)
    return found


def main():
    libraries = {}
    for argument in sys.argv[1:]:
        name, path = argument.split("=", 1)
        libraries[name] = runners(*load(name.removesuffix("_abi3"), path))
    empty = compiled(EMPTY_LOOP)
    print("ready", flush=True)
    for line in sys.stdin:
        case, library, rounds = line.split()
        run, rounds = libraries[library][case], int(rounds)
        print(max(run(rounds) - empty(rounds), 1), flush=True)


main()
