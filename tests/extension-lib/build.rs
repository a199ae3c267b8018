//! Compiles a kernel in C into the library.

fn main() -> kernpack_build::Result<()> {
    kernpack_build::Library::new().c(["kernels/weigh.c"]).build()
}
