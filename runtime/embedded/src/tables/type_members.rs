//! Fields, methods and metadata of registered types. Registrations last for the life of the
//! process.

use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::abi::{
    TVMFFIAny, TVMFFIByteArray, TVMFFIFieldInfo, TVMFFIMethodInfo, TVMFFITypeInfo, TVMFFITypeMetadata, field_flag,
};

use super::type_registry::lock;
use super::type_table::{TypeEntry, entry, keep_text};
use crate::cells::failure::Failure;
use crate::cells::inc_ref;
use crate::cells::release::to_owned;
use crate::sync::outgrown;

/// Adds a field to a type.
///
/// # Errors
/// `InternalError` for an unknown type or a second field of the same name.
///
/// # Safety
/// The field's strings and values are valid.
pub unsafe fn register_field(type_index: i32, field: &TVMFFIFieldInfo) -> Result<(), Failure> {
    let guard = lock();
    let entry = known(type_index)?;
    // SAFETY: entries are only changed under the lock, which we hold; the caller promises a valid
    // field.
    unsafe {
        let info = &raw mut (*entry).info;
        let name = field.name.as_slice();
        if fields(&*info).iter().any(|known| known.name.as_slice() == name) {
            return Err(Failure::of_parts(
                "InternalError",
                &[
                    b"Check failed: (std::string_view(existing.name.data, existing.name.size) != new_name) is false: \
                      Duplicate field name \"",
                    name,
                    b"\" in type \"",
                    (*info).type_key.as_slice(),
                    b"\"",
                ],
            ));
        }
        warn_about_shadowing(&*info, name);
        let default = match field.flags & field_flag::HAS_DEFAULT {
            0 => TVMFFIAny::NONE,
            _ => to_owned(&field.default_value_or_factory)?,
        };
        if field.flags & field_flag::SETTER_IS_FUNCTION_OBJ != 0 && !field.setter.is_null() {
            inc_ref(field.setter.cast());
        }
        let kept = TVMFFIFieldInfo {
            name: keep(field.name),
            doc: keep(field.doc),
            metadata: keep(field.metadata),
            default_value_or_factory: default,
            ..*field
        };
        let count = &raw mut (*info).num_fields;
        append(&raw mut (*info).fields, count, &mut (*entry).fields_capacity, kept);
    }
    drop(guard);
    Ok(())
}

/// Adds a method to a type.
///
/// # Errors
/// `InternalError` for an unknown type.
///
/// # Safety
/// The method's strings and value are valid.
pub unsafe fn register_method(type_index: i32, method: &TVMFFIMethodInfo) -> Result<(), Failure> {
    let guard = lock();
    let entry = known(type_index)?;
    // SAFETY: entries are only changed under the lock, which we hold; the caller promises a valid
    // method.
    unsafe {
        let info = &raw mut (*entry).info;
        let kept = TVMFFIMethodInfo {
            name: keep(method.name),
            doc: keep(method.doc),
            metadata: keep(method.metadata),
            flags: method.flags,
            method: to_owned(&method.method)?,
        };
        let count = &raw mut (*info).num_methods;
        append(&raw mut (*info).methods, count, &mut (*entry).methods_capacity, kept);
    }
    drop(guard);
    Ok(())
}

/// Sets a type's metadata.
///
/// # Errors
/// `RuntimeError` if it is already set (also written to stderr), `InternalError` for an unknown
/// type.
///
/// # Safety
/// The metadata's strings are valid.
pub unsafe fn register_metadata(type_index: i32, metadata: &TVMFFITypeMetadata) -> Result<(), Failure> {
    let guard = lock();
    let entry = known(type_index)?;
    // SAFETY: entries are only changed under the lock, which we hold; the caller promises valid
    // strings.
    unsafe {
        if !(*entry).info.metadata.is_null() {
            let failure = Failure::of_parts(
                "RuntimeError",
                &[
                    b"Overriding ",
                    (*entry).info.type_key.as_slice(),
                    b", possible causes:\n\
                      - two ObjectDef<T>() calls for the same T \n\
                      - when we forget to assign _type_key to ObjectRef<Y> that inherits from T\n\
                      - another type with the same key is already registered\n\
                      Cross check the reflection registration.",
                ],
            );
            drop(guard);
            crate::notice::notice(format_args!("{failure:?}"));
            return Err(failure);
        }
        (*entry).metadata = TVMFFITypeMetadata { doc: keep(metadata.doc), ..*metadata };
        AtomicPtr::from_ptr((&raw mut (*entry).info.metadata).cast())
            .store(&raw mut (*entry).metadata, Ordering::Release);
    }
    drop(guard);
    Ok(())
}

fn known(type_index: i32) -> Result<*mut TypeEntry, Failure> {
    let entry = entry(type_index);
    if entry.is_null() {
        return Err(Failure::internal(format_args!(
            "Check failed: (entry != nullptr) is false: Cannot find type info for type_index={type_index}"
        )));
    }
    Ok(entry)
}

unsafe fn fields<'a>(info: &TVMFFITypeInfo) -> &'a [TVMFFIFieldInfo] {
    if info.num_fields <= 0 {
        return &[];
    }
    // SAFETY: the table keeps the arrays forever, and `num_fields` never exceeds the initialized
    // part.
    unsafe { core::slice::from_raw_parts(info.fields, info.num_fields as usize) }
}

unsafe fn warn_about_shadowing(info: &TVMFFITypeInfo, name: &[u8]) {
    for depth in 0..info.type_depth as usize {
        // SAFETY: a type has `type_depth` ancestors, which live forever.
        unsafe {
            let ancestor = &**info.type_ancestors.add(depth);
            if fields(ancestor).iter().any(|field| field.name.as_slice() == name) {
                crate::notice::notice(format_args!(
                    "[WARNING] Field \"{}\" in type \"{}\" duplicates an ancestor field in \"{}\". \
                     Child types should not re-register inherited fields.",
                    String::from_utf8_lossy(name),
                    String::from_utf8_lossy(info.type_key.as_slice()),
                    String::from_utf8_lossy(ancestor.type_key.as_slice())
                ));
            }
        }
    }
}

/// Makes a copy that lives forever; an empty text stays NULL.
unsafe fn keep(text: TVMFFIByteArray) -> TVMFFIByteArray {
    // SAFETY: the caller passes valid bytes.
    match unsafe { text.as_slice() } {
        [] => TVMFFIByteArray::EMPTY,
        text => TVMFFIByteArray::new(keep_text(text)),
    }
}

/// Adds an element to an array that others read without a lock: a reader that sees the new count
/// also sees an array with that many elements. Outgrown arrays are kept for threads that still read
/// them.
unsafe fn append<T: Copy>(array: *mut *const T, count: *mut i32, capacity: &mut usize, value: T) {
    // SAFETY: the caller holds the lock and passes an entry's array with its count and capacity.
    unsafe {
        let size = *count as usize;
        if size == *capacity {
            let new_capacity = (*capacity * 2).max(4);
            let mut grown: Vec<T> = Vec::with_capacity(new_capacity);
            if size > 0 {
                grown.extend_from_slice(core::slice::from_raw_parts(*array, size));
            }
            // Not `Vec::leak`: the elements after the last one are written later.
            let mut grown = core::mem::ManuallyDrop::new(grown);
            grown.as_mut_ptr().add(size).write(value);
            let old = AtomicPtr::from_ptr(array.cast::<*mut T>()).swap(grown.as_mut_ptr(), Ordering::Release);
            outgrown::keep(old);
            *capacity = new_capacity;
        } else {
            (*array).cast_mut().add(size).write(value);
        }
        AtomicI32::from_ptr(count).store(size as i32 + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::c_void;

    use super::*;
    use crate::cells::new_string;
    use crate::tables::type_table::{NewType, get_or_allocate, type_info};

    fn field(name: &str) -> TVMFFIFieldInfo {
        TVMFFIFieldInfo {
            name: TVMFFIByteArray::new(name.as_bytes()),
            doc: TVMFFIByteArray::EMPTY,
            metadata: TVMFFIByteArray::EMPTY,
            flags: field_flag::HAS_DEFAULT,
            size: 8,
            alignment: 8,
            offset: 24,
            getter: None,
            setter: core::ptr::null_mut::<c_void>(),
            default_value_or_factory: new_string(b"a"),
            field_static_type_index: 1,
        }
    }

    #[test]
    fn fields_and_metadata_are_kept() {
        let key = b"members.Point";
        let new = NewType { key, static_index: -1, depth: 1, num_child_slots: 0, can_overflow: true, parent: 64 };
        let index = get_or_allocate(new).unwrap();
        let info = type_info(index);
        let metadata = TVMFFITypeMetadata {
            doc: TVMFFIByteArray::new(b"A point."),
            creator: None,
            total_size: 40,
            structural_eq_hash_kind: 1,
        };
        // SAFETY: all infos are valid.
        unsafe {
            for number in 0..20 {
                let name = format!("field{number}");
                register_field(index, &field(&name)).unwrap();
            }
            assert_eq!(type_info(index), info);
            let names: Vec<_> = fields(&*info).iter().map(|field| field.name.as_slice().to_vec()).collect();
            assert_eq!((names.len(), names[13].as_slice()), (20, &b"field13"[..]));
            assert!(fields(&*info)[0].doc.data.is_null());
            let error = register_field(index, &field("field3")).unwrap_err();
            assert!(error.message().ends_with("Duplicate field name \"field3\" in type \"members.Point\""));
            let error = register_field(127, &field("x")).unwrap_err();
            assert!(error.message().ends_with("Cannot find type info for type_index=127"));

            assert!((*info).metadata.is_null());
            register_metadata(index, &metadata).unwrap();
            assert_eq!((*(*info).metadata).doc.as_slice(), b"A point.");
            assert_eq!(register_metadata(index, &metadata).unwrap_err().kind(), "RuntimeError");

            let method = TVMFFIMethodInfo {
                name: TVMFFIByteArray::new(b"norm"),
                doc: TVMFFIByteArray::EMPTY,
                metadata: TVMFFIByteArray::EMPTY,
                flags: 0,
                method: TVMFFIAny::NONE,
            };
            register_method(index, &method).unwrap();
            assert_eq!((*(*info).methods).name.as_slice(), b"norm");
            assert_eq!((*info).num_methods, 1);
        }
    }
}
