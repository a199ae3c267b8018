use std::fmt::Display;
use std::io::{self, Write};

/// Says something on the standard error, in a line. One that is closed or full is no reason to stop, and least of all to leave undone what follows.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}
