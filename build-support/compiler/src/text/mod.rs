//! Programs as text that people read in a diff, printed and parsed.

mod names;
mod number;
mod parse;
mod parse_expr;
mod parse_stmt;
mod parser;
mod print;
mod print_expr;
mod print_stmt;
mod printer;
mod token;

pub use parse::{parse, parse_expr, parse_func, parse_func_with, parse_stmt, parse_with};
pub use parser::Scope;
pub use print::{Printable, around, headline, print};
