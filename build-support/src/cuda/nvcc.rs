//! Compiles CUDA C++ with nvcc.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::digest::Digester;
use crate::cache::step::{self, Ran, Step};
use crate::cargo::track;
use crate::cuda::architecture::{self, Architecture, Architectures};
use crate::session::Session;
use crate::tool::program::{self, Program};
use crate::{Result, tool};

/// Variables that nvcc, or the preprocessor of its host compiler, reads.
const VARIABLES: [&str; 7] = [
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
];

/// An nvcc that was found.
pub(crate) struct Nvcc<'a> {
    program: &'a Program,
    version: String,
    host: Option<Program>,
}

/// The output of nvcc for one source.
pub(crate) struct NvccImage {
    /// PTX for the floor, to read the kernels from.
    pub(crate) ptx: String,
    pub(crate) fatbin: PathBuf,
    /// The warnings of nvcc.
    pub(crate) printed: String,
}

impl<'a> Nvcc<'a> {
    pub(crate) fn new(session: &Session, program: &'a Program) -> Result<Self> {
        let version = program.output(session, &["--version"], "nvcc", "CUDA")?;
        // nvcc preprocesses with a host compiler, which affects its output.
        let host = session.environment.user("NVCC_CCBIN")?.unwrap_or_else(|| "gcc".to_owned());
        let host = Program::find(session, &host)?;
        for part in Self::parts(program) {
            session.tracker.file(&part);
        }
        Ok(Self { program, version, host })
    }

    /// The programs that nvcc runs, which may be updated separately.
    fn parts(program: &Program) -> Vec<PathBuf> {
        let Some(bin) = program.path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned)) else {
            return Vec::new();
        };
        let parts = ["../nvvm/bin/cicc", "cudafe++", "ptxas", "fatbinary", "nvcc.profile"];
        let parts = parts.into_iter().map(|part| bin.join(part));
        parts.filter_map(|part| part.canonicalize().ok()).collect()
    }

    /// The default architectures that nvcc supports.
    pub(crate) fn default_architectures(&self, session: &Session) -> Result<Vec<Architecture>> {
        let listed = self.program.output(session, &["--list-gpu-arch"], "nvcc", "CUDA")?;
        let known = listed.split_whitespace().filter_map(|word| word.strip_prefix("compute_"));
        let known: Vec<String> = known.map(str::to_owned).collect();
        architecture::defaults(&known, &self.program.path.display().to_string())
    }

    /// Compiles PTX for the floor, to read the kernels from, and the fat binary.
    pub(crate) fn image(
        &self,
        session: &Session,
        architectures: &Architectures,
        flags: &[OsString],
        index: usize,
        path: &Path,
    ) -> Result<NvccImage> {
        let source = session.name_of(path);
        let ptx = session.product("cuda", index, path, "ptx");
        let fatbin = session.product("cuda", index, path, "fatbin");
        let floor = &architectures.floor;
        let mut command = self.command(session, flags);
        command.arg("--ptx");
        let tool = format!("nvcc to PTX {floor}");
        let wanted = [format!("-arch=compute_{floor}")];
        let more = [OsStr::new(&wanted[0]), OsStr::new("-o"), ptx.as_os_str(), path.as_os_str()];
        session.commands.add(&session.package_dir, &self.program.path, &command, &more, path, &ptx);
        let mut printed = self.run(session, &source, path, command, &wanted, &tool, &ptx)?;
        let mut command = self.command(session, flags);
        command.arg("--fatbin");
        let code = |arch: &Architecture| format!("-gencode=arch=compute_{arch},code=sm_{arch}");
        let mut wanted: Vec<String> = architectures.machine.iter().map(code).collect();
        wanted.push(format!("-gencode=arch=compute_{floor},code=compute_{floor}"));
        let names: Vec<String> = architectures.machine.iter().map(|arch| format!("sm_{arch}")).collect();
        let tool = format!("nvcc for {}", names.join(", "));
        let more = self.run(session, &source, path, command, &wanted, &tool, &fatbin)?;
        for line in more.lines().filter(|line| !line.trim().is_empty()) {
            if !printed.lines().any(|known| known == line) {
                printed.push_str(line);
                printed.push('\n');
            }
        }
        let ptx = fs::read_to_string(&ptx)
            .map_err(|e| crate::Error::new(format!("{source}: its PTX {}: {e}", ptx.display())))?;
        Ok(NvccImage { ptx, fatbin, printed })
    }

    fn command(&self, session: &Session, flags: &[OsString]) -> Command {
        let mut command = Command::new(&self.program.path);
        command.current_dir(&session.package_dir).arg("-O3").args(session.preprocessor_flags()).args(flags);
        command
    }

    #[expect(clippy::too_many_arguments, reason = "one run is all of this")]
    fn run(
        &self,
        session: &Session,
        source: &str,
        path: &Path,
        mut command: Command,
        architectures: &[String],
        tool: &str,
        product: &Path,
    ) -> Result<String> {
        let recipe = self.recipe(session, &command, source).list(architectures).finish();
        let depfile = product.with_extension(format!("{}.d", product.extension().unwrap_or_default().display()));
        let products = [product.to_owned()];
        let step = Step { recipe, source, tool, products: &products };
        step.make(session, || {
            // nvcc compiles for several architectures in parallel if permits are available.
            let more = session.permits.try_acquire(architectures.len() - 1);
            if architectures.len() > 1 {
                command.args(["--threads", &(more.len() + 1).to_string()]);
            }
            command.args(["-MD", "-MT", "kernel", "-MF"]).arg(&depfile);
            command.args(architectures).arg("-o").arg(product).arg(path);
            let printed = tool::run(command, "nvcc", source)?;
            let read = track::dependencies(&depfile)?;
            Ok(Ran { printed, inputs: step::inputs(&session.package_dir, &session.includes, path, read) })
        })
    }

    /// A fingerprint of everything that determines nvcc's output, except the files that it reads.
    fn recipe(&self, session: &Session, command: &Command, source: &str) -> Digester {
        let mut digester = session.recipe("nvcc", &VARIABLES);
        self.program.describe(&mut digester, &self.version);
        digester.list(Self::parts(self.program).iter().map(|part| program::stamp(part)));
        if let Some(host) = &self.host {
            host.describe(&mut digester, "");
        }
        digester.field(source);
        digester.list(command.get_args().map(|argument| argument.as_encoded_bytes()));
        digester
    }
}
