"""Libraries that are compiled or loaded."""

import time
from collections import namedtuple

import tvm_ffi

from . import ndarray

# Times of a function in seconds: the mean of the measurements, and all of them.
ProfileResult = namedtuple("ProfileResult", ["mean", "results"])


class Module:
    """A library. `handle` is the module of tvm_ffi."""

    def __init__(self, handle):
        self.handle = handle

    def get_function(self, name):
        """A function by its name."""
        function = self.handle.get_function(name)
        if function is None:
            raise AttributeError(f"module has no function '{name}'")
        return function

    __getitem__ = get_function

    def export_library(self, file_name, options=()):
        """Writes a shared library, which `load` reads; `options` are flags for the linker (`cc`). Returns the path."""
        tvm_ffi.get_global_func("kernpack.module.export_library")(self.handle, str(file_name), list(options))
        return file_name

    def time_evaluator(self, func_name, ctx, number=10, repeat=1, min_repeat_ms=0):
        """A function that measures another one of this library, with the arguments that it is given. It returns a `ProfileResult`.

        There are `repeat` measurements. Each is the mean of `number` calls, or of more, so that they take `min_repeat_ms` milliseconds.
        A call before them is not measured.
        """
        if ctx.device_type != "cpu":
            raise ValueError(f"functions run on tvm.cpu(), got {ctx}")
        if number < 1 or repeat < 1:
            raise ValueError(f"number and repeat are to be 1 or more, got {number} and {repeat}")
        function = self.get_function(func_name)

        def evaluate(*arguments):
            arguments = [value.handle if isinstance(value, ndarray.NDArray) else value for value in arguments]
            function(*arguments)
            results = [_mean_time(function, arguments, number, min_repeat_ms) for _ in range(repeat)]
            return ProfileResult(sum(results) / repeat, tuple(results))

        return evaluate


def _mean_time(function, arguments, number, min_repeat_ms):
    while True:
        begin = time.perf_counter()
        for _ in range(number):
            function(*arguments)
        seconds = time.perf_counter() - begin
        if seconds * 1000 >= min_repeat_ms:
            return seconds / number
        number *= 2


def load(path):
    """Loads a shared library."""
    return Module(tvm_ffi.load_module(str(path)))


def enabled(target):
    """True if libraries can be built for a target."""
    return str(target).split()[0] in ("llvm", "cpu")
