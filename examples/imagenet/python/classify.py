"""Says what is in photographs: `python classify.py PATH..`. IMAGENET_LIBRARY names the library; without it, that of a release build."""

import os
import sys
from pathlib import Path

import tvm_ffi

LIBRARY = os.environ.get("IMAGENET_LIBRARY") or str(Path(__file__).parents[3] / "target/release/libimagenet.so")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    imagenet = tvm_ffi.load_module(LIBRARY)
    for path in sys.argv[1:]:
        found = imagenet.classify_path(path)
        print(f"{path}: " + ", ".join(f"{one.label} ({one.score:.1%})" for one in found))


if __name__ == "__main__":
    main()
