//! The entry points of the printer.

use core::fmt;
use std::collections::HashMap;

use super::printer::Printer;
use crate::ir::{Buffer, Expr, IrModule, LoweredFunc, Stmt, Var};

/// A node with a text form.
pub trait Printable {
    /// Returns the text; see [`print`](fn@print).
    fn to_text(&self) -> String;
}

macro_rules! printable {
    ($($node:ident, $printer:ident => $print:expr;)*) => {$(
        impl Printable for $node {
            fn to_text(&self) -> String {
                let print: fn(&Self, &mut Printer) = $print;
                let mut printer = Printer::new();
                print(self, &mut printer);
                printer.out
            }
        }

        impl fmt::Display for $node {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_text())
            }
        }

        impl fmt::Debug for $node {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_text())
            }
        }
    )*};
}

printable! {
    Expr, printer => |expr, printer| printer.expr(expr, 0);
    Var, printer => |var, printer| printer.var(var);
    Stmt, printer => |stmt, printer| printer.stmt(stmt);
    Buffer, printer => |buffer, printer| {
        printer.buffer_name(buffer);
        printer.push(": ");
        printer.buffer_type(buffer);
    };
    LoweredFunc, printer => |func, printer| printer.whole_func(func);
    IrModule, printer => |module, printer| printer.module(module);
}

/// The text of a program with the places of its parts.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The text.
    pub text: String,
    /// The line on which each statement starts, counted from 0. Statements that occur at several
    /// places have one of them.
    pub lines: HashMap<Stmt, usize>,
    /// The line of each function's head.
    pub functions: Vec<(String, usize)>,
}

/// The text of a module with its lines.
pub fn listing(module: &IrModule) -> Listing {
    let mut printer = Printer::new();
    printer.module(module);
    Listing { text: printer.out, lines: printer.lines, functions: printer.functions }
}

/// Prints a node. Functions and modules declare their free names; expressions and statements do
/// not.
pub fn print<T: Printable + ?Sized>(node: &T) -> String {
    node.to_text()
}

/// Prints the first line of a statement, without its body, for messages.
pub fn headline(stmt: &Stmt) -> String {
    let mut printer = Printer::new();
    printer.head(stmt);
    const LONGEST: usize = 160;
    match printer.out.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}..", &printer.out[..end]),
        None => printer.out,
    }
}

/// Prints the lines of a function around a statement, which is marked, for messages. Empty if the
/// function does not contain it.
pub fn around(func: &LoweredFunc, stmt: &Stmt) -> String {
    const MARGIN: usize = 4;
    let mut printer = Printer::new();
    printer.whole_func(func);
    let Some(at) = printer.lines.get(stmt).copied() else { return String::new() };
    let first = at.saturating_sub(MARGIN);
    let lines = printer.out.lines().enumerate().skip(first).take(at + MARGIN + 1 - first);
    let marked = lines.map(|(number, line)| {
        let mark = if number == at { '>' } else { ' ' };
        format!("{mark} {:4} {line}", number + 1)
    });
    marked.collect::<Vec<_>>().join("\n")
}
