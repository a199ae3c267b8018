//! ptxas and fatbinary: compile PTX to machine code, and combine the pieces into one image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::digest::Digester;
use crate::cache::step::{Ran, Step};
use crate::cuda::architecture::Architecture;
use crate::cuda::toolkit::Toolkit;
use crate::session::Session;
use crate::tool::program::Program;
use crate::{Error, Result, tool};

/// Checks PTX, compiles it to machine code, and combines everything into one fat binary.
pub(crate) struct Assembler {
    pub(crate) ptxas: Program,
    version: String,
    /// Architectures that ptxas supports.
    #[cfg_attr(not(feature = "llvm"), expect(dead_code, reason = "NVRTC knows its own"))]
    pub(crate) known: Vec<String>,
    fatbinary: Option<Program>,
}

/// A piece of a fat binary: PTX or machine code.
pub(crate) struct Piece {
    pub(crate) architecture: Architecture,
    pub(crate) file: PathBuf,
    pub(crate) is_ptx: bool,
}

impl Assembler {
    /// Finds the assembler of the toolkit, if it is installed.
    pub(crate) fn find(session: &Session, toolkit: &Toolkit) -> Result<Option<Self>> {
        let Some(ptxas) = toolkit.program(session, "ptxas")? else { return Ok(None) };
        let version = ptxas.output(session, &["--version"], "ptxas", "CUDA")?;
        let help = ptxas.output(session, &["--help"], "ptxas", "CUDA")?;
        let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let mut known: Vec<String> = words.filter_map(|word| word.strip_prefix("sm_")).map(str::to_owned).collect();
        known.retain(|name| name.starts_with(|c: char| c.is_ascii_digit()));
        known.sort();
        known.dedup();
        let fatbinary = toolkit.program(session, "fatbinary")?;
        Ok(Some(Self { ptxas, version, known, fatbinary }))
    }

    pub(crate) fn can_combine(&self) -> bool {
        self.fatbinary.is_some()
    }

    pub(crate) fn describe(&self, digester: &mut Digester) {
        self.ptxas.describe(digester, &self.version);
    }

    /// Compiles PTX to machine code for an architecture.
    pub(crate) fn assemble(
        &self,
        session: &Session,
        source: &str,
        ptx: &Path,
        architecture: &Architecture,
        cubin: &Path,
    ) -> Result<String> {
        let mut recipe = session.recipe("ptxas", &[]);
        self.describe(&mut recipe);
        recipe.field(architecture.to_string());
        recipe.field(fs::read(ptx).unwrap_or_default());
        let products = [cubin.to_owned()];
        let tool = format!("ptxas for sm_{architecture}");
        let step = Step { recipe: recipe.finish(), source, tool: &tool, products: &products };
        step.make(session, || {
            let mut command = Command::new(&self.ptxas.path);
            command.arg(format!("-arch=sm_{architecture}")).arg("-O3").arg(ptx).arg("-o").arg(cubin);
            let printed = tool::run(command, &tool, source)?;
            Ok(Ran { printed, inputs: Vec::new() })
        })
    }

    /// Combines the pieces into one fat binary.
    pub(crate) fn combine(&self, session: &Session, source: &str, pieces: &[Piece], fatbin: &Path) -> Result<()> {
        let Some(fatbinary) = &self.fatbinary else {
            return Err(Error::new(format!("{source}: there is no fatbinary beside {}", self.ptxas.path.display())));
        };
        let mut recipe = session.recipe("fatbinary", &[]);
        fatbinary.describe(&mut recipe, &self.version);
        let mut command = Command::new(&fatbinary.path);
        command.arg("--64").arg("--create").arg(fatbin);
        for Piece { architecture, file, is_ptx } in pieces {
            let kind = if *is_ptx { "ptx" } else { "elf" };
            recipe.field(kind).field(architecture.to_string()).field(fs::read(file).unwrap_or_default());
            command.arg(format!("--image3=kind={kind},sm={architecture},file={}", file.display()));
        }
        let products = [fatbin.to_owned()];
        let step = Step { recipe: recipe.finish(), source, tool: "fatbinary", products: &products };
        let made = step.make(session, || {
            let printed = tool::run(command, "fatbinary", source)?;
            Ok(Ran { printed, inputs: Vec::new() })
        });
        made.map(drop)
    }
}
