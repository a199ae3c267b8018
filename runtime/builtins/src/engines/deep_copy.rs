//! Copies of graphs of objects: shared objects stay shared, and cycles stay cycles.
//!
//! Immutable leaves (text, bytes, shapes, big integers) and instances of enums are not copied. An
//! array or a map that contains itself, which requires a list, dict or object in between, does not
//! exist yet when its own copy is needed: the original takes its place until the copies are
//! complete. (The stock library leaves the original in arrays and maps, so that the copy leads back
//! to it.)

use crate::abi::{TVMFFIAny, TVMFFIObject, TVMFFISeqCell, type_index};
use crate::dataclass::{enums, py_class};
use crate::definition::function::{Arguments, Builtin};
use crate::definition::signature::{ANY, Signature, type_key};
use crate::embedded::map::shared;
use crate::embedded::release::retain;
use crate::embedded::{self, list, map, seq};
use crate::value::{Any, AnyView};
use crate::walker::address_map::AddressMap;
use crate::walker::children::Children;
use crate::walker::field_value::{Read, read};
use crate::walker::stack::check_depth;
use crate::{Result, bail};
use kernpack_core::reflect::{AttrColumn, Field, TypeInfo, call_function};

#[cfg(feature = "all")]
pub(crate) const BUILTINS: &[Builtin] =
    &[Builtin { name: "ffi.DeepCopy", signature: Signature::Typed(&[&ANY], &ANY), run: deep_copy }];

static SHALLOW_COPY: AttrColumn = AttrColumn::new("__ffi_shallow_copy__");

#[inline]
fn deep_copy(args: &Arguments<'_>) -> Result<Any> {
    if is_constant(args.view(0).type_index()) {
        return args.owned(0);
    }
    let value = args.lookup(0)?;
    // SAFETY: `value` keeps it alive, or the caller does.
    let view = unsafe { AnyView::from_raw(*value) };
    copy(&view)
}

/// Copies a value, which is not an rvalue reference, with everything that it contains.
#[inline]
pub(crate) fn copy(value: &AnyView<'_>) -> Result<Any> {
    if is_constant(value.type_index()) {
        return value.try_to_owned();
    }
    let mut copier = Copier::default();
    // SAFETY: the caller keeps the value alive.
    unsafe {
        let copy = copier.copy(value.as_raw())?;
        copier.replace_originals()?;
        Ok(copy)
    }
}

/// Copies one value with everything that it contains.
#[derive(Default)]
struct Copier {
    frames: Vec<Frame>,
    /// Objects with other references: the index of the copy, or [`IN_PROGRESS`].
    seen: AddressMap,
    copies: Vec<Any>,
    /// Copies in which an original takes the place of its copy.
    with_originals: Vec<Any>,
    /// Objects that getters have created: nothing else keeps their parts, which may have been seen,
    /// alive.
    made: Vec<Any>,
}

/// The entry of an array or map that has no copy yet.
const IN_PROGRESS: u64 = u64::MAX;

/// An object that is being copied.
struct Frame {
    object: *mut TVMFFIObject,
    info: TypeInfo,
    children: Children,
    /// The object again, if no other reference is certain to keep it alive.
    kept: Any,
    /// The copy so far. There is one reference to it, and no other until it is requested: fields of
    /// some types can be set only then.
    copy: CopyPlace,
    /// The copy as an object.
    target: *mut TVMFFIObject,
    /// The copy of a key whose value is next.
    key: Option<Any>,
    /// The field whose value is being copied.
    field: Option<Field>,
    /// The reference count of a field's value while it is copied, if there is no other reference.
    field_references: u32,
    /// True if there are other references to the object.
    is_shared: bool,
    /// True if an original takes the place of its copy in this copy.
    has_original: bool,
}

/// The place of the reference to a copy.
enum CopyPlace {
    Here(Any),
    /// Among the copies.
    There(usize),
}

/// The copy of a value that needs no frame.
enum Leaf {
    /// This copy.
    Copy(Any),
    /// The value itself for now: its copy does not exist yet.
    Original(Any),
}

impl Copier {
    /// # Safety
    /// The value is valid and not changed meanwhile.
    #[inline]
    unsafe fn copy(&mut self, value: &TVMFFIAny) -> Result<Any> {
        // SAFETY: promised by the caller; the children of a frame are alive as long as the frame.
        unsafe {
            if let Some(Leaf::Copy(copy) | Leaf::Original(copy)) = self.leaf(value) {
                return Ok(copy);
            }
            self.enter(value, 1, Any::NONE)?;
            loop {
                if self.advance()? {
                    continue;
                }
                let (object, copy) = self.leave();
                let Some(parent) = self.frames.last_mut() else { return Ok(copy) };
                // A hook may return the object itself as its copy.
                if parent.field.is_none() || copy.as_view().as_raw().payload.v_obj != object {
                    feed(parent, copy)?;
                }
            }
        }
    }

    /// The copy of a value that is not traversed, or is already copied; `None` for the others.
    #[inline]
    unsafe fn leaf(&self, value: &TVMFFIAny) -> Option<Leaf> {
        // SAFETY: the caller passes a valid value.
        let itself = || unsafe { Any::from_raw(retain(value)) };
        let is_constant =
            matches!(value.type_index, type_index::STR | type_index::BYTES | type_index::SHAPE | type_index::BIG_INT);
        if value.type_index < type_index::STATIC_OBJECT_BEGIN || is_constant {
            return Some(Leaf::Copy(itself()));
        }
        // SAFETY: as above: the value is an object.
        let object = unsafe { value.payload.v_obj };
        match self.seen.get(object) {
            Some(IN_PROGRESS) => return Some(Leaf::Original(itself())),
            Some(copy) => return Some(Leaf::Copy(self.copies[copy as usize].clone())),
            None => {}
        }
        let is_enum = TypeInfo::find(value.type_index).is_some_and(enums::is_enum);
        is_enum.then(|| Leaf::Copy(itself()))
    }

    /// Begins to copy an object. If it has more than `references` references, others refer to it,
    /// too.
    #[inline]
    unsafe fn enter(&mut self, value: &TVMFFIAny, references: u32, kept: Any) -> Result<()> {
        check_depth(self.frames.len())?;
        // SAFETY: the caller passes a live object.
        unsafe {
            let object = value.payload.v_obj;
            let Some(info) = TypeInfo::find((*object).type_index) else {
                bail!(InternalError, "Cannot find type info for type_index={}", (*object).type_index);
            };
            let is_shared = embedded::strong_count(object) > references;
            let mut field_references = 2;
            let copy = match info.index() {
                type_index::ARRAY => {
                    Any::from_object(seq::new_array_with_capacity(Vec::new(), seq::elements(object).len()))
                }
                type_index::LIST => {
                    let copy = Any::from_object(seq::new_list(Vec::new()));
                    list::reserve(copy.as_view().as_raw().payload.v_obj, list::shared::len(object) as i64)?;
                    copy
                }
                type_index::MAP => Any::from_object(map::new_map(Vec::new())?),
                type_index::DICT => Any::from_object(map::new_dict(Vec::new())?),
                _ => shallow_copy(value, info, &mut field_references)?,
            };
            let target = copy.as_view().as_raw().payload.v_obj;
            let copy = match info.index() {
                type_index::ARRAY | type_index::MAP if is_shared => {
                    self.seen.insert(object, IN_PROGRESS);
                    CopyPlace::Here(copy)
                }
                _ if is_shared => self.remember(object, copy),
                _ => CopyPlace::Here(copy),
            };
            self.frames.push(Frame {
                object,
                info,
                children: Children::of(object, info, 0),
                kept,
                copy,
                target,
                key: None,
                field: None,
                field_references,
                is_shared,
                has_original: false,
            });
        }
        Ok(())
    }

    #[inline]
    fn remember(&mut self, object: *mut TVMFFIObject, copy: Any) -> CopyPlace {
        let at = self.copies.len();
        self.seen.insert(object, at as u64);
        self.copies.push(copy);
        CopyPlace::There(at)
    }

    /// Copies children of the innermost object, up to one that has children itself (returns true)
    /// or to the end (returns false).
    #[inline]
    unsafe fn advance(&mut self) -> Result<bool> {
        let top = self.frames.len() - 1;
        loop {
            let frame = &mut self.frames[top];
            // SAFETY: the object of a frame is alive and of a type that has the field; its children
            // are alive, too.
            unsafe {
                let mut kept = Any::NONE;
                let value = match frame.children {
                    Children::Fields(..) => {
                        let Some(field) = frame.children.next_field() else { return Ok(false) };
                        if is_plain(field) {
                            continue;
                        }
                        let Read { value, owned } = read(field, frame.object)?;
                        if owned {
                            kept = Any::from_raw(value);
                        }
                        frame.field = Some(field);
                        value
                    }
                    _ => match frame.children.next_value() {
                        Some(value) => value,
                        None => return Ok(false),
                    },
                };
                match self.leaf(&value) {
                    Some(leaf) => {
                        let frame = &mut self.frames[top];
                        let copy = match leaf {
                            Leaf::Copy(copy) => copy,
                            Leaf::Original(original) => {
                                frame.has_original = true;
                                original
                            }
                        };
                        // A field that already refers to the value is not set.
                        let is_same =
                            copy.as_view().as_raw().bits() == value.bits() && copy.type_index() == value.type_index;
                        if frame.field.is_none() || !is_same {
                            feed(frame, copy)?;
                        }
                    }
                    None => {
                        let is_field = self.frames[top].field.is_some();
                        if is_field && kept.is_none() {
                            kept = Any::from_raw(retain(&value));
                        }
                        let frame = &self.frames[top];
                        let references =
                            if is_field { frame.field_references } else { 1 + u32::from(frame.children.are_owned()) };
                        self.enter(&value, references, kept)?;
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Ends the innermost object and returns it and its copy.
    #[inline]
    fn leave(&mut self) -> (*mut TVMFFIObject, Any) {
        let Some(frame) = self.frames.pop() else { return (core::ptr::null_mut(), Any::NONE) };
        // SAFETY: the object of a frame is alive.
        if !frame.kept.is_none() && unsafe { embedded::strong_count(frame.object) } == 1 {
            self.made.push(frame.kept);
        }
        let copy = match frame.copy {
            CopyPlace::Here(copy) => copy,
            CopyPlace::There(at) => self.copies[at].clone(),
        };
        if frame.is_shared && matches!(frame.info.index(), type_index::ARRAY | type_index::MAP) {
            self.remember(frame.object, copy.clone());
        }
        if frame.has_original {
            self.with_originals.push(copy.clone());
        }
        (frame.object, copy)
    }

    /// Replaces the originals that took the place of their copies.
    #[inline]
    unsafe fn replace_originals(&mut self) -> Result<()> {
        for copy in core::mem::take(&mut self.with_originals) {
            // SAFETY: the copies are ours.
            unsafe {
                let object = copy.as_view().as_raw().payload.v_obj;
                match copy.type_index() {
                    type_index::LIST => self.replace_in_list(object)?,
                    type_index::DICT => self.replace_in_dict(object)?,
                    type_index::ARRAY => self.replace_in_array(object),
                    type_index::MAP => self.replace_in_map(object)?,
                    _ => self.replace_in_fields(object)?,
                }
            }
        }
        Ok(())
    }

    /// The copy of a value that is a copied original.
    #[inline]
    unsafe fn copy_of(&self, value: &TVMFFIAny) -> Option<TVMFFIAny> {
        if value.type_index < type_index::STATIC_OBJECT_BEGIN {
            return None;
        }
        // SAFETY: the caller passes a valid value, which is an object.
        let object = unsafe { value.payload.v_obj };
        let copy = self.seen.get(object).and_then(|copy| self.copies.get(copy as usize))?;
        Some(*copy.as_view().as_raw())
    }

    #[inline]
    unsafe fn replace_in_list(&self, list: *mut TVMFFIObject) -> Result<()> {
        // SAFETY: the caller passes a live list; copies are alive as long as `self`.
        unsafe {
            for (index, element) in list::shared::elements(list).iter().enumerate() {
                if let Some(copy) = self.copy_of(element) {
                    drop(Any::from_raw(list::shared::replace(list, index as i64, retain(&copy))?));
                }
            }
        }
        Ok(())
    }

    /// The array is a copy, which nothing else has read yet, so that it may still change.
    #[inline]
    unsafe fn replace_in_array(&self, array: *mut TVMFFIObject) {
        // SAFETY: the caller passes a live array of ours; copies are alive as long as `self`.
        unsafe {
            let cell = embedded::body_ptr::<TVMFFISeqCell>(array);
            for at in 0..(*cell).size as usize {
                let place = (*cell).data.cast::<TVMFFIAny>().add(at);
                if let Some(copy) = self.copy_of(&*place) {
                    drop(Any::from_raw(place.replace(retain(&copy))));
                }
            }
        }
    }

    /// The map is a copy, which nothing else has read yet, so that it may still change. The order
    /// of its entries is kept.
    #[inline]
    unsafe fn replace_in_map(&self, map: *mut TVMFFIObject) -> Result<()> {
        // SAFETY: the caller passes a live map of ours; copies are alive as long as `self`.
        unsafe {
            let replaced = |value: TVMFFIAny| Any::from_raw(retain(&self.copy_of(&value).unwrap_or(value)));
            let entries: Vec<_> = map::iter(map).map(|(key, value)| (replaced(key), replaced(value))).collect();
            map::clear(map);
            let expected = entries.len() as u64;
            for (key, value) in entries {
                map::set_expecting(map, key.into_raw(), value.into_raw(), expected)?;
            }
        }
        Ok(())
    }

    #[inline]
    unsafe fn replace_in_dict(&self, dict: *mut TVMFFIObject) -> Result<()> {
        // SAFETY: as for `replace_in_list`.
        unsafe {
            let mut changes = Vec::new();
            for &[key, value] in shared::contents(dict).as_chunks().0 {
                let (new_key, new_value) = (self.copy_of(&key), self.copy_of(&value));
                if new_key.is_some() || new_value.is_some() {
                    let owned = |value: &TVMFFIAny| Any::from_raw(retain(value));
                    changes.push((owned(&key), owned(&new_key.unwrap_or(key)), owned(&new_value.unwrap_or(value))));
                }
            }
            for (old_key, key, value) in changes {
                if let Some(old_value) = shared::erase(dict, old_key.as_view().as_raw())? {
                    drop(Any::from_raw(old_value));
                }
                shared::set(dict, key.into_raw(), value.into_raw())?;
            }
        }
        Ok(())
    }

    #[inline]
    unsafe fn replace_in_fields(&self, object: *mut TVMFFIObject) -> Result<()> {
        // SAFETY: the caller passes a live object of ours.
        unsafe {
            let Some(info) = TypeInfo::find((*object).type_index) else { return Ok(()) };
            for field in info.fields() {
                let value = field.get(object)?;
                if let Some(copy) = self.copy_of(value.as_view().as_raw())
                    && copy.bits() != value.as_view().as_raw().bits()
                {
                    field.set(object, &AnyView::from_raw(copy))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns true if values of this type never change and do not contain any value that does.
#[inline]
fn is_constant(index: i32) -> bool {
    index < type_index::STATIC_OBJECT_BEGIN && index != type_index::OBJECT_RVALUE_REF
        || matches!(index, type_index::STR | type_index::BYTES | type_index::SHAPE | type_index::BIG_INT)
}

/// Returns true if a field can only hold values that are copied with the object: numbers, data
/// types, devices.
#[inline]
fn is_plain(field: Field) -> bool {
    // Not `OPAQUE_PTR`: a field of a Rust layout is declared with it, whatever its values are.
    use type_index::{BOOL, DATA_TYPE, DEVICE, FLOAT, INT};
    matches!(field.as_raw().field_static_type_index, INT | BOOL | FLOAT | DATA_TYPE | DEVICE)
}

/// Adds the copy of a child to the copy of its parent.
#[inline]
unsafe fn feed(frame: &mut Frame, copy: Any) -> Result<()> {
    // SAFETY: the caller passes a frame whose copy is ours; an array has the capacity for all
    // elements.
    unsafe {
        let target = frame.target;
        match frame.info.index() {
            type_index::ARRAY => {
                let cell = embedded::body_ptr::<TVMFFISeqCell>(target);
                (*cell).data.cast::<TVMFFIAny>().add((*cell).size as usize).write(copy.into_raw());
                (*cell).size += 1;
            }
            type_index::LIST => list::shared::push(target, copy.into_raw())?,
            type_index::MAP | type_index::DICT => match frame.key.take() {
                None => frame.key = Some(copy),
                // Other code may refer to it already.
                Some(key) if frame.info.index() == type_index::DICT => {
                    shared::set(target, key.into_raw(), copy.into_raw())?;
                }
                Some(key) => {
                    let expected = map::len(frame.object) as u64;
                    map::set_expecting(target, key.into_raw(), copy.into_raw(), expected)?;
                }
            },
            _ => {
                if let Some(field) = frame.field {
                    field.set(target, copy.as_view())?;
                }
            }
        }
    }
    Ok(())
}

/// Makes a copy that shares the values that the object refers to. If each field of the copy is
/// certain to add one reference, the references to a field's value are counted.
#[inline]
unsafe fn shallow_copy(value: &TVMFFIAny, info: TypeInfo, field_references: &mut u32) -> Result<Any> {
    let Some(hook) = SHALLOW_COPY.get(info.index()) else {
        bail!(
            InternalError,
            "Check failed: (copy_fn.has_value()) is false: Cannot deep copy object of type \"{}\" because it is not \
             copy-constructible",
            info.key()
        );
    };
    if hook.type_index() != type_index::FUNCTION {
        bail!(TypeError, "Cannot treat type `{}` as type `(0: ffi.Object) -> ffi.Object`", type_key(&hook));
    }
    // SAFETY: the column keeps the function; the caller passes a live object of the type.
    unsafe {
        let function = hook.as_raw().payload.v_obj;
        if let Some(layout) = py_class::layout_of_copy(function) {
            *field_references += 1;
            return layout.copy(value.payload.v_obj);
        }
        let copy = call_function(function, &[*value])?;
        if copy.type_index() < type_index::STATIC_OBJECT_BEGIN {
            bail!(TypeError, "Cannot convert from type `{}` to `ffi.Object`", type_key(copy.as_view()));
        }
        Ok(copy)
    }
}
