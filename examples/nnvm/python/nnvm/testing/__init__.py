"""Networks with random parameters, and checks of operators, for tests."""

from . import check_computation, config, mlp, mobilenet, resnet, utils, vgg
from .config import ctx_list

__all__ = ["check_computation", "config", "ctx_list", "mlp", "mobilenet", "resnet", "utils", "vgg"]
