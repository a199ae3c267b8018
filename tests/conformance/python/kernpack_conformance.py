"""A pytest plugin that writes down how each test ended, and which libtvm_ffi the tests ran with.

Each line of the file `KERNPACK_CONFORMANCE_RECORD` has fields between tabs:

    test <outcome> <id> <detail>     one line, or two if tearing down fails after the test passed: the last one counts
    library <path> <whose>           a libtvm_ffi that is mapped into a process which runs tests; whose: kernpack or other

A test whose process dies under it is `crashed`: pytest-xdist notices, says so, and goes on in a new process.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

RECORD = os.environ["KERNPACK_CONFORMANCE_RECORD"]

# A symbol that only Kernpack's libraries have.
OUR_SYMBOL = "__kernpack_api_v1"


class Recorder:
    """Records libraries in every process, and tests in the controlling one."""

    def __init__(self, controls: bool) -> None:
        self.controls = controls

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One phase of one test."""
        outcome = outcome_of(report)
        if self.controls and outcome is not None:
            note("test", outcome, report.nodeid, detail_of(report))

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported is one error."""
        if self.controls and report.failed:
            note("test", "error", report.nodeid, detail_of(report))

    def pytest_collection_finish(self) -> None:
        """The tests' files are imported, so the library is loaded."""
        note_libraries()

    def pytest_sessionfinish(self) -> None:
        """Checks that it is still the same library."""
        note_libraries()


def pytest_configure(config: Any) -> None:
    """Registers the plugin; a worker of pytest-xdist has `workerinput`."""
    config.pluginmanager.register(Recorder(controls=not hasattr(config, "workerinput")))


def outcome_of(report: Any) -> str | None:
    """The outcome of a test, if this phase decides it."""
    if report.when == "???":
        return "crashed"
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.when == "call":
        return str(report.outcome)
    if report.failed:
        return "error"
    return "skipped" if report.skipped else None


def detail_of(report: Any) -> str:
    """The reason of a failure, on one line."""
    if not report.failed:
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return " ".join(text.split())


def note_libraries() -> None:
    """Each libtvm_ffi in this process; a process that only distributes tests has none."""
    with Path("/proc/self/maps").open(encoding="utf-8") as maps:
        paths = {line.rstrip("\n").split(maxsplit=5)[5] for line in maps if "/libtvm_ffi.so" in line}
    for path in sorted(paths):
        whose = "kernpack" if hasattr(ctypes.CDLL(path), OUR_SYMBOL) else "other"
        note("library", path, whose)


def note(*fields: str) -> None:
    """One line, in one write, so that lines of several processes do not mix."""
    line = "\t".join(field.replace("\t", " ").replace("\n", " ") for field in fields)
    with Path(RECORD).open("ab") as record:
        record.write(line.encode() + b"\n")
