"""Networks with random parameters, and checks of operators, for tests."""

from . import config, utils
from .config import ctx_list

__all__ = ["config", "ctx_list", "utils"]
