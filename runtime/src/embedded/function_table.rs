//! Global functions, by name. Any thread may use the table; functions are called and destroyed outside its lock.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::abi::{TVMFFIMethodInfo, TVMFFIObject, field_flag, type_index};

use super::failure::Failure;
use super::name_table::NameTable;
use super::{dec_ref, inc_ref, type_table};

/// A registered function. The table owns one reference.
struct GlobalFunction {
    function: *mut TVMFFIObject,
    doc: Vec<u8>,
    metadata: Vec<u8>,
    flags: i64,
}

// SAFETY: function objects are reference-counted atomically and may be used from any thread (the ABI's rule).
unsafe impl Send for GlobalFunction {}
// SAFETY: as above.
unsafe impl Sync for GlobalFunction {}

impl Drop for GlobalFunction {
    fn drop(&mut self) {
        // SAFETY: the entry owns this reference.
        unsafe { dec_ref(self.function) }
    }
}

/// Never destroyed: functions may live in libraries or languages that are already gone at exit.
static TABLE: RwLock<NameTable<GlobalFunction>> = RwLock::new(NameTable::new());

fn read() -> RwLockReadGuard<'static, NameTable<GlobalFunction>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, NameTable<GlobalFunction>> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// What can be asked about a global function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalFunctionInfo {
    /// Documentation.
    pub doc: Vec<u8>,
    /// JSON object with the type schema.
    pub metadata: Vec<u8>,
    /// Bits of [`field_flag`].
    pub flags: i64,
}

/// Registers a function; the table takes a reference of its own.
///
/// # Errors
/// `RuntimeError` when the name is taken and may not be overridden, `TypeError` when `function` is no function.
///
/// # Safety
/// `function` is NULL or a live object.
pub unsafe fn set_global(name: &[u8], function: *mut TVMFFIObject, allow_override: bool) -> Result<(), Failure> {
    let info = GlobalFunctionInfo { flags: field_flag::IS_STATIC_METHOD, ..GlobalFunctionInfo::default() };
    // SAFETY: promised by the caller.
    if unsafe { insert(name, function, info, allow_override)? } {
        return Ok(());
    }
    Err(Failure::runtime(format_args!("Global Function `{}` is already registered", String::from_utf8_lossy(name))))
}

/// Registers a function with documentation and metadata.
///
/// # Errors
/// As [`set_global`]; a taken name is also written to stderr.
///
/// # Safety
/// The strings and the method value of `info` are valid.
pub unsafe fn set_global_with_info(info: &TVMFFIMethodInfo, allow_override: bool) -> Result<(), Failure> {
    // SAFETY: promised by the caller; the payload is an object when the index says a function.
    unsafe {
        let name = info.name.as_slice();
        let function = match info.method.type_index {
            type_index::FUNCTION => info.method.payload.v_obj,
            other => return Err(no_function(name, other)),
        };
        let kept = GlobalFunctionInfo {
            doc: info.doc.as_slice().to_vec(),
            metadata: info.metadata.as_slice().to_vec(),
            flags: info.flags,
        };
        if insert(name, function, kept, allow_override)? {
            return Ok(());
        }
        let message = format!(
            "Global Function `{}` is already registered, possible causes:\n\
             - Two GlobalDef().def registrations for the same function \n\
             Please remove the duplicate registration.",
            String::from_utf8_lossy(name)
        );
        crate::notice::notice(format_args!("RuntimeError: {message}"));
        Err(Failure::runtime(message))
    }
}

/// False when the name is taken.
unsafe fn insert(
    name: &[u8],
    function: *mut TVMFFIObject,
    info: GlobalFunctionInfo,
    allow_override: bool,
) -> Result<bool, Failure> {
    // SAFETY: the caller passes NULL or a live object.
    let found = if function.is_null() { type_index::NONE } else { unsafe { (*function).type_index } };
    if found != type_index::FUNCTION {
        return Err(no_function(name, found));
    }
    let mut table = write();
    if !allow_override && table.get(name).is_some() {
        return Ok(false);
    }
    // SAFETY: the function is alive; the new reference is the entry's.
    unsafe { inc_ref(function) };
    let GlobalFunctionInfo { doc, metadata, flags } = info;
    let old = table.insert(name, GlobalFunction { function, doc, metadata, flags });
    // The destructor of the old function may use the table.
    drop(table);
    drop(old);
    Ok(true)
}

fn no_function(name: &[u8], type_index: i32) -> Failure {
    let info = type_table::type_info(type_index);
    let found = if info.is_null() {
        format!("type index {type_index}")
    } else {
        // SAFETY: type information lives as long as the process.
        String::from_utf8_lossy(unsafe { (*info).type_key.as_slice() }).into_owned()
    };
    let name = String::from_utf8_lossy(name);
    Failure::type_error(format_args!("global function `{name}`: Cannot convert from type `{found}` to `ffi.Function`"))
}

/// A function and a new reference to it, which the caller owns; NULL when there is none of this name.
pub fn get_global(name: &[u8]) -> *mut TVMFFIObject {
    let table = read();
    let Some(entry) = table.get(name) else { return core::ptr::null_mut() };
    // SAFETY: the entry keeps the function alive while the lock is held.
    unsafe { inc_ref(entry.function) };
    entry.function
}

/// What was registered with a function, if there is one of this name.
pub fn global_info(name: &[u8]) -> Option<GlobalFunctionInfo> {
    let table = read();
    let GlobalFunction { doc, metadata, flags, function: _ } = table.get(name)?;
    Some(GlobalFunctionInfo { doc: doc.clone(), metadata: metadata.clone(), flags: *flags })
}

/// Removes a function; false when there is none of this name.
pub fn remove_global(name: &[u8]) -> bool {
    // Dropped after the lock is released: its destructor may use the table.
    let removed = write().remove(name);
    removed.is_some()
}

/// All names in the order of registration; an overridden function counts as new.
pub fn list_names() -> Vec<Vec<u8>> {
    read().names().map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{TVMFFIAny, TVMFFIByteArray};
    use crate::embedded::shape::new_shape;
    use crate::embedded::{new_function, strong_count};

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
            let found = get_global(b"table.f");
            assert_eq!(found, second);
            dec_ref(found);
            assert!(get_global(b"table.h").is_null());
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
            assert_eq!(error.message(), "global function `info.f`: Cannot convert from type `int` to `ffi.Function`");
            assert_eq!(set_global(b"info.f", core::ptr::null_mut(), true).unwrap_err().kind(), "TypeError");
            let shape = new_shape(&[1]);
            assert_eq!(set_global(b"info.f", shape, true).unwrap_err().kind(), "TypeError");
            dec_ref(shape);
        }
    }
}
