"""Our code generator for the differential test of ../../shared/data/tvm-ir: the global function `kernpack.test.build`.

    python differential.py corpus.jsonl.gz --generator kernpack.test.build --import tests/apache-tvm/generator.py

KERNPACK_CORPUS_LIBRARY names the library of the crate `kernpack-tvm-corpus`.
"""

import json
import math
import os

import tvm
import tvm_ffi

_library = tvm_ffi.load_module(os.environ["KERNPACK_CORPUS_LIBRARY"])
_build = tvm_ffi.get_global_func("kernpack.test.build_tvm")


def _plain(value):
    """Converts containers of Apache TVM to Python's."""
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (str, int, float)) or value is None:
        return value
    return [_plain(item) for item in value]


@tvm_ffi.register_global_func("kernpack.test.build")
def build(module, target):
    """Compiles an IRModule of Apache TVM for a Target."""
    graph = json.loads(tvm.ir.save_json(module))
    for node in graph["nodes"]:
        # JSON cannot represent these numbers.
        if node["type"] == "ir.FloatImm" and not math.isfinite(node["data"]["value"]):
            node["data"]["value"] = str(node["data"]["value"])
    return _build(json.dumps(graph), json.dumps(_plain(target.export())))
