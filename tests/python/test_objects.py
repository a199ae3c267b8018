"""Rust types in stock Python: every operation on every type, from the table in tests/data/objects.json (see objects_table.py)."""

import copy
import inspect
import os
import pickle
import pydoc
import subprocess
import sys

import pytest
import tvm_ffi
from tvm_ffi import dataclasses as dc
from tvm_ffi import structural_equal, structural_map, structural_walk

import objects_table
from objects_table import CLASSES, OPERATIONS, TABLE, encode, evaluate, field_names, info, outcome, outcome_of, run

TYPES = TABLE["types"]
SAMPLES = TABLE["samples"]
ROWS = [row for row in TABLE["rows"] if "python" in row.get("hosts", ["python"])]
Point, Line = CLASSES["objects.Point"], CLASSES["objects.Line"]


def name_of(row):
    value = row["value"]
    return row.get("rule") or f"{value.get('new') or value.get('call')}-{SAMPLES.index(row)}"


def of_each_type():
    return pytest.mark.parametrize("row", TYPES, ids=lambda row: row["key"])


def of_each_sample():
    return pytest.mark.parametrize("sample", SAMPLES, ids=name_of)


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_row(row):
    assert run(row) == row.get("result", row.get("error"))


# Registrations.


@of_each_type()
def test_fields_and_methods_are_described(row):
    cls = CLASSES[row["key"]]
    fields = {field.name: [str(field.ty)] + ([field.doc] if field.doc else []) for field in info(cls).fields}
    assert fields == row["fields"]
    methods = {method.name: method.doc for method in info(cls).methods if not method.name.startswith("__")}
    assert methods == row.get("methods", {})
    writable = [field.name for field in info(cls).fields if not field.frozen]
    assert writable == row.get("writable", [])
    assert info(cls).parent_type_info.type_key == row.get("parent", "ffi.Object")
    assert all("type_schema" in member.metadata for member in [*info(cls).fields, *info(cls).methods])


@of_each_type()
def test_docs_are_in_help(row):
    text = pydoc.render_doc(CLASSES[row["key"]], renderer=pydoc.plaintext)
    for _type, *docs in row["fields"].values():
        assert all(doc in text for doc in docs)
    assert all(doc in text for doc in row.get("methods", {}).values())


@of_each_type()
def test_dataclass_fields(row):
    cls = CLASSES[row["key"]]
    assert dc.is_dataclass(cls)
    fields = dc.fields(cls)
    assert [field.name for field in fields] == field_names(cls)
    own = fields[len(fields) - len(row["fields"]) :]
    assert [field.doc for field in own] == [(doc + [None])[1] for doc in row["fields"].values()]
    assert [field.frozen for field in own] == [name not in row.get("writable", []) for name in row["fields"]]


@of_each_type()
def test_match_args(row):
    cls = CLASSES[row["key"]]
    assert list(cls.__match_args__) == row.get("match_args", field_names(cls))


def test_pattern_matching():
    # Python 3.9 has no match statement.
    if sys.version_info < (3, 10):
        pytest.skip("match statements begin with Python 3.10")
    names = {"Line": Line, "Point": Point, "line": Line(Point(1, 2), Point(3, 4))}
    exec("match line:\n    case Line(Point(1, y), end=Point(x=3)): found = y", names)
    assert names["found"] == 2


def test_options_of_fields():
    fields = {field.name: field for field in dc.fields(CLASSES["objects.Defaults"])}
    assert (fields["count"].default, fields["label"].default) == (3, "nothing")
    assert list(fields["items"].default_factory()) == [1, 2]
    assert [name for name, field in fields.items() if field.kw_only] == ["keyword", "maybe"]
    assert fields["required"].default is dc.MISSING
    flags = {field.name: field for field in dc.fields(CLASSES["objects.Flags"])}
    assert [name for name, field in flags.items() if not field.repr] == ["unprinted"]
    assert [name for name, field in flags.items() if not field.compare] == ["uncompared"]
    assert [name for name, field in flags.items() if not field.hash] == ["uncompared", "unhashed"]
    assert [name for name, field in flags.items() if not field.init] == ["computed"]
    rules = {field.name: field.structural_eq for field in dc.fields(CLASSES["objects.Lambda"])}
    assert rules["body"] is None and rules["comment"] == "ignore" and rules["params"].startswith("def")
    signature = inspect.signature(CLASSES["objects.Defaults"].__init__)
    assert list(signature.parameters) == ["self", "required", "count", "label", "items", "keyword", "maybe"]


# Every operation on every sample.


@of_each_sample()
def test_read(sample):
    value = evaluate(sample["value"])
    assert {name: encode(getattr(value, name)) for name in field_names(type(value))} == sample["reads"]


@of_each_sample()
def test_write(sample):
    value = evaluate(sample["value"])
    writable = [name for row in TYPES if isinstance(value, CLASSES[row["key"]]) for name in row.get("writable", [])]
    for name in field_names(type(value)):
        if name in writable:
            setattr(value, name, getattr(value, name))
        else:
            with pytest.raises(AttributeError):
                setattr(value, name, getattr(value, name))
    assert {name: encode(getattr(value, name)) for name in field_names(type(value))} == sample["reads"]
    with pytest.raises(AttributeError):
        value.no_such_field = 1


@of_each_sample()
def test_repr(sample):
    value = evaluate(sample["value"])
    assert repr(value) == str(value) == sample["repr"]


@pytest.mark.parametrize("operation", ["copy", "deepcopy", "json", "pickle"])
@of_each_sample()
def test_copies(sample, operation):
    value = evaluate(sample["value"])
    fails = sample.get("fails", {}).get(operation)
    if fails is not None:
        assert outcome(operation, value) == fails
        return
    copied = OPERATIONS[operation](value)
    assert type(copied) is type(value) and not copied.same_as(value)
    assert encode(copied) == encode(value)
    assert repr(copied) == sample["repr"]


@pytest.mark.parametrize("operation", ["eq", "le", "hash_equal", "structural_equal", "structural_hash_equal"])
@of_each_sample()
def test_comparisons_with_the_same_again(sample, operation):
    expected = sample.get("fails", {}).get(operation, True)
    assert outcome(operation, evaluate(sample["value"]), evaluate(sample["value"])) == expected


@of_each_sample()
def test_comparisons_with_others(sample):
    value, other = evaluate(sample["value"]), Point(77, 77)
    assert value != other and not structural_equal(value, other)
    assert value is not None and value != 1


@of_each_sample()
def test_replace(sample):
    value = evaluate(sample["value"])
    names = [field.name for field in dc.fields(value) if hasattr(type(value), field.name)]
    if "copy" in sample.get("fails", {}):
        with pytest.raises(TypeError):
            dc.replace(value)
        return
    if isinstance(value, CLASSES["objects.Account"]):
        names.remove("units")
    changed = dc.replace(value, **{name: getattr(value, name) for name in names})
    assert not changed.same_as(value) and encode(changed) == encode(value)


def test_replace_changes_the_copy_alone():
    line = Line(Point(1, 2), Point(3, 4))
    changed = dc.replace(line, end=Point(5, 6))
    assert (line.end.x, changed.end.x) == (3, 5) and changed.start.same_as(line.start)
    with pytest.raises(TypeError, match="field 'end' of objects.Line: expected objects.Point, got int"):
        dc.replace(line, end=1)


@of_each_sample()
def test_walk_and_map(sample):
    value = evaluate(sample["value"])
    seen = []
    structural_walk(value, (type(value), seen.append), order="pre")
    assert seen and seen[0].same_as(value)
    if "map" in sample.get("fails", {}):
        assert outcome_of(lambda: structural_map(value, (int, lambda number: number))) == sample["fails"]["map"]
        return
    assert structural_map(value, (int, lambda number: number)).same_as(value)


def test_map_rebuilds_what_changes():
    shared = Point(1, 2)
    line = Line(shared, Point(3, 4))
    mapped = structural_map(line, (int, lambda number: number + 1 if number > 2 else number))
    assert repr(mapped) == "objects.Line(start=objects.Point(x=1, y=2), end=objects.Point(x=4, y=5))"
    assert mapped.start.same_as(shared) and repr(line).endswith("y=4))")
    lifted = structural_map(line, (Point, lambda point: Point(point.x, 0)))
    assert [lifted.start.y, lifted.end.y] == [0, 0]


def test_walk_stops_and_skips():
    seen = []

    def callback(point):
        seen.append(point.x)
        return tvm_ffi.VisitInterrupt(point.x)

    result = structural_walk([Point(1, 2), Point(3, 4)], (Point, callback), order="pre")
    assert seen == [1] and result.value == 1


@of_each_sample()
def test_is_instance(sample):
    value = evaluate(sample["value"])
    chain = [key for key, cls in CLASSES.items() if isinstance(value, cls)]
    assert info(type(value)).type_key in chain and "ffi.Object" in chain
    assert [part.type_key for part in objects_table.lineage(type(value))][-len(chain) :] == chain


# Classes of Python.


def run_python(*arguments):
    """The output of another Python."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    result = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    return result.stdout + (result.stderr if result.returncode else "")


def test_register_object_classes():
    assert run_python(objects_table.__file__) == "done\n"


class Named(Point):
    """A plain subclass: a Python class without its own type."""

    def __repr__(self):
        return f"Named {self.x}"

    @property
    def double(self):
        return 2 * self.x


class Saver(CLASSES["objects.Account"]):
    def __init__(self, owner):
        self.__ffi_init__(owner, 5.0)


def test_plain_python_subclass():
    named = Named(4, y=5)
    assert type(named) is Named and isinstance(named, Point)
    assert (named.double, repr(named), named == Point(4, 5)) == (8, "Named 4", True)
    line = Line(named, named)
    assert line.start.same_as(named) and line.start == Point(4, 5)
    assert (Saver("Ada").cents, repr(Saver("Ada"))) == (500, "<Ada: 5.00>")
    with pytest.raises(TypeError, match="expected int, got str"):
        Named(4, "five")


@dc.py_class("test_objects.Labelled", eq=True, unsafe_hash=True)
class Labelled(Point):
    label: str
    weights: list = dc.field(default_factory=list)


def test_python_class_derived_from_a_rust_type():
    labelled = Labelled(1, 2, "here")
    assert (labelled.x, labelled.y, labelled.label, list(labelled.weights)) == (1, 2, "here", [])
    assert isinstance(labelled, Point) and isinstance(labelled, Labelled)
    assert repr(labelled) == 'test_objects.Labelled(x=1, y=2, label="here", weights=[])'
    assert labelled == Labelled(1, 2, "here") and labelled != Labelled(1, 3, "here")
    assert hash(labelled) == hash(Labelled(1, 2, "here"))
    assert structural_equal(labelled, Labelled(1, 2, "here")) and not structural_equal(labelled, Labelled(1, 2, "there"))
    for copied in [copy.copy(labelled), copy.deepcopy(labelled), pickle.loads(pickle.dumps(labelled))]:
        assert type(copied) is Labelled and copied == labelled
    changed = dc.replace(labelled, x=9)
    assert (changed.x, labelled.x, changed.label) == (9, 1, "here")


def test_rust_reads_objects_of_a_python_class():
    line = Line(Labelled(1, 2, "start"), Point(3, 4))
    assert line.start.label == "start" and type(line.start) is Labelled
    assert repr(copy.deepcopy(line)) == repr(line)
    assert pickle.loads(pickle.dumps(line)).start.label == "start"


@dc.py_class("test_objects.Spider")
class Spider(CLASSES["objects.Animal"]):
    eyes: int = 8


def test_python_class_derived_from_a_base_type():
    spider = Spider(8)
    assert (spider.legs, spider.eyes) == (8, 8)
    assert isinstance(spider, CLASSES["objects.Animal"]) and not isinstance(spider, CLASSES["objects.Pet"])
    assert encode(copy.deepcopy(spider)) == encode(spider)


@of_each_sample()
def test_python_class_of_every_type(sample):
    """A Python type derived from each type: its objects are created, or refused with the reason."""
    value = evaluate(sample["value"])
    key = f"test_objects.Derived{SAMPLES.index(sample)}"
    body = {"__module__": __name__, "__annotations__": {"more": "int"}, "more": dc.field(default=1)}
    derived = dc.py_class(key)(type(type(value))("Derived", (type(value),), body))
    arguments = [getattr(value, name) for name in type(value).__match_args__]
    keywords = {field.name: getattr(value, field.name) for field in dc.fields(value) if field.kw_only and field.init}
    try:
        made = derived(*arguments, **keywords)
    except TypeError as error:
        assert "cannot be derived from" in str(error)
        assert "only Rust code can make its field" in str(error)
    else:
        assert made.more == 1 and isinstance(made, type(value))
        assert {name: encode(getattr(made, name)) for name in sample["reads"]} == sample["reads"]
