//! Printing any value.

use super::builtin::Builtin;

pub(in crate::builtins) static BUILTINS: &[Builtin] = &[];
