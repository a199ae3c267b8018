//! Enums without data: of integers and of strings.

use std::collections::HashMap;

use kernpack::{EnumType, ObjRef, Object, packed_func};

/// A color.
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[object(key = "objects.Color", enum = "int", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Color {
    /// Like blood.
    Red = 1,
    Green,
    /// Like the sky.
    DarkBlue = 40,
}

/// The memory layout of a matrix.
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[object(key = "objects.Layout", enum = "str", rename_all = "snake_case")]
pub enum Layout {
    RowMajor,
    ColumnMajor,
    #[object(name = "blocked 4x4")]
    Blocked,
}

/// Something with a color.
#[derive(Object)]
#[object(key = "objects.Painted")]
#[repr(C)]
pub struct Painted {
    pub color: Color,
    pub layout: Option<Layout>,
}

/// The next color, after the last one the first.
#[packed_func]
pub fn next_color(color: Color) -> Color {
    match color {
        Color::Red => Color::Green,
        Color::Green => Color::DarkBlue,
        Color::DarkBlue => Color::Red,
    }
}

/// The layout of the transposed matrix.
#[packed_func]
pub fn transposed(layout: Layout) -> Option<Layout> {
    match layout {
        Layout::RowMajor => Some(Layout::ColumnMajor),
        Layout::ColumnMajor => Some(Layout::RowMajor),
        Layout::Blocked => None,
    }
}

/// The number of occurrences of each color.
#[packed_func]
pub fn count_colors(colors: Vec<Color>) -> HashMap<String, i64> {
    let mut counts = HashMap::new();
    for color in colors {
        *counts.entry(color.name().to_owned()).or_default() += 1;
    }
    counts
}

/// All colors.
#[packed_func]
pub fn all_colors() -> Vec<Color> {
    Color::variants().collect()
}

/// Makes something with a color.
#[packed_func]
pub fn paint(color: Color, layout: Option<Layout>) -> ObjRef<Painted> {
    ObjRef::new(Painted { color, layout })
}
