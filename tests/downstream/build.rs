fn main() -> kernpack_build::Result<()> {
    kernpack_build::Library::new().c(["kernels/scale.c"]).llvm_ir(["kernels/negate.ll"]).build()
}
