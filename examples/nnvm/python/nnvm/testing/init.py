"""Initial values of parameters, by the names of their variables."""

import numpy as np


class Initializer:
    """Fills an array by the last part of a variable's name: weights, biases, and the four of batch_norm."""

    def __call__(self, name, array):
        for ending, value in (("bias", 0.0), ("gamma", 1.0), ("beta", 0.0), ("moving_mean", 0.0), ("moving_var", 1.0)):
            if name.endswith(ending):
                array[:] = value
                return
        if not name.endswith("weight"):
            raise ValueError(f"no initial value for '{name}': names end in weight, bias, gamma, beta, moving_mean or moving_var")
        self._init_weight(name, array)

    def _init_weight(self, name, array):
        raise NotImplementedError


class Xavier(Initializer):
    """Uniform weights whose range follows from the numbers of inputs and outputs (Glorot and Bengio, 2010)."""

    def __init__(self, rnd_type="uniform", factor_type="avg", magnitude=3):
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name, array):
        if array.ndim < 2:
            raise ValueError(f"the weight '{name}' has {array.ndim} dimensions; Xavier needs 2 or more")
        area = np.prod(array.shape[2:])
        fan_in, fan_out = array.shape[1] * area, array.shape[0] * area
        factor = {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}[self.factor_type]
        scale = np.sqrt(self.magnitude / factor)
        draw = np.random.uniform(-scale, scale, array.shape) if self.rnd_type == "uniform" else np.random.normal(0, scale, array.shape)
        array[:] = draw
