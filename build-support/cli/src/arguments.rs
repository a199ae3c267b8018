//! Helpers for the command lines of all commands. `lexopt` parses them: `--option value`,
//! `--option=value`, `-o value`, `-ovalue`. Everything after `--` is an argument.

use std::ffi::{OsStr, OsString};

use lexopt::{Error, Parser};

/// A parsed command line: its options, or `None` if it requests the help text of the command.
pub(crate) type Parsed<Options> = Result<Option<Options>, Error>;

/// Returns the error message for an invalid command line of `command` (`cargo kernpack inspect`).
pub(crate) fn message(error: &Error, command: &str) -> String {
    let problem = match error {
        Error::MissingValue { option: Some(option) } => format!("missing value for option `{option}`"),
        Error::MissingValue { option: None } => "missing argument".to_owned(),
        Error::UnexpectedOption(option) => format!("unknown option `{option}`"),
        Error::UnexpectedArgument(argument) => format!("unexpected argument `{}`", argument.display()),
        Error::UnexpectedValue { option, .. } => format!("option `{option}` takes no value"),
        Error::NonUnicodeValue(value) => format!("`{}` is not UTF-8", value.display()),
        // The messages of Kernpack's own parsers are complete.
        Error::ParsingFailed { .. } | Error::Custom(_) => return error.to_string(),
    };
    format!("{problem}; see {command} --help")
}

/// Returns the words before the next of these options, unchanged. `--` ends the options, so no
/// words precede it.
pub(crate) fn words_before(options: &[&str], parser: &mut Parser) -> Result<Vec<OsString>, Error> {
    let mut words = Vec::new();
    let mut options_end = false;
    let mut rest = parser.raw_args()?;
    while let Some(word) = rest.next_if(|word| options_end || !options.contains(&name(word))) {
        options_end |= word == "--";
        words.push(word);
    }
    Ok(words)
}

/// Returns `--kind` for `--kind=ptx`, and any other word unchanged.
fn name(word: &OsStr) -> &str {
    let word = word.to_str().unwrap_or_default();
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// Parses a command line of words without spaces, and returns the options or the error message.
#[cfg(test)]
pub(crate) fn parse_line<Options>(
    parse: impl Fn(&mut Parser) -> Parsed<Options>,
    command: &str,
    line: &str,
) -> Result<Option<Options>, String> {
    parse(&mut Parser::from_args(line.split_whitespace())).map_err(|error| message(&error, command))
}
