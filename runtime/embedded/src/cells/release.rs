//! Ownership of values: retaining, releasing, and converting views to owned values.
//!
//! Containers release their elements here, and objects are destroyed through this module, so that
//! dropping a long chain of nested containers and objects needs a bounded stack: below a certain
//! depth they are queued, and the outermost release empties the queue.

use core::cell::{Cell, RefCell};
use core::ffi::c_void;

use crate::abi::{TVMFFIAny, TVMFFIByteArray, TVMFFIObject, deleter_flag, type_index};

use super::failure::Failure;
use super::{dec_ref, dec_weak, inc_ref, inc_weak, new_bytes, new_string, text_of};

/// The nesting depth up to which containers are released recursively; deeper ones are queued.
const MAX_DEPTH: u32 = 64;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static WAITING: RefCell<Vec<Waiting>> = const { RefCell::new(Vec::new()) };
    /// True if the queue may be non-empty.
    static ANY_WAITING: Cell<bool> = const { Cell::new(false) };
}

/// A release that waits until fewer destructors are on the stack.
enum Waiting {
    /// A reference to release.
    Reference(*mut TVMFFIObject),
    /// An object to destroy: its deleter is called again, with these flags. `keeps` is true if a
    /// weak reference keeps the storage.
    Object { this: *mut c_void, flags: i32, deleter: unsafe extern "C" fn(*mut c_void, i32), keeps: bool },
}

/// Returns true if a value owns (or, as a view, borrows) an object.
#[inline]
pub fn is_object(value: &TVMFFIAny) -> bool {
    value.type_index >= type_index::STATIC_OBJECT_BEGIN
}

/// A second owned copy of an owned value.
///
/// # Safety
/// If `value` has an object, it is alive.
#[inline]
pub unsafe fn retain(value: &TVMFFIAny) -> TVMFFIAny {
    if is_object(value) {
        // SAFETY: the payload of an object index is an object; the caller promises that it is
        // alive.
        unsafe { inc_ref(value.payload.v_obj) };
    }
    *value
}

/// Releases an owned value.
///
/// # Safety
/// The caller owns the value and does not use it afterwards.
#[inline]
pub unsafe fn release(value: TVMFFIAny) {
    if is_object(&value) {
        // SAFETY: the payload of an object index is an object; the caller owns a reference to it.
        unsafe { dec_ref(value.payload.v_obj) };
    }
}

/// Releases the owned elements of a container that is being destroyed.
///
/// # Safety
/// As for [`release`], for every value.
pub unsafe fn release_elements(elements: impl IntoIterator<Item = TVMFFIAny>) {
    let releasing = Releasing::begin();
    for value in elements {
        // SAFETY: promised by the caller.
        unsafe { releasing.give_up(value) };
    }
}

/// A scope in which the elements of one container are being released.
pub struct Releasing {
    /// The number of containers around this one that are being released, too.
    depth: u32,
}

impl Releasing {
    #[inline]
    pub(super) fn begin() -> Self {
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        Self { depth }
    }

    /// Releases an element.
    ///
    /// # Safety
    /// As for [`release`].
    #[inline]
    pub(super) unsafe fn give_up(&self, value: TVMFFIAny) {
        if !is_object(&value) {
            return;
        }
        // SAFETY: the payload of an object index is an object; the caller owns a reference to it.
        unsafe {
            if self.depth < MAX_DEPTH || !wait(Waiting::Reference(value.payload.v_obj)) {
                dec_ref(value.payload.v_obj);
            }
        }
    }
}

impl Drop for Releasing {
    #[inline]
    fn drop(&mut self) {
        if self.depth == 0 && ANY_WAITING.get() {
            empty_queue();
        }
        DEPTH.set(self.depth);
    }
}

/// Begins to destroy an object, or defers it if too many are being destroyed around it; returns
/// `None` in that case.
///
/// # Safety
/// The caller is `deleter`, called for `this` with these flags, including the flag of the strong
/// references; it returns immediately when the result is `None`.
#[inline]
pub unsafe fn descend(
    this: *mut c_void,
    flags: i32,
    deleter: unsafe extern "C" fn(*mut c_void, i32),
) -> Option<Releasing> {
    let releasing = Releasing::begin();
    if releasing.depth < MAX_DEPTH {
        return Some(releasing);
    }
    let keeps = flags & deleter_flag::WEAK == 0;
    if keeps {
        // The code that called the deleter releases the weak reference of the strong ones next.
        // SAFETY: that reference is still there.
        unsafe { inc_weak(this.cast()) };
    }
    if wait(Waiting::Object { this, flags, deleter, keeps }) {
        return None;
    }
    if keeps {
        // SAFETY: the reference was added above.
        unsafe { dec_weak(this.cast()) };
    }
    Some(releasing)
}

#[cold]
#[inline(never)]
fn empty_queue() {
    while let Some(waiting) = next_waiting() {
        // SAFETY: each was put into the queue once, with its arguments.
        unsafe {
            match waiting {
                Waiting::Reference(object) => dec_ref(object),
                Waiting::Object { this, flags, deleter, keeps } => {
                    deleter(this, flags);
                    if keeps {
                        dec_weak(this.cast());
                    }
                }
            }
        }
    }
}

/// Returns false if the queue is already destroyed because the thread ends; the caller then
/// recurses.
#[cold]
#[inline(never)]
fn wait(waiting: Waiting) -> bool {
    ANY_WAITING.set(true);
    WAITING.try_with(|queue| queue.borrow_mut().push(waiting)).is_ok()
}

fn next_waiting() -> Option<Waiting> {
    if !ANY_WAITING.get() {
        return None;
    }
    let next = WAITING.try_with(|queue| queue.borrow_mut().pop()).ok().flatten();
    ANY_WAITING.set(next.is_some());
    next
}

/// Returns true if a view has the form of an owned value, so that [`retain`] makes it one.
#[inline]
pub fn is_owned_form(view: &TVMFFIAny) -> bool {
    !matches!(view.type_index, type_index::RAW_STR | type_index::BYTE_ARRAY_PTR | type_index::OBJECT_RVALUE_REF)
}

/// Converts a view to an owned value: objects are retained, borrowed texts are copied, an object
/// behind an rvalue reference is moved out.
///
/// # Safety
/// `view` follows the ABI's rules for its type index, and its referent is alive.
#[inline]
pub unsafe fn to_owned(view: &TVMFFIAny) -> Result<TVMFFIAny, Failure> {
    if is_owned_form(view) {
        // SAFETY: promised by the caller.
        return Ok(unsafe { retain(view) });
    }
    // SAFETY: promised by the caller.
    unsafe { borrowed_to_owned(view) }
}

/// The part of [`to_owned`] for kinds that only a view can have.
///
/// # Safety
/// As for [`to_owned`].
#[inline(never)]
unsafe fn borrowed_to_owned(view: &TVMFFIAny) -> Result<TVMFFIAny, Failure> {
    match view.type_index {
        // SAFETY: promised by the caller.
        type_index::RAW_STR => match unsafe { text_of(view) } {
            Some(text) => Ok(new_string(text)),
            None => Err(Failure::value("expected a C string, got a NULL `const char*`")),
        },
        // SAFETY: promised by the caller.
        type_index::BYTE_ARRAY_PTR => match unsafe { text_of(view) } {
            Some(bytes) => Ok(new_bytes(bytes)),
            None => Err(Failure::value("expected bytes, got a NULL `TVMFFIByteArray*`")),
        },
        type_index::OBJECT_RVALUE_REF => {
            // SAFETY: the payload of an rvalue reference points to an object pointer of the caller,
            // which it lets us take.
            unsafe {
                let slot = view.payload.v_ptr.cast::<*mut TVMFFIObject>();
                if slot.is_null() || (*slot).is_null() {
                    return Err(Failure::internal(
                        "Check failed: (obj_addr[0] != nullptr) is false: RValueRef already moved",
                    ));
                }
                let object = slot.replace(core::ptr::null_mut());
                Ok(TVMFFIAny::pointer((*object).type_index, object.cast()))
            }
        }
        // SAFETY: promised by the caller.
        _ => Ok(unsafe { retain(view) }),
    }
}

/// The bytes that a `const TVMFFIByteArray*` parameter points to.
///
/// # Safety
/// `array` is NULL or points to a valid byte array that lives for `'a`.
#[track_caller]
pub unsafe fn bytes_at<'a>(array: *const TVMFFIByteArray, parameter: &str) -> Result<&'a [u8], Failure> {
    if array.is_null() {
        return Err(Failure::value(format_args!("the argument `{parameter}` is NULL")));
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { (*array).as_slice() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::seq::new_array;
    use crate::cells::{new_string_object, strong_count};

    #[test]
    fn a_deep_chain_is_dropped_on_a_small_stack() {
        let dropped = std::thread::Builder::new().stack_size(128 * 1024).spawn(|| {
            let inner = new_string_object(b"inner");
            // SAFETY: the test owns every reference that it gives up.
            unsafe {
                inc_ref(inner);
                let mut value = TVMFFIAny::pointer(type_index::STR, inner.cast());
                for _ in 0..200_000 {
                    value = TVMFFIAny::pointer(type_index::ARRAY, new_array(vec![value, TVMFFIAny::int(1)]).cast());
                }
                release(value);
                assert_eq!(strong_count(inner), 1);
                dec_ref(inner);
            }
        });
        dropped.unwrap().join().unwrap();
    }

    #[test]
    fn views_become_owned() {
        // SAFETY: every view below is valid for its type index; references are given up once.
        unsafe {
            let raw = TVMFFIAny::pointer(type_index::RAW_STR, c"a string of 21 bytes.".as_ptr().cast_mut().cast());
            let owned = to_owned(&raw).unwrap();
            assert_eq!(owned.type_index, type_index::STR);
            assert_eq!(text_of(&owned).unwrap(), b"a string of 21 bytes.");
            release(owned);

            let array = TVMFFIByteArray::new(b"abc");
            let view = TVMFFIAny::pointer(type_index::BYTE_ARRAY_PTR, (&raw const array).cast_mut().cast());
            let owned = to_owned(&view).unwrap();
            assert_eq!((owned.type_index, owned.small_len), (type_index::SMALL_BYTES, 3));

            let mut object = new_string_object(b"moved");
            let rvalue = TVMFFIAny::pointer(type_index::OBJECT_RVALUE_REF, (&raw mut object).cast());
            let owned = to_owned(&rvalue).unwrap();
            assert!(object.is_null());
            assert_eq!(owned.type_index, type_index::STR);
            release(owned);
            let error = to_owned(&rvalue).err().unwrap();
            assert_eq!(error.kind(), "InternalError");
            assert!(error.message().ends_with("RValueRef already moved"));
        }
    }
}
