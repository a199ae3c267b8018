//! The systems that a library runs on, as a platform tag of Python wheels.
//!
//! PEP 600: `manylinux_2_N_<machine>` promises that the library runs on every Linux with glibc 2.N
//! or newer, with no other installed libraries than those in the policy of `auditwheel`. The tag is
//! derived from the file: the symbol versions that it requires determine the glibc version, and the
//! libraries that it is linked to must be on the list.

use std::fmt::Write;

use super::policy::{self, POLICIES};
use crate::Result;
use crate::library::file::{LibraryFile, Requirement};
use crate::text::first_few;

/// The platform that a library runs on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Platform {
    /// The tag, such as `manylinux_2_34_x86_64`.
    pub(crate) tag: String,
    /// The reason why the tag is not lower: a symbol version, and the symbols that require it.
    /// `None` if there is no such reason.
    pub(crate) because: Option<(String, Vec<String>)>,
}

impl Platform {
    /// Reads the tag from a shared library.
    ///
    /// # Errors
    /// Returns an error with the requirements of the library that no policy allows, and advice.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self> {
        if let Some(format) = foreign_format(bytes) {
            return Err(format!(
                "it is a {format} file, and platform tags are read off Linux libraries only; say with --platform where it \
                 runs, such as --platform macosx_11_0_arm64 or --platform win_amd64"
            ));
        }
        let file = LibraryFile::parse(bytes)?;
        Self::judge(&file.machine(), &file.needed(), &file.versions()?)
    }

    fn judge(machine: &str, needed: &[String], versions: &[Requirement]) -> Result<Self> {
        if !matches!(machine, "x86_64" | "aarch64") {
            return Err(format!(
                "it is for {machine}, and platform tags are computed for x86_64 and aarch64 only; say with --platform where it \
                 runs, such as --platform linux_riscv64"
            ));
        }
        let musl = needed.iter().any(|library| library == "libc.so" || library.starts_with("libc.musl-"));
        let allowed = |library: &str| match musl {
            true => policy::musl_allows(library),
            false => policy::allows(library),
        };
        let unlisted: Vec<&str> = needed.iter().map(String::as_str).filter(|library| !allowed(library)).collect();
        if !unlisted.is_empty() {
            return Err(unlisted_message(&unlisted));
        }
        if musl {
            // Each Rust target has a fixed version of musl: 1.2 since Rust 1.71.
            return Ok(Self { tag: format!("musllinux_1_2_{machine}"), because: None });
        }
        let mut least = &POLICIES[0];
        let mut because = None;
        for asked in versions {
            let Some(policy) = policy::least(&asked.version) else { return Err(unknown_version(asked)) };
            let is_newer = |other: &Requirement| numbers(&asked.version) > numbers(&other.version);
            if policy.glibc > least.glibc || policy.glibc == least.glibc && because.is_some_and(is_newer) {
                least = policy;
                because = Some(asked);
            }
        }
        let because = because.map(|asked| (asked.version.clone(), asked.symbols.clone()));
        Ok(Self { tag: format!("manylinux_2_{}_{machine}", least.glibc), because })
    }
}

/// Parses `GLIBC_2.17` as 2, 17.
fn numbers(version: &str) -> Vec<u32> {
    version.split(['_', '.']).filter_map(|part| part.parse().ok()).collect()
}

/// Returns the name of a format that is not ELF.
fn foreign_format(bytes: &[u8]) -> Option<&'static str> {
    match bytes.get(..4)? {
        [0xcf, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe] => Some("Mach-O"),
        [b'M', b'Z', ..] => Some("Windows"),
        _ => None,
    }
}

fn unlisted_message(unlisted: &[&str]) -> String {
    let mut text = format!("it is linked to {}, which a Linux system need not have:\n", unlisted.join(", "));
    for library in unlisted {
        let _ = writeln!(text, "  {library}: {}", policy::advice(library));
    }
    text.push_str(
        "or make a wheel with --platform linux_<machine> (package indexes take none of those) and let `auditwheel repair` copy the \
         libraries into it",
    );
    text
}

fn unknown_version(asked: &Requirement) -> String {
    let symbols = match asked.symbols.as_slice() {
        [] => String::new(),
        symbols => format!(" (for {})", first_few(symbols)),
    };
    format!(
        "it needs {} of {}{symbols}, which is newer than every manylinux policy; build it on an older system, such as the \
         container manylinux_2_28, or say with --platform where it runs",
        asked.version, asked.library
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(machine: &str, needed: &[&str], versions: &[(&str, &str, &[&str])]) -> Result<Platform> {
        let needed: Vec<String> = needed.iter().map(|name| (*name).to_owned()).collect();
        let versions: Vec<Requirement> = versions
            .iter()
            .map(|(library, version, symbols)| Requirement {
                library: (*library).to_owned(),
                version: (*version).to_owned(),
                symbols: symbols.iter().map(|name| (*name).to_owned()).collect(),
            })
            .collect();
        Platform::judge(machine, &needed, &versions)
    }

    #[test]
    fn tags() {
        let libc = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"];
        for (machine, needed, versions, tag) in [
            ("x86_64", &libc[..], &[][..], "manylinux_2_17_x86_64"),
            ("x86_64", &libc, &["GLIBC_2.2.5", "GLIBC_2.17", "GCC_4.2.0"], "manylinux_2_17_x86_64"),
            ("aarch64", &libc[..2], &["GLIBC_2.17", "GLIBC_2.18"], "manylinux_2_24_aarch64"),
            ("x86_64", &libc, &["GLIBC_2.3.4", "GLIBC_2.25"], "manylinux_2_26_x86_64"),
            ("x86_64", &libc, &["GLIBC_2.34", "GLIBC_2.17"], "manylinux_2_34_x86_64"),
            ("x86_64", &["libstdc++.so.6"], &["GLIBCXX_3.4.28", "CXXABI_1.3"], "manylinux_2_31_x86_64"),
            ("x86_64", &["libstdc++.so.6"], &["CXXABI_TM_1", "CXXABI_FLOAT128"], "manylinux_2_24_x86_64"),
            ("x86_64", &["libgcc_s.so.1"], &["GCC_11.0"], "manylinux_2_35_x86_64"),
            ("x86_64", &libc, &["GLIBC_ABI_DT_RELR"], "manylinux_2_36_x86_64"),
            ("x86_64", &["libc.musl-x86_64.so.1"], &[], "musllinux_1_2_x86_64"),
            ("aarch64", &["libc.so", "libgcc_s.so.1"], &["GCC_3.0"], "musllinux_1_2_aarch64"),
        ] {
            let versions: Vec<_> = versions.iter().map(|version| ("libc.so.6", *version, &[][..])).collect();
            let platform = judge(machine, needed, &versions);
            // musl's own list does not contain libgcc_s.
            if needed.first() == Some(&"libc.so") {
                assert!(platform.unwrap_err().starts_with("it is linked to libgcc_s.so.1, "));
                continue;
            }
            assert_eq!(platform.unwrap().tag, tag, "{versions:?}");
        }
        let platform = judge(
            "x86_64",
            &["libc.so.6"],
            &[
                ("libc.so.6", "GLIBC_2.33", &["stat64"]),
                ("libc.so.6", "GLIBC_2.34", &["dlsym", "pthread_join"]),
                ("libc.so.6", "GLIBC_2.3.4", &["__snprintf_chk"]),
            ],
        );
        let because = ("GLIBC_2.34".to_owned(), vec!["dlsym".to_owned(), "pthread_join".to_owned()]);
        assert_eq!(platform.unwrap().because, Some(because));
    }

    #[test]
    fn what_cannot_be_shipped() {
        for (machine, needed, versions, message) in [
            (
                "x86_64",
                &["libc.so.6", "libcuda.so.1", "libfoo.so.3"][..],
                &[][..],
                "it is linked to libcuda.so.1, libfoo.so.3, which a Linux system need not have:\n  \
                 libcuda.so.1: load it at run time, as the feature `cuda` of kernpack does, and link nothing\n  \
                 libfoo.so.3: link it statically, or load it at run time (dlopen)\n\
                 or make a wheel with --platform linux_<machine> (package indexes take none of those) and let `auditwheel repair` copy \
                 the libraries into it",
            ),
            (
                "aarch64",
                &["libc.so.6"],
                &[("libc.so.6", "GLIBC_2.99", &["future"][..])],
                "it needs GLIBC_2.99 of libc.so.6 (for future), which is newer than every manylinux policy; build it on an older \
                 system, such as the container manylinux_2_28, or say with --platform where it runs",
            ),
            (
                "riscv64",
                &["libc.so.6"],
                &[],
                "it is for riscv64, and platform tags are computed for x86_64 and aarch64 only; say with --platform where it \
                 runs, such as --platform linux_riscv64",
            ),
        ] {
            assert_eq!(judge(machine, needed, versions).unwrap_err(), message);
        }
        assert_eq!(
            Platform::of(&[0xcf, 0xfa, 0xed, 0xfe, 0]).unwrap_err(),
            "it is a Mach-O file, and platform tags are read off Linux libraries only; say with --platform where it runs, such as \
             --platform macosx_11_0_arm64 or --platform win_amd64"
        );
        assert_eq!(Platform::of(b"text").unwrap_err(), "not a shared library (no ELF header)");
    }
}
