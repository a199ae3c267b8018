//! The structural children of a value, one after the other: elements of sequences, values of maps,
//! and the fields of objects that structural equality compares.

use super::outcome::failed;
use super::region::{self, Region, Scope};
use crate::abi::{TVMFFIAny, TVMFFIObject, field_flag, seq_hash_kind, type_index};
use crate::embedded::access::Access;
use crate::embedded::map::{self, END};
use crate::embedded::release::{is_object, release, retain};
use crate::embedded::{dec_ref, inc_ref, list, seq};
use crate::walker::field_value;
use kernpack_core::reflect::{Field, Fields, TypeInfo};

/// A walk over the children of one value. It borrows the value, which must stay alive.
///
/// Foreign code may change lists and dicts between two steps: the walk then continues with their
/// new content.
pub(super) struct Children {
    source: Source,
    child: TVMFFIAny,
    // Whether the child is owned: if the parent (a list, a dict, a field) may lose it meanwhile, or
    // does not hold it.
    owned: bool,
    child_scope: Scope,
    own_scope: Scope,
}

/// The source of the children, and the position of the current one.
pub(super) enum Source {
    /// An array or list; the index is -1 before the first step. The number of elements is limited
    /// to the initial one.
    Elements { seq: *mut TVMFFIObject, index: i64, size: i64 },
    /// A map or dict; the position is `None` before the first step.
    Values { map: *mut TVMFFIObject, position: Option<u64> },
    /// An object's fields, and the field of the current child.
    Fields { object: *mut TVMFFIObject, fields: Fields, current: Option<Field> },
    /// Nothing: an object whose type is not registered.
    Nothing,
}

/// A step of a walk.
pub(super) enum Step {
    /// To a child: [`Children::child`], borrowed until the next step.
    Child,
    /// A child could not be read: an owned error outcome.
    Failed(TVMFFIAny),
    /// There are no more children.
    Done,
}

impl Children {
    #[inline]
    const fn new(source: Source, own_scope: Scope) -> Self {
        Self { source, child: TVMFFIAny::NONE, owned: false, child_scope: Scope::NONE, own_scope }
    }

    /// The elements of an array or list.
    ///
    /// # Safety
    /// It is alive.
    #[inline]
    pub(super) unsafe fn of_sequence(seq: *mut TVMFFIObject) -> Self {
        // SAFETY: promised by the caller.
        let size = unsafe { list::shared::len(seq) } as i64;
        Self::new(Source::Elements { seq, index: -1, size }, Scope::NONE)
    }

    /// The values of a map or dict.
    ///
    /// # Safety
    /// It is alive.
    #[inline]
    pub(super) const unsafe fn of_map(map: *mut TVMFFIObject) -> Self {
        Self::new(Source::Values { map, position: None }, Scope::NONE)
    }

    /// The fields of an object of this type.
    ///
    /// # Safety
    /// It is alive, and of the type.
    #[inline]
    pub(super) unsafe fn of_object(object: *mut TVMFFIObject, info: Option<TypeInfo>, region: Region) -> Self {
        let Some(info) = info else { return Self::new(Source::Nothing, Scope::NONE) };
        // A simple definition is the variable itself; occurrences inside it are uses.
        let is_definition = region.get() == region::SIMPLE && info.structural_kind() == seq_hash_kind::FREE_VAR;
        let scope = if is_definition { region.enter(region::NONE) } else { Scope::NONE };
        Self::new(Source::Fields { object, fields: info.fields(), current: None }, scope)
    }

    /// The position of the current child.
    #[inline]
    pub(super) const fn source(&self) -> &Source {
        &self.source
    }

    /// The current child, borrowed.
    #[inline]
    pub(super) const fn child(&self) -> &TVMFFIAny {
        &self.child
    }

    /// Leaves the current child, goes to the next one and enters its region.
    ///
    /// # Safety
    /// The value is alive, and an array or map is not changed. The current child is not used any
    /// more.
    #[inline]
    pub(super) unsafe fn step(&mut self, region: Region) -> Step {
        // SAFETY: promised by the caller.
        unsafe { self.step_past(region, |_| false) }
    }

    /// Like [`step`](Self::step), but skips the children of types for which `skipped` returns true.
    ///
    /// # Safety
    /// As for [`step`](Self::step).
    #[inline]
    pub(super) unsafe fn step_past(&mut self, region: Region, skipped: impl Fn(i32) -> bool) -> Step {
        // SAFETY: promised by the caller; the source's kind determines the object's type.
        unsafe {
            self.leave(region);
            match &mut self.source {
                Source::Elements { seq, index, size } => loop {
                    *index += 1;
                    if *index >= *size {
                        return Step::Done;
                    }
                    if (**seq).type_index == type_index::LIST {
                        let Some(element) = list::shared::element(*seq, *index as usize) else { return Step::Done };
                        if skipped(element.type_index) {
                            release(element);
                            continue;
                        }
                        self.child = element;
                        self.owned = true;
                        break;
                    }
                    match seq::elements(*seq).get(*index as usize) {
                        Some(element) => {
                            if !skipped(element.type_index) {
                                self.child = *element;
                                break;
                            }
                        }
                        None => return Step::Done,
                    }
                },
                Source::Values { map, position } => loop {
                    let is_dict = (**map).type_index == type_index::DICT;
                    let value = {
                        let _access = Access::new(*map);
                        let next = position.map_or_else(|| map::first(*map), |position| map::next(*map, position));
                        *position = Some(next);
                        match map::entry_at(*map, next) {
                            Some((_, value)) if next != END && is_dict => retain(&value),
                            Some((_, value)) if next != END => value,
                            _ => return Step::Done,
                        }
                    };
                    if !skipped(value.type_index) {
                        self.child = value;
                        self.owned = is_dict;
                        break;
                    }
                    if is_dict {
                        release(value);
                    }
                },
                Source::Fields { object, fields, current } => loop {
                    let Some(field) = fields.next() else { return Step::Done };
                    let raw = field.as_raw();
                    if raw.flags & field_flag::SEQ_HASH_IGNORE != 0 {
                        continue;
                    }
                    // A field that always is a number need not be read.
                    let plain = matches!(raw.field_static_type_index, type_index::INT..=type_index::FLOAT);
                    if plain && skipped(raw.field_static_type_index) {
                        continue;
                    }
                    match field_value::read_into(field, *object, &mut self.child) {
                        Ok(owned) => {
                            if skipped(self.child.type_index) {
                                if owned {
                                    dec_ref(self.child.payload.v_obj);
                                }
                                continue;
                            }
                            // A callback may set the field meanwhile.
                            if !owned && is_object(&self.child) {
                                inc_ref(self.child.payload.v_obj);
                            }
                        }
                        Err(error) => return Step::Failed(failed(error)),
                    }
                    *current = Some(field);
                    self.owned = true;
                    self.child_scope = region.enter_field(raw.flags);
                    break;
                },
                Source::Nothing => return Step::Done,
            }
            Step::Child
        }
    }

    #[inline]
    unsafe fn leave(&mut self, region: Region) {
        if !self.owned {
            return;
        }
        self.owned = false;
        region.leave(core::mem::replace(&mut self.child_scope, Scope::NONE));
        // SAFETY: the child was owned, and the caller does not use it any more.
        unsafe { release(self.child) };
    }

    /// Ends the walk at any position.
    ///
    /// # Safety
    /// The current child is not used any more.
    #[inline]
    pub(super) unsafe fn end(&mut self, region: Region) {
        // SAFETY: promised by the caller.
        unsafe { self.leave(region) };
        region.leave(core::mem::replace(&mut self.own_scope, Scope::NONE));
    }
}
