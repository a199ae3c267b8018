//! Modules as functions; messages and results as in the stock library.

use std::sync::{Mutex, PoisonError};

use super::builtin::{
    Arguments, Builtin, MODULE_AND_TEXT, MODULE_AND_TWO_TEXTS, MODULE_TEXT_AND_FLAG, ONE_MODULE, ONE_TEXT, TWO_MODULES,
    TWO_TEXTS,
};
use crate::Result;
use crate::function::Function;
use crate::module::{self, Module, raw};
use crate::value::{Any, IntoAny, Str};

/// Modules that stay loaded until someone removes them.
static KEPT: Mutex<Vec<Module>> = Mutex::new(Vec::new());

pub(super) static BUILTINS: [Builtin; 15] = [
    Builtin {
        name: "ffi.ModuleLoadFromFile",
        info: &ONE_TEXT,
        run: |args| Ok(module::load_from_file(args.text(0)?)?.into_any()),
    },
    Builtin {
        name: "ffi.Module.load_from_file.so",
        info: &TWO_TEXTS,
        run: |args| {
            let (path, _format) = (args.text(0)?, args.text(1)?);
            Ok(module::load_shared_library(path)?.into_any())
        },
    },
    Builtin {
        name: "ffi.ModuleGetFunction",
        info: &MODULE_TEXT_AND_FLAG,
        run: |args| Ok(find_function(args)?.into_any()),
    },
    Builtin {
        name: "ffi.ModuleImplementsFunction",
        info: &MODULE_TEXT_AND_FLAG,
        run: |args| Ok(find_function(args)?.is_some().into_any()),
    },
    Builtin {
        name: "ffi.ModuleGetFunctionMetadata",
        info: &MODULE_TEXT_AND_FLAG,
        run: |args| Ok(find_text(args, false)?.into_any()),
    },
    Builtin {
        name: "ffi.ModuleGetFunctionDoc",
        info: &MODULE_TEXT_AND_FLAG,
        run: |args| Ok(find_text(args, true)?.into_any()),
    },
    Builtin { name: "ffi.ModuleGetKind", info: &ONE_MODULE, run: |args| Ok(args.module(0)?.kind().into_any()) },
    Builtin {
        name: "ffi.ModuleGetPropertyMask",
        info: &ONE_MODULE,
        run: |args| Ok(args.module(0)?.property_mask().into_any()),
    },
    Builtin {
        name: "ffi.ModuleGetWriteFormats",
        info: &ONE_MODULE,
        run: |args| Ok(raw::write_formats(&args.module(0)?)?.into_any()),
    },
    Builtin {
        name: "ffi.ModuleWriteToFile",
        info: &MODULE_AND_TWO_TEXTS,
        run: |args| {
            raw::write_to_file(&args.module(0)?, args.text(1)?, args.text(2)?)?;
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ModuleInspectSource",
        info: &MODULE_AND_TEXT,
        run: |args| Ok(raw::inspect_source(&args.module(0)?, args.text(1)?)?.into_any()),
    },
    Builtin {
        name: "ffi.ModuleImportModule",
        info: &TWO_MODULES,
        run: |args| {
            raw::import(&args.module(0)?, &args.module(1)?)?;
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ModuleClearImports",
        info: &ONE_MODULE,
        run: |args| {
            raw::clear_imports(&args.module(0)?);
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ModuleGlobalsAdd",
        info: &ONE_MODULE,
        run: |args| {
            let module = args.module(0)?;
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(module);
            Ok(Any::NONE)
        },
    },
    Builtin {
        name: "ffi.ModuleGlobalsRemove",
        info: &ONE_MODULE,
        run: |args| {
            let module = args.module(0)?;
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).retain(|kept| !kept.same(&module));
            Ok(Any::NONE)
        },
    },
];

/// The function that module, name and "in its imports, too" say.
fn find_function(args: &Arguments<'_>) -> Result<Option<Function>> {
    let (module, name, imports) = (args.module(0)?, args.text(1)?, args.flag(2)?);
    raw::visit(&module, imports, &mut |module| raw::function(module, name))
}

/// Metadata (or documentation) of the function that module, name and "in its imports, too" say.
fn find_text(args: &Arguments<'_>, documentation: bool) -> Result<Option<Str>> {
    let (module, name, imports) = (args.module(0)?, args.text(1)?, args.flag(2)?);
    raw::visit(&module, imports, &mut |module| raw::text(module, name, documentation))
}
