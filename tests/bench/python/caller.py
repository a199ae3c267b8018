"""The Python caller: stock tvm_ffi calls each library. See ../README.md for what it reads and prints."""

import itertools
import sys
import time

import tvm_ffi


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


def main():
    modules = {}
    for argument in sys.argv[1:]:
        name, path = argument.split("=", 1)
        modules[name] = tvm_ffi.load_module(path)
    functions = {(case, name): module[case] for name, module in modules.items() for case in ("add", "fail")}
    timers = {"add": time_add, "fail": time_fail}
    print("ready", flush=True)
    for line in sys.stdin:
        case, library, iterations = line.split()
        print(timers[case](functions[case, library], int(iterations)), flush=True)


main()
