//! `__init__.pyi`: the types of the public items of the package, for type checkers and editors.

use std::fmt::Write;

use super::Host;
use super::annotation::{Annotations, Position, module_alias};
use super::api::{Api, Base, Function, Method, Type};
use super::module::{exports, imports};
use super::names::{docstring, literal};
use super::operator::is_operator;
use super::setter;

/// Accepts tensors of every library: NumPy 2.1, PyTorch, JAX, CuPy.
const TENSORS: &str = "
class _DLPack(_Protocol):
    \"\"\"A tensor of any library that speaks DLPack, as NumPy, PyTorch, JAX, CuPy and tvm_ffi do.\"\"\"

    def __dlpack__(self, *args: _Any, **kwargs: _Any) -> _Any: ...
    def __dlpack_device__(self, *args: _Any, **kwargs: _Any) -> _Any: ...
";

/// The class of tensors that an extension module returns.
const TENSOR: &str = "
class _Tensor(_Protocol):
    \"\"\"A tensor of the library. NumPy, PyTorch, JAX and memoryview take it without a copy.\"\"\"

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def ndim(self) -> int: ...
    def numpy(self) -> _np.ndarray[_Any, _Any]: ...
    def __dlpack__(self, *args: _Any, **kwargs: _Any) -> _Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
";

/// The module that a stub describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// The package itself.
    Package,
    /// The module inside the package that contains the library's items.
    Library,
}

/// Returns the stub's text.
pub(crate) fn stub(api: &Api, host: Host, place: Place, package: &str, about: &str) -> String {
    text(api, host, place, package, "", about)
}

/// Returns the stubs of the inner modules of an extension module, by their paths in the package.
pub(crate) fn inner_stubs(api: &Api, host: Host, place: Place, package: &str) -> Vec<(String, String)> {
    let modules = api.modules();
    let stub = |module: &String| {
        let has_inner = modules.iter().any(|other| is_inside(other, module));
        let path = format!("{}{}", module.replace('.', "/"), if has_inner { "/__init__.pyi" } else { ".pyi" });
        (path, text(api, host, place, package, module, &format!("The module {module} of the library.")))
    };
    modules.iter().map(stub).collect()
}

/// Returns true if a module is directly inside another one.
fn is_inside(module: &str, other: &str) -> bool {
    let rest = if other.is_empty() {
        Some(module)
    } else {
        module.strip_prefix(other).and_then(|rest| rest.strip_prefix('.'))
    };
    rest.is_some_and(|rest| !rest.contains('.'))
}

fn text(api: &Api, host: Host, place: Place, package: &str, module: &str, about: &str) -> String {
    let mut body = String::new();
    // Writing to a String does not fail.
    let _ = try_body(&mut body, api, host, place, module);
    if body.contains("_Tensor") {
        body.insert_str(0, TENSOR);
    }
    if body.contains("_DLPack") {
        body.insert_str(0, TENSORS);
    }
    let modules = api.modules();
    let mut inner = String::new();
    for other in modules.iter().filter(|other| is_inside(other, module)) {
        let name = other.rsplit('.').next().unwrap_or_default();
        let _ = writeln!(inner, "from . import {name} as {name}");
    }
    // The items of other modules of the package.
    for other in modules.iter().map(String::as_str).chain([""]).filter(|other| *other != module) {
        let alias = module_alias(other);
        if body.contains(&format!("{alias}.")) {
            let full = match (other, place) {
                ("", Place::Package) => package.to_owned(),
                ("", Place::Library) => format!("{package}.{package}"),
                _ => format!("{package}.{other}"),
            };
            let _ = writeln!(inner, "import {full} as {alias}");
        }
    }
    format!("{}\n# Written by `cargo kernpack wheel`.\n\n{}{inner}{body}", docstring(about, ""), imports(&body))
}

/// Returns the text of `__init__.pyi` around a module of the package that has a separate stub.
pub(crate) fn package_stub(host: Host, module: &str, about: &str) -> String {
    let library = match host {
        Host::Extension => "__library__: str\n",
        Host::TvmFfi => "__library__: _ffi.Module\n",
    };
    let import = if host == Host::TvmFfi { "import tvm_ffi as _ffi\n\n" } else { "" };
    let about = docstring(about, "");
    format!(
        "{about}\n# Written by `cargo kernpack wheel`.\n\n{import}from .{module} import *\n\n__version__: str\n{library}"
    )
}

fn try_body(out: &mut String, api: &Api, host: Host, place: Place, module: &str) -> std::fmt::Result {
    let annotations = Annotations::of_module(api, host, module);
    if module.is_empty() {
        start(out, api, place, &annotations)?;
    }
    for ty in api.types.iter().filter(|ty| ty.module == module) {
        class(out, ty, &annotations)?;
    }
    // The package has a version of its own, which `start` writes.
    let has_version = module.is_empty() && (host == Host::TvmFfi || place == Place::Package);
    for function in api.functions.iter().filter(|function| function.module == module) {
        if has_version && function.name == "__version__" {
            continue;
        }
        self::function(out, function, &annotations)?;
    }
    Ok(())
}

/// Writes the parts that only the outermost module has.
fn start(out: &mut String, api: &Api, place: Place, annotations: &Annotations<'_>) -> std::fmt::Result {
    let host = annotations.host();
    out.push_str("\n__all__ = [\n");
    for name in exports(api) {
        writeln!(out, "    {},", literal(&name))?;
    }
    out.push_str("]\n");
    // An extension module has neither; the package around it does.
    if host == Host::TvmFfi || place == Place::Package {
        writeln!(out, "\n__version__: {}", annotations.builtin("str"))?;
        match host {
            Host::TvmFfi => out.push_str("__library__: _ffi.Module\n"),
            Host::Extension => writeln!(out, "__library__: {}", annotations.builtin("str"))?,
        }
    }
    for (name, base) in &api.exceptions {
        writeln!(out, "\nclass {name}({base}): ...")?;
    }
    Ok(())
}

fn function(out: &mut String, function: &Function, annotations: &Annotations<'_>) -> std::fmt::Result {
    if let Some(schema) = function.signature.as_ref().filter(|schema| schema.is_constant) {
        return writeln!(out, "\n{}: {}", function.name, annotations.of(&schema.result, Position::Result));
    }
    let signature = annotations.signature(function.signature.as_ref(), None, 0);
    write!(out, "\ndef {}{signature}:", function.name)?;
    body(out, &function.doc, "    ");
    Ok(())
}

/// Writes the docstring of a function, or `...` without one.
fn body(out: &mut String, doc: &str, indent: &str) {
    match doc.trim().is_empty() {
        true => out.push_str(" ...\n"),
        false => {
            out.push('\n');
            out.push_str(&docstring(doc, indent));
        }
    }
}

fn class(out: &mut String, ty: &Type, annotations: &Annotations<'_>) -> std::fmt::Result {
    let object = annotations.builtin("object");
    let base = match (&ty.base, annotations.host()) {
        (Base::Own(base), _) => &annotations.class(base).unwrap_or_else(|| object.clone()),
        (Base::IntEnum, Host::Extension) => "_enum.IntEnum",
        (Base::StrEnum, Host::Extension) => &format!("{}, _enum.Enum", annotations.builtin("str")),
        (Base::Object, Host::Extension) => &object,
        (Base::Object, Host::TvmFfi) => "_ffi.Object",
        (Base::IntEnum, Host::TvmFfi) => "_dataclasses.IntEnum",
        (Base::StrEnum, Host::TvmFfi) => "_dataclasses.StrEnum",
    };
    write!(out, "\nclass {}({base}", ty.name)?;
    let is_enum = matches!(ty.base, Base::IntEnum | Base::StrEnum);
    if is_enum && annotations.host() == Host::TvmFfi {
        write!(out, ", type_key={}", literal(&ty.key))?;
    }
    out.push_str("):\n");
    let about = if ty.doc.trim().is_empty() { format!("The type {} of the library.", ty.key) } else { ty.doc.clone() };
    out.push_str(&docstring(&about, "    "));
    for (name, key) in &ty.inner {
        match annotations.class(key) {
            // Without the annotation, type checkers treat it as a member.
            Some(class) if is_enum => writeln!(out, "    {name}: _TypeAlias = {class}")?,
            Some(class) => writeln!(out, "    {name} = {class}")?,
            None => {}
        }
    }
    for variant in &ty.variants {
        // Type checkers treat tvm_ffi's enums as Python's: a member is an attribute with a value.
        writeln!(out, "    {variant} = ...")?;
    }
    setter::stubs(out, ty, annotations)?;
    if !is_enum {
        match annotations.constructor(&ty.constructor) {
            Some(signature) => writeln!(out, "    def __init__{signature}: ...")?,
            None => {
                out.push_str("    def __init__(self, _: _Never, /) -> None:\n");
                out.push_str(&docstring("Only the library makes objects of this type.", "        "));
            }
        }
    }
    // Objects of tvm_ffi have their own pickles, and no buffers.
    let is_used = |name: &str| {
        annotations.host() == Host::Extension || !["__getstate__", "__setstate__", "__buffer__"].contains(&name)
    };
    for method in ty.methods.iter().filter(|method| is_used(&method.name)) {
        self::method(out, method, annotations)?;
    }
    if !ty.comparison.is_hashable() {
        out.push_str("    __hash__: _ClassVar[None]  # type: ignore[assignment]\n");
    }
    if ty.comparison.order {
        let is_own = |name: &&str| ty.methods.iter().any(|method| method.name == *name);
        for name in ["__lt__", "__le__", "__gt__", "__ge__"].into_iter().filter(|name| !is_own(name)) {
            writeln!(out, "    def {name}(self, other: {}, /) -> {}: ...", ty.name, annotations.builtin("bool"))?;
        }
    }
    Ok(())
}

/// Returns the parameters of a Python operator, which are positional.
fn operand(name: &str, signature: String) -> String {
    let is_special = name.starts_with("__") && name != "__call__";
    match signature.split_once(") -> ") {
        // A declared signature may have stars, and says itself what is positional.
        Some((parameters, result))
            if is_special
                && parameters != "(self"
                && !parameters.ends_with('/')
                && !parameters.contains(['*', '/']) =>
        {
            format!("{parameters}, /) -> {result}")
        }
        _ => signature,
    }
}

fn method(out: &mut String, method: &Method, annotations: &Annotations<'_>) -> std::fmt::Result {
    if let Some(schema) = method.signature.as_ref().filter(|schema| schema.is_constant) {
        return writeln!(out, "    {}: _ClassVar[{}]", method.name, annotations.of(&schema.result, Position::Result));
    }
    let is_class_method =
        annotations.host() == Host::Extension && method.signature.as_ref().is_some_and(|schema| schema.is_class_method);
    let (first, skip) = match (method.is_static, is_class_method) {
        (true, true) => (Some("cls"), 0),
        (true, false) => (None, 0),
        (false, _) => (Some("self"), 1),
    };
    if method.is_static {
        let decorator = if is_class_method { "classmethod" } else { "staticmethod" };
        writeln!(out, "    {}", annotations.decorator(decorator))?;
    }
    let signature = match method.name.as_str() {
        _ if is_class_method => {
            let signature = annotations.signature(method.signature.as_ref(), first, skip);
            let parameters = signature.split_once(") -> ").map_or(signature.as_str(), |(parameters, _)| parameters);
            format!("{parameters}) -> _Self")
        }
        "__iter__" => format!("(self) -> {}", annotations.iterator(method.signature.as_ref())),
        // Python calls them with any operand, and replaces the result None.
        "__eq__" | "__ne__" => {
            format!("(self, other: {}, /) -> {}", annotations.builtin("object"), annotations.builtin("bool"))
        }
        "__lt__" | "__le__" | "__gt__" | "__ge__" => {
            let signature = annotations.signature(method.signature.as_ref(), first, skip);
            let parameters = signature.split_once(") -> ").map_or(signature.as_str(), |(parameters, _)| parameters);
            operand(&method.name, format!("{parameters}) -> {}", annotations.builtin("bool")))
        }
        "__buffer__" if annotations.host() == Host::Extension => {
            format!("(self, flags: {}, /) -> {}", annotations.builtin("int"), annotations.builtin("memoryview"))
        }
        name => {
            let mut signature = annotations.signature(method.signature.as_ref(), first, skip);
            // Python asks the other operand, and never sees the result None.
            if is_operator(name) && signature.ends_with(" | None") {
                signature.truncate(signature.len() - " | None".len());
            }
            operand(name, signature)
        }
    };
    write!(out, "    def {}{signature}:", method.name)?;
    body(out, &method.doc, "        ");
    Ok(())
}
