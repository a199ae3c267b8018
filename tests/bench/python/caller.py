"""The Python caller: stock tvm_ffi calls each library. See ../README.md for what it reads and prints."""

import copy
import itertools
import sys
import time
import timeit

import numpy
import tvm_ffi
from tvm_ffi import dataclasses


def time_add(add, iterations):
    start = time.perf_counter_ns()
    for _ in itertools.repeat(None, iterations):
        result = add(3, 4)
    elapsed = time.perf_counter_ns() - start
    assert result == 7, result
    return elapsed


def time_fail(fail, iterations):
    failures = 0
    start = time.perf_counter_ns()
    for _ in itertools.repeat(None, iterations):
        try:
            fail(7)
        except ValueError:
            failures += 1
    elapsed = time.perf_counter_ns() - start
    assert failures == iterations, failures
    return elapsed


def time_view(view, iterations):
    tensor = tvm_ffi.from_dlpack(numpy.zeros(16, "float32"))
    start = time.perf_counter_ns()
    for _ in itertools.repeat(None, iterations):
        result = view(tensor)
    elapsed = time.perf_counter_ns() - start
    assert result == 16, result
    return elapsed


# Operations on a record; `chain` is a record whose `next` is another one.
RECORD_CASES = {
    "int": "record.count",
    "float": "record.scale",
    "text": "record.label",
    "long_text": "chain.label",
    "object": "chain.next",
    "none": "record.next",
    "call_0": "record.get()",
    "call_1": "record.plus(1)",
    "call_2": "record.plus_two(1, 2)",
    "create": "Record(7, 2.5, 'label', None)",
    "copy": "copy(record)",
}


def record_timers(library):
    """A timer for each case, with the type `Record` of a library."""

    class Record(tvm_ffi.Object):
        count: int
        scale: float
        label: str
        next: object

    Record = dataclasses.c_class(f"bench.{library}.Record")(Record)
    record = Record(7, 2.5, "label", None)
    chain = Record(8, 0.5, "a text that does not fit into one value", record)
    assert (chain.next.count, record.scale, len(chain.label), record.next) == (7, 2.5, 39, None)
    assert (record.get(), record.plus(1), record.plus_two(1, 2), copy.copy(record).label) == (7, 8, 10, "label")
    names = {"record": record, "chain": chain, "Record": Record, "copy": copy.copy}
    return {case: timeit.Timer(code, timer=time.perf_counter_ns, globals=names) for case, code in RECORD_CASES.items()}


def main():
    modules, records = {}, {}
    for argument in sys.argv[1:]:
        name, path = argument.split("=", 1)
        modules[name] = tvm_ffi.load_module(path)
        # The tvm-ffi crate does not support fields, methods or constructors of Rust types.
        if name != "crate":
            records[name] = record_timers(name)
    functions = {(case, name): module[case] for name, module in modules.items() for case in ("add", "fail")}
    functions |= {("view", name): modules[name]["view"] for name in modules if name != "crate"}
    timers = {"add": time_add, "fail": time_fail, "view": time_view}
    print("ready", flush=True)
    for line in sys.stdin:
        case, library, iterations = line.split()
        if case in timers:
            elapsed = timers[case](functions[case, library], int(iterations))
        else:
            elapsed = records[library][case].timeit(int(iterations))
        print(elapsed, flush=True)


main()
