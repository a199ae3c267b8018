//! Objects, values and the allocator: see [`crate::cells`].

use core::ffi::{c_int, c_void};

use super::guard::write_to;
use super::parameters::checked;
use crate::abi::{TVMFFIAny, TVMFFICustomAllocator, TVMFFIObjectHandle, TVMFFIVersion};
use crate::cells::release::to_owned;
use crate::cells::{dec_ref, inc_ref, opaque};
use crate::env::custom_allocator;

/// The version of the ABI that this implementation provides.
const VERSION: TVMFFIVersion = TVMFFIVersion { major: 0, minor: 1, patch: 16 };

// SAFETY of all functions: the callers follow the C header, see the module above.

pub(super) unsafe extern "C" fn get_version(out: *mut TVMFFIVersion) {
    if !out.is_null() {
        // SAFETY: see above.
        unsafe { out.write(VERSION) }
    }
}

pub(super) unsafe extern "C" fn object_inc_ref(obj: TVMFFIObjectHandle) -> c_int {
    if !obj.is_null() {
        // SAFETY: see above.
        unsafe { inc_ref(obj) }
    }
    0
}

pub(super) unsafe extern "C" fn object_dec_ref(obj: TVMFFIObjectHandle) -> c_int {
    if !obj.is_null() {
        // SAFETY: see above.
        unsafe { dec_ref(obj) }
    }
    0
}

pub(super) unsafe extern "C" fn object_create_opaque(
    handle: *mut c_void,
    type_index: i32,
    deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    out: *mut TVMFFIObjectHandle,
) -> c_int {
    write_to("TVMFFIObjectCreateOpaque", out, || opaque::new_opaque(handle, type_index, deleter))
}

pub(super) unsafe extern "C" fn get_custom_allocator() -> *mut TVMFFICustomAllocator {
    custom_allocator::current()
}

pub(super) unsafe extern "C" fn set_custom_allocator(allocator: *mut TVMFFICustomAllocator) -> c_int {
    custom_allocator::install(allocator);
    0
}

pub(super) unsafe extern "C" fn any_view_to_owned_any(view: *const TVMFFIAny, out: *mut TVMFFIAny) -> c_int {
    // SAFETY: see above.
    write_to("TVMFFIAnyViewToOwnedAny", out, || unsafe { to_owned(checked(view, "any")?) })
}
