//! Reads the inputs of an ONNX file and the files next to it, without the importer of models: the
//! command does not need the compiler.

use std::path::PathBuf;

/// An input of a model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) name: String,
    /// The number of the element type.
    pub(super) element: u64,
    pub(super) shape: Option<Vec<Extent>>,
}

/// An extent of an input: known, or open with a name, which may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Known(i64),
    Named(String),
}

/// Element types by their numbers: code and bits of DLPack.
pub(super) const ELEMENTS: [(u64, u8, u8); 13] = [
    (1, 2, 32),
    (2, 1, 8),
    (3, 0, 8),
    (4, 1, 16),
    (5, 0, 16),
    (6, 0, 32),
    (7, 0, 64),
    (9, 6, 8),
    (10, 2, 16),
    (11, 2, 64),
    (12, 1, 32),
    (13, 1, 64),
    (16, 4, 16),
];

/// Returns the inputs that are not weights, and the paths of weights in other files. The numbers of
/// fields are those of `ModelProto` and its nested messages.
pub(super) fn scan(bytes: &[u8]) -> Option<(Vec<Input>, Vec<PathBuf>)> {
    let graph = *of(bytes, 7)?.last()?;
    let mut weights = Vec::new();
    let mut locations: Vec<PathBuf> = Vec::new();
    for tensor in of(graph, 5)? {
        weights.push(text(tensor, 8)?);
        for entry in of(tensor, 13)? {
            if text(entry, 1)? == "location" {
                locations.push(text(entry, 2)?.into());
            }
        }
    }
    locations.sort();
    locations.dedup();
    let mut inputs = Vec::new();
    for value in of(graph, 11)? {
        let name = text(value, 1)?;
        if !weights.contains(&name) {
            let (element, shape) = tensor_type(value)?;
            inputs.push(Input { name, element, shape });
        }
    }
    Some((inputs, locations))
}

/// Returns the element type of a value, and its extents if it has any, or `None` if the bytes are
/// not a message.
fn tensor_type(value: &[u8]) -> Option<(u64, Option<Vec<Extent>>)> {
    let Some(ty) = of(value, 2)?.last().copied() else { return Some((0, None)) };
    let Some(tensor) = of(ty, 1)?.last().copied() else { return Some((0, None)) };
    let element = number(tensor, 1)?.unwrap_or_default();
    let Some(shape) = of(tensor, 2)?.last().copied() else { return Some((element, None)) };
    let mut extents = Vec::new();
    for dim in of(shape, 1)? {
        extents.push(match number(dim, 1)? {
            // Some exporters write -1 for an open extent.
            Some(extent) if extent.cast_signed() >= 0 => Extent::Known(extent.cast_signed()),
            Some(_) => Extent::Named(String::new()),
            None => Extent::Named(text(dim, 2)?),
        });
    }
    Some((element, Some(extents)))
}

/// A field of a message: its number, and a number or bytes.
enum Field<'a> {
    Number(u64, u64),
    Bytes(u64, &'a [u8]),
}

/// Returns the fields of a protocol buffers message, or `None` if the bytes are not a message.
fn fields(mut bytes: &[u8]) -> Option<Vec<Field<'_>>> {
    fn varint(bytes: &mut &[u8]) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let length = match key & 7 {
            0 => {
                all.push(Field::Number(key >> 3, varint(&mut bytes)?));
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (field, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        if key & 7 == 2 {
            all.push(Field::Bytes(key >> 3, field));
        }
    }
    Some(all)
}

/// Returns the messages and texts of a field.
fn of(bytes: &[u8], number: u64) -> Option<Vec<&[u8]>> {
    let found = fields(bytes)?.into_iter().filter_map(|field| match field {
        Field::Bytes(own, bytes) if own == number => Some(bytes),
        _ => None,
    });
    Some(found.collect())
}

/// Returns the text of a field, which may be missing.
fn text(bytes: &[u8], number: u64) -> Option<String> {
    Some(of(bytes, number)?.last().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default())
}

/// Returns the number of a field, if it is present, or `None` if the bytes are not a message.
#[expect(clippy::option_option, reason = "bytes that are no message, and fields that are missing")]
fn number(bytes: &[u8], field: u64) -> Option<Option<u64>> {
    let found = fields(bytes)?.into_iter().rev().find_map(|own| match own {
        Field::Number(number, value) if number == field => Some(value),
        _ => None,
    });
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_files_are_refused() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../graph/tests/data/perceptron.onnx");
        let bytes = std::fs::read(path).unwrap();
        let (inputs, locations) = scan(&bytes).unwrap();
        assert_eq!((inputs.len(), locations.len()), (1, 0));
        for length in 0..bytes.len() {
            // A file that is truncated between two fields may still have the graph.
            if let Some((found, _)) = scan(&bytes[..length]) {
                assert_eq!(found, inputs);
            }
        }
    }
}
