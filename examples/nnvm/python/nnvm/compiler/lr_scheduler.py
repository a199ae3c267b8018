"""Learning rates that change with the number of updates, as symbols."""

from .. import symbol as sym


class LRScheduler:
    """The base of schedules. `base_lr` is the rate before the first update."""

    def __init__(self, base_lr=0.01, name="LRScheduler"):
        self.name = name
        self.base_lr = base_lr

    def __call__(self, num_update):
        """The rate, from the symbol that counts updates."""
        raise NotImplementedError


class FactorScheduler(LRScheduler):
    """Multiplies the rate by `factor` every `step` updates, down to `stop_factor_lr`."""

    def __init__(self, step, factor=1, stop_factor_lr=1e-8, name="FactorScheduler", **rest):
        super().__init__(name=name, **rest)
        if step < 1:
            raise ValueError(f"step is to be 1 or more, got {step}")
        if factor > 1:
            raise ValueError(f"factor is to be 1 or less, got {factor}: the rate does not grow")
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr

    def __call__(self, num_update):
        rate = self.base_lr * self.factor ** sym.floor(num_update / self.step)
        return sym.clip(rate, a_min=self.stop_factor_lr, a_max=self.base_lr)
