//! Parser of command-line options.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

/// Calls `set` with each option that is in the first column of `help`, and its value; the options
/// in `flags` do not have one. Returns true if help is requested.
pub(super) fn each(
    words: impl IntoIterator<Item = OsString>,
    help: &str,
    flags: &[&str],
    mut set: impl FnMut(&str, String) -> Result<(), String>,
) -> Result<bool, String> {
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let word = word.into_string().map_err(|word| format!("`{}` is not UTF-8", word.display()))?;
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ => (word, None),
        };
        if matches!(name.as_str(), "--help" | "-h") {
            return Ok(true);
        }
        if !name.starts_with("--") || !help.contains(&format!("\n  {name} ")) {
            let what = if name.starts_with('-') { "unknown option" } else { "unexpected argument" };
            return Err(format!("{what} `{name}`"));
        }
        if flags.contains(&name.as_str()) {
            if inline.is_some() {
                return Err(format!("option `{name}` takes no value"));
            }
            set(&name, String::new())?;
            continue;
        }
        let value = match inline {
            Some(value) => value,
            None => words
                .next()
                .ok_or_else(|| format!("missing value for option `{name}`"))?
                .into_string()
                .map_err(|value| format!("`{}` is not UTF-8", value.display()))?,
        };
        set(&name, value)?;
    }
    Ok(false)
}

pub(super) fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("option `{name}` takes a number, got `{value}`"))
}

/// Parses seconds; 0 is unlimited.
pub(super) fn time(name: &str, value: &str) -> Result<Option<Duration>, String> {
    let seconds = value.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = seconds.ok_or_else(|| format!("option `{name}` takes a number of seconds, got `{value}`"))?;
    Ok((!time.is_zero()).then_some(time))
}
