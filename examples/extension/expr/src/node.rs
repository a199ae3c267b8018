//! The nodes of an expression, and the functions that make them.

use kernpack::{DataType, ObjRef, Object, Result, Str, ensure, packed_func};

/// An expression: something with a value.
#[derive(Object)]
#[object(key = "expr.Expr")]
#[repr(C)]
pub struct Expr {
    /// The type of the value.
    pub dtype: DataType,
}

/// A variable. Two variables are the same when they are one object, whatever they are called.
#[derive(Object)]
#[object(key = "expr.Var")]
#[repr(C)]
pub struct Var {
    #[base]
    base: Expr,
    /// What it is called.
    pub name: Str,
}

/// An integer constant.
#[derive(Object)]
#[object(key = "expr.IntImm")]
#[repr(C)]
pub struct IntImm {
    #[base]
    base: Expr,
    /// The value.
    pub value: i64,
}

/// A sum.
#[derive(Object)]
#[object(key = "expr.Add")]
#[repr(C)]
pub struct Add {
    #[base]
    base: Expr,
    /// The left operand.
    pub a: ObjRef<Expr>,
    /// The right operand, of the same type.
    pub b: ObjRef<Expr>,
}

/// Makes a variable.
#[packed_func]
pub fn var(name: Str, dtype: DataType) -> ObjRef<Var> {
    ObjRef::new(Var { base: Expr { dtype }, name })
}

/// Makes a constant.
#[packed_func]
pub fn int_imm(value: i64, dtype: DataType) -> ObjRef<IntImm> {
    ObjRef::new(IntImm { base: Expr { dtype }, value })
}

/// Makes the sum of two expressions of one type.
#[packed_func]
pub fn add(a: ObjRef<Expr>, b: ObjRef<Expr>) -> Result<ObjRef<Add>> {
    let (dtype, other) = (a.dtype, b.dtype);
    ensure!(dtype == other, TypeError, "can not add {other} to {dtype}");
    Ok(ObjRef::new(Add { base: Expr { dtype }, a, b }))
}
