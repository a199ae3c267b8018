//! Objects that other languages construct: by the creator, followed by one setter per field.
//!
//! A new object does not have values yet. A record after its body tracks which fields are set. The
//! object is complete when all are; until then no Rust code gets a reference to it, and its deleter
//! only drops the fields that are set.

use core::ffi::c_void;
use core::mem::offset_of;

use super::write_access::{self, State};
use super::{Defined, TypeDef, type_index_of};
use crate::abi::{TVMFFIObject, TVMFFIObjectHandle, deleter_flag};
use crate::embedded::{self, HEADER_SIZE, ObjectCell};
use crate::function::guard_nameless;
use crate::value::Any;
use crate::{Error, Function, Result, bail};

/// The construction state of an incomplete object. It is followed by one byte for each field of the
/// lineage, those of the type itself first: 1 if the field is set.
#[repr(C)]
struct Record {
    definition: &'static TypeDef,
    /// The deleter of a complete object.
    deleter: unsafe extern "C" fn(*mut c_void, i32),
    /// Number of fields without a value.
    missing: u32,
    fields: u32,
}

const BYTES: usize = size_of::<Record>();

/// Creates an object whose registered fields do not have values: the ABI's creator.
///
/// # Safety
/// `result` is writable.
unsafe extern "C" fn create<D: Defined>(result: *mut TVMFFIObjectHandle) -> i32 {
    // SAFETY: promised by the caller.
    guard_nameless(|| unsafe {
        let object = new_incomplete(D::type_def(), embedded::deleter_of::<D::Body>())?;
        result.write(object.cast());
        Ok(())
    })
}

/// The storage of an object that will not be returned.
struct Storage(*mut TVMFFIObject);

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: no other code has a reference to the object, and it does not hold values.
        unsafe { embedded::free_storage(self.0.cast()) }
    }
}

/// Allocates an object; `deleter` is the one of a complete object.
fn new_incomplete(
    definition: &'static TypeDef,
    deleter: unsafe extern "C" fn(*mut c_void, i32),
) -> Result<*mut TVMFFIObject> {
    let index = type_index_of(definition);
    let fields = definition.fields.len() + definition.inherited_fields();
    let record_offset = definition.size.next_multiple_of(8);
    let tail = record_offset - HEADER_SIZE + BYTES + fields;
    let object = embedded::new_object_with_tail(index, (), tail);
    // SAFETY: the object is new and owned, with that many bytes after its header; the record is
    // aligned to 8 bytes.
    unsafe {
        object.byte_add(HEADER_SIZE).cast::<u8>().write_bytes(0, tail);
        let record = object.byte_add(record_offset).cast::<Record>();
        record.write(Record { definition, deleter, missing: fields as u32, fields: fields as u32 });
        write_access::begin(object, (record_offset / 8) as u32);
        let storage = Storage(object);
        if make_hidden(object, definition).is_none() {
            bail!(
                InternalError,
                "an object of type {} cannot be created: a private field has no default",
                definition.key
            );
        }
        core::mem::forget(storage);
        (*object).deleter = Some(delete_incomplete);
        if fields == 0 {
            complete(object, record);
        }
    }
    Ok(object)
}

/// Initializes the hidden fields of the lineage; returns `None` if one of them has no initializer,
/// and then initializes none.
unsafe fn make_hidden(object: *mut TVMFFIObject, definition: &'static TypeDef) -> Option<()> {
    /// Drops the fields that were initialized so far if an initializer panics.
    struct Made {
        object: *mut TVMFFIObject,
        fields: Vec<&'static super::HiddenDef>,
    }
    impl Drop for Made {
        fn drop(&mut self) {
            for field in &self.fields {
                // SAFETY: the field was initialized, and no other code has a reference to the
                // object.
                unsafe { (field.drop)(self.object.byte_add(field.offset).cast()) }
            }
        }
    }
    let hidden = || definition.lineage().flat_map(|def| def.hidden);
    if hidden().any(|field| field.make.is_none()) {
        return None;
    }
    let mut made = Made { object, fields: Vec::new() };
    for field in hidden() {
        if let Some(make) = field.make {
            // SAFETY: the field is at this offset of the new object, and has no value yet.
            unsafe { make(object.byte_add(field.offset).cast()) };
            made.fields.push(field);
        }
    }
    made.fields.clear();
    Some(())
}

unsafe fn record_at(object: *mut TVMFFIObject, record: u32) -> *mut Record {
    // SAFETY: the caller passes an incomplete object and the record's offset from its state.
    unsafe { object.byte_add(record as usize * 8).cast() }
}

/// Returns the byte for a field of `owner`, which is the object's type or an ancestor.
unsafe fn flag_of(record: *mut Record, owner: &'static TypeDef, index: usize) -> *mut u8 {
    // SAFETY: the caller passes the record of an object whose type has the field.
    unsafe {
        if core::ptr::eq((*record).definition, owner) {
            return record.byte_add(BYTES).cast::<u8>().add(index);
        }
        let before: usize = (*record)
            .definition
            .lineage()
            .take_while(|def| !core::ptr::eq(*def, owner) && def.key != owner.key)
            .map(|def| def.fields.len())
            .sum();
        record.byte_add(BYTES).cast::<u8>().add((before + index).min((*record).fields.saturating_sub(1) as usize))
    }
}

/// Returns whether a field of an incomplete object has a value.
///
/// # Safety
/// The object is alive, its state was `Incomplete(record)`, and its type is `owner` or derived from
/// it.
pub(super) unsafe fn is_set(object: *mut TVMFFIObject, record: u32, owner: &'static TypeDef, index: usize) -> bool {
    // SAFETY: promised by the caller.
    unsafe { *flag_of(record_at(object, record), owner, index) != 0 }
}

/// Records that a field now has a value; the last one makes the object complete.
///
/// # Safety
/// As for [`is_set`]; the field was written just now, for the first time.
pub(super) unsafe fn set_done(object: *mut TVMFFIObject, record: u32, owner: &'static TypeDef, index: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        let record = record_at(object, record);
        *flag_of(record, owner, index) = 1;
        (*record).missing -= 1;
        if (*record).missing == 0 {
            complete(object, record);
        }
    }
}

unsafe fn complete(object: *mut TVMFFIObject, record: *mut Record) {
    // SAFETY: the caller passes an object whose fields all have values.
    unsafe {
        (*object).deleter = Some((*record).deleter);
        write_access::complete(object);
    }
}

/// Returns the names of the fields without a value in an incomplete object.
///
/// # Safety
/// The object is alive and its state was `Incomplete(record)`.
pub(super) unsafe fn missing(object: *mut TVMFFIObject, record: u32) -> Vec<&'static str> {
    // SAFETY: promised by the caller.
    unsafe {
        let record = record_at(object, record);
        let flags = core::slice::from_raw_parts(record.byte_add(BYTES).cast::<u8>(), (*record).fields as usize);
        let fields = (*record).definition.lineage().flat_map(|def| def.fields);
        fields.zip(flags).filter(|(_, flag)| **flag == 0).map(|(field, _)| field.name).collect()
    }
}

/// Destroys an incomplete object: the ABI's deleter.
unsafe extern "C" fn delete_incomplete(this: *mut c_void, flags: i32) {
    let object = this.cast::<TVMFFIObject>();
    // SAFETY: the ABI's rules for deleters: no other code uses the parts that the flags declare
    // unreferenced. Fields that are set are dropped once.
    unsafe {
        if flags & deleter_flag::STRONG != 0
            && let State::Incomplete(record) = write_access::state(object)
        {
            // A long chain of objects must not need a deep stack; if the deletion is deferred, the
            // same call is repeated later.
            let Some(_level) = embedded::release::descend(this, flags, delete_incomplete) else { return };
            let record = record_at(object, record);
            let flags = core::slice::from_raw_parts(record.byte_add(BYTES).cast::<u8>(), (*record).fields as usize);
            let definition = (*record).definition;
            let fields = definition.lineage().flat_map(|def| def.fields);
            let set = fields.zip(flags).filter(|(_, flag)| **flag != 0).map(|(field, _)| (field.offset, field.drop));
            let hidden = definition.lineage().flat_map(|def| def.hidden).map(|field| (field.offset, field.drop));
            for (offset, drop) in set.chain(hidden) {
                let place = object.byte_add(offset).cast();
                // A destructor that panics must not unwind into foreign code.
                let dropped = std::panic::catch_unwind(|| drop(place));
                if let Err(payload) = dropped {
                    embedded::discard_panic(payload);
                }
            }
        }
        if flags & deleter_flag::WEAK != 0 {
            embedded::free_storage(this);
        }
    }
}

/// The creator of a type, if all parts of the type can be created.
pub const fn create_of<D: Defined>(creatable: bool) -> Option<crate::abi::TVMFFIObjectCreator> {
    if creatable { Some(create::<D>) } else { None }
}

const _: () = assert!(offset_of!(ObjectCell<u64>, body) == HEADER_SIZE && align_of::<Record>() == 8);

/// The function that a type registers as `__ffi_init__` if other languages cannot construct it.
pub(super) fn no_constructor(def: &'static TypeDef) -> Function {
    Function::from_packed(move |_| -> Result<Any> {
        if let variants @ [_, ..] = super::family::variant_keys(def).as_slice() {
            bail!(TypeError, "{} is one of its variants; construct one of these: {}", def.key, variants.join(", "));
        }
        if def.create.is_some() {
            bail!(TypeError, "{} cannot be constructed: the type has no constructor", def.key);
        }
        let hidden = def.lineage().flat_map(|def| def.hidden.iter().map(move |field| (def, field)));
        if let Some((owner, field)) = hidden.into_iter().find(|(_, field)| field.make.is_none()) {
            bail!(
                TypeError,
                "{} cannot be constructed: nothing says what its private field '{}' of {} is then; Rust code says it with \
                 #[field(skip, default = ...)]",
                def.key,
                field.name,
                owner.key
            );
        }
        bail!(TypeError, "{} cannot be constructed: only Rust code makes its objects", def.key)
    })
}

/// The function that a type with a creator registers as `__ffi_new__`.
pub(super) fn new_function(def: &'static TypeDef) -> Function {
    Function::from_fn(move || -> Result<Any> {
        let mut object = core::ptr::null_mut();
        match def.create {
            // SAFETY: the ABI's convention for creators: on success `object` is an object whose
            // reference this function owns.
            Some(create) => unsafe {
                Error::check(create(&mut object))?;
                Ok(Any::from_object(object.cast()))
            },
            None => bail!(TypeError, "objects of type {} can be created by Rust code only", def.key),
        }
    })
}
