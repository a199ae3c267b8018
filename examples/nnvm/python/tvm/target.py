"""Targets: what a library is compiled for."""

import threading

_thread = threading.local()


def _targets():
    """The targets of the `with` blocks of this thread."""
    if not hasattr(_thread, "targets"):
        _thread.targets = []
    return _thread.targets


class Target(str):
    """A target as its text: `llvm`, `llvm -mcpu=x86-64-v3`. A `with` block makes it the current one of a thread."""

    @property
    def target_name(self):
        return self.split()[0]

    def __enter__(self):
        _targets().append(self)
        return self

    def __exit__(self, *_):
        _targets().pop()


def create(target=None):
    """A target from its text. None is that of the innermost `with` block."""
    if target is None:
        return current_target()
    return target if isinstance(target, Target) else Target(target)


def current_target(allow_none=False):
    """The target of the innermost `with` block."""
    if _targets():
        return _targets()[-1]
    if allow_none:
        return None
    raise RuntimeError('no target: give one, as in build(.., target="llvm"), or use `with tvm.target.create("llvm"):`')


def intel_graphics():
    """The target of Intel's GPUs. Libraries cannot be built for it."""
    return Target("opencl -device=intel_graphics")
