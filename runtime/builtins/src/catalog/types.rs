//! The list of all types, and the attributes of types whose other parts are defined elsewhere.

use crate::Result;
use crate::dataclass::enums;
use crate::definition::type_def::{BuiltinType, FixedTypeAttrs};
use crate::engines::{access_path, structural, visit};
use crate::functions::{big_int, convert, module_type};

/// All types with a dynamic index, in the order of their indices.
const TYPES: &[&BuiltinType] = &[
    &module_type::MODULE,
    &big_int::BIG_INT,
    &enums::ENUM_STATE,
    &enums::ENUM,
    &enums::INT_ENUM,
    &enums::STR_ENUM,
    &access_path::STEP,
    &access_path::PATH,
    &visit::interrupt::INTERRUPT,
    &visit::visitor::VISITOR,
    &visit::error_context::CONTEXT,
    &visit::mutator::MUTATOR,
    &structural::KEY,
];

const ATTRS: &[FixedTypeAttrs] = &[convert::ATTRS, visit::ATTRS];

/// Registers all of them.
pub(crate) fn register() -> Result<()> {
    TYPES.iter().try_for_each(|builtin| builtin.allocate())?;
    TYPES.iter().try_for_each(|builtin| builtin.register())?;
    for (index, column, value) in ATTRS.iter().copied().flatten() {
        value.register(*index, column)?;
    }
    Ok(())
}
