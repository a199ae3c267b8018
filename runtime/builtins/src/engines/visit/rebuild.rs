//! A value that is being mutated child by child: in place, or in a copy that is created when the
//! first child changes.

use core::ptr::null_mut;

use super::children::{Children, Source, Step};
use super::mutator::{MutatorTable, is_exclusive};
use super::outcome::{UNCHANGED, is_error, same};
use super::region::{self, Region};
use super::visitor::as_argument;
use crate::abi::{TVMFFIAny, TVMFFIObject, TVMFFISeqCell, type_index};
use crate::definition::signature::type_key;
use crate::embedded::access::Access;
use crate::embedded::release::{release, retain};
use crate::embedded::{body_ptr, dec_ref, list, map, seq};
use crate::value::AnyView;
use crate::{Error, Result};
use kernpack_core::reflect::Field;

/// A value that is being mutated. It borrows the value.
pub(super) struct Rebuild {
    children: Children,
    // The copy, owned: for an object it exists from the beginning, for a container since the first
    // change; NULL before that and in place.
    copy: *mut TVMFFIObject,
    // An owned error that stops everything; else NULL.
    error: *mut TVMFFIObject,
    in_place: bool,
    changed: bool,
    identity: Identity,
}

/// The rule whether an object becomes the same object at all its uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// It does not: it is a tree's node.
    None,
    /// It is a variable.
    Variable,
    /// It is a node of a graph.
    Shared,
}

/// The next step.
pub(super) enum Next {
    /// A child, borrowed; its outcome has to be passed to [`Rebuild::take`].
    Child {
        /// The child.
        child: TVMFFIAny,
        /// True if it may be changed in place.
        in_place: bool,
    },
    /// An owned error outcome. [`Rebuild::abandon`] is next.
    Failed(TVMFFIAny),
    /// All children were mutated. [`Rebuild::finish`] is next.
    Done,
}

impl Rebuild {
    /// Mutates a container, in place or in a copy that is created when it is needed, or the fields
    /// of `copy`, an owned copy of an object. `children` are the mutated children.
    #[inline]
    pub(super) const fn new(children: Children, in_place: bool, copy: *mut TVMFFIObject, identity: Identity) -> Self {
        Self { children, copy, error: null_mut(), in_place, changed: false, identity }
    }

    /// Goes to the next child.
    ///
    /// # Safety
    /// The value is alive; in place, there is no other reference to it. The previous child is not
    /// used any more.
    #[inline]
    pub(super) unsafe fn step(&mut self, region: Region) -> Next {
        if !self.error.is_null() {
            let error = core::mem::replace(&mut self.error, null_mut());
            return Next::Failed(TVMFFIAny::pointer(type_index::ERROR, error.cast()));
        }
        // SAFETY: promised by the caller.
        unsafe {
            match self.children.step(region) {
                Step::Child => {
                    let child = *self.children.child();
                    let in_place = self.in_place && is_exclusive(&child);
                    Next::Child { child, in_place }
                }
                Step::Failed(error) => Next::Failed(error),
                Step::Done => Next::Done,
            }
        }
    }

    /// Takes the outcome of the current child.
    ///
    /// # Safety
    /// `outcome` is an owned outcome of mutating the child that the last step gave.
    #[inline]
    pub(super) unsafe fn take(&mut self, outcome: TVMFFIAny) {
        // SAFETY: promised by the caller.
        unsafe {
            if outcome.type_index == type_index::UNCHANGED {
                self.keep_child();
            } else if same(&outcome, self.children.child()) {
                release(outcome);
                self.keep_child();
            } else if is_error(&outcome) {
                self.error = outcome.payload.v_obj;
            } else {
                self.put(outcome);
            }
        }
    }

    /// Leaves the current child unchanged; a copied sequence gets it as well.
    #[inline]
    unsafe fn keep_child(&mut self) {
        // SAFETY: the copy is ours, and the child is alive.
        unsafe {
            if self.changed
                && !self.in_place
                && let Source::Elements { .. } = self.children.source()
            {
                append(self.copy, retain(self.children.child()));
            }
        }
    }

    /// Replaces the current child by an owned value.
    unsafe fn put(&mut self, value: TVMFFIAny) {
        // SAFETY: the caller gives the value up; the copy is ours alone, and in place the value is.
        unsafe {
            let old = match *self.children.source() {
                Source::Elements { seq, index, .. } if self.in_place => {
                    let _access = Access::new(seq);
                    if (index as usize) < seq::elements(seq).len() {
                        (*body_ptr::<TVMFFISeqCell>(seq)).data.cast::<TVMFFIAny>().add(index as usize).replace(value)
                    } else {
                        // Foreign code has shortened the list.
                        value
                    }
                }
                Source::Elements { seq, index, size } => {
                    if !self.changed {
                        self.copy = new_like(seq, size as usize);
                        for element in list::shared::elements(seq).iter().take(index as usize) {
                            append(self.copy, retain(element));
                        }
                    }
                    append(self.copy, value);
                    TVMFFIAny::NONE
                }
                Source::Values { map, position } => {
                    if !self.in_place && !self.changed {
                        self.copy = map::shared::copy(map);
                    }
                    // A copy has its entries at the same positions.
                    let target = if self.in_place { map } else { self.copy };
                    let _access = Access::new(target);
                    match position.and_then(|position| map::value_at(target, position)) {
                        Some(slot) => slot.replace(value),
                        // Foreign code has removed the entry.
                        None => value,
                    }
                }
                Source::Fields { current: Some(field), .. } => {
                    if let Err(error) = set_field(self.copy, field, &value) {
                        self.error = error.into_raw();
                    }
                    value
                }
                Source::Fields { .. } | Source::Nothing => value,
            };
            self.changed = true;
            release(old);
        }
    }

    /// The outcome after all children were mutated. The caller adds the value to the context of a
    /// failure.
    ///
    /// # Safety
    /// `value` is the value, `table` that of the live mutator. This is not used any more.
    #[inline]
    pub(super) unsafe fn finish(
        &mut self,
        mutator: *mut TVMFFIObject,
        value: &TVMFFIAny,
        table: &MutatorTable,
    ) -> TVMFFIAny {
        // SAFETY: promised by the caller; the copy is ours, and its only reference is transferred
        // to the outcome.
        unsafe {
            let region = Region::of(mutator);
            self.children.end(region);
            let outcome = if self.changed && !self.in_place {
                as_argument(self.copy)
            } else {
                if !self.copy.is_null() {
                    dec_ref(self.copy);
                }
                UNCHANGED
            };
            if self.identity == Identity::None {
                return outcome;
            }
            // The uses of a simple definition that was not changed find no entry, and are not
            // changed either.
            if self.identity == Identity::Shared || self.changed || region.get() == region::PATTERN {
                let remembered = (table.var_remap_set)(mutator, *value, outcome);
                if is_error(&remembered) {
                    release(outcome);
                    return remembered;
                }
            }
            outcome
        }
    }

    /// Ends the mutation because of a failure. Changes in place remain.
    ///
    /// # Safety
    /// This is not used any more.
    pub(super) unsafe fn abandon(&mut self, region: Region) {
        // SAFETY: the children are not used any more; the copy and the error are ours.
        unsafe {
            self.children.end(region);
            for object in [self.copy, self.error] {
                if !object.is_null() {
                    dec_ref(object);
                }
            }
        }
    }
}

/// Creates an empty sequence of the same kind with room for `size` elements; the caller owns the
/// reference.
///
/// # Safety
/// `seq` is a live array or list.
pub(super) unsafe fn new_like(seq: *mut TVMFFIObject, size: usize) -> *mut TVMFFIObject {
    // SAFETY: promised by the caller.
    unsafe {
        if (*seq).type_index == type_index::ARRAY {
            return seq::new_array_with_capacity(Vec::new(), size);
        }
        let list = seq::new_list(Vec::new());
        if list::reserve(list, size as i64).is_err() {
            let layout = core::alloc::Layout::array::<TVMFFIAny>(size);
            std::alloc::handle_alloc_error(layout.unwrap_or(core::alloc::Layout::new::<TVMFFIAny>()));
        }
        list
    }
}

/// Adds an owned element.
///
/// # Safety
/// The sequence was made by [`new_like`] and has room; no other code has it yet.
#[inline]
pub(super) unsafe fn append(seq: *mut TVMFFIObject, value: TVMFFIAny) {
    // SAFETY: promised by the caller.
    unsafe {
        let cell = body_ptr::<TVMFFISeqCell>(seq);
        debug_assert!((*cell).size < (*cell).capacity);
        (*cell).data.cast::<TVMFFIAny>().add((*cell).size as usize).write(value);
        (*cell).size += 1;
    }
}

/// Sets a field of a copy.
unsafe fn set_field(copy: *mut TVMFFIObject, field: Field, value: &TVMFFIAny) -> Result<()> {
    // SAFETY: the caller passes a copy of its own that has this field, and a valid value.
    unsafe {
        if field.as_raw().setter.is_null() {
            return Err(no_setter(field, as_argument(copy)));
        }
        field.set(copy, &AnyView::from_raw(*value))
    }
}

#[cold]
unsafe fn no_setter(field: Field, object: TVMFFIAny) -> Error {
    // SAFETY: the caller passes a valid view.
    let object = unsafe { AnyView::from_raw(object) };
    let (name, key) = (field.name(), type_key(&object));
    let message =
        format!("Cannot structurally mutate field `{name}` of type `{key}` because it does not define a setter");
    Error::with_backtrace("TypeError", &message, "")
}
