//! What an object consists of: elements, entries or fields, one after the other.

use crate::abi::{TVMFFIAny, TVMFFIObject, type_index};
use crate::embedded::release::{release_elements, retain};
use crate::embedded::{map, seq};
use kernpack_core::reflect::{Field, Fields, TypeInfo};

/// The children of an object that are still to be visited.
///
/// Lists and dicts may change while a hook runs or on another thread, so that their content is copied first.
pub(crate) enum Children {
    /// The elements of an array.
    Array(core::slice::Iter<'static, TVMFFIAny>),
    /// Keys and values of a map, in turn: the entries, and the value of which the key was the last child.
    Map(map::Entries, Option<TVMFFIAny>),
    /// The elements of a list; keys and values of a dict, in turn.
    Owned(OwnedValues),
    /// The fields of an object that have none of these flags.
    Fields(Fields, i64),
}

/// Values with a reference of their own.
pub(crate) struct OwnedValues {
    values: Vec<TVMFFIAny>,
    next: usize,
}

impl Children {
    /// The children of an object; of its fields, those without one of the flags.
    ///
    /// # Safety
    /// The object is alive, and stays alive as long as the result is used.
    pub(crate) unsafe fn of(object: *mut TVMFFIObject, info: TypeInfo, skipped: i64) -> Self {
        // SAFETY: promised by the caller; arrays and maps do not change while others refer to them.
        unsafe {
            match info.index() {
                type_index::ARRAY => Self::Array(seq::elements(object).iter()),
                type_index::LIST => {
                    Self::Owned(OwnedValues::new(seq::elements(object).iter().map(|value| retain(value))))
                }
                type_index::MAP => Self::Map(map::iter(object), None),
                type_index::DICT => {
                    let entries = map::iter(object).flat_map(|(key, value)| [key, value]);
                    Self::Owned(OwnedValues::new(entries.map(|value| retain(&value))))
                }
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

    /// Whether elements, keys and values have one more reference than the ones that others hold.
    pub(crate) const fn are_owned(&self) -> bool {
        matches!(self, Self::Owned(_))
    }
}

impl OwnedValues {
    fn new(values: impl Iterator<Item = TVMFFIAny>) -> Self {
        Self { values: values.collect(), next: 0 }
    }

    #[inline]
    fn next(&mut self) -> Option<TVMFFIAny> {
        let value = self.values.get(self.next).copied()?;
        self.next += 1;
        Some(value)
    }
}

impl Drop for OwnedValues {
    fn drop(&mut self) {
        // SAFETY: the values are owned, and given up once.
        unsafe { release_elements(self.values.drain(..)) }
    }
}
