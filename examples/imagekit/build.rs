//! Compiles the kernels into the library.

fn main() -> kernpack_build::Result<()> {
    kernpack_build::Library::new()
        .c(["kernels/blur.c"])
        .llvm_ir(["kernels/sobel.ll"])
        .cuda(["kernels/sobel.cu"])
        .opencl(["kernels/sobel.cl"])
        .multiversion(["x86-64-v3"])
        .build()
}
