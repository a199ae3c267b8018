//! The definitions in this artifact: the methods of each type, and the types of each family.

use super::{MethodsDef, TypeDef};
use crate::embedded::set_once::SetOnce;

static BROUGHT: SetOnce<Brought> = SetOnce::new();

/// All definitions of this artifact.
#[derive(Clone, Copy)]
pub(super) struct Brought {
    pub(super) types: &'static [TypeDef],
    pub(super) methods: &'static [MethodsDef],
}

/// Sets the definitions of this artifact, before any of them is registered. Later calls are
/// ignored.
pub(crate) fn bring(types: &'static [TypeDef], methods: &'static [MethodsDef]) {
    BROUGHT.set(Box::leak(Box::new(Brought { types, methods })));
}

/// Returns the definitions of this artifact; empty before its constructor ran.
pub(super) fn brought() -> Brought {
    BROUGHT.get().copied().unwrap_or(Brought { types: &[], methods: &[] })
}
