//! The functions that [`Module`] calls in its provider, for the unit tests of this crate;
//! `kernpack-builtins` provides them for artifacts.

use super::{Module, operations};
use crate::Result;
use crate::function::Function;
use crate::generated_code::Collected;

#[inline]
fn register() -> Result<()> {
    for (name, function) in [
        (
            "ffi.ModuleImportModule",
            Function::from_fn(|module: Module, other: Module| operations::import(&module, &other)),
        ),
        (
            "ffi.ModuleGetFunctionMetadata",
            Function::from_fn(|module: Module, name: String, imports: bool| {
                assert!(!imports, "only the module itself is asked");
                operations::text(&module, &name, false)
            }),
        ),
        ("ffi.ModuleGetWriteFormats", Function::from_fn(|module: Module| operations::write_formats(&module))),
        (
            "ffi.ModuleWriteToFile",
            Function::from_fn(|module: Module, path: String, format: String| {
                operations::write_to_file(&module, &path, &format)
            }),
        ),
        (
            "ffi.ModuleInspectSource",
            Function::from_fn(|module: Module, format: String| operations::inspect_source(&module, &format)),
        ),
        (
            "ffi.ModuleImplementsFunction",
            Function::from_fn(|module: Module, name: String, imports: bool| {
                operations::implements_function(&module, &name, imports)
            }),
        ),
    ] {
        Function::register_global(name, &function)?;
    }
    Ok(())
}

crate::__constructor!(|| Collected { builtins: register, ..Collected::NOTHING });
