//! The nodes of an expression.

use kernpack::{Any, DataType, ObjRef, Object, Result, Str, bail, ensure, object_methods, packed_func};

use crate::text;

/// An expression: something with a value.
#[derive(Object)]
#[object(key = "expr.Expr", init = false)]
#[repr(C)]
pub struct Expr {
    /// The type of the value.
    pub dtype: DataType,
}

#[object_methods]
impl Expr {
    /// Adds this expression and another one of the same type. An integer becomes a constant.
    #[method(name = "__add__")]
    pub fn plus(this: &ObjRef<Self>, other: Any) -> Result<ObjRef<Add>> {
        add(this.clone(), this.operand(&other)?)
    }

    /// Adds an integer and this expression.
    #[method(name = "__radd__")]
    pub fn added_to(this: &ObjRef<Self>, other: Any) -> Result<ObjRef<Add>> {
        add(this.operand(&other)?, this.clone())
    }

    /// Converts the other operand of an operator.
    fn operand(&self, value: &Any) -> Result<ObjRef<Self>> {
        if let Ok(expr) = value.to() {
            return Ok(expr);
        }
        match value.to::<i64>() {
            Ok(value) => Ok(ObjRef::new(IntImm::new(value, self.dtype)).upcast()),
            Err(_) => bail!(TypeError, "expected an expression or an integer, got {}", value.type_name()),
        }
    }
}

/// A variable. Two variables are the same if they are one object, whatever their names are.
#[derive(Object)]
#[object(key = "expr.Var", structural = "var")]
#[repr(C)]
pub struct Var {
    #[base]
    base: Expr,
    /// The name of the variable.
    #[field(structural = "ignore")]
    pub name: Str,
}

#[object_methods]
impl Var {
    /// Creates a variable.
    #[init]
    pub fn new(name: Str, #[default(DataType::INT32)] dtype: DataType) -> Self {
        Self { base: Expr { dtype }, name }
    }

    /// Formats the expression for people.
    #[operator(repr)]
    fn repr(this: &ObjRef<Self>) -> String {
        text(this.clone().upcast())
    }
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

#[object_methods]
impl IntImm {
    /// Creates a constant.
    #[init]
    pub fn new(value: i64, #[default(DataType::INT32)] dtype: DataType) -> Self {
        Self { base: Expr { dtype }, value }
    }

    /// Formats the expression for people.
    #[operator(repr)]
    fn repr(this: &ObjRef<Self>) -> String {
        text(this.clone().upcast())
    }
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

#[object_methods]
impl Add {
    /// Creates the sum of two expressions of the same type.
    #[init]
    pub fn new(a: ObjRef<Expr>, b: ObjRef<Expr>) -> Result<Self> {
        let (dtype, other) = (a.dtype, b.dtype);
        ensure!(dtype == other, TypeError, "cannot add {other} to {dtype}");
        Ok(Self { base: Expr { dtype }, a, b })
    }

    /// Formats the expression for people.
    #[operator(repr)]
    fn repr(this: &ObjRef<Self>) -> String {
        text(this.clone().upcast())
    }
}

/// Adds two expressions of the same type.
#[packed_func]
pub fn add(a: ObjRef<Expr>, b: ObjRef<Expr>) -> Result<ObjRef<Add>> {
    Add::new(a, b).map(ObjRef::new)
}
