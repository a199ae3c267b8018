"""Writes what ONNX's backend scoreboard collects of a run to the folder that RESULTS_DIR names: `report.json` (names of tests that failed, passed, were skipped),
`trend.json` (their numbers, and versions) and `pip-list.json`; and says the numbers in one line.
"""

import json
import os
from datetime import datetime
from importlib import metadata
from pathlib import Path

#: The packages that a result depends on.
CORE = ("onnx", "numpy", "ml_dtypes", "apache-tvm-ffi")


def _names(reporter, outcome):
    # An error of a fixture or of the file counts as well.
    found = reporter.stats.get(outcome, []) + (reporter.stats.get("error", []) if outcome == "failed" else [])
    return sorted({report.nodeid.partition("::")[2] or report.nodeid for report in found})


def _written(path, value):
    path.write_text(json.dumps(value, indent=4) + "\n")


def pytest_terminal_summary(terminalreporter, config):
    report = {"date": datetime.now().strftime("%m/%d/%Y %H:%M:%S")}
    report.update((outcome, _names(terminalreporter, outcome)) for outcome in ("failed", "passed", "skipped"))
    counts = {outcome: len(report[outcome]) for outcome in ("failed", "passed", "skipped")}
    packages = [{"name": package.name, "version": package.version} for package in metadata.distributions()]
    packages.append({"name": "kernpack", "version": os.environ.get("KERNPACK_VERSION", "unknown")})
    packages.sort(key=lambda package: package["name"].lower())
    versions = [package for package in packages if package["name"] in (*CORE, "kernpack")]
    folder = os.environ.get("RESULTS_DIR")
    if folder:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _written(folder / "report.json", report)
        _written(folder / "trend.json", [{"date": report["date"], **counts, "versions": versions}])
        _written(folder / "pip-list.json", packages)
    onnx = metadata.version("onnx")
    terminalreporter.write_line(f"scoreboard: onnx {onnx}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
