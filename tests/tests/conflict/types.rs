//! A library whose object type differs from the one that the process has under the same key must
//! not share objects with it, even if both look the same from outside.

use kernpack::reflect::TypeInfo;
use kernpack::sys::abi::TVMFFIByteArray;
use kernpack::{Module, ObjRef, Object, Str};

/// The same as in the library.
#[derive(Object)]
#[object(key = "conversions.Point")]
#[repr(C)]
pub struct Point {
    pub x: i64,
    pub y: i64,
}

/// The same as in the library except for a private field's name: same size, same public fields.
#[derive(Object)]
#[object(key = "conversions.Place")]
#[repr(C)]
pub struct Place {
    #[base]
    spot: Point,
    pub name: Str,
}

#[test]
fn a_type_of_another_definition_is_refused() {
    let place = ObjRef::new(Place { spot: Point { x: 1, y: 2 }, name: Str::new("here") });
    assert_eq!(place.spot.x + place.y, 3);
    // Another build of the library has another key.
    let source = include_str!("../../conversions-lib/src/lib.rs");
    let line = source.lines().position(|line| line.starts_with("pub struct Place")).unwrap() + 1;
    let own = format!("conversions.Place@tests/conversions-lib/src/lib.rs:{line}");
    let (name, parent) = (TVMFFIByteArray::new(own.as_bytes()), Point::type_index());
    // SAFETY: the parent is registered, and the key is valid for the call.
    let taken = unsafe { (kernpack::sys::provider::api().type_get_or_alloc_index)(&name, -1, 2, 0, 1, parent) };
    let library = std::env::current_exe().unwrap().with_file_name("libconversions.so");
    // A second attempt fails in the same way.
    for _ in 0..2 {
        let message = Module::load(&library).err().unwrap().message().to_owned();
        let expected = format!(
            "cannot load {}: type 'conversions.Place' (tests/conversions-lib/src/lib.rs:LINE, crate conversions) is already \
             registered in this process by tests/tests/conflict/types.rs:21, crate conflict, in {}, with another layout: its fields have other names or types, perhaps private ones; give \
             one of them another key, or build both from the same version",
            library.display(),
            std::env::current_exe().unwrap().display()
        );
        let line: String = message.split_once("lib.rs:").unwrap().1.chars().take_while(char::is_ascii_digit).collect();
        assert_eq!(message, expected.replace("LINE", &line));
    }
    let other = TypeInfo::by_key(format!("{own}#2").as_bytes()).unwrap();
    assert_ne!(other.index(), taken);
    assert_eq!(other.fields().count(), 3);
}
