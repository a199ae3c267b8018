//! Types whose names begin with that of an enum, and those of other types.

use kernpack::{ObjRef, Object, packed_func};

/// A degree of light.
#[derive(Object, Clone, Copy, Debug, PartialEq)]
#[object(key = "extmod.Shade", enum = "str")]
pub enum Shade {
    /// Like day.
    Light,
    /// Like night.
    Dark,
}

/// Two shades, of which one is given.
#[derive(Object)]
#[object(key = "extmod.Shade.Mix")]
#[repr(C)]
pub struct Mix {
    /// The first shade.
    pub first: Shade,
    /// The part that it has.
    pub part: f64,
}

/// The limits of a mix, two places below the enum.
#[derive(Object, Clone, Copy, Debug, PartialEq)]
#[object(key = "extmod.Shade.Mix.Limit", enum = "int")]
pub enum Limit {
    /// Nothing of the first shade.
    None = 0,
    /// All of it.
    All = 1,
}

/// Makes a mix.
#[packed_func(name = "extmod.Shade.mixed")]
pub fn mixed(first: Shade, limit: Limit) -> ObjRef<Mix> {
    ObjRef::new(Mix { first, part: f64::from(limit as i32) })
}
