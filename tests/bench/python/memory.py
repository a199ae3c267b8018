"""Memory of models in a library made with Kernpack beside onnxruntime: each in a process of its own, with one thread.

usage: memory.py LIBRARY FOLDER. Prints a line for each model: name, then contender=MiB:ratio, tab-separated: the most resident memory from before the library or the file is
loaded to behind five calls, less what the process had before. The ratio is ours / theirs.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

NAMES = {
    "magika": "Magika, one file",
    "mlp": "MLP 784-512-512-10, batch 1",
    "transformer": "transformer, 2 layers, 128x256",
    "resnet18": "ResNet-18, 224x224",
    "mobilenet": "MobileNetV2-like, 224x224",
    "unet": "U-Net, 3 levels, 128x128",
    "lstm": "LSTM, 2 layers of 256, 32 steps",
}
ROUNDS = 5


def mebibytes(field):
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)[1]) / 1024


def measured(work):
    """The peak of the resident memory while `work` runs, minus the memory before."""
    before = mebibytes("VmRSS")
    # Resets the peak.
    Path("/proc/self/clear_refs").write_text("5")
    work()
    return mebibytes("VmHWM") - before


def in_child(library, folder, key, who):
    import numpy as np

    shapes = np.load(folder / f"{key}.shapes.npz")
    x, out = np.ascontiguousarray(shapes["x"]), np.empty(shapes["out"], np.float32)
    if who == "ours":
        import tvm_ffi

        def work():
            function = tvm_ffi.load_module(library)[key]
            for _ in range(ROUNDS):
                function(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(out))
    else:
        import onnxruntime

        def work():
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            made = onnxruntime.InferenceSession(str(folder / f"{key}.onnx"), options, ["CPUExecutionProvider"])
            for _ in range(ROUNDS):
                made.run(None, {made.get_inputs()[0].name: x})

    print(measured(work))


def arguments_of(folder, key):
    """Writes the inputs of a model, and the shape of its result, so that the children do not have to compute them."""
    import numpy as np
    import onnxruntime

    made = onnxruntime.InferenceSession(str(folder / f"{key}.onnx"), providers=["CPUExecutionProvider"])
    of = made.get_inputs()[0]
    shape = [extent if isinstance(extent, int) else 1 for extent in of.shape]
    x = np.zeros(shape, np.int32 if of.type == "tensor(int32)" else np.float32)
    out = made.run(None, {of.name: x})[0]
    np.savez(folder / f"{key}.shapes.npz", x=x, out=np.array(out.shape))


def main():
    library, folder = sys.argv[1], Path(sys.argv[2])
    if len(sys.argv) > 3:
        return in_child(library, folder, *sys.argv[3:])
    environment = dict(os.environ, TVM_NUM_THREADS="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    for key, name in NAMES.items():
        arguments_of(folder, key)
        peaks = {}
        for who in ("ours", "onnxruntime"):
            command = [sys.executable, __file__, library, str(folder), key, who]
            peaks[who] = float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
        columns = [f"{who}={peak:.1f}:{peaks['ours'] / peak:.3f}" for who, peak in peaks.items()]
        print(name + "\t" + "\t".join(columns), flush=True)


main()
