//! OpenCL C: the parameters of its kernels, read from the text. The library contains the code
//! unchanged, and each device's compiler compiles it at run time.

mod builtin_names;
#[cfg(feature = "opencl")]
mod check;
mod options;
mod source;

use std::path::PathBuf;

use kernpack_formats::device_image::{ArgType, DeviceFunction, DeviceImage, with_opencl_options};

use crate::cuda::ptx::PtxKernel;
use crate::describe::device_source::{self, SourceKernel};
use crate::pack::module::Module;
use crate::session::Session;
use crate::{Error, Result};
use source::Text;

#[cfg(feature = "opencl")]
pub(crate) use check::{check, worker::start as answer_as_worker};

/// Compiles nothing without the feature `opencl`, which is an error if `KERNPACK_OPENCL` requires
/// it.
#[cfg(not(feature = "opencl"))]
pub(crate) fn check(session: &Session, images: &[OpenClImage]) -> Result<String> {
    use crate::tool::policy::Policy;

    let policy = Policy::of(&session.environment, "KERNPACK_OPENCL")?;
    let reason = "kernpack-build was built without its feature `opencl`";
    match policy {
        _ if images.is_empty() => {}
        Policy::Off => {}
        Policy::Auto => crate::outputs::progress::line(&format!("OpenCL C is not checked: {reason}")),
        Policy::Require => return Err(Error::new(required(images, reason))),
    }
    Ok(String::new())
}

/// The error if OpenCL is required but not available for a reason.
fn required(images: &[OpenClImage], reason: &str) -> String {
    let sources: Vec<&str> = images.iter().map(|image| image.source.as_str()).collect();
    format!("{}: KERNPACK_OPENCL=require, but {reason}", sources.join(", "))
}

/// An input in OpenCL C.
pub(crate) struct OpenClImage {
    pub(crate) source: String,
    /// The path as the user named it.
    pub(crate) path: PathBuf,
    pub(crate) kernels: Vec<PtxKernel>,
    /// The code that the library contains, with options, macros and headers.
    code: Vec<u8>,
    /// The names of the source files in the code.
    #[cfg_attr(not(feature = "opencl"), expect(dead_code, reason = "for messages of compilers"))]
    files: Vec<String>,
    /// The launches of source that was generated from tensor expressions; none for a file.
    pub(crate) generated: Option<Generated>,
}

/// The launches of generated source, which are calls of compiled code in the library.
#[cfg_attr(not(feature = "compiler"), allow(dead_code, reason = "only tensor expressions generate source"))]
pub(crate) struct Generated {
    /// The prefix of the C symbols that launch the kernels.
    pub(crate) calls: String,
    /// The tags of the extents that each kernel is launched with.
    pub(crate) tags: Vec<Vec<String>>,
}

impl OpenClImage {
    #[cfg(test)]
    pub(crate) fn of_kernels(source: &str, kernels: Vec<PtxKernel>) -> Self {
        Self {
            source: source.to_owned(),
            path: source.into(),
            kernels,
            code: Vec::new(),
            files: Vec::new(),
            generated: None,
        }
    }

    /// An image of generated source. `path` is its copy for people.
    #[cfg(feature = "compiler")]
    pub(crate) fn of_generated(
        source: &str,
        path: PathBuf,
        code: String,
        kernels: Vec<PtxKernel>,
        generated: Generated,
    ) -> Self {
        let (source, files) = (source.to_owned(), vec![path.display().to_string()]);
        Self { source, path, kernels, code: code.into_bytes(), files, generated: Some(generated) }
    }

    /// The module of kind `opencl` that the library carries.
    pub(crate) fn module(&self) -> Module {
        let functions = (0..self.kernels.len()).map(|index| self.entry(index));
        Module::from_bytes("opencl", DeviceImage::new("cl", functions.collect(), &self.code).to_vec())
    }

    /// The entry of a kernel in the image's table.
    fn entry(&self, index: usize) -> DeviceFunction<'_> {
        let PtxKernel { name, arg_types, dynamic_shared_memory } = &self.kernels[index];
        let entry = DeviceFunction::new(name, arg_types.clone(), *dynamic_shared_memory);
        match self.generated.as_ref().and_then(|generated| generated.tags.get(index)) {
            Some(tags) => DeviceFunction { launch_params: tags.iter().map(String::as_str).collect(), ..entry },
            None => entry,
        }
    }
}

/// Reads every input, even if one has an error.
pub(crate) fn read(session: &Session, paths: &[PathBuf], options: &[String]) -> Result<Vec<OpenClImage>> {
    options::check(options)?;
    Error::collect(paths.iter().map(|path| {
        let source = session.name_of(path);
        let Text { code, files } = source::read(session, path, !options.is_empty())?;
        let kernels = kernels(&code, &source)?;
        let code = with_opencl_options(options, &code);
        Ok(OpenClImage { source, path: path.clone(), kernels, code: code.into_bytes(), files, generated: None })
    }))
}

/// Returns all kernels of a text, in order. `source` is its name.
fn kernels(code: &str, source: &str) -> Result<Vec<PtxKernel>> {
    let text = device_source::without_comments(code);
    if text
        .lines()
        .any(|line| line.trim_start().strip_prefix('#').is_some_and(|rest| rest.trim_start().starts_with("include")))
    {
        return Err(Error::new(format!(
            "{source}: includes what a macro names, which is not known here; name the header itself"
        )));
    }
    let found = source_kernels(&text);
    if found.is_empty() {
        return Err(Error::new(format!("{source}: has no __kernel functions")));
    }
    Error::collect(found.into_iter().map(|kernel| {
        let SourceKernel { name, params, .. } = kernel;
        let wrong = |problem: String| Error::new(format!("{source}: the kernel `{name}`: {problem}"));
        if builtin_names::is_builtin(&name) {
            return Err(wrong(format!(
                "OpenCL C has a function `{name}`, so that drivers do not find the kernel; give it another name, as in `{name}_kernel`"
            )));
        }
        let (mut arg_types, mut dynamic_shared_memory) = (Vec::new(), false);
        for (index, param) in params.iter().enumerate() {
            if dynamic_shared_memory {
                let local = &params[index - 1];
                return Err(wrong(format!(
                    "`{local}` must be the last parameter, and the only one in local memory: the launch says how large it is"
                )));
            }
            if is_local(param) {
                dynamic_shared_memory = true;
            } else {
                let ty = arg_type(param).ok_or_else(|| {
                    wrong(format!(
                        "argument {index} (`{param}`) is of a type that a launch cannot pass; kernels take __global and __constant \
                         pointers, one __local pointer at the end, and numbers (char to ulong, half, float, double)"
                    ))
                })?;
                arg_types.push(ty);
            }
        }
        Ok(PtxKernel { name, arg_types, dynamic_shared_memory })
    }))
}

/// Returns the `__kernel` functions of a text without comments, without duplicates, in order.
pub(crate) fn source_kernels(text: &str) -> Vec<SourceKernel> {
    let mut found: Vec<SourceKernel> = Vec::new();
    let mut rest = text;
    while let Some(position) = rest.find("kernel") {
        let before = rest[..position].chars().rev().take_while(|c| c.is_ascii_alphanumeric() || *c == '_');
        let word: String = before.collect();
        let start = text.len() - rest.len() + position - word.len();
        rest = &rest[position + "kernel".len()..];
        let ends = !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if ends
            && matches!(word.as_str(), "" | "__")
            && let Some(kernel) = device_source::declaration(rest, start)
            && found.iter().all(|known| known.name != kernel.name)
        {
            found.push(kernel);
        }
    }
    found
}

fn words(param: &str) -> impl Iterator<Item = &str> {
    param.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// Returns true if a parameter is local memory, whose size is set at launch.
pub(crate) fn is_local(param: &str) -> bool {
    param.contains('*') && words(param).any(|word| matches!(word, "__local" | "local"))
}

/// Returns the type of a parameter, or `None` if a launch does not pass it.
fn arg_type(param: &str) -> Option<ArgType> {
    let is_pointer = param.contains(['*', '[']);
    if is_pointer {
        let place = ["__global", "global", "__constant", "constant"];
        return words(param).any(|word| place.contains(&word)).then_some(ArgType::POINTER);
    }
    let (mut unsigned, mut ty) = (false, None);
    let mut all: Vec<&str> = words(param).collect();
    // The last word is the name, if there is one.
    if all.len() > 1 && number(all[all.len() - 1]).is_none() {
        all.pop();
    }
    for word in all {
        match word {
            "const" | "signed" | "__private" | "private" => {}
            "unsigned" => unsigned = true,
            word => {
                let known = number(word)?;
                // `unsigned int`, `long int`
                ty = Some(if word == "int" { ty.unwrap_or(known) } else { known });
            }
        }
    }
    let ty = match (ty, unsigned) {
        (None, false) => return None,
        (None, true) => ArgType::INT32,
        (Some(ty), _) => ty,
    };
    Some(if unsigned && ty.code == 0 { ArgType { code: 1, ..ty } } else { ty })
}

/// The scalar types of OpenCL C, whose sizes are the same on every device.
fn number(word: &str) -> Option<ArgType> {
    let (code, bits) = match word {
        "char" => (0, 8),
        "uchar" => (1, 8),
        "short" => (0, 16),
        "ushort" => (1, 16),
        "int" => (0, 32),
        "uint" => (1, 32),
        "long" => (0, 64),
        "ulong" => (1, 64),
        "half" => (2, 16),
        "float" => (2, 32),
        "double" => (2, 64),
        _ => return None,
    };
    Some(ArgType { code, bits, lanes: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: &str) -> std::result::Result<Vec<(String, String, bool)>, String> {
        let kernels = kernels(code, "k.cl").map_err(|error| error.to_string())?;
        let letter = |ty: &ArgType| match ty.code {
            ArgType::POINTER_CODE => "p".to_owned(),
            code => format!("{}{}", ["i", "u", "f"][usize::from(code)], ty.bits),
        };
        let described = kernels.iter().map(|kernel| {
            let types: Vec<String> = kernel.arg_types.iter().map(letter).collect();
            (kernel.name.clone(), types.join(" "), kernel.dynamic_shared_memory)
        });
        Ok(described.collect())
    }

    #[test]
    fn kernels_are_read_off_the_text() {
        /// A kernel's name, its types, and whether it takes local memory.
        type Expected = (&'static str, &'static str, bool);
        #[rustfmt::skip]
        let rows: [(&str, &[Expected]); 6] = [
            ("__kernel void f() {}", &[("f", "", false)]),
            ("kernel void f(void) {}", &[("f", "", false)]),
            ("__kernel void f(__global float* restrict out, global const int *in, __constant float k[4], const float x) {}",
             &[("f", "p p p f32", false)]),
            ("__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void f(uint n, unsigned int m, unsigned k, long l, ulong, half h, double d, char c, unsigned char b, short s, ushort t) {}",
             &[("f", "u32 u32 u32 i64 u64 f16 f64 i8 u8 i16 u16", false)]),
            ("__kernel void f(__global int* out, int n, __local float* shared) {} // __kernel void g() {}\n__kernel void h(int a) {}",
             &[("f", "p i32", true), ("h", "i32", false)]),
            ("int my_kernel(int a) { return a; } __kernel void f(__global int* kernels) {}", &[("f", "p", false)]),
        ];
        for (code, expected) in rows {
            let expected =
                expected.iter().map(|(name, types, local)| ((*name).to_owned(), (*types).to_owned(), *local));
            assert_eq!(read(code), Ok(expected.collect()), "{code}");
        }
    }

    #[test]
    fn mistakes_name_the_kernel() {
        let passed = "is of a type that a launch cannot pass; kernels take __global and __constant pointers, one __local pointer at the \
                      end, and numbers (char to ulong, half, float, double)";
        let rows = [
            ("int f() { return 1; }", "k.cl: has no __kernel functions".to_owned()),
            (
                "#include \"x.h\"\n__kernel void f() {}",
                "k.cl: includes what a macro names, which is not known here; name the header itself".to_owned(),
            ),
            (
                "__kernel void mix(__global float* x) {}",
                "k.cl: the kernel `mix`: OpenCL C has a function `mix`, so that drivers do not find the kernel; give it another name, as \
                 in `mix_kernel`"
                    .to_owned(),
            ),
            ("__kernel void f(float4 x) {}", format!("k.cl: the kernel `f`: argument 0 (`float4 x`) {passed}")),
            (
                "__kernel void f(int a, image2d_t x) {}",
                format!("k.cl: the kernel `f`: argument 1 (`image2d_t x`) {passed}"),
            ),
            ("__kernel void f(int* a) {}", format!("k.cl: the kernel `f`: argument 0 (`int* a`) {passed}")),
            (
                "__kernel void f(__local int* a, int n) {}",
                "k.cl: the kernel `f`: `__local int* a` must be the last parameter, and the only \
              one in local memory: the launch says how large it is"
                    .to_owned(),
            ),
        ];
        for (code, expected) in rows {
            assert_eq!(read(code), Err(expected), "{code}");
        }
    }

    #[test]
    fn torn_text_does_not_panic() {
        let text = "__kernel __attribute__((x)) void f(__global int* a, __local float* b) {} /* kernel */ kernel void g(uint) {}";
        for end in 0..text.len() {
            let _ = kernels(&text[..end], "k.cl");
        }
    }
}
