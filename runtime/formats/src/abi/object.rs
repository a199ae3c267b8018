use core::ffi::c_void;

use super::assert_layout;

/// Runs an object's destructor and/or frees its storage; the first argument is the address of the
/// header.
pub type ObjectDeleter = unsafe extern "C" fn(this: *mut c_void, flags: i32);

/// A reference to an object in C code: the address of its header.
pub type TVMFFIObjectHandle = *mut TVMFFIObject;

/// Header of every reference-counted object.
#[repr(C)]
pub struct TVMFFIObject {
    /// Strong count in the low 32 bits, weak count in the high 32 bits. Accessed atomically.
    pub combined_ref_count: u64,
    /// Run-time type index.
    pub type_index: i32,
    /// Always zero.
    pub padding: u32,
    /// Destroys the object; NULL (`None`) for objects that are never destroyed.
    pub deleter: Option<ObjectDeleter>,
}

/// Bits of the deleter's `flags`.
pub mod deleter_flag {
    /// The last strong reference is gone: run the destructor.
    pub const STRONG: i32 = 1;
    /// The last weak reference is gone: free the storage.
    pub const WEAK: i32 = 2;
    /// Both at once.
    pub const BOTH: i32 = 3;
}

/// The word before an object's body if a custom allocator created the object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFIObjectAllocHeader {
    /// Frees the storage; receives the body's address.
    pub delete_space: Option<unsafe extern "C" fn(ptr: *mut c_void)>,
}

/// An allocator that a frontend installs for objects.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TVMFFICustomAllocator {
    /// Returns storage for a body, preceded by an initialized [`TVMFFIObjectAllocHeader`], or NULL
    /// with an error raised.
    pub allocate: Option<
        unsafe extern "C" fn(size: usize, alignment: usize, type_index: i32, context: *mut c_void) -> *mut c_void,
    >,
    /// Passed to `allocate` unchanged.
    pub context: *mut c_void,
}

assert_layout!(TVMFFIObject, size = 24, align = 8, {
    combined_ref_count @ 0, type_index @ 8, padding @ 12, deleter @ 16,
});
assert_layout!(TVMFFIObjectAllocHeader, size = 8, align = 8, { delete_space @ 0 });
assert_layout!(TVMFFICustomAllocator, size = 16, align = 8, { allocate @ 0, context @ 8 });
