"""A pytest plugin that writes down how each test ended, and which package the tests ran with.

Each line of the file `KERNPACK_PORTS_RECORD` has fields between tabs:

    test <outcome> <id> <detail>     one line, or two if tearing down fails after the test passed: the last one counts
    module <whose> <path>            the file of the module KERNPACK_PORTS_MODULE; `expected` if it is below KERNPACK_PORTS_FOLDER
    end                              pytest has ended by itself
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def note(*fields: str) -> None:
    """Writes one line."""
    line = "\t".join(" ".join(field.split()) for field in fields)
    with Path(os.environ["KERNPACK_PORTS_RECORD"]).open("a", encoding="utf-8") as record:
        record.write(line + "\n")


def pytest_collection_finish() -> None:
    """The files of the tests are imported, and with them the module."""
    module = sys.modules.get(os.environ["KERNPACK_PORTS_MODULE"])
    if module is not None:
        path = Path(str(module.__file__)).resolve()
        is_expected = Path(os.environ["KERNPACK_PORTS_FOLDER"]).resolve() in path.parents
        note("module", "expected" if is_expected else "other", str(path))


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be imported is one error."""
    if report.failed:
        note("test", "error", report.nodeid, str(report.longrepr))


def pytest_runtest_logreport(report: Any) -> None:
    """One phase of one test."""
    outcome = outcome_of(report)
    if outcome is not None:
        note("test", outcome, report.nodeid, detail_of(report))


def pytest_sessionfinish() -> None:
    """The process was not killed."""
    note("end")


def outcome_of(report: Any) -> str | None:
    """The outcome of a test, if this phase decides it."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.when == "call":
        return str(report.outcome)
    if report.failed:
        return "error"
    return "skipped" if report.skipped else None


def detail_of(report: Any) -> str:
    """The reason of a failure."""
    if not report.failed:
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash is not None else str(report.longrepr)
