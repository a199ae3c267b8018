//! Flags of C compilers that select the CPU of the build machine although the target is another
//! machine.

use std::ffi::OsString;

use crate::session::Session;

/// The options of GCC and Clang that take a CPU name.
const OPTIONS: [&str; 3] = ["-march", "-mcpu", "-mtune"];

/// Rejects an argument that names the CPU of this machine, unless the target is this machine.
/// `variable` is `CFLAGS` or `CXXFLAGS`, and `own` are the arguments of `.flag(..)`.
pub(crate) fn check(session: &Session, variable: &str, own: &[String], arguments: &[OsString]) -> Result<(), String> {
    let (target, host) = (&session.target.triple, &session.target.host);
    let native: Vec<String> = OPTIONS.iter().map(|option| format!("{option}=native")).collect();
    let found = native.iter().find(|flag| arguments.iter().any(|argument| argument == flag.as_str()));
    let Some(flag) = found.filter(|_| target != host) else { return Ok(()) };
    let origin = if own.contains(flag) {
        ".flag(..)".to_owned()
    } else {
        let underscored = target.replace(['-', '.'], "_");
        let names = [format!("{variable}_{target}"), format!("{variable}_{underscored}"), format!("TARGET_{variable}")];
        let is_said_by = |name: &&String| {
            session
                .environment
                .cargo_optional(name)
                .is_some_and(|flags| flags.split_whitespace().any(|word| word == flag))
        };
        names.iter().find(is_said_by).cloned().unwrap_or_else(|| variable.to_owned())
    };
    Err(format!(
        "{origin} has {flag}, but the target is {target} and this machine is {host}; name the CPU of the target, and say what this \
         machine's own programs need in HOST_{variable}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::environment::Environment;

    #[test]
    fn the_variable_is_named() {
        let folder = std::env::temp_dir().join(format!("kernpack-native-flags-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let message = |target: &str, variables: &[(&str, &str)], own: &[&str], arguments: &[&str]| {
            let dir = folder.to_str().unwrap();
            let fixed = [
                ("CARGO_MANIFEST_DIR", dir),
                ("OUT_DIR", dir),
                ("CARGO_PKG_NAME", "native"),
                ("TARGET", target),
                ("HOST", "x86_64-unknown-linux-gnu"),
                ("CARGO_CFG_TARGET_ARCH", "aarch64"),
                ("CARGO_CFG_TARGET_OS", "linux"),
            ];
            let session = Session::new(Environment::fake(&[&fixed, variables].concat()), None).unwrap();
            let own: Vec<String> = own.iter().map(|flag| (*flag).to_owned()).collect();
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            check(&session, "CFLAGS", &own, &arguments).err().unwrap_or_default()
        };
        let arm = "aarch64-unknown-linux-gnu";
        let rest = "but the target is aarch64-unknown-linux-gnu and this machine is x86_64-unknown-linux-gnu; name the CPU of the \
                    target, and say what this machine's own programs need in HOST_CFLAGS";
        for (variables, own, arguments, start) in [
            (&[("CFLAGS", "-g -march=native")][..], &[][..], &["-O3", "-march=native"][..], "CFLAGS has -march=native"),
            (&[("TARGET_CFLAGS", "-mcpu=native")], &[], &["-mcpu=native"], "TARGET_CFLAGS has -mcpu=native"),
            (
                &[("CFLAGS_aarch64_unknown_linux_gnu", "-mtune=native")],
                &[],
                &["-mtune=native"],
                "CFLAGS_aarch64_unknown_linux_gnu has -mtune=native",
            ),
            (&[], &["-march=native"], &["-march=native"], ".flag(..) has -march=native"),
        ] {
            assert_eq!(message(arm, variables, own, arguments), format!("{start}, {rest}"));
        }
        assert_eq!(message(arm, &[], &[], &["-mcpu=cortex-a72", "-DNAME=native"]), "");
        // A target with another C library counts as another machine, too: such a build runs
        // elsewhere.
        assert!(message("x86_64-unknown-linux-musl", &[], &["-march=native"], &["-march=native"]).contains("-musl"));
        assert_eq!(message("x86_64-unknown-linux-gnu", &[], &["-march=native"], &["-march=native"]), "");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
