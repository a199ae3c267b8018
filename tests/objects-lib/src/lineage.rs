//! Three types, each derived from the one before.

use kernpack::Object;

/// Something that lives.
#[derive(Object)]
#[object(key = "objects.Animal")]
#[repr(C)]
pub struct Animal {
    /// The number of legs.
    pub legs: i64,
}

/// An animal with a name.
#[derive(Object)]
#[object(key = "objects.Pet")]
#[repr(C)]
pub struct Pet {
    #[base]
    pub animal: Animal,
    /// The name.
    pub name: String,
}

/// A pet that barks.
#[derive(Object)]
#[object(key = "objects.Dog")]
#[repr(C)]
pub struct Dog {
    #[base]
    pub pet: Pet,
    pub breed: Option<String>,
    /// The loudness of its bark.
    pub loudness: f64,
}
