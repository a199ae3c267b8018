"""Both kinds of wheels of the library, as their users see them: type checkers, `inspect`, `help()`, operators, copies.

CARGO_KERNPACK is the program (cargo build -p kernpack-cli).
"""

import ast
import importlib
import inspect
import json
import os
import pydoc
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import imported

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PROGRAM = os.environ.get("CARGO_KERNPACK")
if not PROGRAM:
    assert not os.environ.get("CI"), "CARGO_KERNPACK is not set"
    pytest.skip("CARGO_KERNPACK is not set to the program cargo-kernpack (cargo xtask test sets it)", allow_module_level=True)
MISTAKES = set(range(9, 33))


def run(command, folder, **environment):
    ended = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})
    return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture(scope="module", params=["extension", pytest.param("tvm_ffi", marks=pytest.mark.needs("tvm_ffi"))])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def site(kind, tmp_path_factory):
    """A folder like pip's: a wheel is unpacked there."""
    folder = tmp_path_factory.mktemp(kind)
    # The same folder as in test_wheel.py, so that the library is built once.
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tmp" / "extension-wheel"
    command = [PROGRAM, "wheel", "--package", "extmod", "--profile", "dev", "--json", "--out", folder]
    status, output, errors = run([*command, "--tvm-ffi"] if kind == "tvm_ffi" else command, ROOT, CARGO_TARGET_DIR=str(target))
    assert status == 0, errors
    with zipfile.ZipFile(json.loads(output)["wheel"]) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def program(site, name, **environment):
    status, output, errors = run([sys.executable, "-W", "error", FOLDER / name], site, PYTHONPATH=str(site), **environment)
    assert status == 0, errors
    return output


@pytest.fixture
def consumers(kind):
    return ["consumer.py", "consumer_classes.py"] if kind == "extension" else ["consumer.py"]


@pytest.mark.needs("tvm_ffi")
def test_consumers_run(site, consumers):
    for name in consumers:
        program(site, name)


def test_operators(site):
    assert program(site, "operators.py") == "passed\n"


def test_comparisons(site):
    assert program(site, "comparisons.py") == "passed\n"


def test_setters(site):
    assert program(site, "setters.py") == "passed\n"


def test_copies_of_tensors_on_a_device(site):
    output = program(site, "device_copies.py")
    if output.startswith("no device: "):
        assert not os.environ.get("CI"), output
        pytest.skip(output)
    assert output == "passed\n"


def test_mypy(site, consumers, tmp_path):
    imported("mypy")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", tmp_path / "cache"]
    status, output, errors = run([*mypy, *[FOLDER / name for name in consumers], site / "extmod"], tmp_path, MYPYPATH=str(site))
    assert (status, output) == (0, ""), output + errors
    _, output, _ = run([*mypy, FOLDER / "mistakes.py"], tmp_path, MYPYPATH=str(site))
    assert {int(line) for line in re.findall(r"mistakes\.py:(\d+): error", output)} == MISTAKES, output


def test_pyright(site, consumers, tmp_path):
    imported("pyright")
    # A program for Node.js, which the package downloads if it is missing.
    if run([sys.executable, "-m", "pyright", "--version"], tmp_path)[0] != 0:
        assert not os.environ.get("CI"), "pyright cannot be run here"
        pytest.skip("pyright cannot be run here")
    for name in [*consumers, "mistakes.py"]:
        (tmp_path / name).write_text((FOLDER / name).read_text("utf-8"), "utf-8")
    settings = {"extraPaths": [str(site)], "typeCheckingMode": "strict", "include": [*consumers, "mistakes.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", tmp_path / "pyrightconfig.json", "--outputjson"]
    _, output, errors = run(command, tmp_path)
    found = {}
    for diagnostic in json.loads(output)["generalDiagnostics"]:
        if diagnostic["severity"] == "error":
            lines = found.setdefault(Path(diagnostic["file"]).name, {})
            lines.setdefault(diagnostic["range"]["start"]["line"] + 1, diagnostic["message"])
    # The stubs of tvm_ffi itself contain unknown types.
    own = {(name, line): text for name in consumers for line, text in found.get(name, {}).items() if "tvm_ffi" not in text and "partially unknown" not in text}
    assert own == {}, own
    assert MISTAKES <= set(found.get("mistakes.py", {})), found


@pytest.fixture
def package(site, kind):
    """The package, imported here; the fixture `extmod` of other files has the library itself under that name."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "extmod"}
    sys.path.insert(0, str(site))
    yield importlib.import_module("extmod")
    sys.path.remove(str(site))
    for name in [name for name in sys.modules if name.split(".")[0] == "extmod"]:
        del sys.modules[name]
    sys.modules.update(before)


LITERALS = (
    "(whole=-3, mask=255, part=-0.0025, most=Ellipsis, unknown=Ellipsis, text='a \"b\"\\n\\'c\\'\\\\é\\t', flag=True, turn=Ellipsis, list=[], nothing=None{})"
)


def test_signatures(package, kind):
    """Names and defaults of functions, constructors, methods and static methods; with tvm_ffi, arguments of functions are positional."""
    place = ", /" if kind == "tvm_ffi" else ""
    method = "(self, factor=-2, turn=None, /)" if kind == "tvm_ffi" else "(self, /, factor=-2, turn=None)"
    for value, expected in [
        (package.shifted, f"(x, by=1.0{place})"),
        (package.literals, LITERALS.format(place)),
        (package.Clip, "(x, meta='none')"),
        (package.Clip.scaled, method),
        (package.Clip(1.0).scaled, f"(factor=-2, turn=None{place})"),
        (package.Clip.parse, f"(text, meta='text'{place})"),
    ]:
        assert str(inspect.signature(value)) == expected
    assert (package.shifted.__name__, package.shifted.__module__.split(".")[0]) == ("shifted", "extmod")
    assert package.shifted.__doc__ == "Only the library itself offers it; there is no global function."
    text = pydoc.plain(pydoc.render_doc(package.Clip))
    assert "Clip(x, meta='none')" in text and "parse(text, meta='text'" in text or kind == "tvm_ffi"
    assert "The number times another." in text and "scaled(self, " in text
    assert "Only the library itself offers it" in pydoc.plain(pydoc.render_doc(package.shifted))


def test_the_stub_says_what_is_there(package, site, kind):
    """Each name of the stubs is in the package, with the same parameters, and each public name of the package is in the stubs."""
    if kind == "tvm_ffi":
        paths = {"": site / "extmod" / "__init__.pyi"}
    else:
        paths = {name: site / "extmod" / f"{name or '__init__'}.pyi" for name in ["", "conversions", "objects", "text"]}
    checked = 0
    declared = {"text_weigh", "weigh", "rest", *(name for name in dir(package) if name.startswith("signed_"))}
    for module, path in paths.items():
        place = getattr(package, module) if module else package
        tree = ast.parse(path.read_text("utf-8"))
        names = set()
        for node in tree.body:
            if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
                assert not callable(getattr(place, node.target.id))
                names.add(node.target.id)
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
                continue
            names.add(node.name)
            value = getattr(place, node.name)
            functions = [(value, node)] if isinstance(node, ast.FunctionDef) else []
            if isinstance(node, ast.ClassDef):
                methods = [part for part in node.body if isinstance(part, ast.FunctionDef) and not part.name.startswith("__")]
                functions += [(getattr(value, part.name), part) for part in methods if not any("property" in ast.unparse(mark) or "setter" in ast.unparse(mark) for mark in part.decorator_list)]
                for part in node.body:
                    if isinstance(part, ast.Assign) and kind == "extension" and getattr(part.targets[0], "id", "").istitle() and not isinstance(part.value, ast.Constant):
                        assert isinstance(getattr(value, part.targets[0].id), type), part.targets[0].id
            for function, stated in functions:
                arguments = stated.args
                try:
                    parameters = list(inspect.signature(function).parameters.values())
                except ValueError:
                    # Of a function without a signature.
                    continue
                expected = [argument.arg for argument in arguments.posonlyargs + arguments.args]
                if any(getattr(mark, "id", "") == "classmethod" for mark in stated.decorator_list):
                    expected.remove("cls")
                expected += [argument.arg for argument in [arguments.vararg, *arguments.kwonlyargs, arguments.kwarg] if argument]
                # Without a signature, the stub has `*args` alone.
                if arguments.vararg is None or stated.name in declared:
                    assert [parameter.name for parameter in parameters] == expected, stated.name
                    defaults = [parameter for parameter in parameters if parameter.default is not parameter.empty]
                    assert len(defaults) == len(arguments.defaults) + len([default for default in arguments.kw_defaults if default]), stated.name
                    checked += 1
        exported = set(package.__all__) if not module else {name for name in dir(place) if not name.startswith("_")}
        modules = {name for name in exported if inspect.ismodule(getattr(place, name))}
        # A function over packed arguments, without a signature, looks like a kernel of a device
        # that was not built: it is not in the stubs.
        silent = {"argument_count"} if kind == "extension" and not module else set()
        assert exported - modules - names == silent and names <= exported, (module, exported ^ names)
    assert checked > 100


def test_modules_inside_are_modules(package, kind):
    if kind == "tvm_ffi":
        assert package.text_count("banana", "an") == 2 and package.objects_Expr_Add is not None
        return
    import extmod.objects
    from extmod.text import count

    assert count("banana", "an") == 2 and extmod.objects is package.objects
    assert issubclass(extmod.objects.Expr.Add, extmod.objects.Expr)


@pytest.mark.needs("tvm_ffi")
def test_the_stock_package_alone(site):
    """tvm_ffi.load_module without the package: no signature, but documentation and metadata with names and defaults."""
    import tvm_ffi

    library = tvm_ffi.load_module(str(next((site / "extmod").glob("*.so"))))
    with pytest.raises(ValueError):
        inspect.signature(library.shifted)
    assert library.get_function_doc("shifted") == "Only the library itself offers it; there is no global function."
    metadata = library.get_function_metadata("literals")
    names = ["whole", "mask", "part", "most", "unknown", "text", "flag", "turn", "list", "nothing"]
    assert metadata["arg_names"] == names
    assert metadata["arg_defaults"] == [
        -3, 255, -0.0025, {"rust": "f64::INFINITY"}, {"rust": "f64::NAN"}, "a \"b\"\n'c'\\é\t", True, {"rust": "Turn::Left"}, [], None,
    ]
    assert library.literals().startswith("-3 255 -0.0025 inf NaN")
