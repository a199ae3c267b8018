"""Lifetimes of Rust objects in stock Python: many threads use one object, and no operation of tests/data/objects.json leaks."""

import copy
import ctypes
import gc
import json
import os
import subprocess
import sys
import threading

import pytest
import tvm_ffi
from tvm_ffi import dataclasses as dc
from tvm_ffi import structural_map, structural_walk

from objects_table import CLASSES, LIBRARY, OPERATIONS, TABLE, encode, evaluate, field_names, outcome, outcome_of

SAMPLES = TABLE["samples"]
Point, Line, Tracked, Counter = (CLASSES[f"objects.{name}"] for name in ("Point", "Line", "Tracked", "Counter"))


def test_threads():
    counter = Counter("threads")
    point = Point(1, 2)
    problems = []

    def work(number):
        try:
            for index in range(300):
                counter.hit()
                counter.state = f"thread {number} was here {index}"
                assert counter.state.startswith("thread ")
                line = Line(point, Point(number, index))
                assert line == copy.deepcopy(line) and line.end.y == index
                assert encode(OPERATIONS["json"](line)) == encode(line)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not problems and counter.hits == 8 * 300


@dc.py_class("test_object_lifetimes.Stop")
class Stop(CLASSES["objects.Node"]):
    number: int
    names: tvm_ffi.Array


@pytest.mark.parametrize("next_node", [None, CLASSES["objects.Node"](1, None)], ids=["none", "one"])
def test_copies_of_a_derived_class_with_an_optional_object(next_node):
    stop = Stop(value=2, next=next_node, number=0x41414141, names=tvm_ffi.Array(["a", "b"]))
    for _ in range(100):
        copied = copy.copy(stop)
        assert copied.next is None if next_node is None else copied.next.same_as(next_node)
        assert (copied.value, copied.number, list(copied.names)) == (2, 0x41414141, ["a", "b"])


# The stock package leaks a reference to each enum that a constructor takes, including Python's
# enums.
LEAK_SAMPLES = [sample for sample in SAMPLES if sample["value"].get("new") != "objects.Signal"]


def references(value):
    """The strong and weak counts in the header of an object, and those of the objects in its fields."""
    counts = [ctypes.c_uint64.from_address(value.__chandle__()).value]
    for name in field_names(type(value)):
        field = getattr(value, name)
        if isinstance(field, tvm_ffi.Object):
            counts.append(ctypes.c_uint64.from_address(field.__chandle__()).value)
    return counts


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


COMPARISONS = ["eq", "lt", "hash_equal", "structural_equal", "structural_hash_equal"]
COPIES = ["copy", "deepcopy", "json", "pickle"]

LEAK_OPERATIONS = {
    "create": lambda sample, value: evaluate(sample["value"]),
    "read": lambda sample, value: [getattr(value, name) for name in field_names(type(value))],
    "write": lambda sample, value: [
        setattr(value, field.name, getattr(value, field.name)) for field in dc.fields(value) if not field.frozen
    ],
    "refused write": lambda sample, value: outcome_of(lambda: setattr(value, field_names(type(value))[0], None)),
    "wrong argument": lambda sample, value: outcome_of(lambda: type(value)(value, None)) if "new" in sample["value"] else None,
    "repr": lambda sample, value: repr(value),
    **{name: lambda sample, value, name=name: outcome(name, value, value) for name in COMPARISONS},
    **{name: lambda sample, value, name=name: outcome(name, value) for name in COPIES},
    "replace": lambda sample, value: outcome_of(lambda: dc.replace(value)),
    "walk": lambda sample, value: structural_walk(value, lambda part: None),
    "map": lambda sample, value: outcome_of(lambda: structural_map(value, (int, lambda number: number - 1))),
}


@pytest.mark.parametrize("operation", LEAK_OPERATIONS)
def test_no_operation_leaks(operation):
    run_it = LEAK_OPERATIONS[operation]
    rounds = 1000 if operation in ("create", "read", "copy") else 250
    values = [evaluate(sample["value"]) for sample in LEAK_SAMPLES]
    # The first rounds fill caches, interned texts and registered tables, once.
    for _ in range(50):
        [run_it(sample, value) for sample, value in zip(LEAK_SAMPLES, values)]
    gc.collect()
    counts, alive, before = [references(value) for value in values], LIBRARY["alive"](), resident_bytes()
    for _ in range(rounds):
        [run_it(sample, value) for sample, value in zip(LEAK_SAMPLES, values)]
    gc.collect()
    assert LIBRARY["alive"]() == alive
    assert [references(value) for value in values] == counts
    # A leaked object of the smallest kind has 32 bytes.
    assert resident_bytes() - before < rounds * 32 * len(LEAK_SAMPLES) / 4 + 200_000


def test_objects_are_freed_when_python_forgets_them():
    gc.collect()
    alive = LIBRARY["alive"]()
    chain = None
    for number in range(1000):
        chain = Tracked(number, "text", chain)
    assert LIBRARY["alive"]() == alive + 1000
    copied = copy.deepcopy(chain)
    assert LIBRARY["alive"]() == alive + 2000
    del chain, copied
    gc.collect()
    assert LIBRARY["alive"]() == alive


def test_objects_half_made_are_freed():
    alive = LIBRARY["alive"]()
    text = tvm_ffi.serialization.to_json_graph_str(Tracked(1, "text", Tracked(2, "text", None)))
    graph = json.loads(text)
    broken = []
    for node in range(len(graph["nodes"])):
        for kind in ("objects.Point", "None", "int"):
            changed = json.loads(text)
            changed["nodes"][node]["type"] = kind
            broken.append(json.dumps(changed))
    gc.collect()
    for _ in range(20):
        with pytest.raises(TypeError):
            Tracked(1, 2, None)
        with pytest.raises(TypeError):
            Tracked(1, "text", Point(1, 2))
        for document in broken:
            outcome_of(lambda: tvm_ffi.serialization.from_json_graph_str(document))
    gc.collect()
    assert LIBRARY["alive"]() == alive


def test_a_long_chain_is_made_and_dropped():
    program = (
        "import copy, objects_table as t; Node = t.CLASSES['objects.Node']; chain = None\n"
        "for number in range(200_000): chain = Node(number, chain)\n"
        "other = copy.deepcopy(chain); assert other == chain; del chain, other; print('done')"
    )
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert result.stdout == "done\n", result.stderr[-2000:]
