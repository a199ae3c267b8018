//! Targets of code generation.

use crate::error::{CompileError, ErrorKind, Result};

/// The way in which generated code accesses the runtime: packed calls, parallel launches,
/// workspaces, errors.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum RuntimeSymbols {
    /// Through pointer variables of the library that its loader sets (`__TVMFFIFunctionCall`, ..),
    /// as in libraries that Apache TVM exports.
    #[default]
    Context,
    /// By the names of the functions.
    Direct,
    /// By the names of the functions with this prefix, in a runtime that is linked with the code,
    /// which also has the variable `__tvm_ffi__library_ctx`.
    Prefixed(String),
}

/// A target of code generation.
///
/// ```
/// use kernpack_compiler::codegen::Target;
///
/// let target = Target::llvm("x86_64-unknown-linux-gnu", "x86-64-v3", "");
/// assert!(target.has_fma() && target.vector_bits() == 256);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The kind of code generator: `llvm`, `c`, ..
    pub kind: String,
    /// The triple of the machine, in LLVM's terms.
    pub triple: String,
    /// The CPU, by LLVM's name; if empty, the baseline of the triple.
    pub cpu: String,
    /// Features in addition to the CPU's: `+avx2,-avx512f`.
    pub features: String,
    /// The way in which code accesses the runtime.
    pub runtime: RuntimeSymbols,
    /// True if functions register themselves when the code is loaded, for programs that are linked
    /// with it.
    pub system_lib: bool,
    /// True for line tables that map machine code to statements.
    pub debug: bool,
}

/// The microarchitecture levels of x86-64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum X86 {
    V1,
    V2,
    V3,
    V4,
}

impl Target {
    /// Creates a target for machine code for a CPU, with LLVM.
    pub fn llvm(triple: &str, cpu: &str, features: &str) -> Self {
        Self {
            kind: "llvm".to_owned(),
            triple: triple.to_owned(),
            cpu: cpu.to_owned(),
            features: features.to_owned(),
            runtime: RuntimeSymbols::default(),
            system_lib: false,
            debug: false,
        }
    }

    /// Creates a target for C source, for the kind of this machine.
    pub fn c() -> Self {
        Self { kind: "c".to_owned(), ..Self::llvm(&host_triple(), "", "") }
    }

    /// Creates a target for machine code for the CPU of this process, with all of its features.
    pub fn host() -> Self {
        #[cfg(feature = "llvm")]
        {
            use inkwell::targets::TargetMachine;
            let cpu = TargetMachine::get_host_cpu_name().to_string();
            let features = TargetMachine::get_host_cpu_features().to_string();
            Self::llvm(&host_triple(), &cpu, &features)
        }
        #[cfg(not(feature = "llvm"))]
        Self::llvm(&host_triple(), "", "")
    }

    /// Parses a target such as `llvm -mcpu=x86-64-v3`: the kind, then the options in the format of
    /// [`description`](Self::description). Without `-mtriple`, it is the kind of this machine;
    /// `llvm` alone is [`host`](Self::host), with its CPU and all features.
    ///
    /// ```
    /// use kernpack_compiler::codegen::Target;
    ///
    /// let target = Target::parse("llvm -mtriple=aarch64-unknown-linux-gnu -mattr=+sve")?;
    /// assert_eq!((target.arch(), target.features.as_str()), ("aarch64", "+sve"));
    /// assert_eq!(target.description(), "llvm -mtriple=aarch64-unknown-linux-gnu -mattr=+sve");
    /// assert_eq!(Target::parse("llvm")?, Target::host());
    /// # Ok::<(), kernpack_compiler::CompileError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error for an unknown option.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let mut target = Self { kind: kind.to_owned(), ..Self::llvm(&host_triple(), "", "") };
        let mut is_host = kind == "llvm";
        for word in words {
            is_host = false;
            let (option, value) = word.split_once('=').unwrap_or((word, ""));
            match option {
                "-mtriple" => value.clone_into(&mut target.triple),
                "-mcpu" => value.clone_into(&mut target.cpu),
                "-mattr" => value.clone_into(&mut target.features),
                _ => {
                    let what = format!("unknown option `{option}` of the target `{text}`");
                    let error = CompileError::new(ErrorKind::Target, what);
                    return Err(error.note(
                        "there are -mtriple=, -mcpu= and -mattr= behind the kind, as in `llvm -mcpu=x86-64-v3`",
                    ));
                }
            }
        }
        if kind.is_empty() || kind.starts_with('-') {
            let error =
                CompileError::new(ErrorKind::Target, format!("the target `{text}` does not begin with its kind"));
            return Err(error.note("the kinds are llvm and c, and those of other libraries"));
        }
        Ok(if is_host { Self::host() } else { target })
    }

    /// The first part of the triple: `x86_64`, `aarch64`, ..
    pub fn arch(&self) -> &str {
        self.triple.split('-').next().unwrap_or_default()
    }

    /// The setting of a feature: `Some(true)` if it is enabled, `Some(false)` if it is disabled,
    /// `None` if it is not mentioned. The last occurrence is decisive.
    fn feature(&self, name: &str) -> Option<bool> {
        self.features.split(',').rev().find_map(|entry| {
            let (sign, feature) = entry.split_at_checked(1)?;
            (feature == name).then_some(sign == "+")
        })
    }

    fn x86_level(&self) -> X86 {
        let cpu = self.cpu.as_str();
        let v4 = ["x86-64-v4", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake", "rocketlake", "tigerlake"];
        let v4_families =
            ["icelake", "sapphirerapids", "emeraldrapids", "graniterapids", "diamondrapids", "znver4", "znver5"];
        let v3 = ["x86-64-v3", "haswell", "broadwell", "skylake", "alderlake", "raptorlake", "meteorlake", "core-avx2"];
        let v3_families = ["arrowlake", "lunarlake", "znver1", "znver2", "znver3", "gracemont", "pantherlake"];
        let v2 = ["x86-64-v2", "nehalem", "westmere", "sandybridge", "ivybridge", "corei7", "corei7-avx", "silvermont"];
        let is = |names: &[&str], families: &[&str]| {
            names.contains(&cpu) || families.iter().any(|family| cpu.starts_with(family))
        };
        if is(&v4, &v4_families) {
            X86::V4
        } else if is(&v3, &v3_families) {
            X86::V3
        } else if is(&v2, &[]) {
            X86::V2
        } else {
            X86::V1
        }
    }

    fn has_x86(&self, feature: &str, since: X86) -> bool {
        matches!(self.arch(), "x86_64" | "i686" | "x86") && self.feature(feature).unwrap_or(self.x86_level() >= since)
    }

    /// Returns true if `a * b + c` is one instruction.
    pub fn has_fma(&self) -> bool {
        self.arch() == "aarch64" || self.has_x86("fma", X86::V3)
    }

    /// Returns true for AVX-512 with 512-bit vectors.
    pub fn has_avx512(&self) -> bool {
        self.has_x86("avx512f", X86::V4) && self.has_x86("avx512vl", X86::V4)
    }

    /// Returns true if one instruction adds four products of unsigned and signed bytes to a sum:
    /// VNNI, for vectors of the target's width.
    pub fn has_vnni(&self) -> bool {
        if !matches!(self.arch(), "x86_64" | "i686" | "x86") {
            return false;
        }
        let is_one_of = |families: &[&str]| families.iter().any(|family| self.cpu.starts_with(family));
        if self.has_avx512() {
            let server =
                ["cascadelake", "cooperlake", "sapphirerapids", "emeraldrapids", "graniterapids", "diamondrapids"];
            let others = ["icelake", "tigerlake", "rocketlake", "znver4", "znver5"];
            self.feature("avx512vnni").unwrap_or_else(|| is_one_of(&server) || is_one_of(&others))
        } else {
            let cpus = ["alderlake", "raptorlake", "meteorlake", "arrowlake", "lunarlake", "pantherlake", "gracemont"];
            self.vector_bits() == 256 && self.feature("avxvnni").unwrap_or_else(|| is_one_of(&cpus))
        }
    }

    /// The width of a vector register, in bits.
    pub fn vector_bits(&self) -> u32 {
        if self.has_avx512() {
            512
        } else if self.has_x86("avx2", X86::V3) {
            256
        } else {
            128
        }
    }

    /// The number of vector registers.
    pub fn vector_registers(&self) -> u32 {
        if self.has_avx512() || self.arch() == "aarch64" { 32 } else { 16 }
    }

    /// The target in the format of the flag `tvm_target` of a module in Apache TVM.
    pub fn description(&self) -> String {
        let mut text = format!("{} -mtriple={}", self.kind, self.triple);
        if !self.cpu.is_empty() {
            text.push_str(&format!(" -mcpu={}", self.cpu));
        }
        if !self.features.is_empty() {
            text.push_str(&format!(" -mattr={}", self.features));
        }
        text
    }
}

/// The triple of this program, in LLVM's terms.
fn host_triple() -> String {
    #[cfg(feature = "llvm")]
    {
        inkwell::targets::TargetMachine::get_default_triple().as_str().to_string_lossy().into_owned()
    }
    #[cfg(not(feature = "llvm"))]
    {
        let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
        match os {
            "macos" => format!("{arch}-apple-darwin"),
            _ => format!("{arch}-unknown-{os}-gnu"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_follow_from_the_cpu_and_the_last_word_counts() {
        let rows = [
            ("x86_64-unknown-linux-gnu", "", "", 128, false, false),
            ("x86_64-unknown-linux-gnu", "x86-64-v3", "", 256, true, false),
            ("x86_64-unknown-linux-gnu", "skylake-avx512", "", 512, true, true),
            ("x86_64-unknown-linux-gnu", "skylake-avx512", "-avx512f", 256, true, false),
            ("x86_64-unknown-linux-gnu", "x86-64", "+avx2,+fma,-fma", 256, false, false),
            ("aarch64-unknown-linux-gnu", "", "", 128, true, false),
        ];
        for (triple, cpu, features, bits, fma, avx512) in rows {
            let target = Target::llvm(triple, cpu, features);
            let found = (target.vector_bits(), target.has_fma(), target.has_avx512());
            assert_eq!(found, (bits, fma, avx512), "{cpu} {features}");
        }
    }

    #[test]
    fn a_description_is_read_back() {
        for target in
            [Target::llvm("aarch64-unknown-linux-gnu", "", "+sve"), Target::llvm("x86_64-pc-linux", "x86-64-v3", "")]
        {
            assert_eq!(Target::parse(&target.description()), Ok(target));
        }
        assert_eq!(Target::parse("c"), Ok(Target::c()));
        assert_eq!(Target::parse("llvm -mcpu=x86-64-v4").map(|target| target.vector_bits()), Ok(512));
        for (text, expected) in
            [("", "does not begin"), ("-mcpu=x", "does not begin"), ("llvm -O3", "unknown option `-O3`")]
        {
            let error = Target::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
