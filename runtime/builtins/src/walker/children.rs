//! The parts of an object: elements, entries or fields, one after the other.

use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::embedded::list::shared::Contents;
use crate::embedded::{list, map, seq};
use kernpack_core::reflect::{Field, Fields, TypeInfo};

/// The remaining children of an object.
///
/// Lists and dicts may change while a hook runs or on another thread, so that their content is
/// copied first.
pub(crate) enum Children {
    /// The elements of an array.
    Array(core::slice::Iter<'static, TVMFFIAny>),
    /// Alternating keys and values of a map: the entries, and the value whose key was the last
    /// child.
    Map(map::Entries, Option<TVMFFIAny>),
    /// The elements of a list; alternating keys and values of a dict.
    Owned(OwnedValues),
    /// The fields of an object that have none of these flags.
    Fields(Fields, i64),
}

/// Values with references of their own.
pub(crate) struct OwnedValues {
    values: Contents<'static>,
    next: usize,
}

impl Children {
    /// The children of an object; fields with one of the flags in `skipped` are left out.
    ///
    /// # Safety
    /// The object is alive, and stays alive as long as the result is used.
    pub(crate) unsafe fn of(object: *mut TVMFFIObject, info: TypeInfo, skipped: i64) -> Self {
        // SAFETY: promised by the caller; arrays and maps do not change while others refer to them.
        unsafe {
            match info.index() {
                type_index::ARRAY => Self::Array(seq::elements(object).iter()),
                type_index::LIST => Self::Owned(OwnedValues { values: list::shared::elements(object), next: 0 }),
                type_index::MAP => Self::Map(map::iter(object), None),
                type_index::DICT => Self::Owned(OwnedValues { values: map::shared::contents(object), next: 0 }),
                _ => Self::Fields(info.fields(), skipped),
            }
        }
    }

    /// The next element, key or value, borrowed.
    #[inline]
    pub(crate) fn next_value(&mut self) -> Option<TVMFFIAny> {
        match self {
            Self::Array(elements) => elements.next().copied(),
            Self::Map(entries, value) => value.take().or_else(|| {
                let (key, next) = entries.next()?;
                *value = Some(next);
                Some(key)
            }),
            Self::Owned(values) => values.next(),
            Self::Fields(..) => None,
        }
    }

    /// The next field.
    #[inline]
    pub(crate) fn next_field(&mut self) -> Option<Field> {
        let Self::Fields(fields, skipped) = self else { return None };
        let skipped = *skipped;
        fields.find(|field| field.as_raw().flags & skipped == 0)
    }

    /// Returns true if elements, keys and values are held with a reference of their own, in
    /// addition to the references of others.
    pub(crate) const fn are_owned(&self) -> bool {
        matches!(self, Self::Owned(_))
    }
}

impl OwnedValues {
    #[inline]
    fn next(&mut self) -> Option<TVMFFIAny> {
        let value = self.values.get(self.next).copied()?;
        self.next += 1;
        Some(value)
    }
}
