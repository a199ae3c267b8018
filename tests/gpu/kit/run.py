#!/usr/bin/env python3
"""Runs the steps of the kit that `cargo xtask gpu-kit` builds, on a machine that may have nothing but Python 3.9 and a GPU.

    python3 run.py [--out DIR] [--only WORD..] [--budget SECONDS] [--seed N] [--patience FACTOR] [--list]

Each step of steps.json is a process of its own, with a time limit; its process group is killed afterwards, so that nothing that it
started, and no broken CUDA context, meets the next step. DIR (else the variable OUT, else `results` beside this file) gets
results.jsonl, a line for each step as soon as it has ended, log.txt with all that the steps wrote, and table.md.

Exit status: 0, every step passed or was skipped for what this machine lacks; 1, a step failed or was not run in the budget; 2, the
call, the folder or steps.json is wrong; 3, there is no GPU, so every step that needs one was skipped.
"""

import argparse
import json
import math
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

KIT = os.path.dirname(os.path.abspath(__file__))
# The limits, in total: the time for which the machine is lent, minus its start.
MOST_SECONDS = 480
# The bytes of a step's output that are read, that log.txt contains of its start and end, and that a
# line of results.jsonl contains of its end.
READ_BYTES = 4 << 20
LOG_PART = 100_000
TAIL = 3000
MEASURED = re.compile(r"^measured (\S+) (\S+) (\S+)$")
# Lines of the launch benchmark: a name, nanoseconds of ours, of the peer.
PAIR = re.compile(r"^(\w+)\t([0-9.]+)\t([0-9.]+)$")

# A program that queries the driver for the first GPU, and prints the result as JSON.
PROBE_GPU = r"""
import ctypes, json, sys
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError:
    try:
        driver = ctypes.CDLL("libcuda.so")
    except OSError as error:
        print(json.dumps({"missing": "no CUDA driver was found (%s)" % error})); sys.exit()
status, count = driver.cuInit(0), ctypes.c_int(0)
if status == 0:
    status = driver.cuDeviceGetCount(ctypes.byref(count))
if status != 0 or count.value < 1:
    print(json.dumps({"missing": "the CUDA driver finds no GPU (status %d)" % status})); sys.exit()
device, name = ctypes.c_int(0), ctypes.create_string_buffer(128)
driver.cuDeviceGet(ctypes.byref(device), 0)
driver.cuDeviceGetName(name, 127, device)
version, numbers = ctypes.c_int(0), []
driver.cuDriverGetVersion(ctypes.byref(version))
for attribute in (75, 76):
    number = ctypes.c_int(0)
    driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
    numbers.append(number.value)
print(json.dumps({"name": name.value.decode(errors="replace"), "architecture": "sm_%d%d" % tuple(numbers),
                  "cuda": version.value, "stand_in": hasattr(driver, "fake_cuda_take_log")}))
"""


class Machine:
    """The requirements of steps that this machine meets; each is checked once."""

    def __init__(self):
        self.known = {}
        self.gpu = probe_gpu()

    def lacks(self, need):
        """None if the requirement is met, else the missing software, as text."""
        if need not in self.known:
            self.known[need] = self.look(need)
        return self.known[need]

    def look(self, need):
        if need == "gpu":
            why = self.gpu.get("missing")
            return why and f"a GPU: {why}"
        if need == "real":
            return "a real GPU: this is the stand-in for the driver" if self.gpu.get("stand_in") else None
        if need == "nvrtc":
            return None if nvrtc_home() is not None else "NVRTC (libnvrtc.so)"
        kind, _, name = need.partition(":")
        if kind == "program":
            return None if program(name) else name
        if kind == "python":
            return None if find_package(name) else name
        raise SystemExit(f"run.py: steps.json: there is no need called '{need}'")


def probe_gpu():
    """Queries the driver in a separate process, because a driver may hang or crash."""
    try:
        done = subprocess.run([sys.executable, "-c", PROBE_GPU], capture_output=True, timeout=60, text=True)
    except subprocess.TimeoutExpired:
        return {"missing": "the CUDA driver did not answer in 60 s"}
    try:
        return json.loads(done.stdout)
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        return {"missing": f"the CUDA driver could not be asked: {last[0]}"}


def find_package(name):
    """Searches a package without importing it; a wheel of the kit counts."""
    import importlib.util

    try:
        if importlib.util.find_spec(name) is not None:
            return True
    except (ImportError, ValueError):
        pass
    return wheel_for(name) is not None


def wheel_for(name):
    """The wheel of the kit that this Python can use, by the module that it contains."""
    folder = os.path.join(KIT, "wheels")
    project = {"tvm_ffi": "apache_tvm_ffi"}.get(name, name)
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        parts = file[: -len(".whl")].split("-")
        if file.endswith(".whl") and parts[0] == project and (tag in parts[-3].split(".") or "py3" in parts[-3].split(".")):
            return os.path.join(folder, file)
    return None


def program(name):
    """A program on PATH, or in a CUDA toolkit."""
    found = shutil.which(name)
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    for home in filter(None, homes):
        for folder in ("bin", "compute-sanitizer"):
            path = os.path.join(home, folder, name)
            found = found or (path if os.access(path, os.X_OK) else None)
    return found


def nvrtc_home():
    """The value of CUDA_HOME with which NVRTC is found; '' if the dynamic linker finds it, None if it is missing."""
    import ctypes
    import importlib.util

    names = ("libnvrtc.so.13", "libnvrtc.so.12")
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    for folder in list(spec.submodule_search_locations or []) if spec else []:
        homes += [os.path.join(folder, "cu13"), os.path.join(folder, "cuda_nvrtc")]
    for home in filter(None, homes):
        for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
            if any(os.path.exists(os.path.join(home, folder, name)) for name in names):
                return home
    for name in names:
        try:
            ctypes.CDLL(name)
            return ""
        except OSError:
            pass
    return None


def read_steps(path):
    """Reads the steps; SystemExit(2) reports a problem of the file."""
    try:
        with open(path, encoding="utf-8") as file:
            steps = json.load(file)["steps"]
    except (OSError, ValueError, KeyError) as error:
        fail(f"{path}: {error}")
    names = set()
    for step in steps:
        for key, kind in (("name", str), ("command", list), ("limit", int), ("expected_s", (int, float)), ("needs", list)):
            if not isinstance(step.get(key), kind):
                fail(f"{path}: {step.get('name', 'a step')}: '{key}' is missing, or not what it has to be")
        if step["name"] in names:
            fail(f"{path}: two steps are called {step['name']}")
        names.add(step["name"])
    limits = sum(step["limit"] for step in steps)
    if limits > MOST_SECONDS:
        fail(f"{path}: the limits of all steps are {limits} s together: at most {MOST_SECONDS} s are allowed")
    return steps


def fail(message):
    print(f"run.py: {message}", file=sys.stderr)
    raise SystemExit(2)


def run_step(step, machine, arguments, scratch, left):
    """Runs one step: its outcome ('passed', 'failed', 'timed out', 'skipped'), why, numbers, output and seconds. It gets `left` seconds at most."""
    for need in step["needs"]:
        missing = machine.lacks(need)
        if missing:
            return {"outcome": "skipped", "why": f"needs {missing}", "seconds": 0.0, "output": ""}
    # With the stand-in for the driver a step may have other settings.
    stand_in = step.get("stand_in", {}) if machine.gpu.get("stand_in") else {}
    command = step["command"] + stand_in.get("arguments", [])
    places = {"kit": KIT, "python": sys.executable, "seed": str(arguments.seed), "scratch": scratch}
    command = [part.format(**places) for part in command]
    command[0] = command[0] if os.sep in command[0] else program(command[0]) or command[0]
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1")
    library = os.path.join(KIT, "lib")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [library, os.environ.get("PYTHONPATH")]))
    if "nvrtc" in step["needs"] and nvrtc_home():
        environment["CUDA_HOME"] = nvrtc_home()
    for name, value in {**step.get("environment", {}), **stand_in.get("environment", {})}.items():
        environment[name] = value.format(**places)
    if "python:tvm_ffi" in step["needs"]:
        add_wheel(environment, "tvm_ffi", scratch)

    limit = min(step["limit"] * arguments.patience, max(left, 1.0))
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            # Output is written to a file: a process that outlives the step cannot keep a pipe open.
            child = subprocess.Popen(
                command, cwd=KIT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            return {"outcome": "failed", "why": f"it does not start: {error}", "seconds": 0.0, "output": ""}
        try:
            status = child.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            status = None
        seconds = time.monotonic() - start
        ended = end_group(child)
        output.seek(0)
        text = output.read(READ_BYTES).decode("utf-8", errors="replace")
    result = {"seconds": round(seconds, 3), "status": status, "output": text}
    if status is None:
        why = f"it was killed at its limit of {limit:.3g} s" + ("" if ended else ", and its process did not end")
        return dict(result, outcome="timed out", why=why)
    result["measured"] = numbers_in(text)
    return dict(result, **judge(step, stand_in, status, text))


def add_wheel(environment, name, scratch):
    """Adds a wheel of the kit to PYTHONPATH, if Python does not have the package itself. The wheel is unpacked once, because it contains libraries."""
    import importlib.util
    import zipfile

    wheel = wheel_for(name)
    if importlib.util.find_spec(name) is not None or wheel is None:
        return
    folder = os.path.join(scratch, os.path.basename(wheel))
    if not os.path.isdir(folder):
        with zipfile.ZipFile(wheel) as file:
            file.extractall(folder)
    environment["PYTHONPATH"] = os.pathsep.join([environment["PYTHONPATH"], folder])


def end_group(child):
    """Kills the remaining processes of a step. A process that waits for the driver may not end; it is left behind."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    try:
        child.wait(timeout=10)
        return True
    except subprocess.TimeoutExpired:
        return False


def numbers_in(text):
    """The numbers that a step has printed."""
    found = {}
    for line in text.splitlines():
        line = line.rstrip("\r")
        single, pair = MEASURED.match(line), PAIR.match(line)
        if single:
            name, value, unit = single.groups()
            try:
                value = float(value)
            except ValueError:
                continue
            if math.isfinite(value):
                found[name] = {"value": value, "unit": unit}
        elif pair:
            found[pair.group(1)] = {"ours_ns": float(pair.group(2)), "peer_ns": float(pair.group(3))}
    return found


def judge(step, stand_in, status, text):
    """Compares the end of a step with the expected one."""
    expect = {**step.get("expect", {}), **stand_in.get("expect", {})}
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = str(-status)
        return {"outcome": "failed", "why": f"it was killed by {name}"}
    if status != expect.get("status", 0):
        why = f"it ended with status {status}, expected {expect.get('status', 0)}"
        last = [line for line in text.splitlines() if line.strip()][-1:]
        return {"outcome": "failed", "why": why + (f": {plain(last[0])}" if last else "")}
    missing = [word for word in expect.get("words", []) if word not in text]
    if missing:
        return {"outcome": "failed", "why": f"its output lacks '{missing[0]}'"}
    unwanted = [word for word in expect.get("not", []) if word in text]
    if unwanted:
        return {"outcome": "failed", "why": f"its output has '{unwanted[0]}'"}
    return {"outcome": "passed", "why": ""}


def plain(text, most=200):
    """One line of printable characters."""
    text = "".join(character if character.isprintable() else "?" for character in text.strip())
    return text if len(text) <= most else text[: most - 3] + "..."


def shortened(text):
    """The beginning and the end of a long text."""
    cut = len(text) - 2 * LOG_PART
    return text if cut <= 0 else f"{text[:LOG_PART]}\n... {cut} characters are left out ...\n{text[-LOG_PART:]}"


def table(machine, results):
    """A table in Markdown."""
    gpu = machine.gpu
    card = gpu.get("missing") or f"{gpu.get('name')}, {gpu.get('architecture')}, driver for CUDA {gpu['cuda'] // 1000}.{gpu['cuda'] % 1000 // 10}"
    lines = [f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, {card}", "", "| step | outcome | s | numbers, or why |", "|---|---|---:|---|"]
    for result in results:
        numbers = []
        for name, value in result.get("measured", {}).items():
            if "unit" in value:
                numbers.append(f"{name} {value['value']:.5g} {value['unit']}")
            else:
                ratio = value["ours_ns"] / value["peer_ns"] if value["peer_ns"] else math.inf
                numbers.append(f"{name} {value['ours_ns']:.0f} ns, peer {value['peer_ns']:.0f} ns, {ratio:.2f}")
        text = plain("; ".join(filter(None, [result["why"]] + numbers)), 600).replace("|", "\\|")
        lines.append(f"| {result['step']} | {result['outcome']} | {result['seconds']:.1f} | {text} |")
    counts = {}
    for result in results:
        counts[result["outcome"]] = counts.get(result["outcome"], 0) + 1
    lines += ["", ", ".join(f"{count} {outcome}" for outcome, count in counts.items())]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Runs the steps of the kit; see the head of this file.")
    parser.add_argument("--out", metavar="DIR", help="folder for results (default: the variable OUT, else results beside run.py)")
    parser.add_argument("--only", metavar="WORD", nargs="+", help="steps with one of these words in their names")
    parser.add_argument("--budget", metavar="SECONDS", type=float, default=MOST_SECONDS, help="start no step after so many seconds")
    parser.add_argument("--seed", type=int, default=None, help="for random sizes and values (default: a new one for each run)")
    parser.add_argument("--patience", metavar="FACTOR", type=float, default=1.0, help="multiplies the limit of each step")
    parser.add_argument("--list", action="store_true", help="print the steps, and run none")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 32)
    steps = read_steps(os.path.join(KIT, "steps.json"))
    if arguments.list:
        for step in steps:
            print(f"{step['name']}: {' '.join(step['command'])}; limit {step['limit']} s; needs {', '.join(step['needs']) or 'nothing'}")
        print(f"limits {sum(step['limit'] for step in steps)} s, expected {sum(step['expected_s'] for step in steps):g} s")
        return 0
    if arguments.only:
        steps = [step for step in steps if any(word in step["name"] for word in arguments.only)]
        if not steps:
            fail(f"--only: no step has one of these words in its name: {' '.join(arguments.only)}; --list shows the steps")
    out = arguments.out or os.environ.get("OUT") or os.path.join(KIT, "results")
    try:
        os.makedirs(out, exist_ok=True)
        lines = open(os.path.join(out, "results.jsonl"), "w", encoding="utf-8")
        log = open(os.path.join(out, "log.txt"), "w", encoding="utf-8")
        open(os.path.join(out, "table.md"), "w").close()
    except OSError as error:
        fail(f"results cannot be written: {error}; name another folder with --out")
    return run_all(steps, arguments, out, lines, log)


def run_all(steps, arguments, out, lines, log):
    start = time.monotonic()
    for folder in ("bin",):
        # The programs may have lost their permission to execute when the kit was copied.
        for file in os.listdir(os.path.join(KIT, folder)) if os.path.isdir(os.path.join(KIT, folder)) else []:
            try:
                os.chmod(os.path.join(KIT, folder, file), 0o755)
            except OSError:
                pass
    machine = Machine()
    with lines, log, tempfile.TemporaryDirectory(prefix="gpu-kit-") as scratch:

        def note(entry):
            lines.write(json.dumps(entry) + "\n")
            lines.flush()
            os.fsync(lines.fileno())

        note({"machine": dict(machine.gpu, system=platform.platform(), python=platform.python_version()), "seed": arguments.seed})
        print(f"GPU: {machine.gpu.get('missing') or machine.gpu}\nseed {arguments.seed}", flush=True)
        results = []
        for step in steps:
            spent = time.monotonic() - start
            if spent + step["expected_s"] > arguments.budget:
                why = f"{spent:.0f} of {arguments.budget:g} s were spent, and it takes about {step['expected_s']:g} s"
                result = {"outcome": "not run", "why": why, "seconds": 0.0, "output": ""}
            else:
                print(f"> {step['name']}", flush=True)
                result = run_step(step, machine, arguments, scratch, arguments.budget - spent)
            output = result.pop("output")
            result = {"step": step["name"], **result}
            results.append(result)
            note(dict(result, tail=output[-TAIL:]))
            log.write(f"===== {step['name']}: {result['outcome']} {result['why']}\n{shortened(output)}\n")
            log.flush()
            if result["outcome"] not in ("passed", "skipped"):
                print("\n".join("  " + plain(line) for line in output.splitlines()[-15:]), flush=True)
            print(f"  {result['outcome']} in {result['seconds']:.1f} s {plain(result['why'])}", flush=True)
        text = table(machine, results)
    with open(os.path.join(out, "table.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print("\n" + text, flush=True)
    if any(result["outcome"] not in ("passed", "skipped") for result in results):
        return 1
    return 3 if machine.gpu.get("missing") else 0


if __name__ == "__main__":
    sys.exit(main())
