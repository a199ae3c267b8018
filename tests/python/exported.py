"""Loads the files that `tests/tests/export/packers.rs` exported, in a process without Kernpack: `exported.py tvm_ffi|tvm LIBRARY COMPRESSED SYSTEM C OBJECT`."""

import ctypes
import sys
from pathlib import Path

import tvm_ffi

apache = sys.argv[1] == "tvm"
library, compressed, system, c_bytes, object_bytes = sys.argv[2:]

if apache:
    import tvm

make = tvm_ffi.get_global_func("ffi.ModuleLoadFromFile")
seen: list[int] = []


@tvm_ffi.register_global_func("ffi.Module.load_from_bytes.export.length")
def load_length(payload: bytes) -> tvm_ffi.Module:
    """Any module; only its payload matters."""
    seen.append(len(bytes(payload)))
    assert bytes(payload) == b"\x09" * 100_000
    return make(sys.argv[2].replace(".so", "_system.so"))


def load(path: str) -> tvm_ffi.Module:
    return tvm.runtime.load_module(path) if apache else tvm_ffi.load_module(path)


# The system library is registered by its constructor. Loading it as an import above would register it again.
ctypes.CDLL(system, mode=ctypes.RTLD_GLOBAL)
placed = tvm_ffi.system_lib("kp_")
assert placed["system"]() == 6
assert seen == [100_000], seen

module = load(library)
assert [module[name]() for name in ("from_c", "from_object", "from_llvm")] == [1, 2, 5]
assert (len(module.imports), seen) == (1, [100_000] * 2)

try:
    load(compressed)
    raise AssertionError("nothing here can decompress")
except RuntimeError as error:
    assert "ffi.Module.load_from_bytes.kernpack.zstd" in str(error), error

if apache:
    c = tvm_ffi.get_global_func("ffi.Module.load_from_bytes.c")(Path(c_bytes).read_bytes())
    assert (c.kind, c.inspect_source(), list(c["get_func_names"]())) == ("c", "int x;", ["f", "g"])
    assert list(c.get_write_formats()) == ["cc"], c.get_write_formats()
    o = tvm_ffi.get_global_func("ffi.Module.load_from_bytes.static_library")(Path(object_bytes).read_bytes())
    assert (o.kind, list(o["get_func_names"]())) == ("static_library", ["f"])

print("ok")
