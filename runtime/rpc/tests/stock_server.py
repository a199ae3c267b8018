"""A server of Apache TVM with functions for the tests of the client: prints its port, and ends with its standard input."""

import os
import sys
import threading
import time

import numpy as np
import tvm
import tvm_ffi
from tvm.rpc.server import PopenRPCServerState


@tvm_ffi.register_global_func("rpc_test.echo")
def echo(value):
    return value


@tvm_ffi.register_global_func("rpc_test.kind")
def kind(value):
    return type(value).__name__


@tvm_ffi.register_global_func("rpc_test.raise")
def throw(name, message):
    raise {"ValueError": ValueError, "TypeError": TypeError, "IndexError": IndexError}[name](message)


@tvm_ffi.register_global_func("rpc_test.adder")
def adder(amount):
    return lambda x: x + amount


@tvm_ffi.register_global_func("rpc_test.call")
def call(function, value):
    return function(value)


@tvm_ffi.register_global_func("rpc_test.pair")
def pair(a, b):
    return tvm_ffi.convert([a, b])


@tvm_ffi.register_global_func("rpc_test.sum_of_pair")
def sum_of_pair(values):
    return values[0] + values[1]


@tvm_ffi.register_global_func("rpc_test.arange")
def arange(count, dtype):
    return tvm.runtime.tensor(np.arange(count).astype(dtype))


@tvm_ffi.register_global_func("rpc_test.fill")
def fill(tensor, value):
    tensor.copyfrom(np.full(tensor.shape, value, dtype=str(tensor.dtype)))


@tvm_ffi.register_global_func("rpc_test.total")
def total(tensor):
    return float(tensor.numpy().sum())


@tvm_ffi.register_global_func("rpc_test.sleep")
def sleep(seconds):
    time.sleep(seconds)


@tvm_ffi.register_global_func("rpc_test.die")
def die():
    os._exit(3)


class Counted:
    alive = 0

    def __init__(self):
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1

    def __call__(self, x):
        return x


@tvm_ffi.register_global_func("rpc_test.counted")
def counted():
    function = Counted()
    return tvm_ffi.convert(lambda x: function(x))


@tvm_ffi.register_global_func("rpc_test.alive")
def alive():
    return Counted.alive


def main():
    key = sys.argv[1] if len(sys.argv) > 1 else ""
    server = PopenRPCServerState("127.0.0.1", 19000 + os.getpid() % 20000, 65000, key=key, silent=True)
    print(server.port, flush=True)

    def until_the_end():
        # Not `sys.stdin`: a process that is forked while a thread reads it waits for its lock.
        os.read(0, 1)
        import psutil

        for child in psutil.Process().children(recursive=True):
            child.kill()
        os._exit(0)

    threading.Thread(target=until_the_end).start()


main()
