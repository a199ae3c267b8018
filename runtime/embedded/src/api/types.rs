//! Types: keys, members and attributes.

use core::ffi::c_int;

use super::guard::{guarded, raise, status};
use super::parameters::{checked, writable};
use crate::abi::{
    TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFIMethodInfo, TVMFFITypeAttrColumn, TVMFFITypeInfo,
    TVMFFITypeMetadata,
};
use crate::cells::failure::Failure;
use crate::cells::release::bytes_at;
use crate::tables::type_table::NewType;
use crate::tables::{type_attr, type_members, type_table};

// SAFETY of all functions: the callers follow the C header, see the module above.

pub(super) unsafe extern "C" fn type_key_to_index(key: *const TVMFFIByteArray, out: *mut i32) -> c_int {
    status("TVMFFITypeKeyToIndex", || {
        let out = writable(out, "out_tindex")?;
        // SAFETY: see above.
        unsafe { out.write(type_table::index_of(bytes_at(key, "type_key")?)?) };
        Ok(())
    })
}

pub(super) unsafe extern "C" fn type_get_or_alloc_index(
    key: *const TVMFFIByteArray,
    static_index: i32,
    depth: i32,
    num_child_slots: i32,
    child_slots_can_overflow: i32,
    parent_index: i32,
) -> i32 {
    guarded("TVMFFITypeGetOrAllocIndex", -1, || {
        // SAFETY: see above.
        let key = unsafe { bytes_at(key, "type_key")? };
        type_table::get_or_allocate(NewType {
            key,
            static_index,
            depth,
            num_child_slots,
            can_overflow: child_slots_can_overflow != 0,
            parent: parent_index,
        })
    })
}

pub(super) unsafe extern "C" fn get_type_info(type_index: i32) -> *const TVMFFITypeInfo {
    let info = type_table::type_info(type_index);
    if info.is_null() {
        raise(
            "TVMFFIGetTypeInfo",
            Failure::internal(format_args!(
                "Check failed: (entry != nullptr) is false: Cannot find type info for type_index={type_index}"
            )),
        );
    }
    info
}

pub(super) unsafe extern "C" fn type_register_field(type_index: i32, info: *const TVMFFIFieldInfo) -> c_int {
    // SAFETY: see above.
    status("TVMFFITypeRegisterField", || unsafe { type_members::register_field(type_index, checked(info, "info")?) })
}

pub(super) unsafe extern "C" fn type_register_method(type_index: i32, info: *const TVMFFIMethodInfo) -> c_int {
    // SAFETY: see above.
    status("TVMFFITypeRegisterMethod", || unsafe { type_members::register_method(type_index, checked(info, "info")?) })
}

pub(super) unsafe extern "C" fn type_register_metadata(type_index: i32, metadata: *const TVMFFITypeMetadata) -> c_int {
    // SAFETY: see above.
    status("TVMFFITypeRegisterMetadata", || unsafe {
        type_members::register_metadata(type_index, checked(metadata, "metadata")?)
    })
}

pub(super) unsafe extern "C" fn type_register_attr(
    type_index: i32,
    name: *const TVMFFIByteArray,
    value: *const TVMFFIAny,
) -> c_int {
    // SAFETY: see above.
    status("TVMFFITypeRegisterAttr", || unsafe {
        type_attr::register_attr(type_index, bytes_at(name, "attr_name")?, checked(value, "attr_value")?)
    })
}

pub(super) unsafe extern "C" fn get_type_attr_column(name: *const TVMFFIByteArray) -> *const TVMFFITypeAttrColumn {
    guarded("TVMFFIGetTypeAttrColumn", core::ptr::null(), || {
        // SAFETY: see above.
        let name = unsafe { bytes_at(name, "attr_name")? };
        Ok(type_attr::column(name))
    })
}
