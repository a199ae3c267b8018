"""Files with parameters."""

import tvm

from .._base import call


def save_param_dict(params):
    """Parameters (arrays by name) as the bytes of a file."""
    return bytearray(call("save_param_dict", {name: tvm.nd.array(value).handle for name, value in params.items()}))


def load_param_dict(param_bytes):
    """The parameters of a file, by name."""
    return {str(name): tvm.nd.NDArray(value) for name, value in call("load_param_dict", bytes(param_bytes)).items()}
