use super::AnyView;
use super::schema::readable;
use crate::abi::type_index;
use crate::provider;

/// Returns the name of a value's type for error messages.
pub(crate) fn type_name(value: &AnyView<'_>) -> String {
    let key = match value.type_index() {
        type_index::NONE => "None",
        type_index::INT => "int",
        type_index::BOOL => "bool",
        type_index::FLOAT => "float",
        type_index::OPAQUE_PTR => "void*",
        type_index::DATA_TYPE => "DataType",
        type_index::DEVICE => "Device",
        type_index::DL_TENSOR_PTR => "Tensor",
        type_index::RAW_STR | type_index::SMALL_STR | type_index::STR => "str",
        type_index::BYTE_ARRAY_PTR | type_index::SMALL_BYTES | type_index::BYTES => "bytes",
        _ => {
            return match value.object() {
                Some(object) => {
                    // SAFETY: the view keeps the object alive.
                    let index = unsafe { (*object).type_index };
                    readable(&type_key(index)).to_owned()
                }
                None => format!("a value of unknown type index {}", value.type_index()),
            };
        }
    };
    key.to_owned()
}

/// Returns the key of a registered type.
#[doc(hidden)]
pub fn type_key(index: i32) -> String {
    // SAFETY: `index` comes from a live object, so it is registered; its description lives forever.
    unsafe {
        let info = (provider::api().get_type_info)(index);
        if info.is_null() {
            return format!("type index {index}");
        }
        String::from_utf8_lossy((*info).type_key.as_slice()).into_owned()
    }
}
