//! Texts, shapes, type keys and other single values as functions.

use super::builtin::Builtin;

pub(in crate::builtins) static BUILTINS: &[Builtin] = &[];
