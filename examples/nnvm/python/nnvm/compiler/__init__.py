"""Builds, and what they need: attributes of graphs, gradients, files of parameters, optimizers."""

from . import graph_attr, graph_util, lr_scheduler, optimizer
from .build_module import BuildConfig, build, build_config, initialize_variables, optimize
from .param_dict import load_param_dict, save_param_dict

__all__ = [
    "BuildConfig", "build", "build_config", "graph_attr", "graph_util", "initialize_variables", "load_param_dict", "lr_scheduler",
    "optimize", "optimizer", "save_param_dict",
]  # fmt: skip
