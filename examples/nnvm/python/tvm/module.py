"""Libraries that are compiled or loaded."""

import tvm_ffi


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


def load(path):
    """Loads a shared library."""
    return Module(tvm_ffi.load_module(str(path)))


def enabled(target):
    """True if libraries can be built for a target."""
    return str(target).split()[0] in ("llvm", "cpu")
