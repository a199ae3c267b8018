"""Libraries made of several crates, and libraries with a crate in common, in stock Python: tests/decentralised.

Each case is a Python process of its own: what is registered stays. tests/tests/module/decentralised.rs is the same for Rust programs.
"""

import itertools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

BEGIN = """
    import tvm_ffi
    from tvm_ffi.dataclasses import py_class

    def load(name):
        return tvm_ffi.load_module(f"{FOLDER}/lib{name}.so")

    def call(name, *arguments):
        return tvm_ffi.get_global_func(name)(*arguments)
"""


def run(program):
    """Runs a program, which must succeed, and returns its output on stderr."""
    folder = os.environ.get("DECENTRALISED_LIBRARIES")
    assert folder, "set DECENTRALISED_LIBRARIES to the folder of libleft.so (cargo build -p left -p right -p forgetful -p clash)"
    text = f"FOLDER = {folder!r}\n" + textwrap.dedent(BEGIN) + textwrap.dedent(program)
    finished = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    return finished.stderr


@pytest.mark.parametrize("order", itertools.permutations(["left", "right"]), ids=" ".join)
def test_every_order_of_loading(order):
    noticed = run(
        f"""
        for name in {order}:
            point = load(name)["shapes.point"](3.0, 4.0)
            assert (point.x, point.y) == (3.0, 4.0)
        point = call("left.shift", point, 2.0)
        assert (point.x, point.y) == (5.0, 4.0)
        assert call("right.norm", call("shapes.point", 3.0, 4.0)) == 5.0
        circle = call("shapes.circle", point, 1.0)
        assert circle.center.same_as(point) and round(call("shapes.area", circle), 6) == 3.141593
        assert call("colors.color", 7).rgb == 7
        assert call("colors.mix", 0xFF0000, 0x0000FF) == 0x7F007F
        """
    )
    assert noticed == ""


def test_dependencies_that_were_not_linked():
    noticed = run("assert load('forgetful').same(3) == 3").splitlines()
    assert len(noticed) == 2
    for line, crate, name in zip(noticed, ["colors", "shapes"], ["colors", "forms"]):
        assert line.startswith(f"kernpack: crate {crate} is a dependency of crate forgetful (tests/decentralised/forgetful/src/lib.rs:")
        assert f"write kernpack::library!(with = [{name}]) there" in line


@pytest.mark.parametrize("first, second", [("left", "clash"), ("clash", "left")])
def test_different_types_of_one_key(first, second):
    crates = {"left": "shapes", "clash": "clash"}
    noticed = run(
        f"""
        import gc
        import pytest
        module = load({first!r})
        # Each attempt fails, and none of its leftovers is used after it is freed.
        for _ in range(3):
            with pytest.raises(RuntimeError) as raised:
                load({second!r})
            told = str(raised.value)
            assert told.startswith(f"cannot load {{FOLDER}}/lib{second}.so: type 'shapes.Point' (tests/decentralised/{crates[second]}/src/lib.rs:"), told
            assert ", crate {crates[second]}) is already registered in this process by tests/decentralised/{crates[first]}/src/lib.rs:" in told, told
            assert f", crate {crates[first]}, in {{FOLDER}}/lib{first}.so, with another layout" in told, told
            gc.collect()
        if {first!r} == "clash":
            assert module["z"](module["point"](1.0, 2.0, 3.0)) == 3.0
            assert module.imports[0]["bytes"]() == b"carried"
        else:
            assert module["shift"](module["shapes.point"](1.0, 2.0), 2.0).x == 3.0
        # A package that was made by `cargo kernpack wheel --tvm-ffi` calls this function.
        told = lambda name: tvm_ffi.get_global_func(f"kernpack.load_problems.{{FOLDER}}/lib{{name}}.so", allow_missing=True)
        assert told({first!r}) is None and "with another layout" in told({second!r})()
        # The library's registrations before it was refused stay, and are never confused with the
        # other's.
        flat, deep = call("shapes.point", 1.0, 2.0), call("clash.point", 1.0, 2.0, 3.0)
        assert (flat.y, deep.z, call("clash.z", deep)) == (2.0, 3.0, 3.0)
        for function, arguments in [("clash.z", [flat]), ("left.shift", [deep, 1.0])]:
            with pytest.raises(TypeError, match="expected shapes.Point"):
                call(function, *arguments)
        """
    )
    line = noticed.splitlines()[0]
    assert line.startswith(f"kernpack: type 'shapes.Point' (tests/decentralised/{crates[second]}/src/lib.rs:")
    assert f"by tests/decentralised/{crates[first]}/src/lib.rs:" in line
    assert f", crate {crates[first]}, in " in line and f"lib{first}.so, with another layout" in line


# A class for the type, in the ways that Python supports.
CLASSES = {
    "before the first use": ("load('left')", ""),
    "after the first use": ("load('left')\nfirst = call('shapes.point', 1.0, 2.0)", ""),
    "between two libraries": ("load('left')", "load('right')"),
}


@pytest.mark.parametrize("before, after", CLASSES.values(), ids=list(CLASSES))
def test_register_object(before, after):
    program = """
        import copy
        import pytest

        with pytest.raises(ValueError, match="Cannot find object type index for shapes.Point"):
            tvm_ffi.register_object("shapes.Point")(type("Early", (tvm_ffi.Object,), {}))
        BEFORE

        @tvm_ffi.register_object("shapes.Point")
        class Point(tvm_ffi.Object):
            def norm(self):
                return (self.x**2 + self.y**2) ** 0.5

        AFTER
        point = call("shapes.point", 3.0, 4.0)
        assert type(point) is Point and point.norm() == 5.0
        assert type(call("left.shift", point, 1.0)) is Point

        @py_class("test.Named")
        class Named(Point):
            name: str

        named = Named(3.0, 4.0, "here")
        assert isinstance(named, Point) and (named.norm(), named.name) == (5.0, "here")
        assert call("left.shift", named, 1.0).x == 4.0
    """
    program = textwrap.dedent(program).replace("BEFORE", before).replace("AFTER", after)
    assert run(program) == ""


# A Python class that has the key already: with the same fields, with none, and with fields that are
# not registered yet.
RESERVED = {
    "same fields": ("@py_class('shapes.Point')\nclass Point(tvm_ffi.Object):\n    x: float\n    y: float", "registered"),
    "no fields": ("@py_class('shapes.Point')\nclass Point(tvm_ffi.Object):\n    pass", "registered"),
    "pending": (
        "from tvm_ffi import core\n"
        "class Point(tvm_ffi.Object):\n    pass\n"
        "core._register_py_class(core._type_cls_to_type_info(tvm_ffi.Object), 'shapes.Point', Point)",
        "reserved",
    ),
}


@pytest.mark.parametrize("reserve, how", RESERVED.values(), ids=list(RESERVED))
def test_a_python_class_has_the_key_already(reserve, how):
    program = """
        import pytest
        RESERVE
        with pytest.raises(RuntimeError, match="cannot load .*libleft.so: type 'shapes.Point' .* in this process by another language"):
            load("left")
        # The library's types are registered, under another key.
        point = call("shapes.point", 1.0, 2.0)
        assert type(point) is not Point and not isinstance(point, Point)
        assert (point.x, call("left.shift", point, 2.0).x) == (1.0, 3.0)
        if tvm_ffi.core._type_cls_to_type_info(Point).fields:
            mine = Point(5.0, 6.0)
            assert (mine.x, mine.y) == (5.0, 6.0)
            with pytest.raises(TypeError, match="shift.*argument 'point': expected shapes.Point"):
                call("left.shift", mine, 1.0)
    """
    noticed = run(textwrap.dedent(program).replace("RESERVE", reserve))
    assert noticed.startswith("kernpack: type 'shapes.Point' (tests/decentralised/shapes/src/lib.rs:"), noticed
    assert f"is already {how}" in noticed or f"is {how} in this process by another language" in noticed, noticed


def test_a_python_class_takes_the_key_of_a_library():
    """Python refuses, as for C++ types: the key has an owner."""
    run(
        """
        import pytest
        load("left")
        point = call("shapes.point", 1.0, 2.0)
        with pytest.raises(ValueError, match="Type key 'shapes.Point' is already registered"):

            @py_class("shapes.Point")
            class Point(tvm_ffi.Object):
                a: int

        assert call("left.shift", point, 2.0).x == 3.0
        """
    )


def test_one_library_under_two_paths(tmp_path):
    program = """
        import shutil
        load("left")
        copy = shutil.copy(f"{FOLDER}/libleft.so", COPY)
        again = tvm_ffi.load_module(copy)
        point = again["shapes.point"](3.0, 4.0)
        assert call("left.shift", point, 1.0).x == 4.0 and again["shift"](point, 1.0).x == 4.0
    """
    noticed = run(program.replace("COPY", repr(str(tmp_path / "libcopy.so"))))
    assert noticed == (
        "kernpack: crate left 0.1.0 is in this process already; its global functions stay those of the first copy\n"
    )
