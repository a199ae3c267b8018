//! Checks options for the compilers of OpenCL devices, as far as possible without a device.

use crate::{Error, Result};

/// Checks that these options can be stored in the library and mean the same on every machine.
pub(super) fn check(options: &[String]) -> Result<()> {
    let checked = options.iter().map(|option| match problem(option) {
        Some(problem) => Err(Error::new(format!(".opencl_option({option:?}): {problem}"))),
        None => Ok(()),
    });
    Error::collect(checked).map(drop)
}

fn problem(option: &str) -> Option<&'static str> {
    let text = option.trim();
    if option.contains(['\n', '\r', '\0']) {
        return Some("an option is one line of text");
    }
    if !text.starts_with('-') {
        return Some("an option begins with `-`, as in \"-cl-fast-relaxed-math\" or \"-cl-std=CL1.2\"");
    }
    if text.starts_with("-I") {
        return Some(
            "a device's compiler sees no folders; `.include(..)` names those of headers, which travel in the code",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_travel_is_told() {
        for good in ["-cl-std=CL1.2", "-cl-fast-relaxed-math", "-D N=2", "-w", " -Werror ", "-cl-nv-verbose"] {
            assert!(check(&[good.to_owned()]).is_ok(), "{good}");
        }
        #[rustfmt::skip]
        let rows = [
            ("cl-std=CL1.2", ".opencl_option(\"cl-std=CL1.2\"): an option begins with `-`, as in \"-cl-fast-relaxed-math\" or \"-cl-std=CL1.2\""),
            ("", ".opencl_option(\"\"): an option begins with `-`, as in \"-cl-fast-relaxed-math\" or \"-cl-std=CL1.2\""),
            ("-w\n#error", ".opencl_option(\"-w\\n#error\"): an option is one line of text"),
            ("-Iinclude", ".opencl_option(\"-Iinclude\"): a device's compiler sees no folders; `.include(..)` names those of headers, which travel in the code"),
        ];
        for (bad, expected) in rows {
            assert_eq!(check(&[bad.to_owned()]).unwrap_err().to_string(), expected);
        }
    }
}
