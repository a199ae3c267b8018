//! The entry points of the parser.

use super::parser::{Parser, Scope};
use super::token::Token;
use crate::error::Result;
use crate::ir::{Expr, IrModule, LoweredFunc, Stmt};

fn whole<T>(text: &str, scope: &Scope, parse: impl FnOnce(&mut Parser<'_>) -> Result<T>) -> Result<T> {
    let mut parser = Parser::new(text, scope)?;
    let parsed = parse(&mut parser)?;
    parser.skip_newlines();
    if *parser.peek() != Token::End {
        return Err(parser.expected("the end of the text"));
    }
    Ok(parsed)
}

/// Parses the functions of a text.
///
/// # Errors
/// Returns a `SyntaxError` with line and column, and the expected input.
pub fn parse(text: &str) -> Result<IrModule> {
    parse_with(text, &Scope::new())
}

/// Parses the functions of a text; its declarations `var` and `tensor` refer to the scope.
///
/// # Errors
/// See [`parse`].
pub fn parse_with(text: &str, scope: &Scope) -> Result<IrModule> {
    whole(text, scope, |parser| parser.module())
}

/// Parses the only function of a text.
///
/// # Errors
/// See [`parse`].
pub fn parse_func(text: &str) -> Result<LoweredFunc> {
    whole(text, &Scope::new(), |parser| parser.func())
}

/// Parses statements; the scope contains their free names.
///
/// # Errors
/// See [`parse`].
pub fn parse_stmt(text: &str, scope: &Scope) -> Result<Stmt> {
    whole(text, scope, |parser| parser.stmts())
}

/// Parses an expression; the scope contains its free names.
///
/// # Errors
/// See [`parse`].
pub fn parse_expr(text: &str, scope: &Scope) -> Result<Expr> {
    whole(text, scope, |parser| {
        parser.skip_newlines();
        parser.expr()
    })
}
