use std::path::Path;
use std::process::Command;

use crate::cargo::environment::Environment;
use crate::{Error, Result};

/// The target that kernels are compiled for: the target of rustc, and the CPU in rustc's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Rust's triple of the target.
    pub(crate) triple: String,
    /// Rust's triple of the build machine.
    pub(crate) host: String,
    /// `x86_64`, `aarch64`, ...
    pub(crate) arch: String,
    /// `linux`, `macos`, ...
    pub(crate) os: String,
    /// The C library: `gnu`, `musl`, ... Empty if the system has only one.
    pub(crate) env: String,
    pub(crate) cpu: Cpu,
    /// True if `.cpu()` set the CPU, not rustc's flags.
    pub(crate) cpu_is_override: bool,
    /// `+avx2`, `-sse4a`, ... in rustc's names.
    pub(crate) features: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cpu {
    /// The oldest CPU that the target supports.
    Baseline,
    /// A CPU by LLVM's name.
    Named(String),
    /// The CPU of the build machine. Only on request, and only if it is the target.
    Native,
}

impl Target {
    /// `cpu_override` is the argument of `.cpu()`.
    pub(crate) fn new(environment: &Environment, cpu_override: Option<&str>) -> Result<Self> {
        let told = rustc_flags(&environment.cargo_optional("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default());
        let mut target = Self {
            triple: environment.cargo("TARGET")?,
            host: environment.cargo("HOST")?,
            arch: environment.cargo("CARGO_CFG_TARGET_ARCH")?,
            os: environment.cargo("CARGO_CFG_TARGET_OS")?,
            env: environment.cargo_optional("CARGO_CFG_TARGET_ENV").unwrap_or_default(),
            cpu: Cpu::Baseline,
            cpu_is_override: cpu_override.is_some(),
            features: told.features,
        };
        let (name, origin) = match (cpu_override, told.cpu.as_deref()) {
            (Some(name), _) => {
                // `.cpu()` replaces everything: the features in rustc's flags belong to the CPU in
                // rustc's flags.
                target.features.clear();
                (name, ".cpu(..)")
            }
            (None, Some(name)) => (name, "-C target-cpu"),
            (None, None) => return Ok(target),
        };
        target.cpu = match name {
            "native" if target.triple != target.host => {
                return Err(Error::new(format!(
                    "{origin} is \"native\", but the target is {} and this machine is {}; name the CPU of the target",
                    target.triple, target.host
                )));
            }
            "native" => Cpu::Native,
            name => {
                let rustc = environment.cargo_optional("RUSTC").unwrap_or_else(|| "rustc".to_owned());
                check_cpu(name, origin, &target.triple, Path::new(&rustc))?;
                Cpu::Named(name.to_owned())
            }
        };
        Ok(target)
    }

    /// Parses a triple, with the baseline CPU. `None` means this machine with its own CPU.
    #[cfg(feature = "llvm")]
    pub(crate) fn of_triple(triple: Option<&str>) -> Self {
        let host = inkwell::targets::TargetMachine::get_default_triple().as_str().to_string_lossy().into_owned();
        let (triple, cpu) = match triple {
            Some(triple) => (triple.to_owned(), Cpu::Baseline),
            None => (host.clone(), Cpu::Native),
        };
        let mut parts = triple.split('-');
        let arch = match parts.next().unwrap_or_default() {
            "arm64" => "aarch64",
            "i386" | "i586" | "i686" => "x86",
            arch => arch,
        };
        let apple = ["darwin", "macos", "ios", "tvos", "watchos", "visionos"];
        let os = apple.into_iter().find(|os| triple.contains(os)).map(|os| if os == "darwin" { "macos" } else { os });
        let os = os.or(parts.nth(1)).unwrap_or_default().to_owned();
        let env = ["gnu", "musl"].into_iter().find(|env| triple.contains(env)).unwrap_or_default().to_owned();
        Self { arch: arch.to_owned(), os, env, triple, host, cpu, cpu_is_override: false, features: Vec::new() }
    }

    pub(crate) fn is_elf(&self) -> bool {
        !matches!(self.os.as_str(), "windows" | "macos" | "ios" | "tvos" | "watchos" | "visionos" | "uefi")
    }

    #[cfg(feature = "llvm")]
    pub(crate) fn is_apple(&self) -> bool {
        matches!(self.os.as_str(), "macos" | "ios" | "tvos" | "watchos" | "visionos")
    }

    /// The flags that select the CPU for GCC and Clang. Empty for the baseline, which is their
    /// default.
    pub(crate) fn c_flags(&self) -> Vec<String> {
        let cpu = match &self.cpu {
            Cpu::Baseline => return Vec::new(),
            Cpu::Named(name) => name,
            Cpu::Native => "native",
        };
        let option = if matches!(self.arch.as_str(), "x86" | "x86_64") { "-march" } else { "-mcpu" };
        vec![format!("{option}={cpu}")]
    }

    /// LLVM's name of the baseline CPU, as in rustc's target specifications.
    #[cfg(feature = "llvm")]
    pub(crate) fn baseline_cpu(&self) -> &'static str {
        match self.arch.as_str() {
            "x86_64" if self.is_apple() => "penryn",
            "x86_64" => "x86-64",
            "x86" => "pentium4",
            "aarch64" if self.os == "macos" => "apple-m1",
            _ => "generic",
        }
    }

    /// The features in rustc's flags, in LLVM's names.
    #[cfg(feature = "llvm")]
    pub(crate) fn llvm_features(&self) -> String {
        let features = self.features.iter().filter_map(|feature| {
            let (sign, name) = feature.split_at_checked(1)?;
            let name = match name {
                "crt-static" => return None,
                "bmi1" => "bmi",
                "cmpxchg16b" => "cx16",
                "lahfsahf" => "sahf",
                "pclmulqdq" => "pclmul",
                "rdrand" => "rdrnd",
                "dpb" => "ccpp",
                "dpb2" => "ccdp",
                "fcma" => "complxnum",
                "frintts" => "fptoint",
                "rcpc2" => "rcpc-immo",
                name => name,
            };
            Some(format!("{sign}{name}"))
        });
        features.collect::<Vec<_>>().join(",")
    }
}

struct RustcFlags {
    cpu: Option<String>,
    features: Vec<String>,
}

/// Reads the code generation flags in `CARGO_ENCODED_RUSTFLAGS`. The last CPU wins, and features
/// accumulate.
fn rustc_flags(encoded: &str) -> RustcFlags {
    let mut flags = RustcFlags { cpu: None, features: Vec::new() };
    let mut words = encoded.split('\u{1f}');
    while let Some(word) = words.next() {
        let option = match word {
            "-C" | "--codegen" => words.next(),
            word => word.strip_prefix("-C").or_else(|| word.strip_prefix("--codegen=")),
        };
        match option.and_then(|option| option.split_once('=')) {
            Some(("target-cpu", cpu)) => flags.cpu = Some(cpu.to_owned()),
            Some(("target-feature", list)) => {
                flags.features.extend(list.split(',').filter(|f| f.starts_with(['+', '-'])).map(str::to_owned));
            }
            _ => {}
        }
    }
    flags
}

/// Checks a CPU name with rustc's list, because LLVM only warns about an unknown CPU and compiles
/// for another one.
fn check_cpu(name: &str, origin: &str, triple: &str, rustc: &Path) -> Result<()> {
    let Ok(output) = Command::new(rustc).args(["--print", "target-cpus", "--target", triple]).output() else {
        return Ok(());
    };
    let list = String::from_utf8_lossy(&output.stdout);
    let known: Vec<&str> =
        list.lines().filter_map(|line| line.strip_prefix("    ")?.split_whitespace().next()).collect();
    if !output.status.success() || known.is_empty() || known.contains(&name) {
        return Ok(());
    }
    Err(Error::new(format!(
        "{origin} is \"{name}\", which is not a CPU of {triple}; `rustc --print target-cpus --target {triple}` lists them"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, flags: &str, cpu: Option<&str>) -> Result<Target> {
        let environment = Environment::fake(&[
            ("TARGET", "x86_64-unknown-linux-gnu"),
            ("HOST", host),
            ("CARGO_CFG_TARGET_ARCH", "x86_64"),
            ("CARGO_CFG_TARGET_OS", "linux"),
            ("CARGO_ENCODED_RUSTFLAGS", flags),
        ]);
        Target::new(&environment, cpu)
    }

    const HERE: &str = "x86_64-unknown-linux-gnu";

    #[test]
    fn the_cpu_is_the_one_that_rustc_is_told() {
        let named = |name: &str| Cpu::Named(name.to_owned());
        let rows: &[(&str, Option<&str>, Cpu, &[&str])] = &[
            ("", None, Cpu::Baseline, &[]),
            ("-g\u{1f}-Cdebuginfo=2", None, Cpu::Baseline, &[]),
            ("-Ctarget-cpu=x86-64-v3", None, named("x86-64-v3"), &["-march=x86-64-v3"]),
            ("-C\u{1f}target-cpu=x86-64-v2", None, named("x86-64-v2"), &["-march=x86-64-v2"]),
            ("--codegen=target-cpu=x86-64-v2", None, named("x86-64-v2"), &["-march=x86-64-v2"]),
            ("--codegen\u{1f}target-cpu=native", None, Cpu::Native, &["-march=native"]),
            ("-Ctarget-cpu=native\u{1f}-Ctarget-cpu=x86-64", None, named("x86-64"), &["-march=x86-64"]),
            ("-Ctarget-cpu=native", Some("x86-64-v3"), named("x86-64-v3"), &["-march=x86-64-v3"]),
            ("", Some("native"), Cpu::Native, &["-march=native"]),
        ];
        for (flags, cpu, expected, c_flags) in rows {
            let target = target(HERE, flags, *cpu).unwrap();
            assert_eq!((&target.cpu, target.c_flags()), (expected, c_flags.iter().map(|f| f.to_string()).collect()));
        }
    }

    #[test]
    fn native_is_never_the_wrong_machine() {
        let error = target("aarch64-unknown-linux-gnu", "-Ctarget-cpu=native", None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "-C target-cpu is \"native\", but the target is x86_64-unknown-linux-gnu and this machine is \
             aarch64-unknown-linux-gnu; name the CPU of the target"
        );
        assert!(target("aarch64-unknown-linux-gnu", "", Some("native")).is_err());
    }

    #[test]
    fn an_unknown_cpu_is_an_error() {
        let error = target(HERE, "", Some("x86-64-v9")).unwrap_err().to_string();
        assert!(
            error.starts_with(".cpu(..) is \"x86-64-v9\", which is not a CPU of x86_64-unknown-linux-gnu;"),
            "{error}"
        );
    }

    #[cfg(feature = "llvm")]
    #[test]
    fn features_have_the_names_of_llvm() {
        let flags = "-Ctarget-feature=+avx2,-bmi1\u{1f}-Ctarget-feature=+crt-static,+pclmulqdq";
        assert_eq!(target(HERE, flags, None).unwrap().llvm_features(), "+avx2,-bmi,+pclmul");
        assert_eq!(target(HERE, flags, Some("x86-64-v3")).unwrap().llvm_features(), "");
    }
}
