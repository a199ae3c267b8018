"""Measures the stock Python package over whichever libtvm_ffi.so is in it. See ../README.md for what it reads and prints. Usage: caller.py library=PATH"""

import copy
import itertools
import os
import sys
import time

import tvm_ffi
from tvm_ffi.dataclasses import py_class


@py_class("bench.PyNode", structural_eq="tree")
class PyNode(tvm_ffi.Object):
    tag: int
    name: str
    children: tvm_ffi.Array


def tree(depth, counter):
    tag = next(counter)
    children = [tree(depth - 1, counter) for _ in range(10 if depth else 0)]
    return PyNode(tag, f"node {tag % 100}", tvm_ffi.Array(children))


@tvm_ffi.register_global_func("bench.echo")
def echo(value):
    return value


ECHO = tvm_ffi.get_global_func("bench.echo")
SIZE = tvm_ffi.get_global_func("ffi.ArraySize")
ARRAY = tvm_ffi.Array(list(range(20)))
NUMBERS = list(range(20))
PAIRS = {f"key {i}": i for i in range(20)}
MAP = tvm_ffi.Map(PAIRS)
DICT = tvm_ffi.Dict(PAIRS)
NODE = tree(0, itertools.count())
SMALL = tree(2, itertools.count())
LARGE = tree(4, itertools.count())
TWIN = tree(4, itertools.count())
ROWS = tvm_ffi.Array([tvm_ffi.Map({"id": i, "weight": i / 7, "tags": ["a", "b"], "ok": True}) for i in range(100)])
DOCUMENT = tvm_ffi.get_global_func("ffi.json.Stringify")(ROWS, None)
PARSE = tvm_ffi.get_global_func("ffi.json.Parse")
WRITE = tvm_ffi.get_global_func("ffi.json.Stringify")
SAVED = tvm_ffi.serialization.to_json_graph_str(SMALL)


def fail():
    try:
        ARRAY_GET(ARRAY, 99)
    except IndexError:
        return True
    return False


ARRAY_GET = tvm_ffi.get_global_func("ffi.ArrayGetItem")


def set_item():
    DICT["key 7"] = 8
    return DICT["key 7"] == 8


CASES = {
    "call": (lambda: SIZE(ARRAY), 20),
    "callback": (lambda: ECHO(7), 7),
    "array": (lambda: len(tvm_ffi.Array(NUMBERS)), 20),
    "array_get": (lambda: ARRAY[7], 7),
    "map": (lambda: len(tvm_ffi.Map(PAIRS)), 20),
    "map_get": (lambda: MAP["key 7"], 7),
    "map_iterate": (lambda: sum(1 for _ in MAP.items()), 20),
    "dict_set": (set_item, True),
    "object_new": (lambda: PyNode(1, "node", ARRAY).tag, 1),
    "field": (lambda: NODE.tag, 0),
    "repr": (lambda: len(repr(SMALL)) > 1000, True),
    "deep_copy": (lambda: copy.deepcopy(SMALL).tag, 0),
    "json_parse": (lambda: len(PARSE(DOCUMENT)), 100),
    "json_write": (lambda: len(WRITE(ROWS, None)), len(DOCUMENT)),
    "json_graph_save": (lambda: len(tvm_ffi.serialization.to_json_graph_str(SMALL)), len(SAVED)),
    "json_graph_load": (lambda: tvm_ffi.serialization.from_json_graph_str(SAVED).tag, 0),
    "structural_equal": (lambda: tvm_ffi.structural_equal(LARGE, TWIN), True),
    "structural_hash": (lambda: tvm_ffi.structural_hash(LARGE) != 0, True),
    "error": (fail, True),
}


def measure(name, iterations):
    run, expected = CASES[name]
    start = time.perf_counter_ns()
    for _ in itertools.repeat(None, iterations):
        result = run()
    elapsed = time.perf_counter_ns() - start
    assert result == expected, (name, result, expected)
    return elapsed


def check_library(expected):
    """Checks that the mapped library is the requested one: a benchmark of another one would be meaningless."""
    with open("/proc/self/maps") as maps:
        mapped = {line.split()[-1] for line in maps if line.rstrip().endswith("/libtvm_ffi.so")}
    if {os.path.realpath(path) for path in mapped} != {os.path.realpath(expected)}:
        sys.exit(f"expected {expected} in this process, found {', '.join(sorted(mapped)) or 'none'}")


def main():
    check_library(sys.argv[1].split("=", 1)[1])
    print("ready", flush=True)
    for line in sys.stdin:
        name, _library, iterations = line.split()
        print(measure(name, int(iterations)), flush=True)


main()
