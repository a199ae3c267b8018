//! The words of C and of the languages of device source.

use kernpack::DataType;

use crate::ir::DataTypeExt;

/// The vectors of a language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vectors {
    /// Types of the language, with operators.
    BuiltIn,
    /// Structures of lanes.
    Structures,
    /// Those of GNU C where a compiler has them, else structures: each operation is a helper
    /// function with a body for both.
    Extension,
}

/// C, or a language of device source, as the words in which it differs from the others.
#[derive(Debug)]
pub struct Vocabulary {
    /// The name, for messages.
    pub(crate) name: &'static str,
    /// The beginning of every file.
    pub(crate) preamble: &'static str,
    /// The lines that a file with double precision needs.
    pub(crate) double: &'static str,
    /// True if the code runs on the host: it has the runtime, and pointers without address spaces.
    pub(crate) is_host: bool,
    /// The words before the name of a kernel.
    pub(crate) kernel: &'static str,
    /// The words before a helper function.
    pub(crate) helper: &'static str,
    /// The address space of tensors, with a space after it.
    pub(crate) global: &'static str,
    /// The address space of memory that the threads of a block share, with a space after it.
    pub(crate) shared: &'static str,
    /// The word for a pointer to memory that no other pointer accesses.
    pub(crate) restrict: &'static str,
    /// The type of a truth value.
    pub(crate) truth: &'static str,
    /// The literals of false and true.
    pub(crate) truths: [&'static str; 2],
    /// Signed integers of 8, 16, 32 and 64 bits.
    signed: [&'static str; 4],
    /// Unsigned integers of 8, 16, 32 and 64 bits.
    unsigned: [&'static str; 4],
    /// The suffix of literals of 64 bits.
    pub(crate) long: &'static str,
    /// A barrier of a block that orders shared memory.
    pub(crate) barrier: &'static str,
    /// A barrier of a block that also orders the memory of tensors.
    pub(crate) full_barrier: &'static str,
    pub(crate) vectors: Vectors,
    /// True if math functions have the suffix `f` in single precision.
    suffixes: bool,
    /// Words that are not available as names, in addition to those of C; also with the suffix `f`.
    pub(crate) reserved: &'static str,
    /// The prefixes of names that the language, its compilers or the generated code use.
    pub(crate) prefixes: &'static [&'static str],
}

/// C11. The rest of a file is in `codegen::c`.
pub(crate) static C: Vocabulary = Vocabulary {
    name: "C",
    preamble: crate::codegen::c::PREAMBLE,
    double: "",
    is_host: true,
    kernel: "",
    helper: "KP_INLINE ",
    global: "",
    shared: "",
    restrict: "KP_RESTRICT",
    truth: "_Bool",
    truths: ["0", "1"],
    signed: ["int8_t", "int16_t", "int32_t", "int64_t"],
    unsigned: ["uint8_t", "uint16_t", "uint32_t", "uint64_t"],
    long: "LL",
    barrier: "",
    full_barrier: "",
    vectors: Vectors::Extension,
    suffixes: true,
    reserved: "",
    prefixes: &["kp_", "kernpack", "TVM", "DL", "kDL", "kTVM", "_"],
};

const DEVICE_PREFIXES: &[&str] =
    &["_", "kp_", "as_", "convert_", "vload", "vstore", "image", "cl_", "intel_", "CLK_", "cuda", "cu_", "nv_"];

/// OpenCL C 1.2.
pub static OPENCL: Vocabulary = Vocabulary {
    name: "OpenCL C",
    preamble: "#pragma OPENCL FP_CONTRACT OFF\n",
    double: "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n",
    is_host: false,
    kernel: "__kernel void",
    helper: "",
    global: "__global ",
    shared: "__local ",
    restrict: "restrict",
    truth: "bool",
    truths: ["false", "true"],
    signed: ["char", "short", "int", "long"],
    unsigned: ["uchar", "ushort", "uint", "ulong"],
    long: "L",
    barrier: "barrier(CLK_LOCAL_MEM_FENCE)",
    full_barrier: "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)",
    vectors: Vectors::BuiltIn,
    suffixes: false,
    reserved: "kernel global local constant private generic read_only write_only read_write uniform pipe half quad \
        complex imaginary bool uchar ushort uint ulong event_t sampler_t queue_t ndrange_t clk_event_t reserve_id_t \
        image1d_t image1d_array_t image1d_buffer_t image2d_t image2d_array_t image3d_t cl_mem_fence_flags barrier \
        vec_step get_group_id get_local_id select popcount rsqrt rint fma",
    prefixes: DEVICE_PREFIXES,
};

/// CUDA C++, to be compiled with `-fmad=false`: products are not fused with sums.
pub static CUDA: Vocabulary = Vocabulary {
    name: "CUDA C++",
    preamble: "",
    double: "",
    is_host: false,
    kernel: "extern \"C\" __global__ void",
    helper: "static __device__ __forceinline__ ",
    global: "",
    shared: "__shared__ ",
    restrict: "__restrict__",
    truth: "bool",
    truths: ["false", "true"],
    signed: ["signed char", "short", "int", "long long"],
    unsigned: ["unsigned char", "unsigned short", "unsigned int", "unsigned long long"],
    long: "LL",
    barrier: "__syncthreads()",
    full_barrier: "__syncthreads()",
    vectors: Vectors::Structures,
    suffixes: true,
    reserved: "blockIdx threadIdx blockDim gridDim warpSize uchar ushort uint ulong dim3 uint3 rsqrt rsqrtf",
    prefixes: DEVICE_PREFIXES,
};

impl Vocabulary {
    /// The type of a scalar in a local variable; half precisions are represented in single
    /// precision.
    pub(crate) fn scalar(&self, dtype: DataType) -> &'static str {
        let width = usize::from(dtype.bits()).trailing_zeros().saturating_sub(3).min(3) as usize;
        match () {
            () if dtype.is_bool() => self.truth,
            () if dtype.is_handle() => "void*",
            () if dtype.is_int() => self.signed[width],
            () if dtype.is_uint() => self.unsigned[width],
            () if dtype.bits() == 64 => "double",
            () => "float",
        }
    }

    /// The type of a lane of a vector: truth values are 0 and -1.
    pub(crate) fn lane(&self, dtype: DataType) -> &'static str {
        if dtype.is_bool() { self.signed[0] } else { self.scalar(dtype) }
    }

    /// The type of an element in memory.
    pub(crate) fn stored(&self, dtype: DataType) -> &'static str {
        match () {
            () if dtype.is_bool() => self.unsigned[0],
            () if is_half(dtype) => self.unsigned[1],
            () => self.scalar(dtype),
        }
    }

    /// The unsigned type of the arithmetic of signed integers that wraps.
    pub(crate) fn wide(&self, dtype: DataType) -> &'static str {
        self.unsigned[if dtype.bits() == 64 { 3 } else { 2 }]
    }

    /// The unsigned type of a width.
    pub(crate) fn unsigned(&self, bits: u8) -> &'static str {
        self.unsigned[match bits {
            8 => 0,
            16 => 1,
            32 => 2,
            _ => 3,
        }]
    }

    /// Returns true if vectors are built in, with operators.
    pub(crate) fn has_vectors(&self) -> bool {
        self.vectors == Vectors::BuiltIn
    }

    /// A constant local, without its value.
    pub(crate) fn constant(&self, ty: &str, name: &str) -> String {
        if self.is_host { format!("{ty} const {name}") } else { format!("const {ty} {name}") }
    }

    /// The name of a math function for a type.
    pub(crate) fn math(&self, name: &str, dtype: DataType) -> String {
        if self.suffixes && dtype.bits() != 64 { format!("{name}f") } else { name.to_owned() }
    }

    /// The index of a thread; `None` for a tag that is not one of threads.
    pub(crate) fn thread(&self, tag: &str) -> Option<String> {
        let (kind, axis) = tag.split_once('.')?;
        let number = ["x", "y", "z"].iter().position(|known| *known == axis)?;
        let function = match kind {
            "blockIdx" => "get_group_id",
            "threadIdx" => "get_local_id",
            _ => return None,
        };
        Some(if self.has_vectors() { format!("{function}({number})") } else { tag.to_owned() })
    }

    /// The declaration that all launches have these extents of threads.
    pub(crate) fn block_size(&self, block: [i64; 3]) -> String {
        let [x, y, z] = block;
        if self.has_vectors() {
            format!("__attribute__((reqd_work_group_size({x}, {y}, {z}))) ")
        } else {
            format!("__launch_bounds__({}) ", x.saturating_mul(y).saturating_mul(z))
        }
    }
}

/// The width in bits of the signed integers that are the lanes of a comparison of vectors of this
/// type.
pub(crate) fn lane_bits(dtype: DataType) -> u8 {
    match () {
        () if dtype.is_bool() => 8,
        () if is_half(dtype) => 32,
        () => dtype.bits(),
    }
}

/// Returns true if GNU C supports vectors of this type.
pub(crate) fn is_native(dtype: DataType) -> bool {
    dtype.lanes().is_power_of_two()
        && dtype.lanes() > 1
        && u32::from(dtype.lanes()) * u32::from(lane_bits(dtype)) <= 1 << 16
}

/// Returns true if values are represented in single precision and rounded after each operation.
pub(crate) fn is_half(dtype: DataType) -> bool {
    dtype.is_float() && dtype.bits() == 16
}
