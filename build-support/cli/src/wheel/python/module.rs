//! The Python code of the package: what loads the library that lies beside it and gives its functions and types names, and `__init__.py`.

use std::fmt::Write;

use super::Host;
use super::annotation::{Annotations, Position};
use super::api::{Api, Base, Comparison, Type};
use super::names::{docstring, literal};

/// The text of the module that loads a library with tvm_ffi. `library` is the file's name, `about` the package's description.
pub(crate) fn loader(api: &Api, library: &str, version: &str, about: &str) -> String {
    let mut out = String::new();
    // Writing into a String does not fail.
    let _ = try_write(&mut out, api, library, version, about);
    out
}

/// The text of `__init__.py` around a module of the package that has everything: an extension module, or one that [`loader`] wrote.
pub(crate) fn package(api: &Api, host: Host, module: &str, version: &str, about: &str) -> String {
    let mut out = String::new();
    // Writing into a String does not fail.
    let _ = try_package(&mut out, api, host, module, version, about);
    out
}

fn try_package(out: &mut String, api: &Api, host: Host, module: &str, version: &str, about: &str) -> std::fmt::Result {
    out.push_str(&docstring(about, ""));
    out.push_str("\n# Written by `cargo kernpack wheel`. The types of everything are in __init__.pyi.\n\n");
    writeln!(out, "from . import {module} as _library\nfrom .{module} import *\n")?;
    let hidden: Vec<&str> = api.hidden_names().collect();
    if host == Host::Extension && !hidden.is_empty() {
        writeln!(out, "del {}\n", hidden.join(", "))?;
    }
    match host {
        Host::Extension => {
            out.push_str(
                "__all__ = [_name for _name in dir(_library) if not _name.startswith(\"_\") and _name in globals()]\n",
            );
        }
        Host::TvmFfi => out.push_str("__all__ = _library.__all__\n"),
    }
    writeln!(out, "__version__ = {}", literal(version))?;
    match host {
        Host::Extension => {
            out.push_str("# The file, for other ways to load it, such as tvm_ffi.load_module(__library__).\n");
            out.push_str("__library__ = _library.__file__\n");
        }
        Host::TvmFfi => out.push_str("__library__ = _library.__library__\n"),
    }
    Ok(())
}

fn try_write(out: &mut String, api: &Api, library: &str, version: &str, about: &str) -> std::fmt::Result {
    out.push_str(&docstring(about, ""));
    out.push_str("\n# Written by `cargo kernpack wheel`. The types of everything are in __init__.pyi.\n\n");
    out.push_str("from __future__ import annotations\n\n");
    let mut body = String::new();
    let _ = try_body(&mut body, api, library, version);
    out.push_str(&imports(&body));
    out.push_str(&body);
    Ok(())
}

fn try_body(out: &mut String, api: &Api, library: &str, version: &str) -> std::fmt::Result {
    out.push_str(ERRORS);
    for (name, base) in &api.exceptions {
        writeln!(
            out,
            "\n\n@_ffi.register_error\nclass {name}({base}):\n    \"\"\"A kind of errors of the library.\"\"\"\n"
        )?;
    }
    writeln!(out, "\n__version__ = {}", literal(version))?;
    writeln!(out, "_file = _pathlib.Path(__file__).with_name({})", literal(library))?;
    out.push_str(LOAD);
    let (exported, global): (Vec<_>, Vec<_>) = api.functions.iter().partition(|function| !function.is_global);
    if !exported.is_empty() {
        out.push_str(
            "\n\ndef _function(name):\n    function = __library__.get_function(name)\n    \
             function.__doc__ = __library__.get_function_doc(name)\n    return function\n\n\n",
        );
        for function in exported {
            writeln!(out, "{} = _function({})", function.name, literal(&function.key))?;
        }
    }
    if !global.is_empty() {
        out.push('\n');
        for function in global {
            writeln!(out, "{} = _ffi.get_global_func({})", function.name, literal(&function.key))?;
        }
    }
    let annotations = Annotations::new(api, Host::TvmFfi);
    let takes_methods = |ty: &Type| ty.methods.iter().any(|method| LEFT_AWAY.contains(&method.name.as_str()));
    if api.types.iter().any(takes_methods) {
        out.push_str(METHODS);
    }
    for ty in &api.types {
        class(out, ty, &annotations)?;
        if takes_methods(ty) {
            writeln!(out, "\n\n_take_methods({})", ty.name)?;
        }
    }
    out.push_str("\n\n__all__ = [\n");
    for name in exports(api) {
        writeln!(out, "    {},", literal(name))?;
    }
    out.push_str("]\n");
    Ok(())
}

/// Errors of the kinds of Python's exceptions are these exceptions. tvm_ffi makes a RuntimeError of what is not registered, also of a KeyboardInterrupt and a SystemExit
/// that pass through the library. What another package has registered stays.
const ERRORS: &str = r#"

class _Exit(SystemExit):
    """SystemExit out of the text that an error has: a status is a number."""

    def __init__(self, code: object = None) -> None:
        text = str(code)
        super().__init__(int(text) if text.removeprefix("-").isdecimal() else text or None)


def _os_error(kind, text):
    """An OSError with `errno` and the names of the files, which stand in the text, as Rust writes it or Python."""
    found = _re.fullmatch(r"(?s)(?P<text>.*?) \(os error (?P<errno>\d+)\)(?:: '(?P<files>.*)')?", text)
    found = found or _re.fullmatch(r"(?s)\[Errno (?P<errno>\d+)\] (?P<text>.*?)(?:: '(?P<files>.*)')?", text)
    if found is None:
        return kind(text)
    files = [] if found["files"] is None else found["files"].split("' -> '", 1)
    # Between the two is the number that Windows has.
    return kind(int(found["errno"]), found["text"], *files[:1], *([None, files[1]] if len(files) == 2 else []))


for _kind in """
    LookupError NameError NotImplementedError ArithmeticError OverflowError ZeroDivisionError FloatingPointError BufferError RecursionError
    StopIteration EOFError OSError FileNotFoundError FileExistsError IsADirectoryError NotADirectoryError PermissionError ConnectionError
    ConnectionRefusedError ConnectionResetError ConnectionAbortedError BrokenPipeError BlockingIOError TimeoutError InterruptedError
    KeyboardInterrupt SystemExit ImportError ModuleNotFoundError SyntaxError UnicodeError SystemError
""".split():
    _class = _builtins.__dict__[_kind]
    if _kind not in _ffi.core.ERROR_NAME_TO_TYPE:
        _ffi.register_error(_kind, _class)
        if _kind == "SystemExit":
            _ffi.register_error(_kind, _Exit)
        elif issubclass(_class, OSError) and _os.name == "posix":
            # tvm_ffi calls it with the text; what comes out is of Python's class.
            _new = {"__new__": lambda cls, text, kind=_class: _os_error(kind, text)}
            _ffi.core.ERROR_NAME_TO_TYPE[_kind] = type(_kind, (_class,), _new)
del _kind, _class
"#;

/// A library whose types are defined in another way by one that was loaded before is no half of a package. `load_module` raises on most systems, and for most problems.
const LOAD: &str = r#"

def _load():
    library, error = None, None
    try:
        library = _ffi.load_module(_file)
    except RuntimeError as raised:
        error = raised
    problems = _ffi.get_global_func(f"kernpack.load_problems.{_file}", allow_missing=True)
    if problems is not None:
        raise ImportError(f"cannot load {_file}: {problems().rstrip()}") from error
    if error is not None:
        raise error
    return library


__library__ = _load()
"#;

/// Methods that tvm_ffi leaves away, because every class has an attribute of this name; and the one whose result Python wants to be an iterator.
const LEFT_AWAY: [&str; 6] = ["__call__", "__or__", "__ror__", "__str__", "__iter__", "__contains__"];

const METHODS: &str = r#"

def _take_methods(cls):
    for method in cls.__tvm_ffi_type_info__.methods:
        if method.name == "__iter__":
            cls.__iter__ = lambda self, _of=method.as_callable(cls): _iterator(_of(self))
        elif not method.name.startswith("__ffi_"):
            setattr(cls, method.name, method.as_callable(cls))


def _iterator(elements):
    return elements if hasattr(elements, "__next__") else iter(elements)
"#;

fn class(out: &mut String, ty: &Type, annotations: &Annotations<'_>) -> std::fmt::Result {
    out.push_str("\n\n");
    let key = literal(&ty.key);
    let Comparison { equal, hash, order } = &ty.comparison;
    let mut options = String::new();
    for (wanted, option) in [(equal, "eq"), (hash, "unsafe_hash"), (order, "order")] {
        if *wanted {
            write!(options, ", {option}=True")?;
        }
    }
    match &ty.base {
        Base::IntEnum => writeln!(out, "class {}(_dataclasses.IntEnum, type_key={key}):", ty.name)?,
        Base::StrEnum => writeln!(out, "class {}(_dataclasses.StrEnum, type_key={key}):", ty.name)?,
        Base::Object => writeln!(out, "@_dataclasses.c_class({key}{options})\nclass {}(_ffi.Object):", ty.name)?,
        Base::Own(base) => writeln!(out, "@_dataclasses.c_class({key}{options})\nclass {}({base}):", ty.name)?,
    }
    let about = if ty.doc.trim().is_empty() { format!("The type {} of the library.", ty.key) } else { ty.doc.clone() };
    out.push_str(&docstring(&about, "    "));
    if !ty.variants.is_empty() || !ty.fields.is_empty() {
        out.push('\n');
    }
    for variant in &ty.variants {
        // tvm_ffi reads the annotation as text, and knows it by this spelling.
        writeln!(out, "    {variant}: typing.ClassVar[{}]", ty.name)?;
    }
    // Only the names matter here: tvm_ffi wants each field annotated.
    for field in &ty.fields {
        writeln!(out, "    {}: {}", field.name, annotations.of(&field.schema, Position::Result))?;
    }
    Ok(())
}

/// Where the names with an underscore come from: they are not part of the package.
const SOURCES: [(&str, &str); 18] = [
    ("_builtins.", "import builtins as _builtins"),
    ("_enum.", "import enum as _enum"),
    ("_os.", "import os as _os"),
    ("_re.", "import re as _re"),
    (": typing.", "import typing"),
    ("_pathlib.", "import pathlib as _pathlib"),
    ("_Callable[", "from collections.abc import Callable as _Callable"),
    ("_Iterator[", "from collections.abc import Iterator as _Iterator"),
    ("_Mapping[", "from collections.abc import Mapping as _Mapping"),
    ("_MutableMapping[", "from collections.abc import MutableMapping as _MutableMapping"),
    ("_MutableSequence[", "from collections.abc import MutableSequence as _MutableSequence"),
    ("_Sequence[", "from collections.abc import Sequence as _Sequence"),
    // Type checkers take what is not installed for Any.
    ("_np.", "import numpy as _np"),
    ("_Any", "from typing import Any as _Any"),
    ("_Protocol", "from typing import Protocol as _Protocol"),
    ("_ffi.", "\nimport tvm_ffi as _ffi"),
    ("_dataclasses.", "from tvm_ffi import dataclasses as _dataclasses"),
    ("_Never", "from typing_extensions import Never as _Never"),
];

/// The imports for what a text uses.
pub(super) fn imports(text: &str) -> String {
    let used = SOURCES.iter().filter(|(name, _)| text.contains(name));
    used.map(|(_, import)| format!("{import}\n")).collect()
}

/// What `import *` brings, in alphabetical order.
pub(super) fn exports(api: &Api) -> Vec<&str> {
    let functions = api.functions.iter().filter(|function| !function.is_hidden).map(|function| function.name.as_str());
    let types = api.types.iter().filter(|ty| !ty.is_hidden).map(|ty| ty.name.as_str());
    let mut names: Vec<&str> = functions.chain(types).chain(api.exceptions()).collect();
    names.sort_unstable();
    names
}
