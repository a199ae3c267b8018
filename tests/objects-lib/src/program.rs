//! Expressions of a small language, for structural equality.

use kernpack::{Any, Array, ObjRef, Object, packed_func};

/// A variable: equal to what it is mapped to.
#[derive(Object)]
#[object(key = "objects.Var", structural = "var")]
#[repr(C)]
pub struct Var {
    #[field(structural = "ignore")]
    pub name: String,
}

/// A function of its parameters.
#[derive(Object)]
#[object(key = "objects.Lambda")]
#[repr(C)]
pub struct Lambda {
    #[field(structural = "def")]
    pub params: Array<ObjRef<Var>>,
    pub body: Any,
    #[field(structural = "ignore", default = None)]
    pub comment: Option<String>,
}

/// A node that may be shared.
#[derive(Object)]
#[object(key = "objects.Dag", structural = "dag")]
#[repr(C)]
pub struct Dag {
    pub op: String,
    pub inputs: Array<ObjRef<Dag>>,
}

/// The number of parameters.
#[packed_func]
pub fn arity(lambda: ObjRef<Lambda>) -> usize {
    lambda.params.len()
}
