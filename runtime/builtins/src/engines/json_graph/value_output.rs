//! Nodes as values: maps, arrays, texts and numbers.

use super::encode::{Data, Output, encode};
use crate::Result;
use crate::abi::{TVMFFIAny, type_index};
use crate::embedded::{dtype, map, new_string, release, seq};
use crate::value::Any;
use kernpack_core::reflect::Fields;

/// Encodes the graph as a map; `None` means no metadata.
#[inline]
pub(super) fn to_value(root: &Any, metadata: Any) -> Result<Any> {
    let mut nodes = Nodes::default();
    let root_index = encode(root, &mut nodes)?;
    let nodes = seq::new_array(nodes.values.drain(..).map(Any::into_raw).collect());
    let mut entries = vec![
        (new_string(b"root_index"), TVMFFIAny::int(root_index)),
        (new_string(b"nodes"), TVMFFIAny::pointer(type_index::ARRAY, nodes.cast())),
    ];
    if !metadata.is_none() {
        entries.push((new_string(b"metadata"), metadata.into_raw()));
    }
    new_map(entries)
}

/// Creates a map of owned keys and values.
#[inline]
fn new_map(entries: Vec<(TVMFFIAny, TVMFFIAny)>) -> Result<Any> {
    // SAFETY: a new object, whose reference is transferred to the value.
    Ok(unsafe { Any::from_object(map::new_map(entries)?) })
}

/// An owned text.
#[inline]
fn text(text: &[u8]) -> Any {
    // SAFETY: a new text, whose reference is transferred to the value.
    unsafe { Any::from_raw(new_string(text)) }
}

#[derive(Default)]
struct Nodes {
    values: Vec<Any>,
    /// The keys of types and the names of fields so far; nodes share them.
    texts: Vec<(*const u8, Any)>,
}

impl Output for Nodes {
    #[inline]
    fn node(&mut self, key: &'static [u8], data: Data<'_>) -> Result<()> {
        let data = match data {
            Data::Absent => None,
            Data::Value(value) => Some(owned(value)?),
            Data::Text(digits) => Some(text(digits)),
            // SAFETY: plain values in a new array.
            Data::List(items) => Some(unsafe { Any::from_object(seq::new_array_of_shared(items)) }),
            Data::Fields(fields, items) => Some(self.fields(fields, items)?),
            Data::Made(value) => Some(value),
        };
        let mut entries = Vec::with_capacity(2);
        entries.push((new_string(b"type"), self.shared(key).into_raw()));
        if let Some(data) = data {
            entries.push((new_string(b"data"), data.into_raw()));
        }
        self.values.push(new_map(entries)?);
        Ok(())
    }
}

impl Nodes {
    #[inline]
    fn fields(&mut self, fields: Fields, items: &[TVMFFIAny]) -> Result<Any> {
        let mut entries = Vec::with_capacity(items.len());
        for (field, item) in fields.zip(items) {
            entries.push((self.shared(field.name_bytes()).into_raw(), owned(item)?.into_raw()));
        }
        new_map(entries)
    }

    /// Returns the shared value of a static text.
    #[inline]
    fn shared(&mut self, name: &'static [u8]) -> Any {
        /// The most texts that are searched.
        const MANY: usize = 16;
        if let Some((_, text)) = self.texts.iter().find(|(known, _)| *known == name.as_ptr()) {
            return text.clone();
        }
        let new = text(name);
        if self.texts.len() < MANY {
            self.texts.push((name.as_ptr(), new.clone()));
        }
        new
    }
}

/// An owned value: a number, a text, or the name of a data type.
#[inline]
fn owned(value: &TVMFFIAny) -> Result<Any> {
    // SAFETY: the encoder keeps the value alive; the member is read that its type index names.
    unsafe {
        if value.type_index == type_index::DATA_TYPE {
            return Ok(text(dtype::format(value.payload.v_dtype)?.as_bytes()));
        }
        Ok(Any::from_raw(release::retain(value)))
    }
}
