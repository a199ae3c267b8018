//! Field-by-field comparison and hash of any values.

use super::builtin::Builtin;

pub(in crate::builtins) static BUILTINS: &[Builtin] = &[];
