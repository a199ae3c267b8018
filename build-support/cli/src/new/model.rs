//! Reads the parts of an ONNX file that a new crate needs: its inputs, and the files next to it.
//! The build script reads the rest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use crate::Result;

/// A model that a crate is made for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Model {
    /// The file.
    pub(super) file: PathBuf,
    /// Files with its weights, relative to its folder.
    pub(super) beside: Vec<PathBuf>,
    /// The options in the build script: `.dim("batch", 1)`.
    pub(super) options: Vec<String>,
    /// The function: the name of the file, as an identifier.
    pub(super) function: String,
    /// The input tensors, as Rust expressions that create zeros.
    pub(super) zeros: Vec<String>,
    /// Extents that were not given, and default to 1: `dimension 'batch'`.
    pub(super) guessed: Vec<String>,
}

/// An input of a model. Each extent is known or has a name, which may be empty.
#[derive(Debug, PartialEq, Eq)]
struct Input {
    name: String,
    /// The number of the element type.
    element: u64,
    shape: Option<Vec<Extent>>,
}

/// Element types by their numbers: code and bits of DLPack.
const ELEMENTS: [(u64, u8, u8); 13] = [
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

#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    Known(i64),
    Named(String),
}

impl Model {
    /// Reads a model. `dims` are extents by the names of dimensions.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a model, or if the model does not have
    /// one of the names.
    pub(super) fn read(file: &Path, dims: &BTreeMap<String, i64>) -> Result<Self> {
        let shown = file.display();
        let bytes = std::fs::read(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let (inputs, locations) =
            scan(&bytes).ok_or_else(|| format!("{shown} is not a model in ONNX's format, or is cut off"))?;
        let names = inputs.iter().flat_map(|input| input.shape.iter().flatten()).filter_map(|extent| match extent {
            Extent::Named(name) if !name.is_empty() => Some(name.as_str()),
            _ => None,
        });
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        if let Some(name) = dims.keys().find(|name| !names.contains(&name.as_str())) {
            let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(format!("{shown} has no dimension '{name}' that is open; open dimensions: {has}"));
        }
        let mut options = Vec::new();
        let mut guessed = Vec::new();
        for name in names {
            let extent = dims.get(name).copied().unwrap_or_else(|| {
                guessed.push(format!("dimension '{name}'"));
                1
            });
            options.push(format!(".dim({name:?}, {extent})"));
        }
        let mut zeros = Vec::new();
        for input in &inputs {
            let element = ELEMENTS.iter().find(|(number, ..)| *number == input.element);
            let (Some(shape), Some((_, code, bits))) = (&input.shape, element) else {
                return Err(format!(
                    "{shown}: input '{}' is not a tensor of numbers with a shape: start the crate without --model, and say `.model_with({:?}, |model| ..)` in build.rs",
                    input.name, file
                ));
            };
            let mut extents = Vec::new();
            for (axis, extent) in shape.iter().enumerate() {
                extents.push(match extent {
                    Extent::Known(extent) => *extent,
                    Extent::Named(name) if name.is_empty() => {
                        guessed.push(format!("dimension {axis} of '{}'", input.name));
                        1
                    }
                    Extent::Named(name) => dims.get(name).copied().unwrap_or(1),
                });
            }
            // Extents without a name require the whole shape.
            if shape.iter().any(|extent| *extent == Extent::Named(String::new())) {
                options.push(format!(".input({:?}, {extents:?})", input.name));
            }
            zeros.push(format!("zeros(DataType::scalar({code}, {bits}), &{extents:?})"));
        }
        let beside = locations.into_iter().filter(|location| stays(location)).collect();
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { file: file.to_owned(), beside, options, function: identifier(&stem), zeros, guessed })
    }

    /// Returns the call in the build script for the model at this path.
    pub(super) fn call(&self, path: &str) -> String {
        if self.options.is_empty() {
            return format!("        .model({path:?})\n");
        }
        let mut line = format!("        .model_with({path:?}, |model| model{})\n", self.options.concat());
        if line.trim_end().len() > 100 {
            // The layout of rustfmt.
            line = format!("        .model_with({path:?}, |model| {{\n            model\n");
            for option in &self.options {
                let _ = writeln!(line, "                {option}");
            }
            line.push_str("        })\n");
        }
        line
    }
}

/// Returns true if a path stays in the folder that it starts from.
fn stays(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Converts a name like the compiler does for functions.
fn identifier(name: &str) -> String {
    let mut text: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) {
        text.insert(0, 'm');
    }
    text
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

/// Returns the inputs that are not weights, and the paths of weights in other files. The numbers of
/// fields are those of `ModelProto` and its nested messages.
fn scan(bytes: &[u8]) -> Option<(Vec<Input>, Vec<PathBuf>)> {
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
            Some(extent) => Extent::Known(extent.cast_signed()),
            None => Extent::Named(text(dim, 2)?),
        });
    }
    Some((element, Some(extents)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn perceptron() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../graph/tests/data/perceptron.onnx")
    }

    #[test]
    fn dimensions_are_given_or_guessed() {
        let dims = |pairs: &[(&str, i64)]| pairs.iter().map(|(name, extent)| ((*name).to_owned(), *extent)).collect();
        let guessed = Model::read(&perceptron(), &dims(&[])).unwrap();
        assert_eq!(guessed.options, [".dim(\"batch\", 1)"]);
        assert_eq!(guessed.guessed, ["dimension 'batch'"]);
        assert_eq!(guessed.function, "perceptron");
        let given = Model::read(&perceptron(), &dims(&[("batch", 2)])).unwrap();
        assert_eq!((&given.options[..], &given.guessed[..]), (&[".dim(\"batch\", 2)".to_owned()][..], &[][..]));
        assert_eq!(given.zeros, ["zeros(DataType::scalar(2, 32), &[2, 4])"]);
        assert_eq!(given.call("a.onnx"), "        .model_with(\"a.onnx\", |model| model.dim(\"batch\", 2))\n");
        let error = Model::read(&perceptron(), &dims(&[("rows", 2)])).unwrap_err();
        assert!(error.ends_with("has no dimension 'rows' that is open; open dimensions: batch"), "{error}");
    }

    #[test]
    fn what_is_cut_is_no_model() {
        let bytes = std::fs::read(perceptron()).unwrap();
        let (inputs, locations) = scan(&bytes).unwrap();
        assert_eq!((inputs.len(), locations.len()), (1, 0));
        for length in 0..bytes.len() {
            // A file that is truncated between two fields may still have the graph.
            if let Some((found, _)) = scan(&bytes[..length]) {
                assert_eq!(found, inputs);
            }
        }
        assert!(
            Model::read(Path::new("/nothing.onnx"), &BTreeMap::new())
                .unwrap_err()
                .contains("cannot read /nothing.onnx")
        );
    }

    #[test]
    fn weights_beside_a_model_stay_in_its_folder() {
        for (path, expected) in [("weights.bin", true), ("./a/b", true), ("../a", false), ("/etc/passwd", false)] {
            assert_eq!(stays(Path::new(path)), expected, "{path}");
        }
    }
}
