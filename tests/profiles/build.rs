//! Kernels for the CPU and for devices, and modules with compressible and incompressible bytes.

use kernpack_build::Module;

fn main() -> kernpack_build::Result<()> {
    // Bytes without a pattern, from a xorshift generator (Marsaglia 2003).
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    });
    let noise = Module::from_bytes("profiles.table", noise.take(4096).collect::<Vec<_>>());
    kernpack_build::Library::new()
        .c(["kernels/sum.c", "kernels/twice.cpp"])
        .llvm_ir(["kernels/answer.ll"])
        .cuda_llvm_ir(["kernels/scale.ll"])
        .opencl(["kernels/scale.cl"])
        .import(&Module::from_bytes("profiles.table", vec![7; 100_000]).import(&noise))
        .compress(true)
        .build()
}
