//! Lists of expressions as arrays, tuples of different types, and slices, for shapes and indices.

use crate::ir::{Expr, IterVar, Var};

/// Expressions in order: `[n, m]`, `(&n, 64)`, `vec![..]`, `&[..]`.
pub trait Exprs {
    /// Returns all expressions.
    fn into_exprs(self) -> Vec<Expr>;
}

/// `N` expressions in order: `[n, m]`, `(&n, 64)`, `[]`.
pub trait ExprArray<const N: usize>: Exprs {}

impl<T: Into<Expr>, const N: usize> Exprs for [T; N] {
    fn into_exprs(self) -> Vec<Expr> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<T: Into<Expr>, const N: usize> ExprArray<N> for [T; N] {}

impl<T: Into<Expr>> Exprs for Vec<T> {
    fn into_exprs(self) -> Vec<Expr> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<T> Exprs for &[T]
where
    for<'a> &'a T: Into<Expr>,
{
    fn into_exprs(self) -> Vec<Expr> {
        self.iter().map(Into::into).collect()
    }
}

impl<T> Exprs for &Vec<T>
where
    for<'a> &'a T: Into<Expr>,
{
    fn into_exprs(self) -> Vec<Expr> {
        self.iter().map(Into::into).collect()
    }
}

impl<T, const N: usize> Exprs for &[T; N]
where
    for<'a> &'a T: Into<Expr>,
{
    fn into_exprs(self) -> Vec<Expr> {
        self.iter().map(Into::into).collect()
    }
}

impl<T, const N: usize> ExprArray<N> for &[T; N] where for<'a> &'a T: Into<Expr> {}

impl Exprs for &kernpack::Array<Expr> {
    fn into_exprs(self) -> Vec<Expr> {
        self.to_vec()
    }
}

impl Exprs for () {
    fn into_exprs(self) -> Vec<Expr> {
        Vec::new()
    }
}

impl ExprArray<0> for () {}

macro_rules! tuples {
    ($($count:literal: $($name:ident)*;)*) => {$(
        impl<$($name: Into<Expr>),*> Exprs for ($($name,)*) {
            #[allow(non_snake_case, reason = "values are named as their types")]
            fn into_exprs(self) -> Vec<Expr> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }

        impl<$($name: Into<Expr>),*> ExprArray<$count> for ($($name,)*) {}
    )*};
}

tuples! {
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
    7: A B C D E F G;
    8: A B C D E F G H;
}

/// Reduction axes: one, or several as an array, a slice or a vector.
pub trait Axes {
    /// Returns all axes.
    fn into_axes(self) -> Vec<IterVar>;
}

impl Axes for IterVar {
    fn into_axes(self) -> Vec<IterVar> {
        vec![self]
    }
}

impl Axes for &IterVar {
    fn into_axes(self) -> Vec<IterVar> {
        vec![self.clone()]
    }
}

impl<const N: usize> Axes for [IterVar; N] {
    fn into_axes(self) -> Vec<IterVar> {
        self.into()
    }
}

impl<const N: usize> Axes for [&IterVar; N] {
    fn into_axes(self) -> Vec<IterVar> {
        self.into_iter().cloned().collect()
    }
}

impl Axes for &[IterVar] {
    fn into_axes(self) -> Vec<IterVar> {
        self.to_vec()
    }
}

impl<const N: usize> Axes for &[IterVar; N] {
    fn into_axes(self) -> Vec<IterVar> {
        self.to_vec()
    }
}

impl Axes for Vec<IterVar> {
    fn into_axes(self) -> Vec<IterVar> {
        self
    }
}

impl Axes for &Vec<IterVar> {
    fn into_axes(self) -> Vec<IterVar> {
        self.clone()
    }
}

/// Converts narrower integers to 64 bits, for extents and indices. Other types are unchanged, so
/// that the caller reports them.
pub(crate) fn as_index(expr: Expr) -> Expr {
    use crate::ir::{DataTypeExt, I64};
    let dtype = expr.dtype();
    if dtype.is_integer() && dtype.is_scalar() && dtype != I64 { expr.cast(I64) } else { expr }
}

/// The name of a variable, or the text of another expression, for messages.
pub(crate) fn describe(expr: &Expr) -> String {
    if let Some(var) = Var::of(expr) {
        return var.name().to_owned();
    }
    match (expr.as_int(), expr.as_float()) {
        (Some(value), _) => value.to_string(),
        (_, Some(value)) => value.to_string(),
        _ => "an expression".to_owned(),
    }
}
