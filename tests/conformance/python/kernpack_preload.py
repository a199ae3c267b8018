"""A pytest plugin that keeps LD_PRELOAD to Python.

With a library under AddressSanitizer, every process that loads it needs the sanitizer's own library before all others, so LD_PRELOAD
names that. Compilers and build tools that tests start load nothing of ours, and are many times slower with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

start = subprocess.Popen.__init__


def start_without_preload(self: Any, args: Any, *positional: Any, **named: Any) -> None:
    """Starts a process with the given environment, but without LD_PRELOAD if it is not a Python."""
    program = args if isinstance(args, (str, bytes, os.PathLike)) else next(iter(args), "")
    if os.fsdecode(program) != sys.executable:
        # `env` is the eleventh parameter; all callers name it.
        environment = named.get("env")
        environment = dict(os.environ if environment is None else environment)
        environment.pop("LD_PRELOAD", None)
        named["env"] = environment
    start(self, args, *positional, **named)


subprocess.Popen.__init__ = start_without_preload  # type: ignore[method-assign]
