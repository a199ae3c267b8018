//! Enums that `#[derive(Object)]` accepts.
#![deny(warnings, non_ascii_idents)]
#![forbid(unsafe_code)]

use kernpack::{EnumType, Field, ObjRef, Object, packed_func};

/// A mode.
#[derive(Object, Clone, Copy, PartialEq, Debug)]
#[object(key = "pass_enums.Mode", enum = "int", rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum Mode {
    /// Quick.
    Fast = 1,
    VeryExact,
    #[object(name = "OTHER")]
    r#Self_ = 1 + 6,
}

#[derive(Object)]
#[object(key = "pass_enums.Text", enum = "str")]
enum Text {
    #[deprecated]
    Plain = -3,
    #[object(name = "with space")]
    Spaced,
}

#[derive(Object)]
#[object(key = "pass_enums.Shape", structural = "dag", init = false)]
#[repr(C, u32)]
pub enum Shape {
    /// Round.
    Circle {
        /// The radius.
        #[field(default = 1.0, kw_only)]
        radius: f64,
        mode: Mode,
    },
    #[object(key = "pass_enums.Nothing")]
    Empty,
    Group {
        visitor: ObjRef<Shape>,
        r#type: Vec<ObjRef<Self>>,
        #[field(skip)]
        value: std::sync::Mutex<Vec<u8>>,
        #[field(writable)]
        label: Field<String>,
    },
    Open {},
}

#[packed_func]
fn mode_of(shape: ObjRef<Shape>) -> Option<Mode> {
    match &*shape {
        Shape::Circle { mode, .. } => Some(*mode),
        Shape::Empty | Shape::Open {} | Shape::Group { .. } => None,
    }
}

fn main() {
    let circle = ObjRef::new(Shape::Circle { radius: 2.0, mode: Mode::VeryExact });
    assert_eq!(mode_of(circle.clone()), Some(Mode::VeryExact));
    let group =
        Shape::Group { visitor: circle, r#type: vec![], value: Default::default(), label: Field::new("a".to_owned()) };
    let group = ObjRef::new(group);
    assert_eq!(group.type_key(), "pass_enums.Shape.Group");
    assert_eq!(mode_of(group), None);
    assert_eq!(Mode::VeryExact.name(), "VERY_EXACT");
    assert_eq!(Text::variants().map(|text| text.name()).collect::<Vec<_>>(), ["Plain", "with space"]);
}
