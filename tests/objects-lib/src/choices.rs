//! Enums: integers, strings, and a family of types.

use kernpack::{ObjRef, Object, Result, bail, object_methods, packed_func};

/// A hue.
#[derive(Object, Clone, Copy, PartialEq, Eq, Debug)]
#[object(key = "objects.Hue", enum = "int")]
pub enum Hue {
    /// Like blood.
    Red = 1,
    Green = 2,
    Blue = 4,
}

/// A mode for opening files.
#[derive(Object, Clone, Copy, PartialEq, Eq, Debug)]
#[object(key = "objects.Mode", enum = "str")]
pub enum Mode {
    Read,
    Write,
}

/// A thing with a hue.
#[derive(Object)]
#[object(key = "objects.Signal")]
#[repr(C)]
pub struct Signal {
    pub hue: Hue,
    pub mode: Option<Mode>,
}

/// The next hue.
#[packed_func]
pub fn next_hue(hue: Hue) -> Hue {
    match hue {
        Hue::Red => Hue::Green,
        Hue::Green => Hue::Blue,
        Hue::Blue => Hue::Red,
    }
}

/// A shape in the plane, of one of three kinds.
#[derive(Object)]
#[object(key = "objects.Figure")]
#[repr(C, u32)]
pub enum Figure {
    /// All points that are near to one.
    Circle { radius: f64 },
    Rectangle {
        width: f64,
        /// Upwards.
        height: f64,
    },
    /// Several shapes.
    Group { name: String, shapes: Vec<ObjRef<Figure>> },
}

#[object_methods]
impl Figure {
    /// The area of the shape.
    pub fn area(&self) -> Result<f64> {
        Ok(match self {
            Figure::Circle { radius } if *radius < 0.0 => bail!(ValueError, "a radius is positive, got {radius}"),
            Figure::Circle { radius } => 3.0 * radius * radius,
            Figure::Rectangle { width, height } => width * height,
            Figure::Group { shapes, .. } => {
                let mut sum = 0.0;
                for shape in shapes {
                    sum += shape.area()?;
                }
                sum
            }
        })
    }
}
