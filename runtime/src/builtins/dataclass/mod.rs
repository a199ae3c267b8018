//! What languages with classes need to define types of objects at run time.

use super::builtin::Builtin;

pub(in crate::builtins) static BUILTINS: &[Builtin] = &[];
