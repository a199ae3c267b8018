//! The target of LLVM: the triple, the CPU and its features.

use inkwell::OptimizationLevel;
use inkwell::llvm_sys::core::LLVMGetVersion;
use inkwell::targets::{CodeModel, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine, TargetTriple};

use super::PASSES;
use crate::cache::digest::Digester;
use crate::cargo::target::{Cpu, Target};
use crate::multiversion::Version;
use crate::session::Session;
use crate::{Error, Result};

/// The target that LLVM compiles for. Each thread creates its own target machine from it.
pub(crate) struct Machine {
    pub(crate) version: Version,
    pub(crate) triple: String,
    pub(crate) cpu: String,
    pub(crate) features: String,
}

impl Machine {
    pub(crate) fn of(target: &Target, version: Version) -> Result<Self> {
        let config = InitializationConfig::default();
        match target.arch.as_str() {
            "x86" | "x86_64" => LlvmTarget::initialize_x86(&config),
            "aarch64" => LlvmTarget::initialize_aarch64(&config),
            arch => {
                return Err(Error::new(format!(
                    "LLVM kernels can be compiled for x86, x86_64 and aarch64, not for {arch} ({})",
                    target.triple
                )));
            }
        }
        let (cpu, features) = match &target.cpu {
            Cpu::Baseline => (target.baseline_cpu().to_owned(), target.llvm_features()),
            Cpu::Named(name) => (name.clone(), target.llvm_features()),
            Cpu::Native => {
                let host = TargetMachine::get_host_cpu_features().to_string();
                let features = [host, target.llvm_features()].into_iter().filter(|list| !list.is_empty());
                (TargetMachine::get_host_cpu_name().to_string(), features.collect::<Vec<_>>().join(","))
            }
        };
        let (cpu, features) = version.llvm_cpu(target, cpu, features);
        Ok(Self { version, triple: target.triple.clone(), cpu, features })
    }

    pub(crate) fn create(&self) -> Result<TargetMachine> {
        let triple = TargetTriple::create(&self.triple);
        let target = LlvmTarget::from_triple(&triple)
            .map_err(|e| Error::new(format!("LLVM does not know the target {}: {e}", self.triple)))?;
        target
            .create_target_machine(
                &triple,
                &self.cpu,
                &self.features,
                OptimizationLevel::Aggressive,
                RelocMode::PIC,
                CodeModel::Default,
            )
            .ok_or_else(|| Error::new(format!("LLVM has no code generator for the target {}", self.triple)))
    }

    /// A fingerprint of everything that determines LLVM's output for a source, except the source.
    pub(crate) fn recipe(&self, session: &Session) -> Digester {
        let mut digester = session.recipe("llvm", &[]);
        digester.field(version()).field(PASSES).field(&self.triple).field(&self.cpu).field(&self.features);
        digester.field(self.version.llvm_features()).field("init_array");
        digester
    }
}

/// Creates a machine for a target.
pub(crate) fn machine(target: &Target) -> Result<TargetMachine> {
    Machine::of(target, Version::BASELINE)?.create()
}

/// The version of the LLVM in this process.
pub(crate) fn version() -> String {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: LLVM writes three numbers to live places.
    unsafe { LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    format!("LLVM {major}.{minor}.{patch}")
}
