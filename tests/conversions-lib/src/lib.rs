//! One function per type that converts. `tests/python/conversions.json` has the rows: the argument,
//! and the result or the error. The Rust test and the Python test both load this library and run
//! the same rows.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kernpack::{
    Any, Array, Bytes, Complex, DataType, Device, Function, Map, Module, ObjRef, Object, Result, Shape, Str, Tensor,
    TensorView, TensorViewMut, packed_func,
};

pub mod visitor;

kernpack::library!();

/// A function that returns its argument, so that a row tests both directions of the conversion.
macro_rules! echo {
    ($($name:ident: $type:ty),* $(,)?) => {$(
        /// Returns its argument.
        #[packed_func]
        pub fn $name(x: $type) -> $type {
            x
        }
    )*};
}
echo! {
    echo_bool: bool,
    echo_i8: i8,
    echo_i16: i16,
    echo_i32: i32,
    echo_i64: i64,
    echo_u8: u8,
    echo_u16: u16,
    echo_u32: u32,
    echo_u64: u64,
    echo_f32: f32,
    echo_f64: f64,
    echo_string: String,
    echo_ffi_str: Str,
    echo_ffi_bytes: Bytes,
    echo_option_i64: Option<i64>,
    echo_option_i8: Option<i8>,
    echo_option_string: Option<String>,
    echo_option_tensor: Option<Tensor>,
    echo_pair: (i64, String),
    echo_triple: (bool, f64, Option<i64>),
    echo_vec: Vec<i64>,
    echo_vec_u8: Vec<u8>,
    echo_vec_string: Vec<String>,
    echo_vec_option: Vec<Option<i64>>,
    echo_nested: Vec<Vec<i64>>,
    echo_hash_map: HashMap<String, i64>,
    echo_hash_map_nested: HashMap<String, Vec<i64>>,
    echo_dtype: DataType,
    echo_device: Device,
    echo_shape: Shape,
    echo_array: Array<i64>,
    echo_array_any: Array<Any>,
    echo_map: Map<Str, i64>,
    echo_map_int: Map<i64, f64>,
    echo_tensor: Tensor,
    echo_function: Function,
    echo_any: Any,
    echo_path: PathBuf,
    echo_os_string: OsString,
    echo_char: char,
    echo_nonzero: NonZero<u8>,
    echo_nonzero_i64: NonZero<i64>,
    echo_i128: i128,
    echo_u128: u128,
    echo_set: BTreeSet<i64>,
    echo_set_string: BTreeSet<String>,
    echo_duration: Duration,
    echo_time: SystemTime,
    echo_complex: Complex<f64>,
    echo_complex64: Complex<f32>,
    echo_address: IpAddr,
    echo_address4: Ipv4Addr,
    echo_address6: Ipv6Addr,
    echo_option_path: Option<PathBuf>,
    echo_paths: Vec<PathBuf>,
    echo_durations: HashMap<String, Duration>,
    echo_sets: Vec<BTreeSet<i64>>,
}

/// Adds two integers.
#[packed_func]
pub fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Takes nothing.
#[packed_func]
pub fn answer() -> i64 {
    42
}

/// Returns nothing.
#[packed_func]
pub fn nothing(_x: i64) {}

/// The text, borrowed from the argument.
#[packed_func]
pub fn echo_str(x: &str) -> String {
    x.to_owned()
}

/// The bytes, borrowed from the argument.
#[packed_func]
pub fn echo_slice(x: &[u8]) -> Bytes {
    Bytes::new(x)
}

/// The path, borrowed from the argument.
#[packed_func]
pub fn echo_path_slice(x: &Path) -> PathBuf {
    x.to_owned()
}

/// The string, borrowed from the argument.
#[packed_func]
pub fn echo_os_str(x: &OsStr) -> OsString {
    x.to_owned()
}

/// The text in capital letters; a text that has no small ones is not copied.
#[packed_func]
pub fn shouted(x: Cow<'_, str>) -> Cow<'_, str> {
    if x.chars().any(char::is_lowercase) { Cow::Owned(x.to_uppercase()) } else { x }
}

/// The bytes, borrowed from the argument if the result does not need others.
#[packed_func]
pub fn echo_cow_bytes(x: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    x
}

/// The number of elements of a set of texts.
#[packed_func]
pub fn count_set(x: HashSet<String>) -> usize {
    x.len()
}

/// Calls `f` with one integer.
#[packed_func]
pub fn apply(f: Function, x: i64) -> Result<Any> {
    f.call((x,))
}

/// Calls `f` with a string of these bytes, UTF-8 or not: no Python or Rust string can hold them.
#[packed_func]
pub fn apply_to_string_of(f: Function, bytes: &[u8]) -> Result<Any> {
    let text = kernpack::sys::embedded::new_string(bytes);
    // SAFETY: `new_string` returns one reference to a new string, which this value owns.
    let text = unsafe { Any::from_raw(text) };
    f.call((text,))
}

/// The kind of a module.
#[packed_func]
pub fn module_kind(m: Module) -> String {
    m.kind()
}

/// Adds up all elements, whatever the strides.
#[packed_func]
pub fn sum_f32(x: TensorView<f32>) -> f64 {
    x.iter().map(f64::from).fold(0.0, |sum, element| sum + element)
}

/// All elements in row-major order, whatever the strides.
#[packed_func]
pub fn list_i32(x: TensorView<i32>) -> Vec<i32> {
    x.to_vec()
}

/// All elements of a contiguous tensor.
#[packed_func]
pub fn slice_i32(x: TensorView<i32>) -> Result<Vec<i32>> {
    Ok(x.as_slice()?.to_vec())
}

/// All elements of a tensor of bytes.
#[packed_func]
pub fn list_u8(x: TensorView<u8>) -> Vec<u8> {
    x.to_vec()
}

/// One element, or nothing when the index is outside.
#[packed_func]
pub fn element_i32(x: TensorView<i32>, row: usize, column: usize) -> Option<i32> {
    x.get(&[row, column])
}

/// Adds `amount` to every element in place.
#[packed_func]
pub fn increase_i32(mut x: TensorViewMut<i32>, amount: i32) -> Result<()> {
    x.as_slice_mut()?.iter_mut().for_each(|element| *element = element.wrapping_add(amount));
    Ok(())
}

/// Copies `src` into `dst`, which must be other memory.
#[packed_func]
pub fn copy_i32(src: TensorView<i32>, mut dst: TensorViewMut<i32>) -> Result<()> {
    let (src, dst) = (src.as_slice()?, dst.as_slice_mut()?);
    kernpack::ensure!(src.len() == dst.len(), ValueError, "{} elements do not fit into {}", src.len(), dst.len());
    dst.copy_from_slice(src);
    Ok(())
}

/// A copy on a device, which may be one that another library of the process brings.
#[packed_func]
pub fn to_device(x: Tensor, device: Device) -> Result<Tensor> {
    x.to(device)
}

/// A tensor's dtype, device and shape.
#[packed_func]
pub fn tensor_facts(x: Tensor) -> (DataType, Device, Shape) {
    (x.dtype(), x.device(), Shape::new(x.shape()))
}

/// A point in the plane.
#[derive(Object)]
#[object(key = "conversions.Point")]
#[repr(C)]
pub struct Point {
    /// To the right.
    pub x: i64,
    /// Upwards.
    pub y: i64,
}

/// A point with a name.
#[derive(Object)]
#[object(key = "conversions.Place")]
#[repr(C)]
pub struct Place {
    #[base]
    point: Point,
    /// The name.
    pub name: Str,
}

/// Makes a point.
#[packed_func]
pub fn point(x: i64, y: i64) -> ObjRef<Point> {
    ObjRef::new(Point { x, y })
}

/// Makes a place.
#[packed_func]
pub fn place(x: i64, y: i64, name: Str) -> ObjRef<Place> {
    ObjRef::new(Place { point: Point { x, y }, name })
}

/// The coordinates of a point, or of anything derived from one.
#[packed_func]
pub fn coordinates(p: ObjRef<Point>) -> (i64, i64) {
    (p.x, p.y)
}

/// The name of a place.
#[packed_func]
pub fn name_of(p: ObjRef<Place>) -> Str {
    p.name.clone()
}

/// The name of a place, if there is one.
#[packed_func]
pub fn name_if_any(p: Option<ObjRef<Place>>) -> Option<Str> {
    p.map(|place| place.name.clone())
}
