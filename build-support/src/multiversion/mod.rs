//! Kernels in several versions: the list of versions, and the compiler flags of each.
//!
//! `.multiversion(["x86-64-v3", "x86-64-v4"])` compiles every CPU kernel for the baseline, as
//! without it, and once more for each level. `multiversion::link` makes each version a closed set
//! and writes the dispatchers.

mod check;
mod dispatch;
pub(crate) mod elf;
pub(crate) mod level;
pub(crate) mod link;
pub(crate) mod results;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::cargo::target::{Cpu, Target};
use crate::multiversion::level::{Level, levels, list};
use crate::outputs::progress;
use crate::session::Session;

/// One version of the CPU kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// `None` for the baseline, which is compiled as without `.multiversion(..)`.
    pub(crate) level: Option<Level>,
}

impl Version {
    pub(crate) const BASELINE: Self = Self { level: None };

    /// The suffix of every name of the version, in symbols and files.
    pub(crate) fn suffix(self) -> String {
        format!(".{}", self.to_string().replace('-', "_"))
    }

    /// A file of the working folder for the input with index `index`.
    pub(crate) fn product(
        self,
        session: &Session,
        prefix: &str,
        index: usize,
        path: &Path,
        extension: &str,
    ) -> PathBuf {
        let extension = if self.level.is_some() { format!("{self}.{extension}") } else { extension.to_owned() };
        session.product(prefix, index, path, &extension)
    }

    /// The name of a source of this version in messages.
    pub(crate) fn source(self, source: &str) -> String {
        match self.level {
            None => source.to_owned(),
            Some(level) => format!("{source} ({})", level.name()),
        }
    }

    /// The flags for GCC and Clang in addition to those of the baseline. They come last.
    ///
    /// A named baseline CPU is kept: a version has all features of the baseline.
    pub(crate) fn c_flags(self, target: &Target) -> Vec<String> {
        match (self.level, &target.cpu) {
            (None, _) => Vec::new(),
            (Some(level), Cpu::Baseline) => {
                let besides = level.besides().iter().map(|name| format!("-m{name}"));
                [format!("-march={}", level.cpu())].into_iter().chain(besides).collect()
            }
            (Some(level), Cpu::Named(_) | Cpu::Native) => level.features().map(|name| format!("-m{name}")).collect(),
        }
    }

    /// The CPU that LLVM compiles for, and the additional features.
    #[cfg(feature = "llvm")]
    pub(crate) fn llvm_cpu(self, baseline: &Target, cpu: String, features: String) -> (String, String) {
        match (self.level, &baseline.cpu) {
            (None, _) => (cpu, features),
            (Some(level), Cpu::Baseline) => {
                let besides = level.besides().iter().map(|name| format!("+{name}"));
                let all = [features].into_iter().chain(besides).filter(|list| !list.is_empty());
                (level.cpu().to_owned(), all.collect::<Vec<_>>().join(","))
            }
            (Some(_), Cpu::Named(_) | Cpu::Native) => {
                let all = [features, self.llvm_features()];
                (cpu, all.into_iter().filter(|list| !list.is_empty()).collect::<Vec<_>>().join(","))
            }
        }
    }

    /// The features of the level in LLVM's syntax. Empty for the baseline.
    #[cfg(feature = "llvm")]
    pub(crate) fn llvm_features(self) -> String {
        let features = self.level.into_iter().flat_map(Level::features);
        features.map(|name| format!("+{name}")).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.map_or("baseline", Level::name))
    }
}

/// Returns the versions to compile, the baseline first. `wanted` is the argument of
/// `.multiversion()`, if it was called.
pub(crate) fn versions(session: &Session, wanted: Option<&[String]>) -> Result<Vec<Version>> {
    let Some(wanted) = wanted else { return Ok(vec![Version::BASELINE]) };
    let (versions, note) = plan(session, wanted)?;
    note.iter().for_each(|note| progress::line(&format!(".multiversion(..): {note}")));
    Ok(versions)
}

/// Returns the versions, and a note for the user.
fn plan(session: &Session, wanted: &[String]) -> Result<(Vec<Version>, Option<String>)> {
    let levels = levels(wanted)?;
    let target = &session.target;
    let names = |levels: &[Level]| list(levels.iter().map(|level| level.name()), "and");
    // Objects of x32 have addresses of 32 bits.
    if target.arch != "x86_64" || !target.is_elf() || target.triple.ends_with("x32") {
        let note = format!("no {} for {}: the kernels have one version", names(&levels), target.triple);
        return Ok((vec![Version::BASELINE], Some(note)));
    }
    let features = baseline_features(session)?;
    let features: Vec<&str> = features.split(',').collect();
    let (dropped, levels): (Vec<Level>, Vec<Level>) = levels.into_iter().partition(|level| level.is_in(&features));
    let note = format!("no version for {}: the baseline has all of that", names(&dropped));
    let levels = levels.into_iter().map(|level| Version { level: Some(level) });
    Ok(([Version::BASELINE].into_iter().chain(levels).collect(), (!dropped.is_empty()).then_some(note)))
}

/// The features of baseline CPUs, in rustc's names, separated by commas.
fn baseline_features(session: &Session) -> Result<String> {
    let target = &session.target;
    let cpu = match &target.cpu {
        Cpu::Named(name) if target.cpu_is_override => name.as_str(),
        Cpu::Native if target.cpu_is_override => "native",
        // cargo queried rustc for the CPU and the features in its flags.
        _ => return Ok(session.environment.cargo_optional("CARGO_CFG_TARGET_FEATURE").unwrap_or_default()),
    };
    let rustc = session.environment.cargo_optional("RUSTC").unwrap_or_else(|| "rustc".to_owned());
    let mut command = Command::new(rustc);
    command.args(["--print", "cfg", "--target", &target.triple, "-C"]).arg(format!("target-cpu={cpu}"));
    let printed = crate::tool::run(command, "rustc", ".multiversion(..)")?;
    let features = printed.lines().filter_map(|line| line.strip_prefix("target_feature=\"")?.strip_suffix('"'));
    Ok(features.collect::<Vec<_>>().join(","))
}

/// Generates the function of the library that returns the running version, as Rust code. It exists
/// for every target.
pub(crate) fn question(session: &Session) -> String {
    let name = format!("{}.cpu_level", session.package_name.replace('-', "_"));
    format!(
        r#"
const _: () = {{
    /// The version of this library's kernels that runs on this machine: `baseline`, or a level such as `x86-64-v3`.
    #[__kernpack::packed_func(name = "{name}", crate = __kernpack)]
    fn cpu_level() -> &'static str {{
        __kernpack::__private_v0_1::cpu_level(::core::env!("CARGO_CRATE_NAME"))
    }}
}};
"#
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::cargo::environment::Environment;

    /// The versions for a target, and the note.
    fn planned(triple: &str, features: &str, cpu: Option<&str>, wanted: &[&str]) -> Result<(Vec<String>, String)> {
        let folder = tempfile(triple, cpu);
        let dir = folder.to_str().unwrap();
        let mut parts = triple.split('-');
        let arch = parts.next().unwrap();
        let os = if triple.contains("darwin") { "macos" } else { "linux" };
        let environment = Environment::fake(&[
            ("CARGO_MANIFEST_DIR", dir),
            ("OUT_DIR", dir),
            ("CARGO_PKG_NAME", "planned"),
            ("TARGET", triple),
            ("HOST", "x86_64-unknown-linux-gnu"),
            ("CARGO_CFG_TARGET_ARCH", arch),
            ("CARGO_CFG_TARGET_OS", os),
            ("CARGO_CFG_TARGET_FEATURE", features),
        ]);
        let session = Session::new(environment, cpu)?;
        let wanted: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
        let planned = plan(&session, &wanted);
        std::fs::remove_dir_all(&folder).unwrap();
        planned.map(|(versions, note)| (versions.iter().map(Version::to_string).collect(), note.unwrap_or_default()))
    }

    fn tempfile(triple: &str, cpu: Option<&str>) -> PathBuf {
        // Tests of one process run at the same time.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("kernpack-versions-{}-{number}-{triple}-{}", std::process::id(), cpu.unwrap_or("none"));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    const LINUX: &str = "x86_64-unknown-linux-gnu";
    const V2_IN_RUST: &str = "cmpxchg16b,fxsr,popcnt,sse,sse2,sse3,sse4.1,sse4.2,ssse3";
    const ALL: [&str; 3] = ["x86-64-v4", "x86-64-v2", "x86-64-v3"];

    #[test]
    fn levels_that_the_baseline_has_are_left_out() {
        let rows: &[(&str, Option<&str>, &[&str], &str)] = &[
            ("fxsr,sse,sse2", None, &["baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4"], ""),
            (
                V2_IN_RUST,
                None,
                &["baseline", "x86-64-v3", "x86-64-v4"],
                "no version for x86-64-v2: the baseline has all of that",
            ),
            (
                "",
                Some("x86-64-v3"),
                &["baseline", "x86-64-v4"],
                "no version for x86-64-v2 and x86-64-v3: the baseline has all of that",
            ),
            (
                "",
                Some("skylake-avx512"),
                &["baseline"],
                "no version for x86-64-v2, x86-64-v3 and x86-64-v4: the baseline has all of that",
            ),
            // `.cpu(..)` overrides rustc's flags.
            (V2_IN_RUST, Some("x86-64"), &["baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4"], ""),
        ];
        for (features, cpu, versions, note) in rows {
            let (found, found_note) = planned(LINUX, features, *cpu, &ALL).unwrap();
            assert_eq!((found, found_note.as_str()), (versions.iter().map(|name| name.to_string()).collect(), *note));
        }
        // Whatever this machine is, its native features are not an additional version.
        let (native, _) = planned(LINUX, "", Some("native"), &ALL).unwrap();
        assert_eq!(native[0], "baseline");
    }

    #[test]
    fn other_targets_have_one_version() {
        for triple in [
            "aarch64-unknown-linux-gnu",
            "x86_64-apple-darwin",
            "i686-unknown-linux-gnu",
            "x86_64-unknown-linux-gnux32",
        ] {
            let (versions, note) = planned(triple, "", None, &["x86-64-v3", "x86-64-v4"]).unwrap();
            assert_eq!(versions, ["baseline"]);
            assert_eq!(note, format!("no x86-64-v3 and x86-64-v4 for {triple}: the kernels have one version"));
            // An error in the list is reported for every target.
            assert!(planned(triple, "", None, &["x86-64-v5"]).is_err());
        }
    }

    #[test]
    fn mistakes() {
        let rows: &[(&[&str], &[&str])] = &[
            (
                &[],
                &[
                    ".multiversion(..): no level is named; name \"x86-64-v2\", \"x86-64-v3\", \"x86-64-v4\" or \"x86-64-v4-vnni\", or leave the call out",
                ],
            ),
            (
                &["skylake-avx512", "x86-64-v3", "x86-64-v3", "x86-64"],
                &[
                    ".multiversion(..): \"skylake-avx512\" is not a level of x86-64; it may be \"x86-64-v2\", \"x86-64-v3\", \
                     \"x86-64-v4\" or \"x86-64-v4-vnni\". The names of CPUs do not say what to look for when the library is loaded; .cpu(..) takes them, \
                     for the baseline",
                    ".multiversion(..): \"x86-64-v3\" is named twice; name each level once",
                    ".multiversion(..): \"x86-64\" is the first level, which the baseline has; it is always there, so name only \
                     \"x86-64-v2\", \"x86-64-v3\", \"x86-64-v4\" or \"x86-64-v4-vnni\"",
                ],
            ),
        ];
        for (wanted, expected) in rows {
            assert_eq!(planned(LINUX, "", None, wanted).unwrap_err().problems(), *expected);
        }
    }

    #[test]
    fn compilers_are_told() {
        let target = |cpu: Cpu| Target {
            triple: LINUX.to_owned(),
            host: LINUX.to_owned(),
            arch: "x86_64".to_owned(),
            os: "linux".to_owned(),
            env: "gnu".to_owned(),
            cpu,
            cpu_is_override: false,
            features: Vec::new(),
        };
        let v3 = Version { level: Some(Level::V3) };
        let vnni = Version { level: Some(Level::Vnni) };
        let flags = |version: Version, cpu: Cpu| version.c_flags(&target(cpu)).join(" ");
        assert_eq!(flags(Version::BASELINE, Cpu::Native), "");
        assert_eq!(flags(v3, Cpu::Baseline), "-march=x86-64-v3");
        assert_eq!(flags(vnni, Cpu::Baseline), "-march=x86-64-v4 -mavx512vnni");
        let all = "-mcx16 -msahf -mpopcnt -msse3 -mssse3 -msse4.1 -msse4.2 -mavx -mavx2 -mbmi -mbmi2 -mf16c -mfma -mlzcnt -mmovbe";
        assert_eq!(flags(v3, Cpu::Named("nehalem".to_owned())), all);
        assert_eq!(flags(v3, Cpu::Native), all);
        #[cfg(feature = "llvm")]
        {
            let told = |version: Version, cpu: Cpu| version.llvm_cpu(&target(cpu), "own".to_owned(), "+aes".to_owned());
            let pair = |cpu: &str, features: &str| (cpu.to_owned(), features.to_owned());
            assert_eq!(told(Version::BASELINE, Cpu::Native), pair("own", "+aes"));
            assert_eq!(told(v3, Cpu::Baseline), pair("x86-64-v3", "+aes"));
            assert_eq!(told(vnni, Cpu::Baseline), pair("x86-64-v4", "+aes,+avx512vnni"));
            let features = format!("+aes,{}", all.replace("-m", "+").replace(' ', ","));
            assert_eq!(told(v3, Cpu::Native), pair("own", &features));
        }
    }
}
