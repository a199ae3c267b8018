use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cuda_source;
use crate::environment::Environment;
use crate::ptx::{self, PtxKernel};
use crate::session::Session;
use crate::{Error, Result, tool};

/// Cubins for these, and PTX for the first: code for every GPU from Turing on, new ones included, through the driver's
/// compiler. Those that the toolkit at hand does not know are left out.
const DEFAULT_ARCHITECTURES: [&str; 5] = ["75", "80", "90", "100", "120"];

/// A compiled CUDA input.
pub(crate) struct CudaImage {
    pub(crate) source: String,
    /// The fat binary, in the working folder.
    pub(crate) fatbin: PathBuf,
    pub(crate) kernels: Vec<PtxKernel>,
}

/// What became of the CUDA inputs.
pub(crate) enum CudaOutcome {
    Built(Vec<CudaImage>),
    /// Not compiled, and why: a sentence for people who call the kernels.
    NotBuilt {
        reason: String,
        kernels: Vec<SkippedKernel>,
        /// Whether the user asked for that (`KERNPACK_CUDA=off`).
        off: bool,
    },
}

/// A kernel of an input that was not compiled, read off the source.
pub(crate) struct SkippedKernel {
    pub(crate) name: String,
    pub(crate) source: String,
}

/// `KERNPACK_CUDA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Auto,
    Require,
    Off,
}

impl Policy {
    fn of(environment: &Environment) -> Result<Self> {
        match environment.user("KERNPACK_CUDA")?.as_deref() {
            None | Some("auto") => Ok(Self::Auto),
            Some("require") => Ok(Self::Require),
            Some("off") => Ok(Self::Off),
            Some(other) => Err(Error::new(format!("KERNPACK_CUDA is \"{other}\"; it may be auto, require or off"))),
        }
    }
}

/// A GPU architecture: `80`, `90a`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Architecture {
    number: u32,
    suffix: String,
}

impl Architecture {
    /// From `sm_80`, `compute_80`, `80`, `8.0`, each with `a` or `f` behind.
    fn parse(text: &str) -> Result<Self> {
        let digits = text.trim_start_matches("sm_").trim_start_matches("compute_").replace('.', "");
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let (number, suffix) = digits.split_at(end);
        match number.parse() {
            Ok(number) if (50..1000).contains(&number) && matches!(suffix, "" | "a" | "f") => {
                Ok(Self { number, suffix: suffix.to_owned() })
            }
            _ => Err(Error::new(format!(
                ".cuda_arch(..): \"{text}\" is no GPU architecture; write it as \"sm_80\", \"80\" or \"90a\""
            ))),
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.suffix)
    }
}

/// Compiles every input, even when one fails.
pub(crate) fn compile(
    session: &Session,
    paths: &[PathBuf],
    architectures: &[String],
    flags: &[String],
) -> Result<CudaOutcome> {
    let policy = Policy::of(&session.environment)?;
    if paths.is_empty() {
        return Ok(CudaOutcome::Built(Vec::new()));
    }
    // Mistakes in the build script are errors on every machine, with or without nvcc.
    Error::collect(paths.iter().map(|path| session.input(path)))?;
    let mut wanted = Error::collect(architectures.iter().map(|text| Architecture::parse(text)))?;
    if policy == Policy::Off {
        return skip(session, paths, "KERNPACK_CUDA=off was set".to_owned(), true);
    }
    let nvcc = match find_nvcc(&session.environment)? {
        Some(nvcc) => nvcc,
        None if policy == Policy::Require => {
            return Err(Error::new(format!(
                "{}: KERNPACK_CUDA=require, but no nvcc was found; looked at NVCC, CUDA_HOME, CUDA_PATH and PATH. \
                 Install the CUDA toolkit, or set CUDA_HOME to its folder",
                session.name_of(&paths[0])
            )));
        }
        None => {
            let reason = "no nvcc was found in NVCC, CUDA_HOME, CUDA_PATH or PATH".to_owned();
            return skip(session, paths, reason, false);
        }
    };
    session.tracker.file(&nvcc);
    for name in ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"] {
        session.environment.track(name);
    }
    if wanted.is_empty() {
        wanted = default_architectures(&nvcc)?;
    }
    wanted.sort();
    wanted.dedup();
    let jobs = paths.iter().enumerate().collect();
    let images = tool::in_parallel(session.jobs, jobs, |(index, path): (usize, &PathBuf)| {
        image(session, &nvcc, &wanted, flags, index, path)
    });
    let images = Error::collect(images)?;
    for image in &images {
        session.tracker.dependencies(&image.fatbin.with_extension("d"))?;
    }
    Ok(CudaOutcome::Built(images))
}

fn skip(session: &Session, paths: &[PathBuf], reason: String, off: bool) -> Result<CudaOutcome> {
    let mut kernels = Vec::new();
    for path in paths {
        let source = session.name_of(path);
        for kernel in cuda_source::kernels(&read(session, path)?) {
            kernels.push(SkippedKernel { name: kernel.name, source: source.clone() });
        }
    }
    Ok(CudaOutcome::NotBuilt { reason, kernels, off })
}

fn read(session: &Session, path: &Path) -> Result<String> {
    let bytes = fs::read(session.package_dir.join(path))
        .map_err(|e| Error::new(format!("{}: can not be read: {e}", session.name_of(path))))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// nvcc from `NVCC`, `CUDA_HOME`, `CUDA_PATH`, `PATH`. A wrong `NVCC` is an error.
fn find_nvcc(environment: &Environment) -> Result<Option<PathBuf>> {
    let program = format!("nvcc{}", std::env::consts::EXE_SUFFIX);
    if let Some(nvcc) = environment.user("NVCC")? {
        let path = PathBuf::from(&nvcc);
        if path.is_file() {
            return Ok(Some(path));
        }
        let found = if path.components().count() == 1 { in_path(environment, &nvcc)? } else { None };
        return found.map(Some).ok_or_else(|| Error::new(format!("NVCC is \"{nvcc}\", but there is no such file")));
    }
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(home) = environment.user(variable)? {
            let nvcc = Path::new(&home).join("bin").join(&program);
            if nvcc.is_file() {
                return Ok(Some(nvcc));
            }
        }
    }
    in_path(environment, &program)
}

fn in_path(environment: &Environment, program: &str) -> Result<Option<PathBuf>> {
    let path = environment.user("PATH")?.unwrap_or_default();
    Ok(std::env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file()))
}

fn default_architectures(nvcc: &Path) -> Result<Vec<Architecture>> {
    let mut command = Command::new(nvcc);
    command.arg("--list-gpu-arch");
    let listed = tool::run(command, "nvcc", "CUDA")?;
    let known: Vec<&str> = listed.split_whitespace().filter_map(|word| word.strip_prefix("compute_")).collect();
    let wanted = DEFAULT_ARCHITECTURES.into_iter().filter(|name| known.contains(name));
    let wanted = Error::collect(wanted.map(Architecture::parse))?;
    if wanted.is_empty() {
        return Err(Error::new(format!(
            "{} knows none of the default architectures ({}); name some with .cuda_arch([..]). It knows: {}",
            nvcc.display(),
            DEFAULT_ARCHITECTURES.join(", "),
            known.join(", ")
        )));
    }
    Ok(wanted)
}

/// PTX of the lowest architecture, to read the kernels off, and the fat binary.
fn image(
    session: &Session,
    nvcc: &Path,
    architectures: &[Architecture],
    flags: &[String],
    index: usize,
    path: &Path,
) -> Result<CudaImage> {
    let source = session.name_of(path);
    // PTX for an architecture with a suffix runs nowhere else, so the floor is one without, if there is any.
    let Some(floor) = architectures.iter().find(|arch| arch.suffix.is_empty()).or(architectures.first()) else {
        return Err(Error::new(format!("{source}: no GPU architecture to compile for")));
    };
    let ptx = session.product("cuda", index, path, "ptx");
    let fatbin = session.product("cuda", index, path, "fatbin");
    let base = || {
        let mut command = Command::new(nvcc);
        command.current_dir(&session.package_dir).arg("-O3");
        command.args(session.preprocessor_flags()).args(flags);
        command
    };
    let mut command = base();
    command.arg("--ptx").arg(format!("-arch=compute_{floor}"));
    command.args(["-MD", "-MT", "kernel", "-MF"]).arg(ptx.with_extension("d"));
    command.arg("-o").arg(&ptx).arg(path);
    tool::run(command, "nvcc", &source)?;
    let text = fs::read_to_string(&ptx).map_err(|e| Error::new(format!("{source}: its PTX {}: {e}", ptx.display())))?;
    let declared = cuda_source::kernels(&read(session, path)?);
    let kernels = ptx::kernels(&text, &declared, &source)?;
    if kernels.is_empty() {
        return Err(Error::new(format!(
            "{source}: defines no kernel; a kernel is a function `extern \"C\" __global__ void <name>(..)`"
        )));
    }
    let mut command = base();
    command.arg("--fatbin").args(["--threads", &session.jobs.min(architectures.len()).to_string()]);
    for arch in architectures {
        command.arg(format!("-gencode=arch=compute_{arch},code=sm_{arch}"));
    }
    command.arg(format!("-gencode=arch=compute_{floor},code=compute_{floor}"));
    command.arg("-o").arg(&fatbin).arg(path);
    tool::run(command, "nvcc", &source)?;
    Ok(CudaImage { source, fatbin, kernels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures() {
        for (text, expected) in
            [("sm_80", "80"), ("80", "80"), ("8.0", "80"), ("compute_90a", "90a"), ("sm_120f", "120f")]
        {
            assert_eq!(Architecture::parse(text).unwrap().to_string(), expected);
        }
        for text in ["", "sm_", "ampere", "80x", "8", "99999999999", "native"] {
            let error = Architecture::parse(text).err().map(|error| error.to_string());
            let expected =
                format!(".cuda_arch(..): \"{text}\" is no GPU architecture; write it as \"sm_80\", \"80\" or \"90a\"");
            assert_eq!(error, Some(expected));
        }
        let mut list = ["100", "90a", "80", "90"].map(|text| Architecture::parse(text).unwrap());
        list.sort();
        assert_eq!(list.map(|arch| arch.to_string()), ["80", "90", "90a", "100"]);
    }

    #[test]
    fn policies() {
        let policy = |value: &str| Policy::of(&Environment::fake(&[("KERNPACK_CUDA", value)]));
        assert_eq!(policy("").unwrap(), Policy::Auto);
        assert_eq!(policy("auto").unwrap(), Policy::Auto);
        assert_eq!(policy("require").unwrap(), Policy::Require);
        assert_eq!(policy("off").unwrap(), Policy::Off);
        assert_eq!(policy("yes").unwrap_err().to_string(), "KERNPACK_CUDA is \"yes\"; it may be auto, require or off");
    }

    #[test]
    fn nvcc_is_looked_for_in_order() {
        let folder = std::env::temp_dir().join(format!("kernpack-nvcc-{}", std::process::id()));
        let program = format!("nvcc{}", std::env::consts::EXE_SUFFIX);
        for name in ["home", "path"] {
            fs::create_dir_all(folder.join(name).join("bin")).unwrap();
            fs::write(folder.join(name).join("bin").join(&program), "").unwrap();
        }
        let (home, path) = (folder.join("home"), folder.join("path/bin"));
        let (in_home, in_path) = (home.join("bin").join(&program), path.join(&program));
        let [home, path, nvcc] = [&home, &path, &in_path].map(|path| path.to_str().unwrap());
        type Row<'a> = (&'a [(&'a str, &'a str)], Option<&'a Path>);
        let rows: &[Row<'_>] = &[
            (&[], None),
            (&[("PATH", path)], Some(&in_path)),
            (&[("PATH", path), ("CUDA_HOME", home)], Some(&in_home)),
            (&[("PATH", path), ("CUDA_PATH", home)], Some(&in_home)),
            (&[("PATH", path), ("CUDA_HOME", "/no/such")], Some(&in_path)),
            (&[("NVCC", nvcc), ("CUDA_HOME", home)], Some(&in_path)),
            (&[("NVCC", &program), ("CUDA_HOME", home), ("PATH", path)], Some(&in_path)),
        ];
        for (variables, expected) in rows {
            assert_eq!(find_nvcc(&Environment::fake(variables)).unwrap().as_deref(), *expected, "{variables:?}");
        }
        let error = find_nvcc(&Environment::fake(&[("NVCC", "/no/such/nvcc")])).unwrap_err();
        assert_eq!(error.to_string(), "NVCC is \"/no/such/nvcc\", but there is no such file");
        fs::remove_dir_all(&folder).unwrap();
    }
}
