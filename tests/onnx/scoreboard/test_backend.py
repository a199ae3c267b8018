"""The tests of ONNX's backend scoreboard, through `kernpack_onnx.backend`.

`KERNPACK_ONNX_TESTS` names a file with the names of some tests: only these are made. A test that a backend says it need not pass is skipped, and counts as
skipped: ONNX's own runner would count it as passed.
"""

import os
from pathlib import Path

import kernpack_onnx.backend as backend
import onnx.backend.test

_tests = onnx.backend.test.BackendTest(backend, __name__)
_cases = _tests.test_cases

_some = os.environ.get("KERNPACK_ONNX_TESTS")
if _some:
    _wanted = {name for name in Path(_some).read_text().split() if name}
    _there = {name for case in _cases.values() for name in vars(case)}
    if missing := sorted(name for name in _wanted if f"{name}_cpu" not in _there):
        raise ValueError(f"{_some}: onnx {onnx.__version__} has no tests {', '.join(missing)}")
    for case in _cases.values():
        for name in [name for name in vars(case) if name.startswith("test_") and name.removesuffix("_cpu") not in _wanted]:
            delattr(case, name)

globals().update(_cases)
