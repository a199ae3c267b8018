"""Copies of an object whose tensor is in a device's memory, with the errors of formats that cannot write it. The device is OpenCL's first."""

import copy
import pickle
import sys

import extmod
import numpy as np

numbers = np.arange(3, dtype=np.float32)
device = "opencl:0"
if not isinstance(extmod.__library__, str):
    import tvm_ffi

    device = tvm_ffi.device(device)
try:
    on_device = extmod.to_device(numbers, device)
except RuntimeError as error:
    print(f"no device: {error}")
    sys.exit()


def message(call, *arguments):
    try:
        call(*arguments)
    except ValueError as error:
        return str(error)
    raise AssertionError("no ValueError")


def elements(tensor):
    host = extmod.to_device(tensor, "cpu" if isinstance(extmod.__library__, str) else tvm_ffi.device("cpu"))
    return np.from_dlpack(host).tolist()


there, here = extmod.Named(on_device, "there"), extmod.Named(numbers, "here")
advice = "copy it to the CPU first"
assert message(extmod.json_of, there) == f"a tensor on opencl:0 is not written as JSON; {advice}"
assert message(pickle.dumps, there) in [f"a tensor on opencl:0 {problem}; {advice}" for problem in ("cannot be pickled", "is not written as JSON")]
deep, shallow = copy.deepcopy(there), copy.copy(there)
for again in (deep, shallow):
    assert again.name == "there" and "opencl:0" in repr(again) and elements(again.tensor) == [0.0, 1.0, 2.0]
# On the host, all of them.
for again in (copy.deepcopy(here), pickle.loads(pickle.dumps(here)), extmod.value_of_json(extmod.json_of(here))):
    own = np.from_dlpack(again.tensor)
    own[0] = 7
    assert again.name == "here" and own.tolist() == [7.0, 1.0, 2.0] and numbers[0] == 0
if hasattr(there.tensor, "numpy"):
    for call in (there.tensor.numpy, lambda: np.asarray(there.tensor)):
        assert message(call) == f"a tensor on opencl:0 is not a NumPy array; {advice}"
    try:
        memoryview(there.tensor)
    except BufferError as error:
        assert "the memory of a device" in str(error)
print("passed")
