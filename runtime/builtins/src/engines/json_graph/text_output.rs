//! Nodes as JSON text.

use super::encode::{Data, Output, encode};
use crate::abi::{TVMFFIAny, type_index};
use crate::embedded::{dtype, map, new_string, text_of};
use crate::json::{self, write_float, write_integer, write_string};
use crate::value::Any;
use crate::{Error, Result};
use kernpack_core::reflect::{Fields, TypeInfo};

/// Encodes a graph as text; `None` means no metadata.
#[inline]
pub(super) fn to_text(root: &Any, metadata: &Any) -> Result<Vec<u8>> {
    let mut nodes = NodeTexts::default();
    let root_index = encode(root, &mut nodes)?;
    // Text is only returned for a complete graph.
    if let Some(error) = nodes.problem {
        return Err(error);
    }
    let metadata = if metadata.is_none() { None } else { Some(json::write(metadata, 0)?) };
    let size = nodes.text.len() + metadata.as_ref().map_or(0, Vec::len);
    let mut text = Vec::with_capacity(size + 80);
    text.extend_from_slice(b"{\"root_index\":");
    write_integer(&mut text, root_index);
    text.extend_from_slice(b",\"nodes\":[");
    text.extend_from_slice(&nodes.text);
    text.push(b']');
    if let Some(metadata) = metadata {
        text.extend_from_slice(b",\"metadata\":");
        text.extend_from_slice(&metadata);
    }
    text.push(b'}');
    Ok(text)
}

#[derive(Default)]
struct NodeTexts {
    text: Vec<u8>,
    /// The error if a value that a hook has returned cannot be written as JSON.
    problem: Option<Error>,
}

impl Output for NodeTexts {
    #[inline]
    fn node(&mut self, key: &'static [u8], data: Data<'_>) -> Result<()> {
        if !self.text.is_empty() {
            self.text.push(b',');
        }
        self.text.extend_from_slice(b"{\"type\":");
        write_string(&mut self.text, key);
        if !matches!(data, Data::Absent) {
            self.text.extend_from_slice(b",\"data\":");
        }
        match data {
            Data::Absent => {}
            Data::Value(value) => self.value(value)?,
            Data::Text(text) => write_string(&mut self.text, text),
            Data::List(items) => {
                self.text.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        self.text.push(b',');
                    }
                    write_integer(&mut self.text, item.bits().cast_signed());
                }
                self.text.push(b']');
            }
            Data::Fields(fields, items) => self.fields(fields, items)?,
            Data::Made(value) => match json::write(&value, 0) {
                Ok(text) => self.text.extend_from_slice(&text),
                Err(error) => self.problem = self.problem.take().or(Some(error)),
            },
        }
        self.text.push(b'}');
        Ok(())
    }
}

impl NodeTexts {
    #[inline]
    fn value(&mut self, value: &TVMFFIAny) -> Result<()> {
        let text = &mut self.text;
        // SAFETY: the encoder keeps the value alive; the member is read that its type index names.
        unsafe {
            match value.type_index {
                type_index::BOOL if value.bits() != 0 => text.extend_from_slice(b"true"),
                type_index::BOOL => text.extend_from_slice(b"false"),
                type_index::INT => write_integer(text, value.bits().cast_signed()),
                type_index::FLOAT => write_float(text, value.payload.v_float64),
                type_index::DATA_TYPE => write_string(text, dtype::format(value.payload.v_dtype)?.as_bytes()),
                type_index::SMALL_STR | type_index::STR => write_string(text, text_of(value).unwrap_or_default()),
                _ => text.extend_from_slice(b"null"),
            }
        }
        Ok(())
    }

    #[inline]
    fn fields(&mut self, fields: Fields, items: &[TVMFFIAny]) -> Result<()> {
        if has_same_names(&fields) {
            return self.fields_of_same_names(fields, items);
        }
        self.text.push(b'{');
        for (at, (field, item)) in fields.zip(items).enumerate() {
            if at > 0 {
                self.text.push(b',');
            }
            write_string(&mut self.text, field.name_bytes());
            self.text.push(b':');
            self.value(item)?;
        }
        self.text.push(b'}');
        Ok(())
    }

    /// Of fields with the same name, the last one is written, in the order of a map.
    #[cold]
    #[inline]
    fn fields_of_same_names(&mut self, fields: Fields, items: &[TVMFFIAny]) -> Result<()> {
        let mut entries = Vec::with_capacity(items.len());
        for (field, item) in fields.zip(items) {
            entries.push((new_string(field.name_bytes()), *item));
        }
        // SAFETY: a new map of owned texts and plain values.
        unsafe {
            let map = Any::from_object(map::new_map(entries)?);
            self.text.push(b'{');
            for (at, (name, item)) in map::iter(map.as_view().as_raw().payload.v_obj).enumerate() {
                if at > 0 {
                    self.text.push(b',');
                }
                write_string(&mut self.text, text_of(&name).unwrap_or_default());
                self.text.push(b':');
                self.value(&item)?;
            }
        }
        self.text.push(b'}');
        Ok(())
    }
}

/// Returns true if a field of a type has the name of an ancestor's field.
#[inline]
fn has_same_names(fields: &Fields) -> bool {
    let info: TypeInfo = fields.type_info();
    let inherited =
        || info.lineage().filter(move |ancestor| ancestor.index() != info.index()).flat_map(TypeInfo::own_fields);
    info.depth() > 1 && inherited().next().is_some() && {
        let mut names: Vec<_> = fields.clone().map(kernpack_core::reflect::Field::name_bytes).collect();
        names.sort_unstable();
        names.windows(2).any(|pair| pair[0] == pair[1])
    }
}
