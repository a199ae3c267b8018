"""Says what kinds of files these are: `python identify.py PATH..`. FILETYPE_LIBRARY names the library; without it, that of a release build."""

import os
import sys
from pathlib import Path

import tvm_ffi

LIBRARY = os.environ.get("FILETYPE_LIBRARY") or str(Path(__file__).parents[3] / "target/release/libfiletype.so")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    filetype = tvm_ffi.load_module(LIBRARY)
    for path in sys.argv[1:]:
        known = filetype.identify_path(path)
        print(f"{path}: {known.label} ({known.mime_type}), score {known.score:.4f}")


if __name__ == "__main__":
    main()
