"""Optimizers: symbols that write new values to the variables of a loss."""

from .. import symbol as sym
from . import graph_util


class Optimizer:
    """The base of optimizers.

    The gradient is multiplied by `rescale_grad` and cut to `clip_gradient`; `wd` is the weight decay of each variable.
    """

    def __init__(self, name, rescale_grad=1.0, clip_gradient=None, wd=0.0, learning_rate=0.01, lr_scheduler=None):
        self.name = name
        self.rescale_grad = rescale_grad
        self.clip_gradient = clip_gradient
        self.wd = wd
        self.lr = learning_rate
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is not None:
            lr_scheduler.base_lr = learning_rate

    def _gradients(self, obj, variables):
        gradients = graph_util.gradients(obj, variables)
        for gradient in gradients:
            gradient = gradient * self.rescale_grad
            if self.clip_gradient is not None:
                gradient = sym.clip(gradient, a_min=-self.clip_gradient, a_max=self.clip_gradient)
            yield gradient

    def minimize(self, obj, var=None):
        """A symbol that, each time it runs, moves the variables `var` (default: all) against the gradient of `obj`.

        Its outputs are the new values of the variables. `nnvm.compiler.build` returns the initial state as parameters.
        """
        variables = [var] if isinstance(var, sym.Symbol) else var or obj.list_input_variables()
        count = sym.Variable(f"{self.name}_t", init=sym.zeros(shape=(1,), dtype="float32"))
        count = _assign(count, count + 1)
        rate = self.lr_scheduler(count) if self.lr_scheduler is not None else self.lr
        gradients = self._gradients(obj, variables)
        return sym.Group([self._update(number, *pair, count, rate) for number, pair in enumerate(zip(variables, gradients))])

    def _update(self, number, variable, gradient, count, rate):
        raise NotImplementedError


def _assign(variable, value):
    return sym._internal._assign(variable, value)


class SGD(Optimizer):
    """Stochastic gradient descent: `w - lr * (gradient + wd * w)`."""

    def __init__(self, name="SGD", **options):
        super().__init__(name=name, **options)

    def _update(self, number, variable, gradient, count, rate):
        return _assign(variable, variable - rate * (gradient + variable * self.wd))


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2014): means of gradients and of their squares, corrected for their first steps."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, name="Adam", **options):
        super().__init__(name=name, learning_rate=learning_rate, **options)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def _update(self, number, variable, gradient, count, rate):
        rate = rate * sym.sqrt(1 - self.beta2**count) / (1 - self.beta1**count)
        mean = sym.Variable(f"{self.name}_m{number}", init=sym.zeros_like(variable))
        square = sym.Variable(f"{self.name}_v{number}", init=sym.zeros_like(variable))
        mean = _assign(mean, mean * self.beta1 + gradient * (1 - self.beta1))
        square = _assign(square, square * self.beta2 + gradient * gradient * (1 - self.beta2))
        step = mean / (sym.sqrt(square) + self.epsilon) + variable * self.wd
        return _assign(variable, variable - rate * step)
