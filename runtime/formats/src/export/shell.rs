//! Formatting of commands for messages.

use std::process::Command;

/// Formats a command in shell syntax.
#[inline]
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

#[inline]
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_a_shell_takes_them() {
        let mut command = Command::new("cc");
        command.args(["-O3", "-DNAME=a b", "it's", ""]);
        assert_eq!(shown(&command), r"cc -O3 '-DNAME=a b' 'it'\''s' ''");
    }
}
