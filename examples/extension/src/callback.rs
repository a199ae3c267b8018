//! Functions as arguments and as results.

use kernpack::{Any, Function, ObjRef, Result, packed_func};

use crate::int_vector::IntVector;

/// Returns a function of one argument `x` that calls `f(b, x)`.
///
/// `f` may be a function of any language. An error that it raises reaches the caller of the result
/// unchanged.
#[packed_func]
pub fn bind_add(f: Function, b: i64) -> Function {
    Function::from_fn(move |x: Any| f.call((b, &x)))
}

/// Returns a new vector with `f` applied to each element.
#[packed_func]
pub fn map_vector(vector: ObjRef<IntVector>, f: Function) -> Result<ObjRef<IntVector>> {
    // A copy, because the callback may change the vector.
    let values = vector.to_vec();
    let mapped = values.into_iter().map(|value| f.call_as((value,))).collect::<Result<Vec<i64>>>()?;
    Ok(ObjRef::new(IntVector::new(mapped)))
}
