//! An object type as a result: the value becomes a new object.

use super::{ObjRef, Object};
use crate::value::{Any, IntoAny, Schema, TypeSchema};

#[diagnostic::do_not_recommend]
impl<T: Object> Schema for T {
    const TYPE: TypeSchema = TypeSchema::new(T::TYPE_KEY);
}

#[diagnostic::do_not_recommend]
impl<T: Object> IntoAny for T {
    fn into_any(self) -> Any {
        ObjRef::new(self).into_any()
    }
}
