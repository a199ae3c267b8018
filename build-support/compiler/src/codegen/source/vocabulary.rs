//! The words of the languages of device source.

use kernpack::DataType;

use crate::ir::DataTypeExt;

/// A language of device source, as the words in which it differs from the others.
#[derive(Debug)]
pub struct Vocabulary {
    /// The name, for messages.
    pub(super) name: &'static str,
    /// The beginning of every file.
    pub(super) preamble: &'static str,
    /// The lines that a file with double precision needs.
    pub(super) double: &'static str,
    /// The words before the name of a kernel.
    pub(super) kernel: &'static str,
    /// The words before a helper function.
    pub(super) helper: &'static str,
    /// The address space of tensors, with a space after it.
    pub(super) global: &'static str,
    /// The address space of memory that the threads of a block share, with a space after it.
    pub(super) shared: &'static str,
    /// The word for a pointer to memory that no other pointer accesses.
    pub(super) restrict: &'static str,
    /// Signed integers of 8, 16, 32 and 64 bits.
    signed: [&'static str; 4],
    /// Unsigned integers of 8, 16, 32 and 64 bits.
    unsigned: [&'static str; 4],
    /// The suffix of literals of 64 bits.
    pub(super) long: &'static str,
    /// A barrier of a block that orders shared memory.
    pub(super) barrier: &'static str,
    /// A barrier of a block that also orders the memory of tensors.
    pub(super) full_barrier: &'static str,
    /// True if vectors are built in, with operators; otherwise they are structures of lanes.
    pub(super) has_vectors: bool,
    /// True if math functions have the suffix `f` in single precision.
    suffixes: bool,
    /// Words that are not available as names, in addition to those of C.
    pub(super) reserved: &'static str,
}

/// OpenCL C 1.2.
pub static OPENCL: Vocabulary = Vocabulary {
    name: "OpenCL C",
    preamble: "#pragma OPENCL FP_CONTRACT OFF\n",
    double: "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n",
    kernel: "__kernel void",
    helper: "",
    global: "__global ",
    shared: "__local ",
    restrict: "restrict",
    signed: ["char", "short", "int", "long"],
    unsigned: ["uchar", "ushort", "uint", "ulong"],
    long: "L",
    barrier: "barrier(CLK_LOCAL_MEM_FENCE)",
    full_barrier: "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)",
    has_vectors: true,
    suffixes: false,
    reserved: "kernel global local constant private generic read_only write_only read_write uniform pipe half quad \
        complex imaginary bool uchar ushort uint ulong event_t sampler_t queue_t ndrange_t clk_event_t reserve_id_t \
        image1d_t image1d_array_t image1d_buffer_t image2d_t image2d_array_t image3d_t cl_mem_fence_flags barrier \
        vec_step get_group_id get_local_id select popcount rsqrt rint fma",
};

/// CUDA C++, to be compiled with `-fmad=false`: products are not fused with sums.
pub static CUDA: Vocabulary = Vocabulary {
    name: "CUDA C++",
    preamble: "",
    double: "",
    kernel: "extern \"C\" __global__ void",
    helper: "static __device__ __forceinline__ ",
    global: "",
    shared: "__shared__ ",
    restrict: "__restrict__",
    signed: ["signed char", "short", "int", "long long"],
    unsigned: ["unsigned char", "unsigned short", "unsigned int", "unsigned long long"],
    long: "LL",
    barrier: "__syncthreads()",
    full_barrier: "__syncthreads()",
    has_vectors: false,
    suffixes: true,
    reserved: "blockIdx threadIdx blockDim gridDim warpSize uchar ushort uint ulong dim3 uint3 rsqrt rsqrtf",
};

impl Vocabulary {
    /// The type of a scalar in a local variable; half precisions are represented in single
    /// precision.
    pub(super) fn scalar(&self, dtype: DataType) -> &'static str {
        let width = usize::from(dtype.bits()).trailing_zeros().saturating_sub(3).min(3) as usize;
        match () {
            () if dtype.is_bool() => "bool",
            () if dtype.is_int() => self.signed[width],
            () if dtype.is_uint() => self.unsigned[width],
            () if dtype.bits() == 64 => "double",
            () => "float",
        }
    }

    /// The type of a lane of a vector: truth values are 0 and -1.
    pub(super) fn lane(&self, dtype: DataType) -> &'static str {
        if dtype.is_bool() { self.signed[0] } else { self.scalar(dtype) }
    }

    /// The type of an element in memory.
    pub(super) fn stored(&self, dtype: DataType) -> &'static str {
        match () {
            () if dtype.is_bool() => self.unsigned[0],
            () if is_half(dtype) => self.unsigned[1],
            () => self.scalar(dtype),
        }
    }

    /// The unsigned type of the arithmetic of signed integers that wraps.
    pub(super) fn wide(&self, dtype: DataType) -> &'static str {
        self.unsigned[if dtype.bits() == 64 { 3 } else { 2 }]
    }

    /// The unsigned type of the same width.
    pub(super) fn unsigned(&self, bits: u8) -> &'static str {
        self.unsigned[match bits {
            8 => 0,
            16 => 1,
            32 => 2,
            _ => 3,
        }]
    }

    /// The name of a math function for a type.
    pub(super) fn math(&self, name: &str, dtype: DataType) -> String {
        if self.suffixes && dtype.bits() != 64 { format!("{name}f") } else { name.to_owned() }
    }

    /// The index of a thread; `None` for a tag that is not one of threads.
    pub(super) fn thread(&self, tag: &str) -> Option<String> {
        let (kind, axis) = tag.split_once('.')?;
        let number = ["x", "y", "z"].iter().position(|known| *known == axis)?;
        let function = match kind {
            "blockIdx" => "get_group_id",
            "threadIdx" => "get_local_id",
            _ => return None,
        };
        Some(if self.has_vectors { format!("{function}({number})") } else { tag.to_owned() })
    }

    /// The declaration that all launches have these extents of threads.
    pub(super) fn block_size(&self, block: [i64; 3]) -> String {
        let [x, y, z] = block;
        if self.has_vectors {
            format!("__attribute__((reqd_work_group_size({x}, {y}, {z}))) ")
        } else {
            format!("__launch_bounds__({}) ", x.saturating_mul(y).saturating_mul(z))
        }
    }
}

/// Returns true if values are represented in single precision and rounded after each operation.
pub(super) fn is_half(dtype: DataType) -> bool {
    dtype.is_float() && dtype.bits() == 16
}
