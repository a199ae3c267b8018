//! The Python code of the package: `__init__.py`, and the module that loads the library and names
//! its functions and types.

use std::fmt::Write;

use super::Host;
use super::annotation::{Annotations, Position};
use super::api::{Api, Base, Comparison, Constructor, Type};
use super::names::{docstring, literal};
use super::{operator, setter};
use crate::library::signature::Schema;

/// Returns the text of the module that loads a library with tvm_ffi. `library` is the file's name,
/// and `about` the package's description.
pub(crate) fn loader(api: &Api, library: &str, version: &str, about: &str) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = try_write(&mut out, api, library, version, about);
    out
}

/// Returns the text of `__init__.py` around a module of the package that contains everything: an
/// extension module, or one from [`loader`].
pub(crate) fn package(api: &Api, host: Host, module: &str, version: &str, about: &str) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = try_package(&mut out, api, host, module, version, about);
    out
}

fn try_package(out: &mut String, api: &Api, host: Host, module: &str, version: &str, about: &str) -> std::fmt::Result {
    out.push_str(&docstring(about, ""));
    out.push_str("\n# Written by `cargo kernpack wheel`. The types of everything are in __init__.pyi.\n\n");
    let inside = api.modules();
    if !inside.is_empty() {
        out.push_str("import sys as _sys\n\n");
    }
    writeln!(out, "from . import {module} as _library\nfrom .{module} import *\n")?;
    if !inside.is_empty() {
        out.push_str("# Modules inside the library, for `import`.\n");
        for name in &inside {
            writeln!(out, "_sys.modules[__name__ + {}] = _library.{name}", literal(&format!(".{name}")))?;
        }
        out.push('\n');
    }
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
    let annotations = Annotations::new(api, Host::TvmFfi);
    let (exported, global): (Vec<_>, Vec<_>) = api.functions.iter().partition(|function| !function.is_global);
    out.push_str(SIGNED);
    let of_functions = api.functions.iter().map(|function| &function.signature);
    let of_types = api.types.iter().flat_map(|ty| {
        let constructor = match &ty.constructor {
            Constructor::Function(schema) => Some(schema),
            _ => None,
        };
        ty.methods.iter().map(|method| &method.signature).chain(constructor)
    });
    if of_functions.chain(of_types).any(|schema| is_declared(schema.as_ref())) {
        out.push_str(DECLARED);
    }
    if !exported.is_empty() {
        out.push_str(FUNCTION);
    }
    for (functions, get) in [(exported, "_function"), (global, "_ffi.get_global_func")] {
        out.push('\n');
        for function in functions {
            let got = format!("{get}({})", literal(&function.key));
            if is_constant(function.signature.as_ref()) {
                writeln!(out, "{} = {got}()", function.name)?;
                continue;
            }
            let helper = if is_declared(function.signature.as_ref()) { "_declared" } else { "_signed" };
            match annotations.shape(function.signature.as_ref(), None, 0, false) {
                Some(shape) => writeln!(out, "{0} = {helper}({got}, \"{0}\", {shape})", function.name)?,
                None => writeln!(out, "{} = {got}", function.name)?,
            }
        }
    }
    let takes_methods = |ty: &Type| ty.methods.iter().any(|method| LEFT_AWAY.contains(&method.name.as_str()));
    if api.types.iter().any(takes_methods) {
        out.push_str(METHODS);
    }
    operator::helper(out, api);
    setter::helper(out, api);
    for ty in &api.types {
        class(out, ty, &annotations)?;
        out.push('\n');
        if takes_methods(ty) {
            writeln!(out, "\n_take_methods({})", ty.name)?;
        }
        operator::statements(out, ty)?;
        signatures(out, ty, &annotations)?;
    }
    out.push_str("\n\n__all__ = [\n");
    for name in exports(api) {
        writeln!(out, "    {},", literal(&name))?;
    }
    out.push_str("]\n");
    Ok(())
}

/// Maps errors with the kinds of Python's exceptions to these exceptions. tvm_ffi turns an
/// unregistered kind into a RuntimeError, even a KeyboardInterrupt or a SystemExit that passes
/// through the library. Registrations of other packages are kept.
const ERRORS: &str = r#"

class _Exit(SystemExit):
    """SystemExit out of the text that an error has: a status is a number."""

    def __init__(self, code: object = None) -> None:
        text = str(code)
        super().__init__(int(text) if text.removeprefix("-").isdecimal() else text or None)


def _os_error(kind, text):
    """An OSError with `errno` and the names of the files, which stand in the text, as Rust writes it or Python."""
    is_own = text.startswith("[Errno ")
    if is_own:
        found = _re.fullmatch(r"(?s)\[Errno (?P<errno>[0-9]{1,9})\] (?P<text>(?:(?!: ').)*)(?:: (?P<files>'.*'))?", text)
    else:
        found = _re.fullmatch(r"(?s)(?P<text>.*?) \(os error (?P<errno>[0-9]{1,9})\)(?:: (?P<files>'.*'|\".*\"))?", text)
    if found is None:
        return kind(text)
    quoted = found["files"]
    files = [] if quoted is None else quoted[1:-1].split("' -> '")
    if len(files) > 2 or quoted is not None and (quoted[0] == '"' or is_own and "\\" in quoted):
        # Where the names end, or how they are written, is not clear: they stay in the text.
        return kind(int(found["errno"]), text.partition("] ")[2] if is_own else text)
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

/// The helper that sets the signature of a function for `inspect.signature`. Functions of tvm_ffi
/// have no signature.
const SIGNED: &str = r#"

def _signed(function, name, shape):
    function.__signature__ = _inspect.signature(shape)
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    return function
"#;

/// The helper for functions that declare a signature: it binds the arguments by a lambda of the
/// signature, which returns them in their order. A default that only the library computes is `...`.
const DECLARED: &str = r#"

_KEYWORDS = _ffi.get_global_func("ffi.GetKwargsObject")()


def _declared(function, name, bind, by_name=False):
    names = list(_inspect.signature(bind).parameters)
    bind.__qualname__ = name
    bind.__code__ = bind.__code__.replace(co_name=name.rpartition(".")[2])

    def declared(*args, **kwargs):
        values = bind(*args, **kwargs)
        end = next((index for index, value in enumerate(values) if value is ...), None)
        if end is None:
            return function(*values)
        named = {name: value for name, value in zip(names[end:], values[end:]) if value is not ...}
        if by_name:
            return function(*values[:end], **named)
        return function(*values[:end], *([_KEYWORDS] if named else []), *(part for pair in named.items() for part in pair))

    declared.__signature__ = _inspect.signature(bind)
    declared.__name__, declared.__qualname__, declared.__module__ = bind.__code__.co_name, name, __name__
    declared.__doc__ = function.__doc__
    return declared
"#;

const FUNCTION: &str = r#"

def _function(name):
    function = __library__.get_function(name)
    function.__doc__ = __library__.get_function_doc(name)
    return function

"#;

/// A library whose types conflict with those of a library that was loaded before must not be
/// imported partially. `load_module` raises on most systems, and for most problems.
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

/// Methods that tvm_ffi leaves out, because every class has an attribute with this name; and the
/// one whose result must be a Python iterator.
const LEFT_AWAY: [&str; 12] = [
    "__call__",
    "__or__",
    "__ror__",
    "__str__",
    "__iter__",
    "__contains__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
];

/// A comparison of the library that does not apply to the other operand returns None. `!=` is the
/// opposite of `==`, as in other classes of Python. Objects of tvm_ffi have their own pickles, and
/// no buffers.
const METHODS: &str = r#"

_COMPARISONS = ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]


def _take_methods(cls):
    names = [method.name for method in cls.__tvm_ffi_type_info__.methods]
    if "__eq__" in names:
        cls.__ne__ = _builtins.object.__ne__
    for method in cls.__tvm_ffi_type_info__.methods:
        if method.name == "__iter__":
            cls.__iter__ = lambda self, _of=method.as_callable(cls): _iterator(_of(self))
        elif method.name in _COMPARISONS:
            setattr(cls, method.name, _comparison(method.as_callable(cls), method.name))
        elif not method.name.startswith("__ffi_") and method.name not in ["__getstate__", "__setstate__", "__buffer__"]:
            setattr(cls, method.name, method.as_callable(cls))


def _iterator(elements):
    return elements if hasattr(elements, "__next__") else iter(elements)


def _comparison(compare, name):
    def compared(self, other, /):
        result = compare(self, other)
        return NotImplemented if result is None else result

    compared.__name__, compared.__qualname__, compared.__doc__ = name, name, compare.__doc__
    return compared
"#;

/// Returns true if a function declares its signature.
fn is_declared(schema: Option<&Schema>) -> bool {
    schema.is_some_and(|schema| schema.kinds.is_some())
}

/// Returns true if a function returns a constant.
fn is_constant(schema: Option<&Schema>) -> bool {
    schema.is_some_and(|schema| schema.is_constant)
}

/// Writes the signatures of the constructor and the methods of a class for `inspect.signature`, and
/// disables the hash of objects that define comparison without a hash.
fn signatures(out: &mut String, ty: &Type, annotations: &Annotations<'_>) -> std::fmt::Result {
    let name = &ty.name;
    if let Constructor::Function(schema) = &ty.constructor
        && let Some(shape) = annotations.shape(schema.as_ref(), Some("self"), 0, true)
    {
        match is_declared(schema.as_ref()) {
            true => writeln!(out, "{name}.__init__ = _declared({name}.__init__, \"{name}.__init__\", {shape}, True)")?,
            false => writeln!(out, "{name}.__init__.__signature__ = _inspect.signature({shape})")?,
        }
    }
    for method in &ty.methods {
        let (first, skip) = if method.is_static { (None, 0) } else { (Some("self"), 1) };
        if is_constant(method.signature.as_ref()) {
            writeln!(out, "{name}.{0} = {name}.{0}()", method.name)?;
            continue;
        }
        let (schema, is_declared) = (method.signature.as_ref(), is_declared(method.signature.as_ref()));
        let is_plain_operator = method.name.starts_with("__") && method.name != "__call__" && !is_declared;
        if !is_plain_operator && let Some(shape) = annotations.shape(schema, first, skip, false) {
            let place = format!("{name}.{}", method.name);
            match (is_declared, method.is_static) {
                (true, true) => writeln!(out, "{place} = staticmethod(_declared({place}, \"{place}\", {shape}))")?,
                (true, false) => writeln!(out, "{place} = _declared({place}, \"{place}\", {shape})")?,
                _ => writeln!(out, "{place}.__signature__ = _inspect.signature({shape})")?,
            }
        }
    }
    setter::statements(out, ty)?;
    if !ty.comparison.is_hashable() {
        writeln!(out, "{name}.__hash__ = None")?;
    }
    Ok(())
}

fn class(out: &mut String, ty: &Type, annotations: &Annotations<'_>) -> std::fmt::Result {
    out.push('\n');
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
        Base::Own(base) => {
            let base = annotations.class(base).unwrap_or_default();
            writeln!(out, "@_dataclasses.c_class({key}{options})\nclass {}({base}):", ty.name)?;
        }
    }
    let about = if ty.doc.trim().is_empty() { format!("The type {} of the library.", ty.key) } else { ty.doc.clone() };
    out.push_str(&docstring(&about, "    "));
    if !ty.variants.is_empty() || !ty.fields.is_empty() {
        out.push('\n');
    }
    for variant in &ty.variants {
        // tvm_ffi reads the annotation as text, and only recognizes this spelling.
        writeln!(out, "    {variant}: typing.ClassVar[{}]", ty.name)?;
    }
    // Only the names matter here: tvm_ffi requires an annotation for each field.
    for field in &ty.fields {
        writeln!(out, "    {}: {}", field.name, annotations.of(&field.schema, Position::Result))?;
    }
    Ok(())
}

/// The imports of the names with an underscore, which are not part of the package.
const SOURCES: [(&str, &str); 25] = [
    ("_builtins.", "import builtins as _builtins"),
    ("_datetime.", "import datetime as _datetime"),
    ("_enum.", "import enum as _enum"),
    ("_inspect.", "import inspect as _inspect"),
    ("_ipaddress.", "import ipaddress as _ipaddress"),
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
    ("_Set[", "from collections.abc import Set as _Set"),
    // Type checkers treat modules that are not installed as Any.
    ("_np.", "import numpy as _np"),
    ("_Any", "from typing import Any as _Any"),
    ("_ClassVar[", "from typing import ClassVar as _ClassVar"),
    ("_Protocol", "from typing import Protocol as _Protocol"),
    ("_ffi.", "\nimport tvm_ffi as _ffi"),
    ("_dataclasses.", "from tvm_ffi import dataclasses as _dataclasses"),
    ("_Never", "from typing_extensions import Never as _Never"),
    ("-> _Self", "from typing_extensions import Self as _Self"),
    (": _TypeAlias", "from typing_extensions import TypeAlias as _TypeAlias"),
];

/// Returns the imports that a text needs.
pub(super) fn imports(text: &str) -> String {
    let used = SOURCES.iter().filter(|(name, _)| text.contains(name));
    used.map(|(_, import)| format!("{import}\n")).collect()
}

/// The names that `import *` imports, in alphabetical order.
pub(super) fn exports(api: &Api) -> Vec<String> {
    let functions = api.functions.iter().filter(|function| !function.is_hidden && function.module.is_empty());
    let types = api.types.iter().filter(|ty| !ty.is_hidden && ty.module.is_empty() && !ty.name.starts_with('_'));
    let names = functions.map(|function| function.name.as_str()).chain(types.map(|ty| ty.name.as_str()));
    let mut names: Vec<String> = names.chain(api.exceptions()).map(str::to_owned).collect();
    names.extend(api.modules().into_iter().filter(|module| !module.contains('.')));
    names.sort_unstable();
    names
}
