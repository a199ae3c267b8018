//! Printing and parsing for other languages.

use kernpack::{Any, Result, packed_func};

use super::{parse, print};
use crate::ir::{Buffer, Expr, IrModule, LoweredFunc, Stmt};

/// Prints a module, function, statement, expression or buffer.
#[packed_func(name = "kernpack.ir.print")]
fn print_any(program: Any) -> Result<String> {
    if let Ok(module) = program.to::<IrModule>() {
        return Ok(print(&module));
    }
    if let Ok(func) = program.to::<LoweredFunc>() {
        return Ok(print(&func));
    }
    if let Ok(stmt) = program.to::<Stmt>() {
        return Ok(print(&stmt));
    }
    if let Ok(expr) = program.to::<Expr>() {
        return Ok(print(&expr));
    }
    match program.to::<Buffer>() {
        Ok(buffer) => Ok(print(&buffer)),
        Err(_) => Err(kernpack::error!(
            TypeError,
            "print takes a module, function, statement, expression or buffer of kernpack.ir, got {}",
            program.type_name()
        )),
    }
}

/// Parses the text of a module.
#[packed_func(name = "kernpack.ir.parse")]
fn parse_module(text: String) -> Result<IrModule> {
    Ok(parse(&text)?)
}
