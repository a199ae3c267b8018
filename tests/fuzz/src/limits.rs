//! ONNX models with one integer at a limit: an attribute, an extent, an element of a weight or
//! index, a version or the number of a type. Mutations of single bytes rarely give such a model,
//! because the lengths of all messages around the integer have to fit.

/// Values at the ends of integer types, where sums and products overflow, and sizes beyond any
/// memory.
pub const LIMITS: [i64; 20] = [
    0,
    1,
    -1,
    1 << 20,
    i32::MAX as i64 - 1,
    i32::MAX as i64,
    1 << 31,
    i32::MIN as i64 - 1,
    i32::MIN as i64,
    i32::MIN as i64 + 1,
    u32::MAX as i64,
    1 << 32,
    (1 << 32) + 1,
    1 << 40,
    1 << 61,
    1 << 62,
    i64::MAX - 1,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
];

/// The maximum depth of nested messages that are read: the reader's own limit.
const DEPTH: usize = 100;

/// The fields of a message that are integers or contain some: number, name, content.
struct Message(&'static [(u64, &'static str, Content)]);

/// The content of a field.
enum Content {
    Message(&'static Message),
    /// One integer, or several packed ones.
    Integers,
    /// The type of the elements in the field `raw_data` of the same message.
    ElementType,
    /// Elements in sequence.
    Elements,
}

use Content::{ElementType, Elements, Integers};

static MODEL: Message = Message(&[
    (1, "ir_version", Integers),
    (7, "graph", Content::Message(&GRAPH)),
    (8, "opset_import", Content::Message(&OPSET)),
    (25, "functions", Content::Message(&FUNCTION)),
]);
static OPSET: Message = Message(&[(2, "version", Integers)]);
static GRAPH: Message = Message(&[
    (1, "node", Content::Message(&NODE)),
    (5, "initializer", Content::Message(&TENSOR)),
    (11, "input", Content::Message(&VALUE)),
    (12, "output", Content::Message(&VALUE)),
    (13, "value_info", Content::Message(&VALUE)),
    (15, "sparse_initializer", Content::Message(&SPARSE)),
]);
static FUNCTION: Message = Message(&[
    (7, "node", Content::Message(&NODE)),
    (9, "opset_import", Content::Message(&OPSET)),
    (11, "attribute_proto", Content::Message(&ATTRIBUTE)),
]);
static NODE: Message = Message(&[(5, "attribute", Content::Message(&ATTRIBUTE))]);
static ATTRIBUTE: Message = Message(&[
    (3, "i", Integers),
    (5, "t", Content::Message(&TENSOR)),
    (6, "g", Content::Message(&GRAPH)),
    (8, "ints", Integers),
    (10, "tensors", Content::Message(&TENSOR)),
    (11, "graphs", Content::Message(&GRAPH)),
    (20, "type", Integers),
    (22, "sparse_tensor", Content::Message(&SPARSE)),
]);
static TENSOR: Message = Message(&[
    (1, "dims", Integers),
    (2, "data_type", ElementType),
    (5, "int32_data", Integers),
    (7, "int64_data", Integers),
    (9, "raw_data", Elements),
    (11, "uint64_data", Integers),
]);
static SPARSE: Message = Message(&[
    (1, "values", Content::Message(&TENSOR)),
    (2, "indices", Content::Message(&TENSOR)),
    (3, "dims", Integers),
]);
static VALUE: Message = Message(&[(2, "type", Content::Message(&TYPE))]);
static TYPE: Message = Message(&[
    (1, "tensor_type", Content::Message(&TENSOR_TYPE)),
    (4, "sequence_type", Content::Message(&ELEMENT_TYPE)),
    (9, "optional_type", Content::Message(&ELEMENT_TYPE)),
]);
static ELEMENT_TYPE: Message = Message(&[(1, "elem_type", Content::Message(&TYPE))]);
static TENSOR_TYPE: Message = Message(&[(1, "elem_type", Integers), (2, "shape", Content::Message(&SHAPE))]);
static SHAPE: Message = Message(&[(1, "dim", Content::Message(&DIM))]);
static DIM: Message = Message(&[(1, "dim_value", Integers)]);

/// An integer in a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integer {
    /// The names of the fields that lead to it: `graph.node.attribute.ints`.
    pub path: String,
    /// Its value.
    pub value: i64,
}

/// Returns the integers of a model in the order of the file. `None` if the bytes are not in the
/// wire format of protocol buffers.
pub fn integers(model: &[u8]) -> Option<Vec<Integer>> {
    let mut found = Vec::new();
    copy(model, |path, value| {
        found.push(Integer { path: path.join("."), value });
        value
    })?;
    Some(found)
}

/// Returns the model with another value for the integer that has this index in [`integers`]. An
/// element of four bytes gets the low half of the value. `None` if there is no such integer.
pub fn with_integer(model: &[u8], index: usize, value: i64) -> Option<Vec<u8>> {
    let mut next = 0;
    let changed = copy(model, |_, old| {
        next += 1;
        if next == index + 1 { value } else { old }
    });
    changed.filter(|_| next > index)
}

/// Sets one integer of a model to one of [`LIMITS`]; `seed` chooses both. `None` if there is no
/// integer.
pub fn mutate(model: &[u8], seed: u32) -> Option<Vec<u8>> {
    let seed = usize::try_from(seed).ok()?;
    let mut count = 0;
    copy(model, |_, value| {
        count += 1;
        value
    })?;
    let index = seed.checked_rem(count)?;
    with_integer(model, index, LIMITS[seed / count % LIMITS.len()])
}

/// Copies a model; `change` gets each integer with the names of the fields that lead to it, and
/// returns its value in the copy.
fn copy(model: &[u8], change: impl FnMut(&[&'static str], i64) -> i64) -> Option<Vec<u8>> {
    Copy { change, path: Vec::new() }.message(&MODEL, model)
}

/// A copy of a model that is being written.
struct Copy<F> {
    change: F,
    /// The names of the fields that lead to the current one.
    path: Vec<&'static str>,
}

impl<F: FnMut(&[&'static str], i64) -> i64> Copy<F> {
    fn message(&mut self, message: &Message, mut rest: &[u8]) -> Option<Vec<u8>> {
        let mut copy = Vec::with_capacity(rest.len() + 16);
        // Writers keep the order of the numbers: the type comes before the elements.
        let mut element_type = 0;
        while !rest.is_empty() {
            let key = take_varint(&mut rest)?;
            put_varint(&mut copy, key);
            let field = message.0.iter().find(|(number, ..)| *number == key >> 3);
            self.path.extend(field.map(|(_, name, _)| *name));
            let content = field.map(|(.., content)| content);
            match key & 7 {
                0 => {
                    let value = take_varint(&mut rest)?;
                    if let Some(ElementType) = content {
                        element_type = value;
                    }
                    let is_integer = matches!(content, Some(Integers | ElementType));
                    put_varint(&mut copy, if is_integer { self.varint(value) } else { value });
                }
                1 => copy.extend(rest.split_off(..8)?),
                2 => {
                    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
                    let bytes = self.bytes(content, element_type, rest.split_off(..length)?)?;
                    put_varint(&mut copy, bytes.len() as u64);
                    copy.extend(bytes);
                }
                5 => copy.extend(rest.split_off(..4)?),
                _ => return None,
            }
            self.path.truncate(self.path.len() - usize::from(field.is_some()));
        }
        Some(copy)
    }

    /// Copies a field that has a length.
    fn bytes(&mut self, content: Option<&Content>, element_type: u64, mut rest: &[u8]) -> Option<Vec<u8>> {
        match content {
            Some(Content::Message(message)) if self.path.len() < DEPTH => self.message(message, rest),
            Some(Integers) => {
                let mut copy = Vec::with_capacity(rest.len() + 16);
                while !rest.is_empty() {
                    let value = take_varint(&mut rest)?;
                    put_varint(&mut copy, self.varint(value));
                }
                Some(copy)
            }
            Some(Elements) => Some(self.elements(element_type, rest)),
            _ => Some(rest.to_vec()),
        }
    }

    fn varint(&mut self, value: u64) -> u64 {
        (self.change)(&self.path, value.cast_signed()).cast_unsigned()
    }

    /// Copies the elements of a tensor: those of integer types of 32 and 64 bits are integers of
    /// the model.
    fn elements(&mut self, element_type: u64, bytes: &[u8]) -> Vec<u8> {
        match element_type {
            6 | 12 => {
                let (whole, rest) = bytes.as_chunks::<4>();
                let change = |element: &[u8; 4]| {
                    ((self.change)(&self.path, i64::from(i32::from_le_bytes(*element))) as i32).to_le_bytes()
                };
                whole.iter().flat_map(change).chain(rest.iter().copied()).collect()
            }
            7 | 13 => {
                let (whole, rest) = bytes.as_chunks::<8>();
                let change = |element: &[u8; 8]| (self.change)(&self.path, i64::from_le_bytes(*element)).to_le_bytes();
                whole.iter().flat_map(change).chain(rest.iter().copied()).collect()
            }
            _ => bytes.to_vec(),
        }
    }
}

/// Takes an integer of seven bits a byte; the last byte is below 128.
fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn lengths_of_messages_fit_the_integer() {
        // graph { node { attribute { ints: [1, 2] packed, i: 3, f: 1 } } }, producer_name: "x".
        let attribute = [0x42, 2, 1, 2, 0x18, 3, 0x15, 0, 0, 0x80, 0x3f];
        let model = [&[0x3a, 15, 0x0a, 13, 0x2a, 11][..], &attribute, &[0x12, 1, b'x']].concat();
        let found = integers(&model).unwrap();
        let expected =
            [("graph.node.attribute.ints", 1), ("graph.node.attribute.ints", 2), ("graph.node.attribute.i", 3)];
        assert_eq!(found, expected.map(|(path, value)| Integer { path: path.to_owned(), value }));
        let longer = [&[0x3a, 24, 0x0a, 22, 0x2a, 20, 0x42, 11, 1][..], &[0xff; 9], &[1], &attribute[4..]].concat();
        assert_eq!(with_integer(&model, 1, -1).unwrap(), [&longer[..], &[0x12, 1, b'x']].concat());
        assert_eq!(with_integer(&model, 3, -1), None);
    }

    #[test]
    fn elements_are_integers_by_their_type() {
        for (element_type, width, count) in [(7, 8, 2), (13, 8, 2), (6, 4, 4), (12, 4, 4), (1, 4, 0)] {
            // graph { initializer { data_type, raw_data } }, with a byte too many.
            let tensor = [&[0x10, element_type, 0x4a, 17][..], &[0; 17]].concat();
            let model = [&[0x3a, 23, 0x2a, 21][..], &tensor].concat();
            assert_eq!(integers(&model).unwrap().len(), 1 + count, "type {element_type}");
            let changed = with_integer(&model, 2, i64::MIN + 3);
            let mut expected = model.clone();
            expected[8 + width] = 3;
            if width == 8 {
                expected[8 + 15] = 0x80;
            }
            assert_eq!(changed, (count > 0).then_some(expected), "type {element_type}");
        }
    }

    #[test]
    fn damaged_models_are_not_changed() {
        for model in [&[0x08][..], &[0x3a, 3, 0], &[0x3a, 1, 0x0b], &[0x08, 0xff, 0xff], &[0x3b]] {
            assert_eq!(integers(model), None, "{model:?}");
            assert_eq!(mutate(model, 5), None, "{model:?}");
        }
        assert_eq!(mutate(&[], 5), None);
    }

    #[test]
    fn an_integer_that_is_set_back_leaves_the_model_as_it_was() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/onnx");
        for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let model = fs::read(&file).unwrap();
            let all = integers(&model).unwrap_or_default();
            for (index, integer) in all.iter().enumerate() {
                let changed = with_integer(&model, index, i64::MAX).unwrap();
                assert_eq!(integers(&changed).unwrap()[index].path, integer.path, "{}", file.display());
                assert_eq!(with_integer(&changed, index, integer.value).unwrap(), model, "{}", file.display());
            }
            // Each choice of the fuzzer is one of them.
            for seed in 0..if all.is_empty() { 0 } else { 100 } {
                let (index, limit) = (seed % all.len(), LIMITS[seed / all.len() % LIMITS.len()]);
                assert_eq!(mutate(&model, seed as u32), with_integer(&model, index, limit));
            }
        }
    }
}
