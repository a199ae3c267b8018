//! Packs a module into the library, so that a library that is refused contains one.

fn main() -> kernpack_build::Result<()> {
    kernpack_build::Library::new().import(&kernpack_build::Module::from_bytes("clash.table", *b"carried")).build()
}
