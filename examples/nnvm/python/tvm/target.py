"""Targets: what a library is compiled for."""


class Target(str):
    """A target as its text: `llvm`, `llvm -mcpu=x86-64-v3`. A `with` block makes it the current one."""

    _current = []

    @property
    def target_name(self):
        return self.split()[0]

    def __enter__(self):
        Target._current.append(self)
        return self

    def __exit__(self, *_):
        Target._current.pop()


def create(target=None):
    """A target from its text. None is that of the innermost `with` block."""
    if target is None:
        return current_target()
    return target if isinstance(target, Target) else Target(target)


def current_target(allow_none=False):
    """The target of the innermost `with` block."""
    if Target._current:
        return Target._current[-1]
    if allow_none:
        return None
    raise RuntimeError('no target: give one, as in build(.., target="llvm"), or use `with tvm.target.create("llvm"):`')


def intel_graphics():
    """The target of Intel's GPUs. Libraries cannot be built for it."""
    return Target("opencl -device=intel_graphics")
