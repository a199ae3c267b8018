//! Functions as arguments and as results.

use kernpack::{Any, Function, ObjRef, Result, packed_func};

use crate::int_vector::IntVector;

/// Returns a function of one argument `x` that calls `f(b, x)`.
///
/// `f` may be a function of any language; what it raises arrives at the caller of the result as it left.
#[packed_func]
pub fn bind_add(f: Function, b: i64) -> Function {
    Function::from_fn(move |x: Any| f.call((b, &x)))
}

/// A new vector of what `f` makes of each element.
#[packed_func]
pub fn map_vector(vector: ObjRef<IntVector>, f: Function) -> Result<ObjRef<IntVector>> {
    // A copy: the callback may well change the vector.
    let values = vector.to_vec();
    let mapped = values.into_iter().map(|value| f.call_as((value,))).collect::<Result<Vec<i64>>>()?;
    Ok(ObjRef::new(IntVector::new(mapped)))
}
