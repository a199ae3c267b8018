"""Attributes of operators that are functions of Python."""

from .._base import call
from ..symbol import Symbol


class OpPattern:
    """How an operator can be fused, as `register_pattern` takes it."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    OPAQUE = 8


def _register(op_name, key, function, level, convert=None):
    """Sets the attribute to a function, or returns a decorator that does."""

    def register(function):
        call("op_set_attr", op_name, key, convert(function) if convert else function, level)
        return function

    return register(function) if function is not None else register


def register_compute(op_name, f=None, level=10):
    """`f(attrs, inputs, outputs)` returns the tensors (of `kernpack.te`) that the operator computes."""
    return _register(op_name, "FTVMCompute", f, level)


def register_schedule(op_name, f=None, level=10):
    """`f(attrs, outputs, target)` returns the schedule of the operator's kernels."""
    return _register(op_name, "FTVMSchedule", f, level)


def register_pattern(op_name, pattern, level=10):
    """Sets how the operator can be fused: a value of `OpPattern`."""
    _register(op_name, "TOpPattern", pattern, level)


def register_alter_op_layout(op_name, f=None, level=10):
    """`f(attrs, inputs, tensors)` returns a symbol that replaces the operator for `AlterOpLayout`, or None."""

    def convert(function):
        def alter(attrs, inputs, tensors):
            symbol = function({str(key): str(value) for key, value in attrs.items()}, [Symbol(one) for one in inputs], tensors)
            return None if symbol is None else symbol.handle

        return alter

    return _register(op_name, "FTVMAlterOpLayout", f, level, convert)
