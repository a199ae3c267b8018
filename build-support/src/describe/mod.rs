//! Documentation of kernels, and the names and types of their arguments, for typed functions and
//! for hosts.

pub(crate) mod c_params;
pub(crate) mod device_source;
pub(crate) mod signature;
mod source_docs;
pub(crate) mod symbols;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cuda::ptx::PtxKernel;
use crate::describe::device_source::{SourceKernel, without_comments};
use crate::describe::signature::{Signature, Type};
use crate::describe::source_docs::SourceDoc;
use crate::describe::symbols::HostKernel;
use crate::session::Session;
use crate::{Error, Result, opencl};

/// The description of one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) doc: String,
    /// The signature, or the reason why it is unknown.
    pub(crate) signature: Result<Signature, String>,
    /// True if the author declared the signature for Kernpack.
    pub(crate) declared: bool,
}

/// Descriptions by the names of the kernels.
pub(crate) type Descriptions = BTreeMap<String, Description>;

/// The files that kernels come from, as the user named them.
#[derive(Default)]
pub(crate) struct Sources {
    /// C, C++ and LLVM IR, for the CPU.
    pub(crate) host: Vec<PathBuf>,
    /// CUDA C++, and LLVM IR for GPUs.
    pub(crate) cuda: Vec<PathBuf>,
    pub(crate) opencl: Vec<PathBuf>,
}

/// The reason for a kernel without declared types.
const UNDECLARED: &str = "nothing declares its arguments";

/// Reads all sources again, as text. `declared` contains the name and text of each
/// `.signature(..)`, and `built` the device kernels that were compiled, with their sources.
pub(crate) fn describe(
    session: &Session,
    sources: &Sources,
    host: &[HostKernel],
    built: &[(&str, &PtxKernel)],
    declared: &[(String, String)],
) -> Result<Descriptions> {
    let mut found = Descriptions::new();
    let mut problems = Vec::new();
    for path in &sources.host {
        let source = session.name_of(path);
        let Some(text) = text_of(session, path) else { continue };
        let code = without_comments(&text);
        for kernel in host.iter().filter(|kernel| kernel.source == source) {
            let doc = if is_ir(path) { ir_doc(&text, &kernel.name) } else { host_doc(&text, &code, &kernel.name) };
            let signature = Err(UNDECLARED.to_owned());
            problems.push(add(&mut found, &source, &kernel.name, doc, signature));
        }
    }
    for path in &sources.cuda {
        let Some(text) = text_of(session, path) else { continue };
        let source = session.name_of(path);
        if is_ir(path) {
            for (name, position, params) in ir_kernels(&text) {
                let doc = source_docs::before_ir(&text, position);
                problems.push(add(&mut found, &source, name, doc, c_params::ir_signature(params)));
            }
            continue;
        }
        let code = without_comments(&text);
        for SourceKernel { name, params, position } in device_source::kernels(&text) {
            let doc = source_docs::before(&text, &code, position);
            problems.push(add(&mut found, &source, &name, doc, c_params::signature(&params)));
        }
    }
    for path in &sources.opencl {
        let Some(text) = text_of(session, path) else { continue };
        let (source, code) = (session.name_of(path), without_comments(&text));
        for SourceKernel { name, mut params, position } in opencl::source_kernels(&code) {
            params.retain(|param| !opencl::is_local(param));
            let doc = source_docs::before(&text, &code, position);
            problems.push(add(&mut found, &source, &name, doc, c_params::signature(&params)));
        }
    }
    let known: Vec<&str> =
        host.iter().map(|kernel| &*kernel.name).chain(built.iter().map(|(_, kernel)| &*kernel.name)).collect();
    for (name, text) in declared {
        problems.push(declare(&mut found, name, text, &known));
    }
    for (source, kernel) in built {
        problems.push(agree(&mut found, source, kernel));
    }
    Error::collect(problems)?;
    Ok(found)
}

/// Reads the text of a source. Bitcode and unreadable files return no text. Their compiler reports
/// the error.
fn text_of(session: &Session, path: &Path) -> Option<String> {
    let bytes = fs::read(session.package_dir.join(path)).ok()?;
    String::from_utf8(bytes).ok()
}

fn is_ir(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "ll" || extension == "bc")
}

fn add(
    found: &mut Descriptions,
    source: &str,
    name: &str,
    doc: SourceDoc,
    signature: Result<Signature, String>,
) -> Result<()> {
    let SourceDoc { text, declaration } = doc;
    let declared = declaration.is_some();
    let signature = match declaration {
        None => signature,
        Some(declaration) => {
            let wrong =
                |problem: &str| Error::new(format!("{source}: the comment before the kernel `{name}`: {problem}"));
            let params =
                declaration.strip_prefix(name).filter(|rest| rest.trim_start().starts_with('(')).ok_or_else(|| {
                    wrong(&format!(
                        "`kernpack: {declaration}` is not a declaration of `{name}`; write `kernpack: {name}(..) -> ..`"
                    ))
                })?;
            Ok(Signature::parse(params).map_err(|error| wrong(&error.to_string()))?)
        }
    };
    found.insert(name.to_owned(), Description { doc: text, signature, declared });
    Ok(())
}

/// Adds a declaration from the build script.
fn declare(found: &mut Descriptions, name: &str, text: &str, known: &[&str]) -> Result<()> {
    let wrong = |problem: String| Error::new(format!(".signature({name:?}, ..): {problem}"));
    let signature = Signature::parse(text).map_err(|error| wrong(error.to_string()))?;
    if !known.contains(&name) && !found.contains_key(name) {
        let names = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
        return Err(wrong(format!("the library has no kernel of this name; {names}")));
    }
    let doc = found.remove(name).map(|description| description.doc).unwrap_or_default();
    found.insert(name.to_owned(), Description { doc, signature: Ok(signature), declared: true });
    Ok(())
}

/// Checks descriptions against the compiled kernel. A declared signature must agree with it. A
/// signature that was only inferred from the text may belong to the other branch of an `#if`, and
/// is ignored if it does not agree.
fn agree(found: &mut Descriptions, source: &str, kernel: &PtxKernel) -> Result<()> {
    let Some(description) = found.get_mut(&kernel.name) else { return Ok(()) };
    let Ok(signature) = &description.signature else { return Ok(()) };
    match agrees(signature, kernel) {
        Ok(()) => Ok(()),
        Err(problem) if description.declared => {
            Err(Error::new(format!("{source}: the kernel `{}`: {problem}", kernel.name)))
        }
        Err(problem) => {
            description.signature = Err(format!("what its source says is not what was compiled ({problem})"));
            Ok(())
        }
    }
}

fn agrees(signature: &Signature, kernel: &PtxKernel) -> Result<(), String> {
    if signature.result != Type::None {
        return Err("it is declared with a result, which kernels on devices do not have".to_owned());
    }
    let (declared, compiled) = (signature.params.len(), kernel.arg_types.len());
    if declared != compiled {
        return Err(format!("it is declared with {declared} arguments, but compiled with {compiled}"));
    }
    for (param, ty) in signature.params.iter().zip(&kernel.arg_types) {
        let fits = match param.ty {
            Type::Tensor { .. } => ty.code == 3,
            Type::Int { bits, .. } => ty.code <= 1 && ty.bits == bits,
            Type::Float { bits } => ty.code == 2 && ty.bits == bits,
            Type::Bool => ty.code <= 1 && ty.bits == 8,
            _ => false,
        };
        if !fits {
            let compiled = match ty.code {
                3 => "a pointer".to_owned(),
                2 => format!("a float of {} bits", ty.bits),
                _ => format!("an integer of {} bits", ty.bits),
            };
            return Err(format!(
                "the argument `{}` is declared as {}, but compiled as {compiled}",
                param.name,
                param.ty.shown()
            ));
        }
    }
    Ok(())
}

/// Reads the comment before `KERNPACK_KERNEL(name)` or `__tvm_ffi_name(`.
fn host_doc(text: &str, code: &str, name: &str) -> SourceDoc {
    let function = format!("{}{name}", symbols::PREFIX);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let functions = code.match_indices(function.as_str()).filter(|(at, found)| {
        !code[..*at].ends_with(is_word) && code[at + found.len()..].trim_start().starts_with('(')
    });
    let macros = code.match_indices("KERNPACK_KERNEL").filter(|(at, found)| {
        let inner = code[at + found.len()..].trim_start().strip_prefix('(').and_then(|rest| rest.split(')').next());
        inner.is_some_and(|inner| inner.trim() == name)
    });
    let docs = functions.chain(macros).map(|(at, _)| source_docs::before(text, code, at));
    docs.into_iter().find(|doc| *doc != SourceDoc::default()).unwrap_or_default()
}

fn ir_doc(text: &str, name: &str) -> SourceDoc {
    let function = format!("@{}{name}(", symbols::PREFIX);
    text.match_indices(&function)
        .find(|(at, _)| text[..*at].rsplit('\n').next().is_some_and(|line| line.trim_start().starts_with("define")))
        .map(|(at, _)| source_docs::before_ir(text, at))
        .unwrap_or_default()
}

/// Returns functions with the kernel calling convention: name, position, and the text of the
/// parameters.
fn ir_kernels(text: &str) -> Vec<(&str, usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let head = line.trim_start();
        if head.starts_with("define ")
            && head.contains("ptx_kernel ")
            && let Some((_, rest)) = head.split_once('@')
            && let Some((name, rest)) = rest.split_once('(')
            && let Some(end) = closing(rest)
        {
            found.push((name.trim_matches('"'), at + line.find('@').unwrap_or(0), &rest[..end]));
        }
        at += line.len();
    }
    found
}

/// Returns the position of the closing parenthesis that matches one opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().find_map(|(at, c)| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        (depth == 0).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use kernpack_formats::device_image::ArgType;

    use super::*;

    #[test]
    fn kernels_of_c_and_ir_have_comments() {
        let text = "/* Not. */\nstatic int helper(void);\n\n/// Scales.\n/// kernpack: scale(x: mut Tensor)\nKERNPACK_KERNEL( scale ) {}\n\n// Adds.\nint __tvm_ffi_add(void* self) {}\nint y = __tvm_ffi_add_more(1);\n";
        let code = without_comments(text);
        let scale = host_doc(text, &code, "scale");
        assert_eq!((scale.text.as_str(), scale.declaration.as_deref()), ("Scales.", Some("scale(x: mut Tensor)")));
        assert_eq!(host_doc(text, &code, "add").text, "Adds.");
        assert_eq!(host_doc(text, &code, "more"), SourceDoc::default());
        let ir = "; Doubles.\ndefine ptx_kernel void @twice(ptr align(4) %x, i32 %n) {\n}\n; Sums.\ndefine i32 @__tvm_ffi_sum(ptr %0) {\n}\n";
        assert_eq!(ir_doc(ir, "sum").text, "Sums.");
        let kernels = ir_kernels(ir);
        assert_eq!(kernels.len(), 1);
        let (name, position, params) = kernels[0];
        assert_eq!((name, params), ("twice", "ptr align(4) %x, i32 %n"));
        assert_eq!(source_docs::before_ir(ir, position).text, "Doubles.");
    }

    #[test]
    fn what_is_declared_must_be_what_was_compiled() {
        let kernel = |arg_types: &[ArgType]| PtxKernel {
            name: "scale".to_owned(),
            arg_types: arg_types.to_vec(),
            dynamic_shared_memory: false,
        };
        let agreed = |text: &str, arg_types: &[ArgType]| {
            let mut found = Descriptions::new();
            declare(&mut found, "scale", text, &["scale"]).unwrap();
            agree(&mut found, "k.cu", &kernel(arg_types)).map_err(|error| error.to_string())
        };
        let all = [ArgType::POINTER, ArgType::FLOAT32, ArgType::UINT32];
        assert_eq!(agreed("(out: Tensor, by: float32, n: int32)", &all), Ok(()));
        let rows = [
            ("(out: Tensor)", "it is declared with 1 arguments, but compiled with 3"),
            (
                "(out: int64, by: float32, n: int32)",
                "the argument `out` is declared as int64, but compiled as a pointer",
            ),
            (
                "(out: Tensor, by: float, n: int32)",
                "the argument `by` is declared as float64, but compiled as a float of 32 bits",
            ),
            (
                "(out: Tensor, by: float32, n: int)",
                "the argument `n` is declared as int64, but compiled as an integer of 32 bits",
            ),
            (
                "(out: Tensor, by: float32, n: int) -> int",
                "it is declared with a result, which kernels on devices do not have",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(agreed(text, &all), Err(format!("k.cu: the kernel `scale`: {expected}")));
        }
        let mut found = Descriptions::new();
        let problem = |name, text, known: &[&str], found: &mut Descriptions| {
            declare(found, name, text, known).unwrap_err().to_string()
        };
        assert_eq!(
            problem("blur", "()", &["scale", "add"], &mut found),
            ".signature(\"blur\", ..): the library has no kernel of this name; it has scale, add"
        );
        assert_eq!(
            problem("blur", "()", &[], &mut found),
            ".signature(\"blur\", ..): the library has no kernel of this name; it has none"
        );
        assert_eq!(
            problem("scale", "(a)", &["scale"], &mut found),
            ".signature(\"scale\", ..): the parameter `a` has no type; write `name: type`"
        );
    }

    #[test]
    fn a_declaration_names_its_kernel() {
        let doc = |declaration: &str| SourceDoc { text: String::new(), declaration: Some(declaration.to_owned()) };
        let mut found = Descriptions::new();
        add(&mut found, "k.c", "blur", doc("blur(x: int)"), Err(UNDECLARED.to_owned())).unwrap();
        assert_eq!(found["blur"].signature.as_ref().unwrap().shown(), "(x: int64)");
        let problem = |text: &str| {
            add(&mut Descriptions::new(), "k.c", "blur", doc(text), Err(String::new())).unwrap_err().to_string()
        };
        assert_eq!(
            problem("blu(x: int)"),
            "k.c: the comment before the kernel `blur`: `kernpack: blu(x: int)` is not a declaration of `blur`; write \
             `kernpack: blur(..) -> ..`"
        );
        assert_eq!(
            problem("blur(x)"),
            "k.c: the comment before the kernel `blur`: the parameter `x` has no type; write `name: type`"
        );
    }
}
