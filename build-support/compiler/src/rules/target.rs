//! Properties of the target machine for rules.

use kernpack::{ObjRef, Object, Str};

/// The kind of device of the functions that every kernel has.
pub(crate) const CPU: &str = "cpu";

/// The kinds of devices that kernels are compiled for, the CPU first.
pub const DEVICES: &[&str] = &[CPU, "opencl"];

/// A CPU, as far as schedules depend on it: by level, not by model. Cache sizes are minimums for
/// CPUs of that level. A device with threads has a description, too, of which its rules use only
/// the kind of device.
#[derive(Object, Clone, Debug, PartialEq)]
#[object(key = "kernpack.TargetDescription")]
#[repr(C)]
pub struct TargetDescription {
    /// The name: a CPU level such as `x86-64-v3`, or an architecture.
    pub name: Str,
    /// The kind of device: `cpu`, or `opencl`.
    pub device: Str,
    /// The width of a vector register, in bits.
    pub vector_bits: i64,
    /// The number of vector registers.
    pub vector_registers: i64,
    /// True if `a * b + c` is one instruction.
    pub fma: bool,
    /// True if loads and stores of some lanes are one instruction.
    pub masks: bool,
    /// True if one instruction adds four products of unsigned and signed bytes to a sum.
    pub vnni: bool,
    /// The size of the L1 data cache, in bytes.
    pub l1_bytes: i64,
    /// The associativity of the L1 data cache: the number of lines with the same address bits.
    pub l1_ways: i64,
    /// The size of the L2 cache, in bytes.
    pub l2_bytes: i64,
    /// The size of the last-level cache for each core, in bytes.
    pub l3_bytes: i64,
    /// The number of simple operations on elements below which waking another thread costs more
    /// than it saves: about twenty microseconds.
    pub parallel_work: i64,
}

impl TargetDescription {
    /// x86-64 without levels: SSE2.
    pub fn x86_64() -> Self {
        Self::new("x86-64", 128, 16, false, false, 512 << 10)
    }

    /// x86-64-v3: AVX2 with FMA.
    pub fn x86_64_v3() -> Self {
        Self::new("x86-64-v3", 256, 16, true, false, 512 << 10)
    }

    /// x86-64-v4: AVX-512.
    pub fn x86_64_v4() -> Self {
        Self { l1_bytes: 32 << 10, ..Self::new("x86-64-v4", 512, 32, true, true, 1 << 20) }
    }

    /// 64-bit ARM: NEON.
    pub fn aarch64() -> Self {
        Self::new("aarch64", 128, 32, true, false, 512 << 10)
    }

    fn new(name: &str, bits: i64, registers: i64, fma: bool, masks: bool, l2_bytes: i64) -> Self {
        Self {
            name: name.into(),
            device: CPU.into(),
            vector_bits: bits,
            vector_registers: registers,
            fma,
            masks,
            vnni: false,
            l1_bytes: 32 << 10,
            l1_ways: 8,
            l2_bytes,
            l3_bytes: 2 << 20,
            parallel_work: 1 << 18,
        }
    }

    /// An OpenCL device: vectors of 16 bytes, and no warps.
    pub fn opencl() -> Self {
        Self { device: "opencl".into(), ..Self::new("opencl", 128, 16, false, false, 0) }
    }

    /// Returns true for a CPU.
    pub fn is_cpu(&self) -> bool {
        self.device.as_str() == CPU
    }

    /// Describes a target of code generation.
    pub fn of(target: &crate::codegen::Target) -> Self {
        if target.kind == "opencl" {
            return Self::opencl();
        }
        let known = match (target.arch(), target.vector_bits()) {
            ("aarch64", _) => Self::aarch64(),
            (_, 512) => Self::x86_64_v4(),
            (_, 256) if target.has_fma() => Self::x86_64_v3(),
            (_, 256) => Self::new("x86-64 with AVX", 256, 16, false, false, 512 << 10),
            _ => Self::x86_64(),
        };
        Self { vnni: target.has_vnni(), ..known }
    }

    /// The number of lanes of a vector register for elements of this many bits.
    pub fn lanes(&self, bits: u8) -> i64 {
        (self.vector_bits / i64::from(bits.max(8))).max(1)
    }

    /// Returns the description as an object.
    pub fn object(&self) -> ObjRef<Self> {
        ObjRef::new(self.clone())
    }
}
