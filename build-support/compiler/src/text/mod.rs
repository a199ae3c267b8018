//! Programs as text that people read in a diff, printed and parsed.

mod names;
mod number;
mod print;
mod print_expr;
mod print_stmt;
mod printer;

pub use print::{Printable, around, headline, print};
