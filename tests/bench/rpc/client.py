"""The cost of calls and copies with the RPC client of Apache TVM: client.py PORT prints lines `name<TAB>nanoseconds`."""

import statistics
import sys
import time

import numpy as np
import tvm
from tvm import rpc

SIZES = [1, 16, 64]


def median(work, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times)


session = rpc.connect("127.0.0.1", int(sys.argv[1]))
echo = session.get_function("testing.echo")
assert echo(7) == 7
median(lambda: echo(7), 500)
print(f"echo\t{median(lambda: echo(7), 5000)}")
for size in SIZES:
    here = tvm.runtime.tensor(np.resize(np.arange(251, dtype="uint8"), size << 20))
    there = tvm.runtime.empty((size << 20,), "uint8", session.cpu(0))
    back = tvm.runtime.empty((size << 20,), "uint8")
    rounds = 5 if size == 1 else 1
    print(f"to {size}\t{median(lambda: here.copyto(there), rounds)}")
    print(f"from {size}\t{median(lambda: there.copyto(back), rounds)}")
    assert (back.numpy() == here.numpy()).all()
