//! Functions of modules; messages and results as in the stock library.

use std::sync::{Mutex, PoisonError};

use crate::Result;
use crate::definition::function::{Arguments, Builtin};
#[cfg(feature = "all")]
use crate::definition::signature::type_key;
use crate::definition::signature::{
    ARRAY_OF_STRINGS, BOOL, INT, MODULE, OPTIONAL_FUNCTION, OPTIONAL_STRING, STRING, Signature, VOID,
};
#[cfg(feature = "all")]
use crate::error;
use crate::function::Function;
use crate::module::{self, Module, operations};
use crate::value::{Any, IntoAny, Str};

/// Modules that stay loaded until they are removed.
static KEPT: Mutex<Vec<Module>> = Mutex::new(Vec::new());

pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "ffi.ModuleLoadFromFile",
        signature: Signature::Typed(&[&STRING], &MODULE),
        run: |args| Ok(module::load_from_file(args.text(0)?)?.into_any()),
    },
    Builtin {
        name: "ffi.Module.load_from_file.so",
        signature: Signature::Typed(&[&STRING, &STRING], &MODULE),
        run: |args| {
            let (path, _format) = (args.text(0)?, args.text(1)?);
            Ok(module::load_shared_library(path)?.into_any())
        },
    },
    Builtin {
        name: "ffi.ModuleGetFunction",
        signature: Signature::Typed(&[&MODULE, &STRING, &BOOL], &OPTIONAL_FUNCTION),
        run: |args| Ok(find_function(args)?.into_any()),
    },
    Builtin {
        name: "ffi.ModuleImplementsFunction",
        signature: Signature::Typed(&[&MODULE, &STRING, &BOOL], &BOOL),
        run: |args| {
            let (module, name, imports) = (args.module(0)?, args.text(1)?, args.flag(2));
            Ok(operations::implements_function(&module, name, imports)?.into_any())
        },
    },
    Builtin {
        name: "ffi.ModuleGetFunctionMetadata",
        signature: Signature::Typed(&[&MODULE, &STRING, &BOOL], &OPTIONAL_STRING),
        run: |args| Ok(find_text(args, false)?.into_any()),
    },
    Builtin {
        name: "ffi.ModuleGetFunctionDoc",
        signature: Signature::Typed(&[&MODULE, &STRING, &BOOL], &OPTIONAL_STRING),
        run: |args| Ok(find_text(args, true)?.into_any()),
    },
    Builtin {
        name: "ffi.ModuleGetKind",
        signature: Signature::Typed(&[&MODULE], &STRING),
        run: |args| Ok(args.module(0)?.kind().into_any()),
    },
    Builtin {
        name: "ffi.ModuleGetPropertyMask",
        signature: Signature::Typed(&[&MODULE], &INT),
        run: |args| Ok(args.module(0)?.properties().bits().into_any()),
    },
    Builtin {
        name: "ffi.ModuleGetWriteFormats",
        signature: Signature::Typed(&[&MODULE], &ARRAY_OF_STRINGS),
        run: |args| Ok(operations::write_formats(&args.module(0)?)?.into_any()),
    },
    Builtin {
        name: "ffi.ModuleWriteToFile",
        signature: Signature::Typed(&[&MODULE, &STRING, &STRING], &VOID),
        run: |args| {
            operations::write_to_file(&args.module(0)?, args.text(1)?, args.text(2)?)?;
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ModuleInspectSource",
        signature: Signature::Typed(&[&MODULE, &STRING], &STRING),
        run: |args| Ok(operations::inspect_source(&args.module(0)?, args.text(1)?)?.into_any()),
    },
    Builtin {
        name: "ffi.ModuleImportModule",
        signature: Signature::Typed(&[&MODULE, &MODULE], &VOID),
        run: |args| {
            operations::import(&args.module(0)?, &args.module(1)?)?;
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ModuleClearImports",
        signature: Signature::Typed(&[&MODULE], &VOID),
        run: |args| {
            operations::clear_imports(&args.module(0)?);
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ModuleGlobalsAdd",
        signature: Signature::Typed(&[&MODULE], &VOID),
        run: |args| {
            let module = args.module(0)?;
            let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            if !kept.iter().any(|other| other.same(&module)) {
                kept.push(module);
            }
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ModuleGlobalsRemove",
        signature: Signature::Typed(&[&MODULE], &VOID),
        run: |args| {
            let module = args.module(0)?;
            let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            let position = kept.iter().position(|other| other.same(&module));
            let removed = position.map(|position| kept.swap_remove(position));
            // Unlocked before the module is dropped: its destructor may do anything.
            drop(kept);
            drop(removed);
            Ok(Any::NONE)
        },
    },
    #[cfg(feature = "all")]
    Builtin { name: "ffi.SystemLib", signature: Signature::Packed, run: system_library },
];

/// The system library, of the symbols with a prefix if there is an argument.
#[cfg(feature = "all")]
fn system_library(args: &Arguments<'_>) -> Result<Any> {
    let Some(prefix) = args.all().first() else { return Ok(module::system_library("")?.into_any()) };
    if !STRING.accepts(prefix) {
        return Err(error!(TypeError, "Cannot convert from type `{}` to `str`", type_key(prefix)));
    }
    Ok(module::system_library(args.text(0)?)?.into_any())
}

/// The function given by module, name and the flag "search imports, too".
fn find_function(args: &Arguments<'_>) -> Result<Option<Function>> {
    let (module, name, imports) = (args.module(0)?, args.text(1)?, args.flag(2));
    operations::get_function(&module, name, imports)
}

/// Metadata (or documentation) of the function given by module, name and the flag "search imports,
/// too".
fn find_text(args: &Arguments<'_>, documentation: bool) -> Result<Option<Str>> {
    let (module, name, imports) = (args.module(0)?, args.text(1)?, args.flag(2));
    operations::visit(&module, imports, &mut |module| operations::text(module, name, documentation))
}
