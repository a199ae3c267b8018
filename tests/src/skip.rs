//! The line that a test prints if this machine lacks something that it needs.

use std::fmt::Display;
use std::io::Write as _;

/// Says in one line that a test, or a part of one, does not run; `cargo xtask test` counts these
/// lines.
///
/// # Panics
/// Panics on CI (`CI` is set): `cargo xtask` installs there whatever tests need but a GPU.
pub fn skip(why: impl Display) {
    assert!(std::env::var_os("CI").is_none(), "cannot be skipped on CI: {why}");
    skip_anywhere(why);
}

/// [`skip`] for what depends on the machine's hardware, or on what a package of others was built
/// with: on CI, too.
pub fn skip_anywhere(why: impl Display) {
    // Past the test harness, which hides what a passing test prints. One write, so that lines of
    // threads do not mix.
    let _ = std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes());
}
