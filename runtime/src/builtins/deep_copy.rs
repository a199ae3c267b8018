//! Copies of graphs of objects.

use super::builtin::Builtin;

pub(in crate::builtins) static BUILTINS: &[Builtin] = &[];
