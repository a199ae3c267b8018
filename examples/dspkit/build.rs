//! Compiles the kernels into the library.

fn main() -> kernpack_build::Result<()> {
    kernpack_build::Library::new()
        .c(["kernels/fir.c", "kernels/goertzel.c"])
        // A plain C function becomes a kernel, which checks its arguments.
        .c_header("kernels/goertzel.h", ["goertzel(samples[n], n)"])
        .llvm_ir(["kernels/energy.ll"])
        .opencl(["kernels/amplify.cl"])
        .build()
}
