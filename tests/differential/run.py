"""Compares Kernpack with onnxruntime and the reference evaluator of ONNX on random models.

usage: run.py [--seconds N | --cases N] [--seed N] [--kind operators|graphs|near_misses|quantized|learned|exporters|estimators] [--word WORD] [--known FILE] [--folder FOLDER]
       run.py --replay NAME..

A case is named `kind/what/number`, and its name is its seed: `--replay operators/Conv/17` makes the same case again. A result is right if it is that of one judge. What
neither has goes to a folder below FOLDER (target/differential): the model, its inputs, the wanted outputs and what was seen. Ends with status 1 if there is such a finding that is not among
the known ones: lines `name reason` of a file.
"""

import argparse
import importlib
import itertools
import sys
import time
from collections import Counter
from pathlib import Path

import contributed  # noqa: F401
import control  # noqa: F401
import graphs
import judges
import language  # noqa: F401
import layers  # noqa: F401
import learned
import near_misses
import numpy as np
import onnx
import operators
import quantized
from case import Case, Draw, NotMade

#: Functions of a draw by kind and name.
KINDS = {
    "operators": {name: (lambda draw, name=name, function=function: function(draw, name)) for name, function in operators.ALL.items()},
    "graphs": {"graph": graphs.graph},
    "near_misses": near_misses.ALL,
    "quantized": quantized.ALL,
}

#: The kinds of a run that names none.
USUAL = list(KINDS)

#: The kinds that are compared only if they are named. Those that need other packages are loaded
#: then: PyTorch and transformers, and scikit-learn.
KINDS["learned"] = learned.ALL
LOADED = ("exporters", "estimators")


def named(name):
    """The case of this name."""
    kind, what, _ = name.split("/")
    return KINDS[kind][what](Draw(name))


def names(seed, kinds, word):
    """An infinite sequence of names of cases: each kind takes turns, and within it each function."""
    turns = []
    for kind in kinds:
        functions = [what for what in KINDS[kind] if word in what]
        # A kind with few functions gets as many turns as the others.
        # Another run begins with different ones.
        first = seed * 40 % max(len(functions), 1)
        turns.append((kind, itertools.cycle(functions[first:] + functions[:first])) if functions else None)
    turns = [turn for turn in turns if turn]
    if not turns:
        sys.exit(f"no case has '{word}' in its name")
    for number in itertools.count(seed * 1_000_000):
        kind, functions = turns[number % len(turns)]
        yield f"{kind}/{next(functions)}/{number}"


def judge(name, case, folder, known, refusals):
    """Compares a case; the outcome as a word: `right`, `refused`, `no judge`, `known` or `wrong`. Refusals are counted by their way and kind."""
    wanted = judges.wanted(case)
    if not wanted:
        return "no judge"
    outcome = "right"
    for way, function in judges.WAYS.items():
        if not judges.applies(way, case):
            continue
        got, error, seconds = judges.in_child(function, case)
        if got is not None:
            seen = [judges.difference(case, want, got) for want in wanted]
            if None in seen:
                refusals[way, None] += 1
                continue
            seen = seen[0]
        elif judges.refuses(way, error):
            refusals[way, judges.kind_of(error)] += 1
            outcome = outcome if way == "batch" else "refused"
            continue
        else:
            seen = error
        if name in known:
            return "known"
        print(f"{name}: {way}: {seen}\n    {case.what}", flush=True)
        keep(folder / name.replace("/", "-"), case, wanted[0], f"{name}\n{way}, {seconds:.1f} s: {seen}\n{case.what}\n")
        return "wrong"
    return outcome


def show(refusals):
    """Prints the number of results of each way, and the most common errors of refused cases."""
    for way in judges.WAYS:
        kinds = Counter({kind: count for (own, kind), count in refusals.items() if own == way and kind})
        print(f"{way}: {refusals[way, None]} right, {kinds.total()} refused")
        for kind, count in kinds.most_common(5):
            print(f"    {count} times: {kind}")


def keep(folder, case, wanted, text):
    """Writes a finding."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(case.model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **case.inputs)
    np.savez(folder / "wanted.npz", *wanted)
    (folder / "seen.txt").write_text(text)


def check_the_judge():
    """Ends the program if the judge does not detect a difference of results."""
    case = Case("planted", None, {}, of_largest=1e-5)
    rows = [
        ([np.inf, np.inf, -np.inf], [0.0, -np.inf, 5.0]),
        ([np.nan, 1.0], [1.0, np.nan]),
        ([3.4e38, 1.0], [3.4e38, 7e5]),
        ([1.0, 2.0], [1.0, 2.001]),
    ]
    for want, have in rows:
        for dtype in ("float32", "float64"):
            wanted, got = np.array(want, dtype), np.array(have, dtype)
            with np.errstate(all="ignore"):
                others = [got, wanted[:1], wanted.astype("float16")]
            if judges.difference(case, [wanted], [wanted]) or not all(judges.difference(case, [wanted], [other]) for other in others):
                sys.exit(f"the judge is blind: {got} for {wanted}")
            if dtype == "float64" and not judges.difference(case, [np.array([np.pi])], [np.array([np.pi]).astype("f4").astype("f8")]):
                sys.exit("the judge is blind: float64 as precise as float32")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--cases", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=[*KINDS, *LOADED], action="append")
    parser.add_argument("--word", default="")
    parser.add_argument("--known", type=Path)
    parser.add_argument("--replay", nargs="+", default=[])
    parser.add_argument("--folder", type=Path, default=Path("target/differential"))
    arguments = parser.parse_args()
    lines = arguments.known.read_text().splitlines() if arguments.known else []
    known = {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}
    check_the_judge()
    end = time.monotonic() + (arguments.seconds or float("inf"))
    outcomes, refusals = Counter(), Counter()
    kinds = arguments.kind or USUAL
    for kind in LOADED:
        if kind in kinds or any(name.startswith(f"{kind}/") for name in arguments.replay):
            KINDS[kind] = importlib.import_module(kind).ALL
    wanted = arguments.replay or names(arguments.seed, kinds, arguments.word)
    for name in wanted:
        try:
            case = named(name)
        except NotMade as error:
            outcomes["not made"] += 1
            print(f"{name}: not made: {str(error).splitlines()[0][:200]}", flush=True)
        else:
            outcomes[judge(name, case, arguments.folder, known, refusals)] += 1
        if time.monotonic() > end or outcomes.total() == arguments.cases:
            break
    print(f"{outcomes.total()} cases: " + ", ".join(f"{count} {word}" for word, count in outcomes.most_common()))
    show(refusals)
    # Cases without a judge have not shown anything.
    if outcomes["right"] * 2 < outcomes.total() - outcomes["not made"] or outcomes["not made"] == outcomes.total():
        sys.exit("less than half of the cases were judged right")
    return 1 if outcomes["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
