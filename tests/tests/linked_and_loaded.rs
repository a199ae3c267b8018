//! A program that links a library's crate and loads the library as well, as an integration test of one's own library does.

use conversions as _;
use kernpack::{Any, Function, Module, Result};

#[test]
fn both_copies_work_side_by_side() -> Result<()> {
    // The linked copy is here from the start.
    assert_eq!(Function::global("conversions.add")?.call_as::<i64>((1, 2))?, 3);
    let library = Module::load(std::env::current_exe().unwrap().with_file_name("libconversions.so"))?;
    assert_eq!(library.function("add")?.call_as::<i64>((3, 4))?, 7);
    // An object of one copy is an object of the other.
    let point: Any = library.function("point")?.call((5, 6))?;
    let coordinates = Function::global("conversions.coordinates")?;
    assert_eq!(coordinates.call_as::<(i64, i64)>((&point,))?, (5, 6));
    Ok(())
}
