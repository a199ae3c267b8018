//! Models of texts: they have no kernels, and are interpreted node by node on the machine that
//! reads them.
//!
//! A tensor of texts has a list of them in row-major order. All ONNX operators that take or return
//! texts are supported, and none that only computes with numbers: a model with both must be split
//! in two, this part before the one that [`crate::import()`] reads.
//!
//! ```
//! use kernpack_graph::text::{TextModel, TextValue, Texts};
//!
//! // StringConcat of two inputs, as a file has it.
//! let node = [b"\x0a\x01a\x0a\x01b\x12\x01c\x22\x0cStringConcat" as &[u8]].concat();
//! let value = |field: u8, name: &[u8]| [&[field, 11, 10, 1][..], name, &[18, 6, 10, 4, 8, 8, 18, 0]].concat();
//! let graph = [&[10, 23][..], &node, &value(90, b"a"), &value(90, b"b"), &value(98, b"c")].concat();
//! let length = u8::try_from(graph.len()).unwrap();
//! let bytes = [&[8, 9, 66, 2, 16, 20, 58, length][..], &graph].concat();
//!
//! let model = TextModel::read(&bytes).unwrap();
//! let text = |text: &str| TextValue::Texts(Texts::new(&[], vec![text.to_owned()]).unwrap());
//! assert_eq!(model.run(&[text("cat"), text("s")]).unwrap(), [text("cats")]);
//! ```

mod cast;
mod label;
mod operators;
mod packed;

pub use packed::{SharedTextModel, TextTensor};

use std::collections::HashMap;

use crate::attrs::{Attr, Attrs};
use crate::constant::{Constant, num_elements};
use crate::error::{GraphError, Result, fail, full_name, require};
use crate::onnx::{self, AttributeValue, RawTensor, ValueType};

/// The number of the text type among the element types of ONNX.
const TEXT: i64 = 8;

/// A tensor of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    shape: Vec<i64>,
    texts: Vec<String>,
}

/// A value of a model of texts.
#[derive(Clone, Debug, PartialEq)]
pub enum TextValue {
    /// Texts.
    Texts(Texts),
    /// Numbers, or booleans.
    Numbers(Constant),
}

/// The function of a node with its inputs. Missing ones are `None`.
type Run = Box<dyn Fn(&[Option<&TextValue>]) -> Result<Vec<TextValue>> + Send + Sync>;

/// A node: the indices of the values that it reads and writes.
struct Step {
    place: String,
    run: Run,
    inputs: Vec<Option<usize>>,
    outputs: Vec<Option<usize>>,
}

/// A model of texts. Threads may share it.
pub struct TextModel {
    inputs: Vec<(String, usize)>,
    outputs: Vec<(String, usize)>,
    known: Vec<Option<TextValue>>,
    steps: Vec<Step>,
}

impl Texts {
    /// Creates a tensor of texts in row-major order.
    ///
    /// # Errors
    /// Returns an error for a shape that is invalid, or has another number of elements.
    pub fn new(shape: &[i64], texts: Vec<String>) -> Result<Self> {
        let count = num_elements(shape)?;
        require!(texts.len() == count, "{} texts for {shape:?}, which has {count}", texts.len());
        Ok(Self { shape: shape.to_vec(), texts })
    }

    /// The extents.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The texts in row-major order.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

impl TextValue {
    /// Reads a tensor of an ONNX file.
    ///
    /// # Errors
    /// Returns an error for a text that is not UTF-8, and for elements whose number does not match
    /// the shape, or that are in another file.
    pub fn from_raw(tensor: &RawTensor<'_>) -> Result<Self> {
        if tensor.data_type != TEXT {
            let external =
                |_: &str, _: u64, _: u64| fail!("its data is in another file, which a model of texts has not");
            return Ok(Self::Numbers(onnx::to_constant(tensor, &external)?));
        }
        let texts = tensor.string_data.iter().map(|bytes| utf8(bytes)).collect::<Result<_>>();
        let made = texts.and_then(|texts| Texts::new(&tensor.dims, texts));
        Ok(Self::Texts(made.map_err(|error| error.within(&format!("tensor '{}'", tensor.name)))?))
    }

    /// The extents.
    pub fn shape(&self) -> &[i64] {
        match self {
            Self::Texts(texts) => &texts.shape,
            Self::Numbers(numbers) => numbers.shape(),
        }
    }

    /// Returns the name of the kind for messages.
    fn kind(&self) -> &'static str {
        match self {
            Self::Texts(_) => "texts",
            Self::Numbers(_) => "numbers",
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|error| GraphError::new(format!("a text is not UTF-8: {error}")))
}

/// Returns true if a model has texts among its values. [`crate::import()`] cannot read such a
/// model.
pub fn has_texts(model: &onnx::Model<'_>) -> bool {
    let graph = &model.graph;
    let is_text = |value: &onnx::ValueInfo| matches!(value.ty, ValueType::Tensor(TEXT, _));
    graph.inputs.iter().chain(&graph.outputs).any(is_text) || graph.initializers.iter().any(|it| it.data_type == TEXT)
}

impl TextModel {
    /// Reads a model from the bytes of its file.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a model, or one error with all unsupported nodes.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let model = onnx::read_model(bytes)?;
        onnx::versions::check(&model)?;
        onnx::check_attributes(&model)?;
        onnx::check_attribute_names(&model, |_| false)?;
        let graph = &model.graph;
        let mut made = Self { inputs: Vec::new(), outputs: Vec::new(), known: Vec::new(), steps: Vec::new() };
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let add = |made: &mut Self, name: &str, value: Option<TextValue>| {
            made.known.push(value);
            (name.to_owned(), made.known.len() - 1)
        };
        for tensor in &graph.initializers {
            let value = TextValue::from_raw(tensor)?;
            numbers.insert(&tensor.name, add(&mut made, &tensor.name, Some(value)).1);
        }
        for input in &graph.inputs {
            // An initializer with the name is a default value.
            if numbers.contains_key(input.name.as_str()) {
                continue;
            }
            let named = add(&mut made, &input.name, None);
            numbers.insert(&input.name, named.1);
            made.inputs.push(named);
        }
        let mut problems = Vec::new();
        for node in &graph.nodes {
            let name = if node.name.is_empty() { node.outputs.first().map_or("", String::as_str) } else { &node.name };
            let place = format!("node '{name}' ({})", full_name(&node.domain, &node.op_type));
            let number = |name: &String| -> Result<Option<usize>> {
                match numbers.get(name.as_str()) {
                    _ if name.is_empty() => Ok(None),
                    Some(number) => Ok(Some(*number)),
                    None => fail!("{place}: no node before it computes its input {name}"),
                }
            };
            let inputs = node.inputs.iter().map(number).collect::<Result<Vec<_>>>()?;
            let outputs = node.outputs.iter().map(|name| {
                (!name.is_empty()).then(|| {
                    let number = add(&mut made, name, None).1;
                    numbers.insert(name, number);
                    number
                })
            });
            let outputs = outputs.collect();
            match attributes(node).and_then(|attrs| operators::prepare(node, &attrs)) {
                Ok(run) => made.steps.push(Step { place, run, inputs, outputs }),
                Err(error) => problems.push(error.within(&place)),
            }
        }
        GraphError::all(problems).map_or(Ok(()), Err)?;
        for output in &graph.outputs {
            let Some(number) = numbers.get(output.name.as_str()) else {
                fail!("no node computes the output '{}'", output.name)
            };
            made.outputs.push((output.name.clone(), *number));
        }
        Ok(made)
    }

    /// Returns the names of the inputs, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the names of the outputs, in order.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|(name, _)| name.as_str())
    }

    /// Computes the outputs for these inputs.
    ///
    /// # Errors
    /// Returns an error for another number of inputs, and for values that do not match a node, with
    /// the node.
    pub fn run(&self, inputs: &[TextValue]) -> Result<Vec<TextValue>> {
        let names: Vec<&str> = self.inputs().collect();
        require!(
            inputs.len() == names.len(),
            "got {} inputs, expected {}: {}",
            inputs.len(),
            names.len(),
            names.join(", ")
        );
        let mut values: Vec<Option<TextValue>> = self.known.clone();
        for ((_, number), value) in self.inputs.iter().zip(inputs) {
            values[*number] = Some(value.clone());
        }
        for step in &self.steps {
            let read: Vec<Option<&TextValue>> =
                step.inputs.iter().map(|number| number.and_then(|number| values[number].as_ref())).collect();
            let written = (step.run)(&read).map_err(|error| error.within(&step.place))?;
            for (number, value) in step.outputs.iter().zip(written) {
                if let Some(number) = number {
                    values[*number] = Some(value);
                }
            }
        }
        let output = |(name, number): &(String, usize)| match &values[*number] {
            Some(value) => Ok(value.clone()),
            None => fail!("the output '{name}' is not computed"),
        };
        self.outputs.iter().map(output).collect()
    }
}

/// Returns the attributes of a node. Tensors stay with the node, because they may have texts.
fn attributes(node: &onnx::Node<'_>) -> Result<Attrs> {
    let mut attrs = Attrs::default();
    for attribute in &node.attributes {
        let value = match &attribute.value {
            AttributeValue::Float(value) => Attr::Float(*value),
            AttributeValue::Int(value) => Attr::Int(*value),
            AttributeValue::Text(bytes) => Attr::Text(utf8(bytes)?),
            AttributeValue::Floats(values) => Attr::Floats(values.clone()),
            AttributeValue::Ints(values) => Attr::Ints(values.clone()),
            AttributeValue::Texts(values) => {
                Attr::Texts(values.iter().map(|bytes| utf8(bytes)).collect::<Result<_>>()?)
            }
            AttributeValue::Tensor(_) => continue,
            _ => fail!("attribute `{}` is not supported in a model of texts", attribute.name),
        };
        attrs.set(&attribute.name, value);
    }
    Ok(attrs)
}

/// Returns a tensor attribute.
fn tensor_attribute(node: &onnx::Node<'_>, name: &str) -> Result<Option<TextValue>> {
    let mut found = None;
    for attribute in node.attributes.iter().filter(|attribute| attribute.name == name) {
        if let AttributeValue::Tensor(tensor) = &attribute.value {
            found = Some(TextValue::from_raw(tensor)?);
        }
    }
    Ok(found)
}
