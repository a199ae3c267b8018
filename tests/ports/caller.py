"""Measures calls of a package, for `cargo xtask ports`.

Usage: caller.py PORT.JSON

Prints `ready`, then answers each line `<index of the call> - <iterations>` with the nanoseconds of CPU time that the batch took, without those
of an empty loop.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOOP = """
def run(rounds):
    start = clock()
    for _ in repeat(None, rounds):
        {call}
    return clock() - start
"""


def loop(call: str, names: dict[str, Any]) -> Callable[[int], int]:
    """A function that performs a call so many times, and returns the nanoseconds."""
    code = LOOP.format(call=call.replace("\n", "\n        "))
    exec(code, names)
    return names["run"]


def main() -> None:
    """Prepares all calls, then measures."""
    port = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    tools = {"clock": time.thread_time_ns, "repeat": itertools.repeat}
    loops = []
    for call in port["calls"]:
        names = dict(tools)
        exec(f"import {port['module']}\n{call['setup']}", names)
        loops.append(loop(call["call"], names))
    empty = loop("pass", dict(tools))
    print("ready", flush=True)
    for line in sys.stdin:
        index, _, iterations = line.split()
        rounds = int(iterations)
        print(max(loops[int(index)](rounds) - empty(rounds), 1), flush=True)


main()
