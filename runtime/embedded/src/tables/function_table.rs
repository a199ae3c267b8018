//! Global functions, by name. Any thread may use the table, and looking up a function takes no
//! lock. Functions are called and destroyed outside of all locks.

use core::ptr::null_mut;

use crate::abi::{TVMFFIMethodInfo, TVMFFIObject, field_flag, type_index};

use super::type_table;
use crate::cells::failure::Failure;
use crate::cells::inc_ref;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::sync::name_table::NameTable;
use crate::sync::shared_ref::SharedRef;

/// The table's entry for a name, created at its first registration.
struct GlobalFunction {
    /// Replaced only under the lock of `record`; NULL while no function has the name.
    function: SharedRef<TVMFFIObject>,
    /// `None` while no function has the name.
    record: Mutex<Option<Record>>,
}

struct Record {
    info: GlobalFunctionInfo,
    /// The number of this registration.
    order: u64,
}

impl GlobalFunction {
    fn new() -> Self {
        // SAFETY: the word is NULL.
        let function = unsafe { SharedRef::new(AtomicPtr::new(null_mut())) };
        Self { function, record: Mutex::new(None) }
    }

    fn record(&self) -> MutexGuard<'_, Option<Record>> {
        lock(&self.record)
    }
}

/// Never destroyed: functions may live in libraries or languages that are already gone at exit.
static TABLE: NameTable<GlobalFunction> =
    // SAFETY: NULL and 0.
    unsafe { NameTable::new(AtomicPtr::new(null_mut()), Mutex::new(0)) };
/// The number of the next registration.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The public information about a global function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalFunctionInfo {
    /// Documentation.
    pub doc: Vec<u8>,
    /// JSON object with the type schema.
    pub metadata: Vec<u8>,
    /// Bits of [`field_flag`].
    pub flags: i64,
}

/// Registers a function; the table takes its own reference.
///
/// # Errors
/// `RuntimeError` if the name is taken and may not be overridden, `TypeError` if `function` is not
/// a function.
///
/// # Safety
/// `function` is NULL or a live object.
pub unsafe fn set_global(name: &[u8], function: *mut TVMFFIObject, allow_override: bool) -> Result<(), Failure> {
    let info = GlobalFunctionInfo { flags: field_flag::IS_STATIC_METHOD, ..GlobalFunctionInfo::default() };
    // SAFETY: promised by the caller.
    if unsafe { insert(name, function, info, allow_override)? } {
        return Ok(());
    }
    Err(Failure::of_parts("RuntimeError", &[b"Global Function `", name, b"` is already registered"]))
}

/// Registers a function with documentation and metadata.
///
/// # Errors
/// As [`set_global`]; a taken name is also written to stderr.
///
/// # Safety
/// The strings and the method value of `info` are valid.
pub unsafe fn set_global_with_info(info: &TVMFFIMethodInfo, allow_override: bool) -> Result<(), Failure> {
    // SAFETY: promised by the caller; the payload is an object when the type index is that of
    // functions.
    unsafe {
        let name = info.name.as_slice();
        let function = match info.method.type_index {
            type_index::FUNCTION => info.method.payload.v_obj,
            _ if !allow_override && is_taken(name) => null_mut(),
            other => return Err(no_function(other)),
        };
        let kept = GlobalFunctionInfo {
            doc: info.doc.as_slice().to_vec(),
            metadata: info.metadata.as_slice().to_vec(),
            flags: info.flags,
        };
        if insert(name, function, kept, allow_override)? {
            return Ok(());
        }
        let failure = Failure::of_parts(
            "RuntimeError",
            &[
                b"Global Function `",
                name,
                b"` is already registered, possible causes:\n\
                  - Two GlobalDef().def registrations for the same function \n\
                  Please remove the duplicate registration.",
            ],
        );
        crate::notice::notice(format_args!("{failure:?}"));
        Err(failure)
    }
}

/// Returns false if the name is taken.
///
/// # Safety
/// As for [`set_global`].
unsafe fn insert(
    name: &[u8],
    function: *mut TVMFFIObject,
    info: GlobalFunctionInfo,
    allow_override: bool,
) -> Result<bool, Failure> {
    if !allow_override && is_taken(name) {
        return Ok(false);
    }
    // SAFETY: promised by the caller.
    let found = if function.is_null() { type_index::NONE } else { unsafe { (*function).type_index } };
    if found != type_index::FUNCTION {
        return Err(no_function(found));
    }
    if !SharedRef::can_hold(function) {
        return Err(Failure::runtime(format_args!("the address {function:p} of the function has more than 48 bits")));
    }
    let entry = TABLE.get_or_insert(name, GlobalFunction::new);
    let mut record = entry.record();
    if !allow_override && record.is_some() {
        return Ok(false);
    }
    let old_record = record.replace(Record { info, order: NEXT.fetch_add(1, Ordering::Relaxed) });
    // SAFETY: the function is alive, and its new reference is the entry's; we hold the lock.
    let old = unsafe {
        inc_ref(function);
        entry.function.replace(function)
    };
    drop(record);
    // The destructor of the old function may use the table.
    drop((old, old_record));
    Ok(true)
}

fn is_taken(name: &[u8]) -> bool {
    TABLE.get(name).is_some_and(|entry| entry.record().is_some())
}

#[cold]
fn no_function(type_index: i32) -> Failure {
    let info = type_table::type_info(type_index);
    let found = if info.is_null() {
        format!("type index {type_index}")
    } else {
        // SAFETY: type information lives as long as the process.
        String::from_utf8_lossy(unsafe { (*info).type_key.as_slice() }).into_owned()
    };
    Failure::type_error(format_args!("Cannot convert from type `{found}` to `ffi.Function`"))
}

/// Looks up a function and returns a new reference to it, which the caller owns; NULL if there is
/// no function of this name.
#[inline]
pub fn find_global(name: &[u8]) -> *mut TVMFFIObject {
    TABLE.get(name).map_or(null_mut(), |entry| entry.function.copy())
}

/// Returns the information registered with a function, if there is one of this name.
pub fn global_info(name: &[u8]) -> Option<GlobalFunctionInfo> {
    Some(TABLE.get(name)?.record().as_ref()?.info.clone())
}

/// Removes a function; returns false if there is none of this name.
pub fn remove_global(name: &[u8]) -> bool {
    let Some(entry) = TABLE.get(name) else { return false };
    let mut record = entry.record();
    let old_record = record.take();
    // SAFETY: NULL is allowed, and we hold the lock.
    let old = unsafe { entry.function.replace(null_mut()) };
    drop(record);
    // The destructor of the function may use the table.
    drop(old);
    old_record.is_some()
}

/// All names in the order of registration; an overridden function counts as new.
pub fn list_names() -> Vec<Vec<u8>> {
    let mut names = unordered_names();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name.to_vec()).collect()
}

/// All names, each with its number in the order of registration.
pub fn unordered_names() -> Vec<(u64, &'static [u8])> {
    let mut names = Vec::new();
    for (name, entry) in TABLE.entries() {
        if let Some(record) = entry.record().as_ref() {
            names.push((record.order, name));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{TVMFFIAny, TVMFFIByteArray};
    use crate::cells::shape::new_shape;
    use crate::cells::{dec_ref, new_function, strong_count};

    unsafe extern "C" fn nothing(_: *mut core::ffi::c_void, _: *const TVMFFIAny, _: i32, _: *mut TVMFFIAny) -> i32 {
        0
    }

    #[test]
    fn names_are_unique_unless_overridden() {
        // SAFETY: the test owns every reference that it gives up.
        unsafe {
            let (first, second) = (new_function(nothing, ()), new_function(nothing, ()));
            set_global(b"table.f", first, false).unwrap();
            let error = set_global(b"table.f", second, false).unwrap_err();
            assert_eq!(error.kind(), "RuntimeError");
            assert_eq!(error.message(), "Global Function `table.f` is already registered");
            assert_eq!((strong_count(first), strong_count(second)), (2, 1));
            set_global(b"table.g", first, false).unwrap();
            set_global(b"table.f", second, true).unwrap();
            assert_eq!((strong_count(first), strong_count(second)), (2, 2));
            let names: Vec<_> = list_names().into_iter().filter(|name| name.starts_with(b"table.")).collect();
            assert_eq!(names, [b"table.g", b"table.f"]);
            let found = find_global(b"table.f");
            assert_eq!(found, second);
            dec_ref(found);
            assert!(find_global(b"table.h").is_null());
            assert!(remove_global(b"table.f") && !remove_global(b"table.f"));
            assert_eq!(strong_count(second), 1);
            remove_global(b"table.g");
            dec_ref(first);
            dec_ref(second);
        }
    }

    #[test]
    fn info_is_kept_and_only_functions_are_accepted() {
        // SAFETY: the test owns every reference that it gives up.
        unsafe {
            let function = new_function(nothing, ());
            let info = TVMFFIMethodInfo {
                name: TVMFFIByteArray::new(b"info.f"),
                doc: TVMFFIByteArray::new(b"Does nothing."),
                metadata: TVMFFIByteArray::new(b"{}"),
                flags: 4,
                method: TVMFFIAny::pointer(type_index::FUNCTION, function.cast()),
            };
            set_global_with_info(&info, false).unwrap();
            assert!(set_global_with_info(&info, false).is_err());
            let kept = global_info(b"info.f").unwrap();
            assert_eq!(
                (kept.doc.as_slice(), kept.metadata.as_slice(), kept.flags),
                (&b"Does nothing."[..], &b"{}"[..], 4)
            );
            remove_global(b"info.f");
            dec_ref(function);

            let info = TVMFFIMethodInfo { method: TVMFFIAny::int(1), ..info };
            let error = set_global_with_info(&info, false).unwrap_err();
            assert_eq!(error.message(), "Cannot convert from type `int` to `ffi.Function`");
            assert_eq!(set_global(b"info.f", null_mut(), true).unwrap_err().kind(), "TypeError");
            let shape = new_shape(&[1]);
            assert_eq!(set_global(b"info.f", shape, true).unwrap_err().kind(), "TypeError");
            dec_ref(shape);
        }
    }
}
