//! The micro-architecture levels of the x86-64 psABI (<https://gitlab.com/x86-psABIs/x86-64-ABI>),
//! section 3.1.1, table "Micro-Architecture Levels", and one above them: the fourth with
//! AVX512-VNNI, which is used for byte products.

use crate::{Error, Result};

/// A micro-architecture level of x86-64 above the first, which every CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    V2,
    V3,
    V4,
    /// The fourth, with AVX512-VNNI.
    Vnni,
}

impl Level {
    pub(crate) const ALL: [Self; 4] = [Self::V2, Self::V3, Self::V4, Self::Vnni];

    /// The name of the level for users.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vnni => "x86-64-v4-vnni",
            _ => self.cpu(),
        }
    }

    /// The CPU name of the level in GCC, Clang, LLVM and rustc. [`Self::besides`] lists the
    /// additional features of the level.
    pub(crate) fn cpu(self) -> &'static str {
        match self {
            Self::V2 => "x86-64-v2",
            Self::V3 => "x86-64-v3",
            Self::V4 | Self::Vnni => "x86-64-v4",
        }
    }

    /// The features that CPUs with that name may lack.
    pub(crate) fn besides(self) -> &'static [&'static str] {
        match self {
            Self::Vnni => &["avx512vnni"],
            _ => &[],
        }
    }

    /// The number of the level in the runtime.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
            Self::V4 => 4,
            Self::Vnni => 5,
        }
    }

    /// The features that the level adds to the level below: the name in rustc, and the name in GCC,
    /// Clang and LLVM.
    fn added(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::V2 => &[
                ("cmpxchg16b", "cx16"),
                ("lahfsahf", "sahf"),
                ("popcnt", "popcnt"),
                ("sse3", "sse3"),
                ("ssse3", "ssse3"),
                ("sse4.1", "sse4.1"),
                ("sse4.2", "sse4.2"),
            ],
            // OSXSAVE, the tenth, belongs to the system: it means that AVX can be used.
            Self::V3 => &[
                ("avx", "avx"),
                ("avx2", "avx2"),
                ("bmi1", "bmi"),
                ("bmi2", "bmi2"),
                ("f16c", "f16c"),
                ("fma", "fma"),
                ("lzcnt", "lzcnt"),
                ("movbe", "movbe"),
            ],
            Self::V4 => &[
                ("avx512f", "avx512f"),
                ("avx512bw", "avx512bw"),
                ("avx512cd", "avx512cd"),
                ("avx512dq", "avx512dq"),
                ("avx512vl", "avx512vl"),
            ],
            Self::Vnni => &[("avx512vnni", "avx512vnni")],
        }
    }

    /// Returns all features of the level, in the names of compilers.
    pub(crate) fn features(self) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |level| *level <= self).flat_map(Self::added).map(|(_, name)| *name)
    }

    /// Returns true if CPUs with these features, in rustc's names, have all features of the level.
    /// rustc does not report LAHF and SAHF.
    pub(crate) fn is_in(self, features: &[&str]) -> bool {
        let levels = Self::ALL.into_iter().filter(|level| *level <= self);
        levels.flat_map(Self::added).all(|(name, _)| *name == "lahfsahf" || features.contains(name))
    }
}

/// Parses the levels that the user requested, and sorts them.
pub(crate) fn levels(wanted: &[String]) -> Result<Vec<Level>> {
    let known = || list(Level::ALL.into_iter().map(|level| format!("\"{}\"", level.name())), "or");
    if wanted.is_empty() {
        return Err(Error::new(format!(
            ".multiversion(..): no level is named; name {}, or leave the call out",
            known()
        )));
    }
    let mut levels = Vec::new();
    Error::collect(wanted.iter().map(|name| {
        let problem = match Level::ALL.into_iter().find(|level| level.name() == name) {
            Some(level) if levels.contains(&level) => format!("\"{name}\" is named twice; name each level once"),
            Some(level) => {
                levels.push(level);
                return Ok(());
            }
            None if matches!(name.as_str(), "x86-64" | "x86-64-v1") => format!(
                "\"{name}\" is the first level, which the baseline has; it is always there, so name only {}",
                known()
            ),
            None => format!(
                "\"{name}\" is not a level of x86-64; it may be {}. The names of CPUs do not say what to look for when the \
                 library is loaded; .cpu(..) takes them, for the baseline",
                known()
            ),
        };
        Err(Error::new(format!(".multiversion(..): {problem}")))
    }))?;
    levels.sort();
    Ok(levels)
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list<S: AsRef<str>>(items: impl IntoIterator<Item = S>, and: &str) -> String {
    let items: Vec<S> = items.into_iter().collect();
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push_str(&if index + 1 == items.len() { format!(" {and} ") } else { ", ".to_owned() });
        }
        text.push_str(item.as_ref());
    }
    text
}
