"""The devices that tests run on."""

import tvm


def ctx_list():
    """Pairs of a target and its device."""
    return [("llvm", tvm.cpu(0))]
