"""Networks with random parameters, and checks of operators, for tests."""

from . import check_computation, config, dcgan, dqn, mlp, mobilenet, resnet, squeezenet, utils, vgg
from .config import ctx_list
from .utils import create_workload

__all__ = [
    "check_computation", "config", "create_workload", "ctx_list", "dcgan", "dqn", "mlp", "mobilenet", "resnet", "squeezenet", "utils",
    "vgg",
]  # fmt: skip
