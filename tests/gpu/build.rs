//! Compiles the kernels into the library: machine code for Turing and Hopper, PTX for all others
//! from Turing on.

fn main() -> kernpack_build::Result<()> {
    kernpack_build::Library::new()
        .cuda(["kernels/matmul.cu", "kernels/softmax.cu", "kernels/elements.cu"])
        .cuda_arch(["75", "90"])
        .build()
}
