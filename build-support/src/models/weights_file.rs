//! Weights in a file beside the library, and the variables in the library that have their
//! addresses.

use std::path::PathBuf;

use inkwell::AddressSpace;
use inkwell::GlobalVisibility;
use inkwell::targets::FileType;
use kernpack_graph::ModelOptions;
use kernpack_graph::weights_file::{self, Level, Recipe, RecipeLevel};

use crate::generate::model::{FileWeights, WeightsLevel};
use crate::llvm::{self, Machine};
use crate::models::Model;
use crate::multiversion::Version;
use crate::session::Session;
use crate::{Error, Result};

/// Returns the symbol of the variable with the address of the weights for a CPU level.
pub(super) fn symbol(name: &str, version: Version) -> String {
    format!("__kernpack_weights_of_{name}{}", version.suffix())
}

/// Writes the file of a model. Returns its path, and the data for generated code.
///
/// # Errors
/// Returns an error if it cannot be written.
pub(super) fn write(
    session: &Session,
    source: &str,
    name: &str,
    levels: &[Level],
    machines: &[Machine],
) -> Result<(PathBuf, FileWeights)> {
    let path = session.work_dir.join(format!("{name}.weights"));
    weights_file::write(&path, name, levels).map_err(|error| {
        Error::new(format!("{source}: its weights cannot be written to {}: {error}", path.display()))
    })?;
    let code = weights_file::code_digest(levels.iter().map(|level| level.program)).to_string();
    let levels = levels.iter().zip(machines).map(|(level, machine)| WeightsLevel {
        symbol: symbol(name, machine.version),
        bytes: level.weights.size() as u64,
    });
    Ok((path, FileWeights { code, levels: levels.collect() }))
}

/// Writes the object with the variables of a model.
///
/// # Errors
/// Returns an error if LLVM cannot write it.
pub(super) fn variables(session: &Session, source: &str, name: &str, machines: &[Machine]) -> Result<PathBuf> {
    let path = session.work_dir.join(format!("{name}.weights_addresses.o"));
    let machine = machines.first().ok_or_else(|| Error::new(format!("{source}: there is no version to compile")))?;
    llvm::in_context(|context, diagnostics| {
        let module = context.create_module(name);
        let target_machine = machine.create()?;
        llvm::prepare(&module, &target_machine, &session.target.triple, source)?;
        let pointer = context.ptr_type(AddressSpace::default());
        for machine in machines {
            let variable = module.add_global(pointer, None, &symbol(name, machine.version));
            variable.set_initializer(&pointer.const_null());
            variable.set_visibility(GlobalVisibility::Hidden);
        }
        llvm::write(&module, &target_machine, FileType::Object, diagnostics, source, &path)
    })?;
    Ok(path)
}

/// Returns the options that `cargo kernpack model weights` needs to lower another model alike.
pub(super) fn recipe(model: &Model, options: ModelOptions, levels: &[Level], machines: &[Machine]) -> Recipe {
    let levels = levels.iter().zip(machines).map(|(level, machine)| RecipeLevel {
        name: level.name.clone(),
        symbol: symbol(&model.name, machine.version),
        triple: machine.triple.clone(),
        cpu: machine.cpu.clone(),
        features: machine.features.clone(),
        program: level.program,
    });
    Recipe::new(&model.name, &options, model.lowering(), levels.collect())
}

/// Adds the digest of the code and the options to the description of a model.
pub(super) fn describe(info: &mut String, file: &FileWeights, recipe: &Recipe) {
    let own = serde_json::json!({ "code": file.code, "recipe": recipe.to_text() });
    if info.ends_with('}') {
        info.pop();
        info.push_str(&format!(",\"weights_file\":{own}}}"));
    }
}
