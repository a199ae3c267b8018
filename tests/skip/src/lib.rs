//! The line that a test prints if this machine lacks something that it needs: `skipped: TEST: WHY`.

use std::fmt::Display;
use std::io::Write as _;
use std::thread;

/// Prints one line that a test, or a part of one, does not run; `cargo xtask test` counts these
/// lines.
///
/// # Panics
/// Panics on CI (`CI` is set): `cargo xtask` installs all requirements of tests there, except a
/// GPU.
pub fn skip(why: impl Display) {
    assert!(std::env::var_os("CI").is_none(), "cannot be skipped on CI: {why}");
    skip_anywhere(why);
}

/// [`skip`] for requirements on the machine's hardware, or on the build options of a package of
/// others: it does not panic on CI. `cargo xtask test` lists the reasons that it accepts there.
pub fn skip_anywhere(why: impl Display) {
    let thread = thread::current();
    // The harness names the thread of a test, unless it runs one test at a time.
    let line = match thread.name() {
        None | Some("main") => format!("skipped: {why}\n"),
        Some(test) => format!("skipped: {test}: {why}\n"),
    };
    // Bypasses the test harness, which hides the output of a passing test. One write, so that lines
    // of several threads do not mix.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
