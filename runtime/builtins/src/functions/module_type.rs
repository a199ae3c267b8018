//! The registration of modules for reflection.

use core::ffi::c_void;

use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::definition::field::BuiltinField;
use crate::definition::signature::{ARRAY_OBJECT, LIST_OBJECT, type_key};
use crate::definition::type_def::{Attr, BuiltinType, Index, Metadata};
use crate::embedded::{self, list, seq};
use crate::error;
use crate::function::guard_nameless;
use crate::module;
use crate::value::AnyView;

pub(crate) static MODULE: BuiltinType = BuiltinType {
    index: Index::fixed(type_index::MODULE),
    // The size of the C++ class, which begins with a pointer to its virtual functions.
    metadata: Some(Metadata { total_size: 48, creator: None, structural_kind: 0 }),
    fields: &[BuiltinField {
        name: "imports_",
        schema: r#"{"type":"ffi.Array","args":[{"type":"Any"}]}"#,
        static_type_index: type_index::ARRAY,
        setter: set_imports,
        ..BuiltinField::OBJECT
    }],
    attrs: &[("__ffi_type_final__", Attr::Flag(true))],
    ..BuiltinType::new("ffi.Module")
};

/// Replaces the imports.
///
/// # Safety
/// The ABI's convention of setters: `field` is the imports field of a module that no other code
/// uses meanwhile.
#[inline]
unsafe extern "C" fn set_imports(field: *mut c_void, value: *const TVMFFIAny) -> i32 {
    // SAFETY: the ABI's convention of setters; `value` is a valid view.
    guard_nameless(|| unsafe {
        let view = AnyView::from_raw(*value);
        let new = if ARRAY_OBJECT.accepts(&view) {
            let array = (*value).payload.v_obj;
            embedded::inc_ref(array);
            array
        } else if LIST_OBJECT.accepts(&view) {
            seq::new_array_of_shared(&list::shared::elements((*value).payload.v_obj))
        } else {
            return Err(error!(TypeError, "Cannot convert from type `{}` to `Array<Any>`", type_key(&view)));
        };
        let old = field.cast::<*mut TVMFFIObject>().replace(new);
        module::imports_replaced();
        if !old.is_null() {
            embedded::dec_ref(old);
        }
        Ok(())
    })
}
