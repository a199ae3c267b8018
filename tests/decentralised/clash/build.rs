//! A module that the library carries, so that a library that is refused has one.

fn main() -> kernpack_build::Result<()> {
    kernpack_build::Library::new().import(&kernpack_build::Module::from_bytes("clash.table", *b"carried")).build()
}
