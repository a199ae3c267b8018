//! Enums with data: families of object types.

use kernpack::{Array, ObjRef, Object, Str, packed_func};

/// An expression.
#[derive(Object)]
#[object(key = "objects.Expr")]
#[repr(C, u32)]
pub enum Expr {
    /// A number.
    Const {
        /// The value.
        value: i64,
    },
    /// A variable.
    #[object(key = "objects.Variable")]
    Var { name: Str },
    /// A sum.
    Add { lhs: ObjRef<Expr>, rhs: ObjRef<Expr> },
    /// A call of a function.
    Call {
        function: Str,
        #[field(default = Array::from(vec![]))]
        arguments: Array<ObjRef<Expr>>,
        #[field(kw_only, default = false, compare = false, repr = false, structural = "ignore")]
        pure: bool,
        #[field(skip, default = 0)]
        seen: u32,
    },
    /// Nothing.
    Nil,
}

/// The value of an expression in which each variable is 10 and each call is the number of its
/// arguments.
#[packed_func]
pub fn evaluate(expr: ObjRef<Expr>) -> i64 {
    match &*expr {
        Expr::Const { value } => *value,
        Expr::Var { .. } => 10,
        Expr::Add { lhs, rhs } => evaluate(lhs.clone()) + evaluate(rhs.clone()),
        Expr::Call { arguments, .. } => arguments.len() as i64,
        Expr::Nil => 0,
    }
}

/// `1 + f(x, nil)`.
#[packed_func]
pub fn example() -> ObjRef<Expr> {
    let x = ObjRef::new(Expr::Var { name: Str::new("x") });
    let arguments = Array::from(vec![x, ObjRef::new(Expr::Nil)]);
    let call = ObjRef::new(Expr::Call { function: Str::new("f"), arguments, pure: true, seen: 3 });
    ObjRef::new(Expr::Add { lhs: ObjRef::new(Expr::Const { value: 1 }), rhs: call })
}
