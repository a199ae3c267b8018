//! A program that links a library's crate and also loads the library, as an integration test of a
//! user's library does.

use conversions as _;
use kernpack::{Any, Function, Module, ObjRef, Result};
use shapes::point::{Point, point};

#[test]
fn both_copies_work_side_by_side() -> Result<()> {
    // The linked copy is available from the start.
    assert_eq!(Function::global("conversions.add")?.call_as::<i64>((1, 2))?, 3);
    let library = Module::load(std::env::current_exe().unwrap().with_file_name("libconversions.so"))?;
    assert_eq!(library.function("add")?.call_as::<i64>((3, 4))?, 7);
    // An object of one copy is accepted by the other.
    let point: Any = library.function("point")?.call((5, 6))?;
    let coordinates = Function::global("conversions.coordinates")?;
    assert_eq!(coordinates.call_as::<(i64, i64)>((&point,))?, (5, 6));
    Ok(())
}

#[test]
fn a_program_and_a_library_have_a_crate_in_common() -> Result<()> {
    let library = Module::load(std::env::current_exe().unwrap().with_file_name("libleft.so"))?;
    let moved: ObjRef<Point> = library.function("shift")?.call_as((point(1.0, 2.0), 3.0))?;
    assert_eq!((moved.x, moved.y), (4.0, 2.0));
    // Created by the library, used by this program's copy of the crate, and vice versa.
    let circle: Any = library.function("shapes.circle")?.call((&moved, 1.0))?;
    assert_eq!(Function::global("shapes.area")?.call_as::<f64>((&circle,))?, std::f64::consts::PI);
    assert_eq!(library.function("shapes.area")?.call_as::<f64>((&circle,))?, std::f64::consts::PI);
    Ok(())
}

/// Modules of a library whose imports this program changes: both see the same tree at any time.
#[test]
fn imports_of_a_librarys_modules() -> Result<()> {
    let library = Module::load(std::env::current_exe().unwrap().with_file_name("libleft.so"))?;
    let numbered = |name: &str, number: i64| library.function("numbered")?.call_as::<Module>((name, number));
    let (root, first, second) = (numbered("root", 1)?, numbered("leaf", 2)?, numbered("leaf", 3)?);
    let (ask, count) = (library.function("ask")?, library.function("count_imports")?);
    let asked = |name: &str| ask.call_as::<Option<i64>>((&root, name)).unwrap();
    for leaf in [&first, &second] {
        // The library's cached lookups in the old tree are no longer valid.
        assert_eq!((asked("root"), asked("leaf")), (Some(1), None));
        root.import(leaf)?;
        let number: i64 = leaf.function("leaf")?.call_as(())?;
        for _ in 0..2 {
            assert_eq!(asked("leaf"), Some(number));
            assert_eq!(root.find_function_in_tree("leaf")?.unwrap().call_as::<i64>(())?, number);
        }
        root.clear_imports()?;
    }
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    assert!((0..3).contains(&count.call_as::<i64>((&root,)).unwrap()));
                    assert!(asked("leaf").is_none_or(|number| number == 2 || number == 3));
                }
            });
        }
        for _ in 0..500 {
            root.import(&first).unwrap();
            root.import(&second).unwrap();
            root.clear_imports().unwrap();
        }
    });
    Ok(())
}
