//! A library with an enum that differs from the one that the process has under the same key.

use kernpack::{EnumType, Function, IntoAny, Module, Object};

/// Different from that of the library.
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq)]
#[object(key = "objects.Color", enum = "int", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Color {
    Red = 1,
    Green,
    DarkBlue = 41,
}

/// Another kind of enum than in the library.
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq)]
#[object(key = "objects.Layout", enum = "int")]
#[expect(non_camel_case_types, reason = "the names of the library's variants")]
pub enum Layout {
    row_major,
    column_major,
}

#[test]
fn an_enum_of_other_variants_is_refused() {
    assert_eq!(Color::Red.into_any().to::<Color>().unwrap(), Color::Red);
    assert!(Layout::type_index() > 0);
    let library = std::env::current_exe().unwrap().with_file_name("libobjects.so");
    for _ in 0..2 {
        let message = Module::load(&library).err().unwrap().message().to_owned();
        assert!(message.contains("enum 'objects.Color' (tests/objects-lib/src/enums.rs:"), "{message}");
        assert!(
            message.contains(
                "crate objects): the type is already registered in this process with other variants (RED = 1, GREEN = 2, \
                 DARK_BLUE = 41; ours are RED = 1, GREEN = 2, DARK_BLUE = 40); give one of them another key, or build both from \
                 the same version"
            ),
            "{message}"
        );
        assert!(
            message.contains("the key is taken by a type that is not derived from ffi.StrEnum; use another key"),
            "{message}"
        );
    }
    // The first registration stays valid.
    let echo = Function::from_fn(|color: Color| color);
    assert_eq!(echo.call_as::<Color>((41,)).unwrap(), Color::DarkBlue);
}
