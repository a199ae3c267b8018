"""Declared signatures: each function of signatures.rs beside a Python function of the same signature.

Every call that one accepts the other accepts, with the same bound values; every call that one refuses the other refuses, with the same exception.
"""

import copy
import gc
import inspect
import itertools
import pickle
import pydoc
import random
import re
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "extension-lib" / "src" / "signatures.rs"
# The name of each function, and its signature.
SIGNATURES = dict(re.findall(r'^    (signed_\w+) "(\(.*\))"', SOURCE.read_text(), re.MULTILINE))
# Defaults that are Rust's.
COMPUTED = {"signed_computed": "(a=3, *, b=4)"}
METHODS = {
    "__init__": "(self, a, /, b=2, *args, key=None, **options)",
    "alone": "(self, /)",
    "three": "(self, a, /, b, *, key=None)",
    "rest": "(self, /, *args, **options)",
    "shared": "(a, /, *, key)",
}


def plain(value):
    """The value with lists in place of tuples: `*args` is a list of the library."""
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    return {key: plain(element) for key, element in value.items()} if isinstance(value, dict) else value


def reference(name, signature, qualname):
    """A Python function of this signature that lists its arguments."""
    names = [parameter for parameter in inspect.signature(eval(f"lambda {signature[1:-1]}: 0")).parameters if parameter != "self"]
    scope = {}
    exec(f"def {name}{signature}: return [{', '.join(names)}]", scope)
    scope[name].__qualname__ = qualname
    return scope[name]


def result(function, args, kwargs):
    try:
        return plain(function(*args, **kwargs))
    except Exception as error:
        assert error.__cause__ is None and error.__context__ is None
        return type(error), str(error)


def calls(signature):
    """Arguments: every number by position up to two too many, with every choice of up to three names."""
    parameters = inspect.signature(eval(f"lambda {signature[1:-1]}: 0")).parameters
    names = [name for name in parameters if name not in ("self", "args", "options")]
    chosen = names if len(names) < 6 else names[:2] + names[-3:]
    chosen = [*chosen, "args", "optionz", "ke"]
    counts = range(len(names) + 3) if len(names) < 6 else range(len(names) - 3, len(names) + 3)
    for count in counts:
        for size in range(4):
            for named in itertools.combinations(chosen, size):
                yield range(101, 101 + count), dict(zip(named, range(201, 204)))
    yield range(101, 101 + len(names)), dict.fromkeys(names, 7)
    for count in range(len(names)):
        yield range(101, 101 + count), dict.fromkeys(names[count:], 7)


def values_fit(name, args, kwargs):
    """Numbers for all parameters; those that are texts or lists get one."""
    texts = {"signed_all_defaults": "c", "signed_keyword_default": "key", "signed_everything_default": "b"}
    lists = {"signed_everything_default": "other"}
    if name == "signed_all_defaults" and len(args) > 2:
        args = [*args[:2], str(args[2]), *args[3:]]
    if name == "signed_everything_default" and len(args) > 1:
        args = [args[0], str(args[1]), *args[2:]]
    kwargs = {key: [value] if lists.get(name) == key else str(value) if texts.get(name) == key else value for key, value in kwargs.items()}
    return args, kwargs


def test_there_are_enough():
    assert len(SIGNATURES) > 30


@pytest.mark.parametrize("name", SIGNATURES)
def test_calls_of_a_function(extmod, name):
    signature = COMPUTED.get(name, SIGNATURES[name])
    function, python = getattr(extmod, name), reference(name, signature, name)
    accepted, refused = 0, 0
    for args, kwargs in calls(signature):
        args, kwargs = values_fit(name, list(args), kwargs)
        expected = result(python, args, kwargs)
        assert result(function, args, kwargs) == expected, (args, kwargs)
        accepted += isinstance(expected, list)
        refused += isinstance(expected, tuple)
    assert accepted and (refused or signature == "(*args, **options)"), name


@pytest.mark.parametrize("name", METHODS)
def test_calls_of_a_method(extmod, name):
    class Signed:
        pass

    signature = METHODS[name]
    if name == "__init__":
        made = reference(name, signature, "Signed.__init__")
        python, function = lambda *args, **kwargs: made(None, *args, **kwargs), lambda *args, **kwargs: extmod.Signed(*args, **kwargs).values
    else:
        python = reference(name, signature, f"Signed.{name}")
        if name != "shared":
            Signed.method = python
            python = Signed().method
        function = getattr(extmod.Signed(0), name)
    for args, kwargs in calls(signature.replace("self, /", "").replace("self, ", "").replace("(, ", "(")):
        args = list(args)
        assert result(function, args, kwargs) == result(python, args, kwargs), (args, kwargs)


@pytest.mark.parametrize("name", SIGNATURES)
def test_what_inspect_says(extmod, name):
    # A default that only a call computes is `...`.
    function, signature = getattr(extmod, name), SIGNATURES[name].replace("a=...", "a=3")
    assert function.__text_signature__ == re.sub(r"'(\w+)'", r'"\1"', signature)
    expected = inspect.signature(reference(name, signature, name))
    assert inspect.signature(function) == expected
    assert pydoc.plain(pydoc.render_doc(function)).splitlines()[2].startswith(f"{name}{expected}")


def test_what_inspect_says_of_methods(extmod):
    # Before 3.10, CPython does not keep the signature of a class.
    methods = METHODS if sys.version_info >= (3, 10) else {name: METHODS[name] for name in METHODS if name != "__init__"}
    for name, signature in methods.items():
        member = extmod.Signed if name == "__init__" else getattr(extmod.Signed, name)
        without_self = name in ("__init__", "shared")
        expected = signature.replace("self, ", "") if without_self else signature
        kinds = {parameter.name: parameter.kind for parameter in inspect.signature(member).parameters.values()}
        named = inspect.signature(reference("f", expected, "f")).parameters
        assert {key: kind for key, kind in kinds.items() if key != "self"} == {
            key: parameter.kind for key, parameter in named.items() if key != "self"
        }
    if "__init__" in methods:
        assert str(inspect.signature(extmod.Signed)) == "(a, /, b=2, *args, key=None, **options)"
    assert str(inspect.signature(extmod.Signed.three)) == "(self, a, /, b, *, key=None)"


def test_a_submodule(extmod):
    assert extmod.text.weigh(1, 2, 3, factor=2) == 12 and extmod.text.weigh() == 0
    with pytest.raises(TypeError, match=r"^weigh\(\) got an unexpected keyword argument 'by'"):
        extmod.text.weigh(1, by=2)


def test_keywords_that_are_not_texts(extmod):
    class Derived(extmod.Signed):
        pass

    with pytest.raises(TypeError, match="^keywords must be strings$"):
        Derived(1, **{2: 3})


def test_a_refused_call_leaves_nothing(extmod):
    def refused():
        try:
            extmod.signed_one()
        except TypeError:
            return
        pytest.fail("the call was not refused")

    refused()
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            refused()
        assert gc.collect() < 100
    finally:
        gc.enable()


def test_conversions_of_arguments(extmod):
    """An argument of another type is named by its parameter."""
    with pytest.raises(TypeError, match=r"argument 'numbers'.*expected int, got str"):
        extmod.text.weigh(1, "2")
    with pytest.raises(TypeError, match=r"argument 'factor': expected int, got str"):
        extmod.text.weigh(1, factor="2")


def test_subclasses_and_pickles(extmod):
    class Derived(extmod.Signed):
        def __init__(self, *args, **kwargs):
            super().__init__(0, *args, **kwargs)

    assert plain(Derived(1, 2, key=3, other=4).values) == [0, 1, [2], 3, {"other": 4}]
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(extmod.Signed(1))


def test_copies(extmod):
    """A copy is made through the constructor, by its signature."""
    for args, kwargs in [((1,), {}), ((1, [2]), {"key": "x"}), ((1, 2, [3], "4"), {"other": {"a": 5}, "first": 6}), ((1, 2, 3), {})]:
        made = extmod.Copied(*args, **kwargs)
        for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            for name in ("first", "second", "rest", "key", "options"):
                assert plain(getattr(again, name)) == plain(getattr(made, name))


def test_keywords_of_a_call_are_kept(extmod):
    """The map of the function is a copy, in the order of the call."""
    given = {"b": 1, "a": [2], "data": None}
    assert extmod.signed_options_positional(b"x", **given) == [b"x", given]
    assert list(extmod.signed_options_positional(b"x", **given)[1]) == ["b", "a", "data"]


def test_random_calls(extmod):
    """Random values of many classes, as they are passed through `*args` and `**options`."""
    choose = random.Random(32)
    for _ in range(2000):
        args = [choose.choice([None, True, 1, -2.5, "text", b"bytes", [1, [2]], {"a": 1}]) for _ in range(choose.randrange(5))]
        kwargs = {choose.choice("abcdef") * choose.randrange(1, 12): choose.random() for _ in range(choose.randrange(4))}
        assert extmod.signed_args_options(*args, **kwargs) == [args, kwargs]


def test_class_methods(extmod):
    class Derived(extmod.Signed):
        """A derived class."""

        def both(self):
            return [*self.values, *self.alone()]

    assert plain(extmod.Signed.of(1, key=2).values) == [1, 2] and type(extmod.Signed.of(1)) is extmod.Signed
    derived = Derived.parse("x", times=2)
    assert type(derived) is Derived and derived.both() == ["x", "x"] and isinstance(derived, extmod.Signed)
    derived.note = derived
    again = pickle.loads(pickle.dumps(extmod.Copied.other(3)))
    assert type(again) is extmod.Copied and again.first == 3
    assert type(derived.of(1)) is Derived
    assert str(inspect.signature(extmod.Signed.of)) == "(a, *, key=None)"
    assert str(inspect.signature(Derived.parse)) == "(text, times=1)"
    with pytest.raises(ValueError, match="nothing to parse"):
        Derived.parse("")
    python = classmethod(reference("of", "(cls, a, *, key=None)", "Signed.of"))
    python = type("Signed", (), {"of": python}).of
    for args, kwargs in calls("(a, *, key=None)"):
        expected = result(python, args, kwargs)
        found = result(extmod.Signed.of, args, kwargs)
        assert found == expected if isinstance(expected, tuple) else plain(found.values) == expected[-2:], (args, kwargs)


def test_constants(extmod):
    assert (extmod.__version__, extmod.KEY_SIZE, extmod.text.SEPARATORS) == ("0.1.0", 32, (", ", 0.5, None))
    assert (extmod.Signed.COUNT, extmod.Signed.KIND, extmod.Signed(1).KIND) == (5, "signed", "signed")

    class Derived(extmod.Signed):
        KIND = "derived"

    assert (Derived.COUNT, Derived(1).KIND) == (5, "derived")


@pytest.mark.needs("tvm_ffi")
def test_constants_through_the_abi(extmod):
    import tvm_ffi

    library = tvm_ffi.load_module(extmod.__file__)
    assert library.KEY_SIZE() == 32 and library.get_function("__version__")() == "0.1.0"
    assert tvm_ffi.get_global_func("extmod.KEY_SIZE")() == 32


@pytest.mark.needs("tvm_ffi")
def test_the_packed_convention(extmod):
    """Other callers pass all arguments by position: `*args` as a list, `**options` as a map."""
    import tvm_ffi

    library = tvm_ffi.load_module(extmod.__file__)
    assert [plain(value) for value in library.signed_everything(1, 2, [3], 4, 5, {"x": 6})[:2]] == [1, 2]
    assert list(library.signed_keyword_default()) == [None]
    assert list(library.signed_required_after_default(5, 6)) == [5, 6]
    with pytest.raises(TypeError, match="argument 'key' is missing"):
        library.signed_required_after_default(5)
    metadata = library.get_function_metadata("signed_keywords_some")
    assert metadata["arg_kinds"] == ["keyword_only"] * 3
    assert metadata["arg_defaults"] == [1, {"required": True}, 3]
