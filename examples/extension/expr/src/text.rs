//! Formats expressions for people.

use kernpack::{ObjRef, packed_func};

use crate::{Add, Expr, IntImm, Var};

/// A piece of text that is still to be written.
enum Piece {
    Expr(ObjRef<Expr>),
    Text(&'static str),
}

/// Formats an expression as `(x + 1) + y`.
///
/// Works for expressions of any depth: the remaining pieces are in a list, not on the stack.
#[packed_func]
pub fn text(expr: ObjRef<Expr>) -> String {
    let mut text = String::new();
    let mut outermost = true;
    let mut left = vec![Piece::Expr(expr)];
    while let Some(piece) = left.pop() {
        let expr = match piece {
            Piece::Expr(expr) => expr,
            Piece::Text(piece) => {
                text.push_str(piece);
                continue;
            }
        };
        let (open, close) = if outermost { ("", "") } else { ("(", ")") };
        outermost = false;
        if let Some(var) = expr.downcast_ref::<Var>() {
            text.push_str(&var.name);
        } else if let Some(constant) = expr.downcast_ref::<IntImm>() {
            text.push_str(&constant.value.to_string());
        } else if let Some(sum) = expr.downcast_ref::<Add>() {
            text.push_str(open);
            left.extend([
                Piece::Text(close),
                Piece::Expr(sum.b.clone()),
                Piece::Text(" + "),
                Piece::Expr(sum.a.clone()),
            ]);
        } else {
            // A type that another library derived from `Expr`.
            text.push_str(&expr.type_key());
        }
    }
    text
}
