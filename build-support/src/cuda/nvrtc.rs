//! Compiles CUDA C++ with NVRTC, the compiler as a library: it needs no toolkit, no host compiler
//! and no GPU.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char};
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr;

use cudarc::nvrtc::sys;

use crate::cache::step::{self, Ran, Step};
use crate::cuda::architecture::{self, Architecture};
use crate::cuda::toolkit::Toolkit;
use crate::describe::device_source;
use crate::session::Session;
use crate::tool::program;
use crate::{Error, Result, tool};

/// Names of the library, the newest first.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// NVRTC, loaded.
pub(crate) struct Nvrtc {
    /// The path of the library, or `None` if the system's loader found it.
    path: Option<PathBuf>,
    version: String,
    known: Vec<String>,
    /// The toolkit's headers, if they are installed.
    headers: Vec<PathBuf>,
}

impl Nvrtc {
    /// Loads the library from a toolkit's folder or with the system's loader. Returns `None` if it
    /// is not installed.
    pub(crate) fn load(session: &Session, toolkit: &Toolkit) -> Result<Option<Self>> {
        let folders = ["lib64", "lib", "lib/x86_64-linux-gnu", "targets/x86_64-linux/lib"];
        let names = folders.iter().flat_map(|folder| NAMES.iter().map(move |name| format!("{folder}/{name}")));
        let names: Vec<String> = names.collect();
        let paths: Vec<&str> = names.iter().map(String::as_str).collect();
        let path = toolkit.file(session, &paths);
        session.environment.track("LD_LIBRARY_PATH");
        if let Some(path) = &path {
            // NVRTC loads the library of its built-in functions by name alone.
            for file in builtins(path).iter().chain([path]) {
                // SAFETY: NVIDIA's libraries may be loaded anywhere; their constructors have no
                // conditions.
                let library = unsafe { libloading::Library::new(file) };
                let library = library.map_err(|e| Error::new(format!("{}: cannot be loaded: {e}", file.display())))?;
                // cudarc loads the library by its name, and the loader finds it again. So it must
                // stay loaded.
                std::mem::forget(library);
            }
        }
        // SAFETY: as above. Without this check, a missing library is a panic in cudarc.
        if !unsafe { sys::is_culib_present() } {
            return Ok(None);
        }
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: NVRTC writes numbers to live places.
        unsafe {
            check(sys::nvrtcVersion(&mut major, &mut minor), "nvrtcVersion")?;
            check(sys::nvrtcGetNumSupportedArchs(&mut count), "nvrtcGetNumSupportedArchs")?;
        }
        let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: NVRTC writes as many numbers as it said.
        unsafe { check(sys::nvrtcGetSupportedArchs(known.as_mut_ptr()), "nvrtcGetSupportedArchs")? };
        let headers = toolkit.homes().iter().map(|home| home.join("include")).filter(|folder| folder.is_dir());
        Ok(Some(Self {
            path,
            version: format!("NVRTC {major}.{minor}"),
            known: known.iter().map(ToString::to_string).collect(),
            headers: headers.collect(),
        }))
    }

    pub(crate) fn default_architectures(&self) -> Result<Vec<Architecture>> {
        architecture::defaults(&self.known, &self.version)
    }

    /// Compiles a source to PTX or to machine code. Returns the warnings of the compiler.
    pub(crate) fn compile(
        &self,
        session: &Session,
        path: &Path,
        architecture: &Architecture,
        to_ptx: bool,
        flags: &[String],
        product: &Path,
    ) -> Result<String> {
        let source = session.name_of(path);
        let kind = if to_ptx { "compute" } else { "sm" };
        let mut options = vec![format!("--gpu-architecture={kind}_{architecture}")];
        options.extend(session.preprocessor_flags().iter().map(|flag| flag.to_string_lossy().into_owned()));
        options.extend(flags.iter().cloned());
        // The folder of the source comes first, as in every compiler, and the toolkit's own headers
        // come last.
        options.extend(path.parent().map(|folder| format!("-I{}/", session.package_dir.join(folder).display())));
        options.extend(self.headers.iter().map(|folder| format!("-I{}", folder.display())));
        let mut recipe = session.recipe("nvrtc", &[]);
        recipe.field(&self.version).field(&source);
        recipe.list(self.path.as_ref().map(|path| format!("{} {}", path.display(), program::stamp(path))));
        recipe.list(&options);
        let tool = format!("NVRTC for {kind}_{architecture}");
        let products = [product.to_owned()];
        let step = Step { recipe: recipe.finish(), source: &source, tool: &tool, products: &products };
        step.make(session, || {
            let text = fs::read(session.package_dir.join(path))
                .map_err(|e| Error::new(format!("{source}: cannot be read: {e}")))?;
            let read = self.headers_of(session, path, &text);
            let (code, log) = compile(&source, text, &options, to_ptx)?;
            fs::write(product, code)
                .map_err(|e| Error::new(format!("{source}: {} cannot be written: {e}", product.display())))?;
            Ok(Ran { printed: log, inputs: step::inputs(&session.package_dir, &session.includes, path, read) })
        })
    }

    /// Returns all headers that `#include` may reach, whatever `#if` selects, because NVRTC does
    /// not report the headers that it read.
    fn headers_of(&self, session: &Session, path: &Path, text: &[u8]) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut open = vec![(path.to_owned(), String::from_utf8_lossy(text).into_owned())];
        while let Some((file, text)) = open.pop() {
            for name in device_source::includes(&text) {
                let own = file.parent().unwrap_or(Path::new(""));
                let source = path.parent().unwrap_or(Path::new(""));
                let folders = [own, source].into_iter().chain(session.includes.iter().map(PathBuf::as_path));
                let folders = folders.chain(self.headers.iter().map(PathBuf::as_path));
                let Some(header) =
                    folders.map(|folder| folder.join(&name)).find(|header| session.package_dir.join(header).is_file())
                else {
                    continue;
                };
                if found.insert(header.clone()) {
                    let text = fs::read(session.package_dir.join(&header)).unwrap_or_default();
                    open.push((header, String::from_utf8_lossy(&text).into_owned()));
                }
            }
        }
        found
    }
}

/// The libraries of built-in functions next to NVRTC, such as `libnvrtc-builtins.so.13.0`.
fn builtins(nvrtc: &Path) -> Vec<PathBuf> {
    let folder = nvrtc.parent().unwrap_or(Path::new(""));
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc-builtins.so."))
    };
    files.filter(is_one).collect()
}

/// Compiles a text. Returns the code and the log.
fn compile(source: &str, text: Vec<u8>, options: &[String], to_ptx: bool) -> Result<(Vec<u8>, String)> {
    let c_string = |bytes: Vec<u8>| {
        CString::new(bytes).map_err(|_| Error::new(format!("{source}: has a zero byte, or an option of it has")))
    };
    let text = c_string(text)?;
    let name = c_string(source.into())?;
    let options = options.iter().map(|option| c_string(option.clone().into())).collect::<Result<Vec<_>>>()?;
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let count = i32::try_from(pointers.len()).map_err(|_| Error::new(format!("{source}: too many options")))?;
    let mut program = Program(ptr::null_mut());
    // SAFETY: the texts are alive until the program is destroyed, which is before this function
    // returns.
    let result = unsafe {
        check(
            sys::nvrtcCreateProgram(&mut program.0, text.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()),
            "nvrtcCreateProgram",
        )?;
        sys::nvrtcCompileProgram(program.0, count, pointers.as_ptr())
    };
    // SAFETY: the program is alive, and each buffer has the size that NVRTC requests.
    unsafe {
        let log = program.text(sys::nvrtcGetProgramLogSize, |program, to| sys::nvrtcGetProgramLog(program, to))?;
        let log = String::from_utf8_lossy(log.strip_suffix(b"\0").unwrap_or(&log)).trim().to_owned();
        if result != sys::nvrtcResult::NVRTC_SUCCESS {
            let shown: Vec<_> = options.iter().map(|option| option.to_string_lossy()).collect();
            let what = format!("NVRTC failed ({})", describe(result));
            return Err(tool::failure(source, &what, &format!("nvrtc {} {source}", shown.join(" ")), &log));
        }
        let code = if to_ptx {
            let code = program.text(sys::nvrtcGetPTXSize, |program, to| sys::nvrtcGetPTX(program, to))?;
            code.strip_suffix(b"\0").map(<[u8]>::to_vec).unwrap_or(code)
        } else {
            program.text(sys::nvrtcGetCUBINSize, |program, to| sys::nvrtcGetCUBIN(program, to))?
        };
        let log = if log.is_empty() { log } else { format!("{log}\n") };
        Ok((code, log))
    }
}

/// A program of NVRTC.
struct Program(sys::nvrtcProgram);

impl Program {
    /// # Safety
    ///
    /// The functions are those of NVRTC for one text of a live program: the text size, and the text
    /// itself.
    unsafe fn text(
        &self,
        size: unsafe fn(sys::nvrtcProgram, *mut usize) -> sys::nvrtcResult,
        read: impl FnOnce(sys::nvrtcProgram, *mut c_char) -> sys::nvrtcResult,
    ) -> Result<Vec<u8>> {
        let mut len = 0;
        // SAFETY: the caller's; NVRTC writes a number to a live place.
        check(unsafe { size(self.0, &mut len) }, "the size of a result")?;
        let mut text = vec![0_u8; len];
        check(read(self.0, text.as_mut_ptr().cast()), "a result")?;
        Ok(text)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the program is alive, and no other code uses it.
            let _ = unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
        }
    }
}

fn describe(result: sys::nvrtcResult) -> String {
    // SAFETY: NVRTC has a static text for every number.
    let text = unsafe { CStr::from_ptr(sys::nvrtcGetErrorString(result)) };
    text.to_string_lossy().into_owned()
}

fn check(result: sys::nvrtcResult, what: &str) -> Result<()> {
    match result {
        sys::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        other => Err(Error::new(format!("NVRTC: {what}: {}", describe(other)))),
    }
}
