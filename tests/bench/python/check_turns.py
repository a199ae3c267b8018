"""Checks turns.py with contenders whose threads compute without an end; xtask's tests run it. Needs `/proc`."""

import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
from turns import Contender, best, columns  # noqa: E402

FOLDER = str(Path(__file__).parent)

SPINNER = """
import sys, threading
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from turns import answer
turns = 0
def spin():
    global turns
    while True:
        turns += 1
threading.Thread(target=spin, daemon=True).start()
answer(['a line of its own'], {'turns': lambda: turns, 'add': lambda a, b: int(a) + int(b)})
"""


def used(contender):
    """The state of the process as a letter, and the time that it has used."""
    fields = Path(f"/proc/{contender.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return fields[0], int(fields[11]) + int(fields[12])


def stopped(contender):
    """The time that a process has used once it is stopped: a signal takes time."""
    for _ in range(500):
        state, time_used = used(contender)
        if state == "T":
            return time_used
        time.sleep(0.01)
    sys.exit(f"the contender is not stopped between its turns, but '{state}'")


contender = Contender("spinner", [sys.executable, "-c", SPINNER, FOLDER])
assert contender.is_ready and contender.lines == ["a line of its own"], contender.lines
before = stopped(contender)
assert contender.ask("add\t3\t4") == "7"
for _ in range(2):
    time_used = stopped(contender)
    time.sleep(0.1)
    assert used(contender) == ("T", time_used)
    assert int(contender.ask("turns")) > 0
contender.end()

assert not Contender("gone", [sys.executable, "-c", "pass"]).is_ready
try:
    Contender("mute", [sys.executable, "-c", "print('ready')"]).ask("add")
except SystemExit as error:
    assert str(error).startswith("mute ended instead of answering 'add'"), error
else:
    sys.exit("a contender that ends is not an error")
assert best(lambda: None, 0.001, True) < 0.001
assert columns({"ours": [1e-6, 2e-6, 3e-6], "other": [2e-6, 4e-6, 6e-6]}) == "ours=2.0:1.000\tother=4.0:0.500"
