//! Enums without data: one object for each variant, and the Rust enum as the value.

use std::collections::HashMap;

use kernpack::{Any, AnyView, Array, EnumType, FromAny, Function, IntoAny, Map, ObjRef, Object, Result, Schema};

/// A color.
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[object(key = "enums.Color", enum = "int")]
pub enum Color {
    /// Like blood.
    Red = 1,
    Green,
    /// Like the sky.
    Blue = -7,
}

#[derive(Object, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[object(key = "enums.Layout", enum = "str", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Layout {
    RowMajor,
    ColumnMajor,
    #[object(name = "blocked 4x4")]
    Blocked,
}

const BASE: u64 = 40;

/// Discriminants that only the compiler computes.
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq)]
#[object(key = "enums.Computed", enum = "int")]
#[repr(u64)]
pub enum Computed {
    First = BASE + 2,
    Second,
}

/// Neither `Copy` nor `Clone`: still usable as a parameter and a result.
#[derive(Object, Debug, PartialEq)]
#[object(key = "enums.One", enum = "int")]
pub enum One {
    Only,
}

/// The same as in the library `objects`.
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq)]
#[object(key = "objects.Layout", enum = "str", rename_all = "snake_case")]
pub enum SharedLayout {
    RowMajor,
    ColumnMajor,
    #[object(name = "blocked 4x4")]
    Blocked,
}

/// The same as in the library, in another order.
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq)]
#[object(key = "objects.Color", enum = "int", rename_all = "UPPERCASE")]
pub enum SharedColor {
    #[object(name = "DARK_BLUE")]
    DarkBlue = 40,
    Green = 2,
    Red = 1,
}

#[derive(Object)]
#[object(key = "enums.Painted")]
#[repr(C)]
pub struct Painted {
    pub color: Color,
    pub layout: Option<Layout>,
    pub palette: Array<Color>,
}

fn next(color: Color) -> Color {
    match color {
        Color::Red => Color::Green,
        Color::Green => Color::Blue,
        Color::Blue => Color::Red,
    }
}

#[test]
fn the_enum_is_the_value() -> Result<()> {
    let next = Function::from_fn(next);
    assert_eq!(next.call_as::<Color>((Color::Red,))?, Color::Green);
    assert_eq!(next.call_as::<Color>((1,))?, Color::Green);
    assert_eq!(next.call_as::<Color>((-7,))?, Color::Red);
    let turn = Function::from_fn(|layout: Layout| match layout {
        Layout::RowMajor => Layout::ColumnMajor,
        Layout::ColumnMajor => Layout::Blocked,
        Layout::Blocked => Layout::RowMajor,
    });
    assert_eq!(turn.call_as::<Layout>((Layout::Blocked,))?, Layout::RowMajor);
    assert_eq!(turn.call_as::<Layout>(("ROW_MAJOR",))?, Layout::ColumnMajor);
    assert_eq!(turn.call_as::<Layout>(("blocked 4x4",))?, Layout::RowMajor);
    assert_eq!(One::Only.into_any().to::<One>()?, One::Only);
    Ok(())
}

#[test]
fn every_variant_is_one_object() -> Result<()> {
    for color in Color::variants() {
        let (first, second) = (color.into_any(), Any::from(color));
        let (first, second): (ObjRef<kernpack::ObjectRoot>, ObjRef<kernpack::ObjectRoot>) = (first.to()?, second.to()?);
        assert!(first.ptr_eq(&second));
        assert_eq!((first.type_index(), first.type_key().as_str()), (Color::type_index(), "enums.Color"));
        assert_eq!(first.into_any().to::<Color>()?, color);
    }
    assert_eq!(Color::variants().collect::<Vec<_>>(), [Color::Red, Color::Green, Color::Blue]);
    assert_eq!(
        Layout::variants().map(|layout| layout.name()).collect::<Vec<_>>(),
        ["ROW_MAJOR", "COLUMN_MAJOR", "blocked 4x4"]
    );
    Ok(())
}

#[test]
fn instances_have_the_fields_of_their_parent() -> Result<()> {
    let blue = Color::Blue.into_any();
    assert_eq!(blue.field("_int_index")?.to::<i64>()?, -7);
    assert_eq!(blue.field("value")?.to::<i64>()?, -7);
    assert_eq!(blue.field("_str_index")?.to::<String>()?, "Blue");
    let blocked = Layout::Blocked.into_any();
    assert_eq!(blocked.field("_int_index")?.to::<i64>()?, 2);
    assert_eq!(blocked.field("value")?.to::<String>()?, "blocked 4x4");
    assert_eq!(Computed::Second.into_any().field("value")?.to::<i64>()?, 43);
    Ok(())
}

#[test]
fn other_values_are_refused() {
    let next = Function::from_fn(next);
    let message = |args: Any| {
        let error = next.call((args,)).unwrap_err();
        (error.kind().to_owned(), error.message().rsplit_once("argument 0: ").unwrap().1.to_owned())
    };
    let variants = "Red = 1, Green = 2, Blue = -7";
    let value = |text: String| ("ValueError".to_owned(), text);
    let ty = |text: String| ("TypeError".to_owned(), text);
    assert_eq!(message(5.into_any()), value(format!("5 is not a value of enums.Color; its variants are {variants}")));
    for (other, name) in [
        (1.5.into_any(), "float"),
        (true.into_any(), "bool"),
        ("Red".into_any(), "str"),
        (Any::NONE, "None"),
        (Layout::Blocked.into_any(), "enums.Layout"),
        (Array::from(vec![1]).into_any(), "Array"),
    ] {
        assert_eq!(message(other), ty(format!("expected enums.Color ({variants}) or its int, got {name}")));
    }
    let layout = |args: Any| args.to::<Layout>().unwrap_err().message().to_owned();
    let variants = "'ROW_MAJOR', 'COLUMN_MAJOR', 'blocked 4x4'";
    assert_eq!(
        layout("ROWMAJOR".into_any()),
        format!("'ROWMAJOR' is not a value of enums.Layout; its variants are {variants}; did you mean 'ROW_MAJOR'?")
    );
    assert_eq!(layout(0.into_any()), format!("expected enums.Layout ({variants}) or its str, got int"));
}

#[test]
fn in_options_vectors_maps_and_fields() -> Result<()> {
    fn back<T: for<'a> FromAny<'a>>(value: impl IntoAny) -> T {
        value.into_any().to().unwrap()
    }
    assert_eq!(back::<Option<Color>>(Some(Color::Red)), Some(Color::Red));
    assert_eq!(back::<Option<Color>>(None::<Color>), None);
    assert_eq!(back::<Vec<Color>>(vec![Color::Blue, Color::Red]), [Color::Blue, Color::Red]);
    assert_eq!(back::<Vec<Color>>(vec![2, 1]), [Color::Green, Color::Red]);
    let counts: HashMap<Color, i64> = back(HashMap::from([(Color::Blue, 3)]));
    assert_eq!(counts[&Color::Blue], 3);
    let map: Map<Color, i64> = [(Color::Red, 1), (Color::Blue, 3)].into_iter().collect();
    assert_eq!(map.get(&Color::Blue), Some(3));
    assert_eq!(map.get(&Color::Green), None);

    let palette = [Color::Red, Color::Blue].into_iter().collect();
    let painted = ObjRef::new(Painted { color: Color::Green, layout: Some(Layout::Blocked), palette });
    let any = painted.into_any();
    assert_eq!(any.field("color")?.to::<Color>()?, Color::Green);
    assert_eq!(any.field("layout")?.to::<Option<Layout>>()?, Some(Layout::Blocked));
    assert_eq!(any.field("palette")?.to::<Vec<Color>>()?, [Color::Red, Color::Blue]);
    Ok(())
}

#[test]
fn schema_names_the_type() {
    assert_eq!(<Color as Schema>::TYPE.to_string(), "enums.Color");
    assert_eq!(<Vec<Layout> as Schema>::TYPE.to_string(), "Array[enums.Layout]");
    assert_eq!(Color::TYPE_KEY, "enums.Color");
}

#[test]
fn conversion_and_copy_hooks_give_the_instance() -> Result<()> {
    for hook in ["__ffi_convert__", "__ffi_shallow_copy__"] {
        let column = kernpack::reflect::AttrColumn::new(hook);
        let function: Function = column.get(Color::type_index()).unwrap().try_to_owned()?.to()?;
        assert_eq!(function.call_as::<Color>((2,))?, Color::Green);
        assert_eq!(function.call_as::<Color>((Color::Blue,))?, Color::Blue);
        assert!(function.call((9,)).is_err());
    }
    let value: AnyView<'_> = kernpack::reflect::AttrColumn::new("__ffi_type_final__").get(Color::type_index()).unwrap();
    assert!(value.try_to_owned()?.to::<bool>()?);
    Ok(())
}

#[test]
fn two_libraries_share_one_enum() -> Result<()> {
    let library = kernpack::Module::load(std::env::current_exe().unwrap().with_file_name("libobjects.so"))?;
    let next = library.function("next_color")?;
    assert_eq!(next.call_as::<SharedColor>((SharedColor::Red,))?, SharedColor::Green);
    assert_eq!(next.call_as::<SharedColor>((SharedColor::DarkBlue,))?, SharedColor::Red);
    let transposed = library.function("transposed")?;
    assert_eq!(transposed.call_as::<SharedLayout>((SharedLayout::ColumnMajor,))?, SharedLayout::RowMajor);
    assert_eq!(transposed.call_as::<Option<SharedLayout>>((SharedLayout::Blocked,))?, None);
    assert_eq!(transposed.call(("row_major",))?.to::<SharedLayout>()?, SharedLayout::ColumnMajor);
    let all = library.function("all_colors")?.call_as::<Vec<SharedColor>>(())?;
    assert_eq!(all, [SharedColor::Red, SharedColor::Green, SharedColor::DarkBlue]);
    Ok(())
}
