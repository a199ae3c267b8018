use std::fmt::Display;
use std::io::{self, Write};

/// Writes a line to the standard error. A closed or full standard error is ignored: it must not
/// stop the program, nor prevent the work that follows.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
