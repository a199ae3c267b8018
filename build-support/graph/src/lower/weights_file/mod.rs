//! Files with the weights of models, for libraries that have only the code.

mod recipe;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{LoweredFunc, LoweredFuncNode, NODES};
use kernpack_compiler::{PassContext, PassOptions, TargetDescription, text};
use kernpack_formats::weights_file::{Digester, Section, write as write_to};

pub use kernpack_formats::weights_file::Digest;

pub use recipe::{Recipe, RecipeLevel};

use super::{Lowered, Weights, lower_for_file};
use crate::error::{Result, require};

/// The weights of a model for one CPU level.
pub struct Level {
    /// The name of the level, for messages.
    pub name: String,
    /// The digest of the program that reads the weights.
    pub program: Digest,
    /// The weights.
    pub weights: Weights,
}

impl Level {
    /// Returns the level of a model that [`lower_for_file`] has lowered.
    pub fn new(name: &str, lowered: &Lowered, weights: Weights) -> Self {
        Self { name: name.to_owned(), program: program_digest(lowered), weights }
    }
}

/// Returns the digest of a program and of the layout of its weights. The names of nodes are not
/// part of it.
fn program_digest(lowered: &Lowered) -> Digest {
    let mut digester = Digester::default();
    for function in lowered.module.functions.iter() {
        let attrs = function.attrs.iter().filter(|(name, _)| *name != NODES).collect();
        let function = LoweredFunc::from_node(LoweredFuncNode { attrs, ..function.to_node() });
        digester.field(text::print(&function).as_bytes());
    }
    digester.field(&(lowered.weights as u64).to_le_bytes());
    digester.finish()
}

/// Returns the digest of the code of a model for all levels. A file is for one such digest.
pub fn code_digest(programs: impl IntoIterator<Item = Digest>) -> Digest {
    let mut digester = Digester::default();
    programs.into_iter().for_each(|program| digester.field(&program.to_bytes()));
    digester.finish()
}

/// Lowers a model with the options of a library, for all of its CPU levels. Returns the levels and
/// the description of the model for the last one, as JSON. The programs are those of the library if
/// the graph is the same.
///
/// # Errors
/// Returns an error if the options contain operators of a build script, and if the file is not a
/// model that these options fit.
pub fn lower_again(recipe: &Recipe, model: Vec<u8>, folder: Option<&Path>) -> Result<(Vec<Level>, String)> {
    require!(
        recipe.operators.is_empty(),
        "the build script of the library defines {}, which only it can compile: build the library again with the new model",
        recipe.operators.join(", ")
    );
    let graph = crate::import_owned(model, folder, &recipe.options)?.graph;
    let context = PassContext::new(PassOptions { verify: false, ..PassOptions::default() });
    let (mut levels, mut info) = (Vec::new(), String::new());
    for RecipeLevel { name, symbol, triple, cpu, features, .. } in &recipe.levels {
        let target = TargetDescription::of(&Target::llvm(triple, cpu, features));
        let (lowered, weights) = lower_for_file(&graph, &recipe.name, &target, &context, recipe.lowering, symbol)?;
        info = lowered.describe(&graph, &recipe.name);
        levels.push(Level::new(name, &lowered, weights));
    }
    Ok((levels, info))
}

/// Writes the file of a model. Levels with equal weights share them. Returns the digest of the
/// content.
///
/// The file at the path is replaced in one step, so that a process that has mapped it keeps the old
/// one.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write(path: &Path, name: &str, levels: &[Level]) -> io::Result<Digest> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&part);
    let written = || {
        let mut out = BufWriter::new(File::create(part)?);
        let digest = write_to(&mut out, name, code_digest(levels.iter().map(|level| level.program)), sections(levels))?;
        out.flush()?;
        fs::rename(part, path)?;
        Ok(digest)
    };
    written().inspect_err(|_| _ = fs::remove_file(part))
}

fn sections(levels: &[Level]) -> impl Iterator<Item = Section<'_>> {
    levels.iter().enumerate().map(|(number, level)| {
        let same_as = levels[..number].iter().position(|earlier| earlier.weights.is_same(&level.weights));
        Section { size: level.weights.size() as u64, same_as, pieces: Box::new(level.weights.pieces()) }
    })
}
