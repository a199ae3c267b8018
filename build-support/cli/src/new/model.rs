//! The model of a new crate: its options in the build script, and the inputs of its tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use kernpack::DataType;

use super::dimension::Extents;
use super::onnx_file::{self, ELEMENTS, Extent, Input};
use crate::Result;
use crate::text::shown;

/// A model that a crate is made for.
#[derive(Debug, PartialEq)]
pub(super) struct Model {
    /// The file.
    pub(super) file: PathBuf,
    /// Files with its weights, relative to its folder.
    pub(super) beside: Vec<PathBuf>,
    /// The options in the build script: `.dim("batch", 1)`.
    pub(super) options: Vec<String>,
    /// True if the weights are in a file beside the library.
    pub(super) has_weights_file: bool,
    /// The function: the name of the file, as an identifier.
    pub(super) function: String,
    /// Lines for people: the inputs with their dimensions, and the extents of these.
    pub(super) about: Vec<String>,
    /// The inputs of each call of the tests.
    pub(super) calls: Vec<Vec<Zeros>>,
}

/// A tensor of zeros.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Zeros {
    dtype: DataType,
    shape: Vec<i64>,
}

impl Zeros {
    /// Formats the tensor as an expression of the test in Rust.
    pub(super) fn in_rust(&self) -> String {
        let (code, bits) = (self.dtype.code(), self.dtype.bits());
        format!("zeros(DataType::scalar({code}, {bits}), &{:?})", self.shape)
    }

    /// Formats the tensor as an expression of NumPy.
    pub(super) fn in_python(&self) -> String {
        format!("np.zeros({:?}, \"{}\")", self.shape, self.dtype)
    }
}

/// A tensor input, whose open extents have names.
struct Argument {
    name: String,
    dtype: DataType,
    shape: Vec<Extent>,
    /// True if the file does not name its first dimension, which is open.
    has_batch: bool,
}

impl Model {
    /// Reads a model. `dims` are extents by the names of dimensions.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a model, or if the model does not have
    /// one of the names.
    pub(super) fn read(file: &Path, dims: &BTreeMap<String, Extents>, has_weights_file: bool) -> Result<Self> {
        let path = file.display();
        let bytes = std::fs::read(file).map_err(|error| format!("cannot read {path}: {error}"))?;
        let (inputs, locations) =
            onnx_file::scan(&bytes).ok_or_else(|| format!("{path} is not a model in ONNX's format, or is cut off"))?;
        let arguments: Vec<Argument> = inputs.into_iter().map(|input| argument(file, input)).collect::<Result<_>>()?;
        let named = |extent: &Extent| match extent {
            Extent::Named(name) => Some(name.clone()),
            Extent::Known(_) => None,
        };
        let mut names: Vec<String> = arguments.iter().flat_map(|input| &input.shape).filter_map(named).collect();
        names.sort_unstable();
        names.dedup();
        if let Some(name) = dims.keys().find(|name| !names.contains(name)) {
            let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(format!("{path} has no dimension '{name}' that is open; open dimensions: {has}"));
        }
        let mut about: Vec<String> = arguments.iter().map(Argument::shown).collect();
        let batch = batch(&arguments, dims);
        let mut options = Vec::new();
        let mut extents = BTreeMap::new();
        for name in names {
            let is_batch =
                arguments.iter().any(|input| input.has_batch && input.shape[0] == Extent::Named(name.clone()));
            let (own, why) = match (dims.get(&name), batch.filter(|_| is_batch)) {
                (Some(own), _) => (*own, ""),
                // The importer gives all first dimensions without a name the same extent.
                (None, Some(batch)) => (batch, ", like the other first dimensions without a name"),
                (None, None) => (Extents::One(1), ", unless --dim or --dim-range sets it; the line is in build.rs"),
            };
            if dims.contains_key(&name) || !(is_batch && batch.is_some()) {
                options.push(own.option(&name));
            }
            about.push(format!("{}: {}{why}", shown(&name), own.shown()));
            extents.insert(name, own);
        }
        if has_weights_file {
            options.push(".weights_file()".to_owned());
        }
        let mut calls: Vec<Vec<Zeros>> =
            [0, 1].map(|call| arguments.iter().map(|input| input.zeros(&extents, call)).collect()).into();
        calls.dedup();
        let beside = locations.into_iter().filter(|location| stays(location)).collect();
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let function = identifier(&stem);
        Ok(Self { file: file.to_owned(), beside, options, has_weights_file, function, about, calls })
    }

    /// Returns the call in the build script for the model at this path.
    pub(super) fn call(&self, path: &str) -> String {
        if self.options.is_empty() {
            return format!("        .model({path:?})\n");
        }
        let chain = format!("model{}", self.options.concat());
        let mut line = format!("        .model_with({path:?}, |model| {chain})\n");
        // The layout of rustfmt, which breaks lines of more than 100 letters, and chains of more
        // than 60.
        if chain.len() > 60 {
            line = format!("        .model_with({path:?}, |model| {{\n            model\n");
            for option in &self.options {
                let _ = writeln!(line, "                {option}");
            }
            line.push_str("        })\n");
        } else if line.trim_end().len() > 100 {
            line = format!("        .model_with({path:?}, |model| {{\n            {chain}\n        }})\n");
        }
        line
    }
}

impl Argument {
    /// Formats the input as `x: float32[batch, 4]`.
    fn shown(&self) -> String {
        let extents = self.shape.iter().map(|extent| match extent {
            Extent::Known(extent) => extent.to_string(),
            Extent::Named(name) => shown(name),
        });
        format!("input {}: {}[{}]", shown(&self.name), self.dtype, extents.collect::<Vec<_>>().join(", "))
    }

    /// The input of a call of the tests, 0 or 1.
    fn zeros(&self, extents: &BTreeMap<String, Extents>, call: usize) -> Zeros {
        let extents = self.shape.iter().map(|extent| match extent {
            Extent::Known(extent) => *extent,
            Extent::Named(name) => extents.get(name).map_or(1, |extents| extents.tried()[call]),
        });
        Zeros { dtype: self.dtype, shape: extents.collect() }
    }
}

/// Checks that an input is a tensor, and names its open extents as the importer does.
fn argument(file: &Path, input: Input) -> Result<Argument> {
    let Input { name, element, shape } = input;
    let element = ELEMENTS.iter().find(|(number, ..)| *number == element);
    let (Some(mut shape), Some((_, code, bits))) = (shape, element) else {
        return Err(format!(
            "{}: input '{name}' is not a tensor of numbers with a shape: start the crate without --model, and say `.model_with({file:?}, |model| ..)` in build.rs",
            file.display()
        ));
    };
    let nameless = Extent::Named(String::new());
    let has_batch = shape.first() == Some(&nameless);
    for (axis, extent) in shape.iter_mut().enumerate().filter(|(_, extent)| **extent == nameless) {
        *extent = Extent::Named(format!("{name}.{axis}"));
    }
    Ok(Argument { name, dtype: DataType::scalar(*code, *bits), shape, has_batch })
}

/// Returns the extents of the first dimensions without a name, if the options set one of them, or
/// the same for several.
fn batch(arguments: &[Argument], dims: &BTreeMap<String, Extents>) -> Option<Extents> {
    let mut set = arguments.iter().filter(|input| input.has_batch).filter_map(|input| match input.shape.first()? {
        Extent::Named(name) => dims.get(name).copied(),
        Extent::Known(_) => None,
    });
    let first = set.next()?;
    set.all(|extents| extents == first).then_some(first)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn data(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../graph/tests/data").join(name)
    }

    fn read(name: &str, dims: &[(&str, Extents)]) -> Result<Model> {
        let dims = dims.iter().map(|(name, extents)| ((*name).to_owned(), *extents)).collect();
        Model::read(&data(name), &dims, false)
    }

    #[test]
    fn dimensions_are_given_or_guessed() {
        let guessed = read("perceptron.onnx", &[]).unwrap();
        assert_eq!(guessed.options, [".dim(\"batch\", 1)"]);
        assert_eq!(
            guessed.about,
            ["input x: float32[batch, 4]", "batch: 1, unless --dim or --dim-range sets it; the line is in build.rs"]
        );
        assert_eq!(guessed.function, "perceptron");
        let given = read("perceptron.onnx", &[("batch", Extents::One(2))]).unwrap();
        assert_eq!(given.options, [".dim(\"batch\", 2)"]);
        assert_eq!(given.about, ["input x: float32[batch, 4]", "batch: 2"]);
        assert_eq!(given.calls.len(), 1);
        assert_eq!(given.calls[0][0].in_rust(), "zeros(DataType::scalar(2, 32), &[2, 4])");
        assert_eq!(given.call("a.onnx"), "        .model_with(\"a.onnx\", |model| model.dim(\"batch\", 2))\n");
        let error = read("perceptron.onnx", &[("rows", Extents::One(2))]).unwrap_err();
        assert!(error.ends_with("has no dimension 'rows' that is open; open dimensions: batch"), "{error}");
        let error = Model::read(Path::new("/nothing.onnx"), &BTreeMap::new(), false).unwrap_err();
        assert!(error.contains("cannot read /nothing.onnx"), "{error}");
    }

    #[test]
    fn ranges_are_called_with_two_extents() {
        let (batch, words) =
            (Extents::Range { least: 1, most: 8, step: 1 }, Extents::Range { least: 8, most: 96, step: 8 });
        let model = read("attention.onnx", &[("batch", batch), ("words", words)]).unwrap();
        assert_eq!(
            model.about,
            ["input x: float32[batch, words, 2]", "batch: 1 to 8", "words: a multiple of 8 from 8 to 96"]
        );
        let calls: Vec<String> = model.calls.iter().flatten().map(Zeros::in_python).collect();
        assert_eq!(calls, ["np.zeros([1, 8, 2], \"float32\")", "np.zeros([3, 24, 2], \"float32\")"]);
        assert_eq!(
            model.call("a.onnx"),
            "        .model_with(\"a.onnx\", |model| {\n            model\n                .dim_range(\"batch\", 1..=8)\n                .dim_range(\"words\", (8..=96).step_by(8))\n        })\n"
        );
    }

    #[test]
    fn first_dimensions_without_a_name_are_one_batch() {
        let argument = |name: &str, shape: &[Extent]| {
            argument(Path::new("m.onnx"), Input { name: name.to_owned(), element: 7, shape: Some(shape.to_vec()) })
        };
        let open = || Extent::Named(String::new());
        let both = [argument("a", &[open(), open()]).unwrap(), argument("b", &[open()]).unwrap()];
        assert_eq!(both[0].shown(), "input a: int64[a.0, a.1]");
        let dims = |pairs: &[(&str, i64)]| {
            pairs.iter().map(|(name, extent)| ((*name).to_owned(), Extents::One(*extent))).collect()
        };
        for (pairs, expected) in [
            (&[("a.0", 2)][..], Some(2)),
            (&[("a.0", 2), ("b.0", 2)], Some(2)),
            (&[("a.0", 2), ("b.0", 3)], None),
            (&[("a.1", 2)], None),
            (&[], None),
        ] {
            assert_eq!(batch(&both, &dims(pairs)), expected.map(Extents::One), "{pairs:?}");
        }
        let problem = argument("s", &[]).map(|_| ()).err();
        assert_eq!(problem, None);
        let text = Input { name: "s".to_owned(), element: 8, shape: Some(vec![]) };
        let problem = super::argument(Path::new("m.onnx"), text).map(|_| ()).unwrap_err();
        assert!(problem.starts_with("m.onnx: input 's' is not a tensor of numbers with a shape"), "{problem}");
    }

    #[test]
    fn weights_beside_a_model_stay_in_its_folder() {
        for (path, expected) in [("weights.bin", true), ("./a/b", true), ("../a", false), ("/etc/passwd", false)] {
            assert_eq!(stays(Path::new(path)), expected, "{path}");
        }
    }
}
