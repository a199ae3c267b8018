"""Contenders of a benchmark, each in a process of its own that is stopped while another one is measured: the threads of a pool often wait actively for a while
after a call, and would take a CPU from whoever is measured next.
"""

import atexit
import os
import signal
import subprocess
import sys
import time


class Contender:
    """A process that prints lines of its own, then `ready`, and then answers each line that it reads with one line. It runs from a question to the answer, and is
    stopped otherwise."""

    def __init__(self, who, command):
        # A separate group: the processes that a contender starts stop with it, and if we are
        # killed, the system continues the group and ends it.
        self.who = who
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=os.setpgrp
        )
        atexit.register(self.end)
        self.lines = []
        while (line := self.process.stdout.readline()) not in ("", "ready\n"):
            self.lines.append(line.rstrip("\n"))
        self.is_ready = line == "ready\n"
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def ask(self, line):
        self.signal(signal.SIGCONT)
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        self.signal(signal.SIGSTOP)
        if not answer:
            sys.exit(f"{self.who} ended instead of answering '{line}' (its message is above)")
        return answer.strip()

    def end(self):
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def answer(lines, functions):
    """The other side: prints these lines and `ready`, then answers each line that names a function, followed by its arguments, with what that returns."""
    for line in lines:
        print(line)
    print("ready", flush=True)
    for line in sys.stdin:
        name, *arguments = line.rstrip("\n").split("\t")
        print(functions[name](*arguments), flush=True)


def best(call, seconds, is_alone):
    """The shortest of the calls that fit into so many seconds, three at least. If only this thread computes (`is_alone`), calls of a millisecond and more are timed
    by its CPU time: other programs do not count."""
    shortest, end, calls = float("inf"), time.perf_counter() + seconds, 0
    while calls < 3 or time.perf_counter() < end:
        start, used = time.perf_counter(), time.thread_time()
        call()
        taken = time.perf_counter() - start
        if is_alone and taken > 1e-3:
            taken = time.thread_time() - used
        shortest = min(shortest, taken)
        calls += 1
    return shortest


def median(numbers):
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]


def columns(times):
    """The columns of a row: contender=microseconds:ratio, a ratio being the median over the rounds of ours / theirs."""
    cells = []
    for who, measured in times.items():
        ratio = median([mine / theirs for mine, theirs in zip(times["ours"], measured)])
        cells.append(f"{who}={median(measured) * 1e6:.1f}:{ratio:.3f}")
    return "\t".join(cells)
