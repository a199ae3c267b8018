"""run.py of the kit for a machine with a GPU: what it makes of steps that hang, crash or write garbage, and of a machine without a GPU.

No GPU and no kit is needed: each test makes a folder with run.py and steps of its own.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

RUN = pathlib.Path(__file__).parents[1] / "kit" / "run.py"
STEPS = RUN.with_name("steps.json")


@pytest.fixture
def kit(tmp_path):
    return Kit(tmp_path / "kit")


class Kit:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        shutil.copy(RUN, folder)

    def run(self, steps, *arguments, out=None, environment=None):
        """Runs steps, each `(name, program of Python, changes)`: the status, the results by name, and what run.py wrote."""
        entries = []
        for name, script, *changes in steps:
            entry = {"name": name, "command": ["{python}", "-c", script], "limit": 20, "expected_s": 0, "needs": []}
            entries.append(dict(entry, **(changes[0] if changes else {})))
        (self.folder / "steps.json").write_text(json.dumps({"steps": entries}))
        out = out or self.folder / "out"
        # An empty environment: no driver is found.
        command = [sys.executable, str(self.folder / "run.py"), "--out", str(out), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(environment or {}), timeout=120)
        lines = out / "results.jsonl"
        results = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
        return done.returncode, {result["step"]: result for result in results if "step" in result}, done.stdout + done.stderr


def outcome(result):
    return f"{result['outcome']}: {result['why']}" if result["why"] else result["outcome"]


def has_gpu():
    return os.path.exists("/dev/nvidiactl")


def test_a_step_that_hangs_is_killed_with_what_it_started(kit, tmp_path):
    # A shell, because it starts fast even on a busy machine. Its child process writes as long as it
    # lives.
    mark = tmp_path / "alive"
    hang = f"(while :; do echo >> '{mark}'; sleep 0.1; done) & echo begun; wait"
    status, results, output = kit.run([("hangs", "", {"command": ["sh", "-c", hang], "limit": 5}), ("after", "print('here')")])
    assert status == 1
    assert outcome(results["hangs"]) == "timed out: it was killed at its limit of 5 s"
    assert results["hangs"]["tail"] == "begun\n"
    assert outcome(results["after"]) == "passed"
    assert re.search(r"\| hangs \| timed out \| [0-9.]+ \| it was killed at its limit of 5 s \|", output)
    written = mark.stat().st_size
    assert written > 0
    time.sleep(1)
    assert mark.stat().st_size == written


def test_what_a_finished_step_leaves_running_is_killed(kit, tmp_path):
    mark = tmp_path / "alive"
    child = f"import time; time.sleep(3); open({str(mark)!r}, 'w')"
    _, results, _ = kit.run([("leaves", f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}])")])
    assert outcome(results["leaves"]) == "passed"
    time.sleep(4)
    assert not mark.exists()


def test_steps_that_fail_say_how(kit):
    status, results, _ = kit.run(
        [
            ("crashes", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
            ("ends", "import sys; print('a reason'); sys.exit(7)"),
            ("another status", "import sys; sys.exit(7)", {"expect": {"status": 7}}),
            ("lacks", "print('one')", {"expect": {"words": ["one", "two"]}}),
            ("has", "print('one')", {"expect": {"not": ["one"]}}),
            ("no program", "", {"command": ["/no/such/program"]}),
            ("good", "print('measured speed 12.5 GB/s'); print('a_launch\\t21.5\\t20')"),
        ]
    )
    assert status == 1
    assert [outcome(result) for result in results.values()] == [
        "failed: it was killed by SIGSEGV",
        "failed: it ended with status 7, expected 0: a reason",
        "passed",
        "failed: its output lacks 'two'",
        "failed: its output has 'one'",
        "failed: it does not start: [Errno 2] No such file or directory: '/no/such/program'",
        "passed",
    ]
    numbers = {"speed": {"value": 12.5, "unit": "GB/s"}, "a_launch": {"ours_ns": 21.5, "peer_ns": 20.0}}
    assert results["good"]["measured"] == numbers


def test_garbage_is_no_harm(kit):
    garbage = (
        "import sys; w = sys.stdout.buffer.write; w(bytes(range(256)) * 4); w(b'\\n| a | b |\\n\\x1b[31m\\nmeasured x nan s\\n'); "
        "w(b'measured y 1e999 s\\nmeasured z\\nmeasured \\xff 1 s\\nmeasured good 1 s\\n'); w(b'long ' * 400_000)"
    )
    status, results, output = kit.run([("garbage", garbage), ("fails", garbage + "; sys.exit(1)")])
    assert status == 1 and outcome(results["garbage"]) == "passed"
    assert results["garbage"]["measured"]["good"] == {"value": 1.0, "unit": "s"}
    assert not {"x", "y", "z"} & set(results["garbage"]["measured"])
    assert all(character.isprintable() or character == "\n" for character in output)
    assert len(results["garbage"]["tail"]) == 3000
    assert (kit.folder / "out" / "log.txt").stat().st_size < 1_000_000


def test_the_budget_ends_and_the_rest_is_named(kit):
    steps = [("first", "import time; time.sleep(2)"), ("second", ""), ("third", "", {"expected_s": 30})]
    status, results, output = kit.run(steps, "--budget", "1.5")
    assert status == 1
    assert outcome(results["first"]) == "timed out: it was killed at its limit of 1.5 s" or results["first"]["outcome"] == "timed out"
    assert results["second"]["outcome"] == "not run" and results["third"]["outcome"] == "not run"
    assert re.search(r"\| third \| not run \| 0.0 \| \d+ of 1.5 s were spent, and it takes about 30 s \|", output)


def test_without_a_gpu_every_step_says_so(kit):
    if has_gpu():
        pytest.skip("this machine has a driver")
    status, results, output = kit.run([("needs", "", {"needs": ["gpu"]}), ("does not", "")])
    assert status == 3
    assert results["needs"]["why"].startswith("needs a GPU: no CUDA driver was found (libcuda.so")
    assert outcome(results["does not"]) == "passed"
    assert "1 skipped, 1 passed" in output
    # A failure takes precedence.
    assert kit.run([("needs", "", {"needs": ["gpu"]}), ("fails", "1 / 0")])[0] == 1


def test_needs_are_named(kit):
    needs = ["python:no_such_package", "program:no-such-program"]
    steps = [(need, "", {"needs": [need]}) for need in needs] + [("json", "", {"needs": ["python:json"]})]
    _, results, _ = kit.run(steps)
    assert [outcome(result) for result in results.values()] == [
        "skipped: needs no_such_package",
        "skipped: needs no-such-program",
        "passed",
    ]


def test_a_driver_that_crashes_or_hangs_is_no_gpu(kit, tmp_path):
    if has_gpu():
        pytest.skip("this machine has a driver")
    source = tmp_path / "driver.c"
    source.write_text("int cuInit(unsigned flags) { return *(volatile int *)(long)flags; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "libcuda.so.1"), str(source)], check=True)
    status, results, _ = kit.run([("needs", "", {"needs": ["gpu"]})], environment={"LD_LIBRARY_PATH": str(tmp_path)})
    assert status == 3
    assert outcome(results["needs"]).startswith("skipped: needs a GPU: the CUDA driver could not be asked: status -11")


def test_a_folder_that_cannot_be_written(kit):
    # Root may write to read-only folders, but nobody can make a folder below a file.
    file = kit.folder / "file"
    file.write_text("")
    status, results, output = kit.run([("never", "")], out=file / "out")
    assert status == 2 and results == {}
    assert output.startswith("run.py: results cannot be written: [Errno 20] Not a directory: ")
    assert output.endswith("; name another folder with --out\n")
    if os.geteuid() != 0:
        (kit.folder / "locked").mkdir(mode=0o555)
        assert kit.run([("never", "")], out=kit.folder / "locked")[0] == 2


def test_mistakes_in_the_table_of_steps(kit):
    rows = [
        ([("long", "", {"limit": 481})], "the limits of all steps are 481 s together: at most 480 s are allowed"),
        ([("twice", ""), ("twice", "")], "two steps are called twice"),
        ([("no limit", "", {"limit": "10"})], "no limit: 'limit' is missing, or not what it has to be"),
    ]
    for steps, message in rows:
        status, _, output = kit.run(steps)
        assert (status, output) == (2, f"run.py: {kit.folder}/steps.json: {message}\n")
    status, _, output = kit.run([("a", "")], "--only", "b", "c")
    assert (status, output) == (2, "run.py: --only: no step has one of these words in its name: b c; --list shows the steps\n")


def test_only_and_seed(kit):
    echo = {"command": ["{python}", "-c", "import sys; print(sys.argv[1])", "{seed}"]}
    status, results, output = kit.run([("one", "", echo), ("two", "")], "--only", "on", "--seed", "27")
    assert status == (0 if has_gpu() else 3) and list(results) == ["one"]
    assert results["one"]["tail"] == "27\n" and "seed 27" in output


def test_results_are_there_while_steps_run(kit):
    """An interrupted run keeps the results so far."""
    look = "import os, sys; print(open(sys.argv[1]).read().count('\"step\": \"first\"'))"
    steps = [("first", ""), ("second", "", {"command": ["{python}", "-c", look, str(kit.folder / "out" / "results.jsonl")]})]
    _, results, _ = kit.run(steps)
    assert results["second"]["tail"] == "1\n"


def test_the_kits_own_table():
    steps = json.loads(STEPS.read_text())["steps"]
    assert sum(step["limit"] for step in steps) <= 480 and sum(step["expected_s"] for step in steps) <= 480
    assert all(step["expected_s"] <= step["limit"] for step in steps)
    scripts = {part.split("/")[-1] for step in steps for part in step["command"] if part.endswith(".py")}
    assert scripts == {path.name for path in (RUN.parent / "steps").glob("*.py")}
