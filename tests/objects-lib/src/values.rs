//! Types whose fields are values: numbers, text, containers, optional values.

use std::collections::{BTreeMap, HashMap};

use kernpack::{Any, Array, Bytes, DataType, Device, Function, Map, Object, Result, Shape, Str, Tensor, packed_func};

/// Numbers of every width.
#[derive(Object)]
#[object(key = "objects.Scalars")]
#[repr(C)]
pub struct Scalars {
    /// True or false.
    pub flag: bool,
    /// 8 bits with a sign.
    pub small: i8,
    pub short: i16,
    pub integer: i32,
    pub long: i64,
    pub byte: u8,
    pub word: u16,
    pub count: u32,
    pub size: u64,
    pub single: f32,
    pub double: f64,
}

/// Text and bytes, as Rust keeps them and as the ABI does.
#[derive(Object)]
#[object(key = "objects.Texts")]
#[repr(C)]
pub struct Texts {
    pub owned: String,
    pub shared: Str,
    pub raw: Bytes,
}

/// Many values in one field.
#[derive(Object)]
#[object(key = "objects.Containers")]
#[repr(C)]
pub struct Containers {
    pub vec: Vec<i64>,
    pub nested: Vec<Vec<f64>>,
    pub maybe: Vec<Option<i64>>,
    pub pair: (i64, String),
    pub hash_map: HashMap<String, i64>,
    pub tree_map: BTreeMap<i64, String>,
    pub array: Array<f64>,
    pub mapping: Map<Str, i64>,
    pub anything: Array<Any>,
    pub shape: Shape,
}

/// Values that may be missing.
#[derive(Object)]
#[object(key = "objects.Options")]
#[repr(C)]
pub struct Options {
    pub integer: Option<i64>,
    pub real: Option<f64>,
    pub text: Option<String>,
    pub items: Option<Vec<i64>>,
    pub tensor: Option<Tensor>,
}

/// The kinds of values that the ABI has besides numbers and text.
#[derive(Object)]
#[object(key = "objects.Handles")]
#[repr(C)]
pub struct Handles {
    pub element: DataType,
    pub place: Device,
    pub tensor: Tensor,
    pub function: Function,
    pub anything: Any,
}

/// A tensor of ones.
#[packed_func]
pub fn ones(count: i64) -> Result<Tensor> {
    Tensor::from_vec(vec![1_i32; usize::try_from(count).unwrap_or(0)], &[count])
}
