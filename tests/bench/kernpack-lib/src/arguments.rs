//! Functions with one argument that do almost nothing.

use kernpack::{Function, ObjRef, Tensor, TensorView, TensorViewMut, packed_func};

use crate::record::Record;

/// The first dimension, by a reference to the tensor.
#[packed_func]
fn tensor(x: Tensor) -> i64 {
    x.shape()[0]
}

/// The first dimension, by read access to the elements.
#[packed_func]
fn view(x: TensorView<'_, f32>) -> i64 {
    x.shape()[0]
}

/// The first dimension, by write access to the elements.
#[packed_func]
fn view_mut(x: TensorViewMut<'_, f32>) -> i64 {
    x.shape()[0]
}

/// A field of an object.
#[packed_func]
fn object(record: ObjRef<Record>) -> i64 {
    record.count
}

/// A new object.
#[packed_func]
fn new_object(count: i64) -> ObjRef<Record> {
    ObjRef::new(Record { count, scale: 0.5, label: "label".into(), next: None })
}

/// The length of a text.
#[packed_func]
fn text(text: &str) -> i64 {
    text.len() as i64
}

/// Returns whether the argument is a function.
#[packed_func]
fn function(function: Option<Function>) -> bool {
    function.is_some()
}
