//! The messages of ONNX.

use core::fmt::{Display, Formatter};

use super::sparse::SparseTensor;
use super::wire::{Fields, Wire};
use crate::error::{GraphError, Result, fail, require};

/// The maximum nesting depth of messages.
const DEPTH: usize = 100;

/// `ModelProto`.
#[derive(Clone, Debug, Default)]
pub struct Model<'a> {
    /// Version of the format.
    pub ir_version: i64,
    /// The program that wrote the file, for messages.
    pub producer: String,
    /// The versions of the operators, by domain.
    pub opsets: Vec<OpsetId>,
    /// The graph.
    pub graph: Graph<'a>,
    /// The model's own functions.
    pub functions: Vec<Function<'a>>,
}

/// `OperatorSetIdProto`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpsetId {
    /// "" is the domain of ONNX itself.
    pub domain: String,
    /// The version.
    pub version: i64,
}

/// `GraphProto`.
#[derive(Clone, Debug, Default)]
pub struct Graph<'a> {
    /// Its name.
    pub name: String,
    /// The nodes in the order of the file.
    pub nodes: Vec<Node<'a>>,
    /// Weights.
    pub initializers: Vec<RawTensor<'a>>,
    /// Weights of which most are zero.
    pub sparse_initializers: Vec<SparseTensor<'a>>,
    /// The inputs of a call.
    pub inputs: Vec<ValueInfo>,
    /// The results.
    pub outputs: Vec<ValueInfo>,
    /// Types of intermediate values.
    pub value_infos: Vec<ValueInfo>,
}

/// `NodeProto`.
#[derive(Clone, Debug, Default)]
pub struct Node<'a> {
    /// Names of values. "" is a missing input.
    pub inputs: Vec<String>,
    /// Names of values. "" is an unused output.
    pub outputs: Vec<String>,
    /// Its name, which may be empty.
    pub name: String,
    /// The operator.
    pub op_type: String,
    /// The domain of the operator.
    pub domain: String,
    /// The overload of the function.
    pub overload: String,
    /// Its attributes.
    pub attributes: Vec<Attribute<'a>>,
}

/// `AttributeProto`.
#[derive(Clone, Debug)]
pub struct Attribute<'a> {
    /// Its name.
    pub name: String,
    /// In a function: the attribute of the caller whose value this attribute has.
    pub ref_name: String,
    /// Its value.
    pub value: AttributeValue<'a>,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum AttributeValue<'a> {
    /// FLOAT.
    Float(f32),
    /// INT.
    Int(i64),
    /// STRING.
    Text(Vec<u8>),
    /// TENSOR.
    Tensor(RawTensor<'a>),
    /// GRAPH.
    Graph(Box<Graph<'a>>),
    /// FLOATS.
    Floats(Vec<f32>),
    /// INTS.
    Ints(Vec<i64>),
    /// STRINGS.
    Texts(Vec<Vec<u8>>),
    /// TENSORS.
    Tensors(Vec<RawTensor<'a>>),
    /// GRAPHS.
    Graphs(Vec<Graph<'a>>),
    /// SPARSE_TENSOR.
    Sparse(Box<SparseTensor<'a>>),
    /// Sparse tensors or a type, which are not supported: the kind.
    Other(&'static str),
}

/// `TensorProto`.
#[derive(Clone, Debug, Default)]
pub struct RawTensor<'a> {
    /// The extents.
    pub dims: Vec<i64>,
    /// Number of the element type.
    pub data_type: i64,
    /// Its name.
    pub name: String,
    /// Little-endian elements, if they are stored in this form.
    pub raw_data: Option<&'a [u8]>,
    /// `float_data`, four bytes each.
    pub float_data: Vec<u8>,
    /// `double_data`, eight bytes each.
    pub double_data: Vec<u8>,
    /// `int32_data`, `int64_data` and `uint64_data`, only one of which is used.
    pub int_data: Vec<i64>,
    /// `string_data`.
    pub string_data: Vec<&'a [u8]>,
    /// The place of the elements in another file: keys and values.
    pub external: Vec<(String, String)>,
    /// True if the elements are in another file.
    pub is_external: bool,
}

/// An element type by its number, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementType(pub i64);

/// `ValueInfoProto`.
#[derive(Clone, Debug, Default)]
pub struct ValueInfo {
    /// The name of the value.
    pub name: String,
    /// Its type.
    pub ty: ValueType,
}

/// `TypeProto`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ValueType {
    /// The file does not contain the type.
    #[default]
    Unknown,
    /// A tensor: the number of its element type, and its dimensions if the file contains them.
    Tensor(i64, Option<Vec<Dim>>),
    /// A sequence of values of a type.
    Sequence(Box<ValueType>),
    /// A value that may be missing.
    Optional(Box<ValueType>),
    /// A map or a sparse tensor: the kind.
    Other(&'static str),
}

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// An extent.
    Known(i64),
    /// A name, which may be empty.
    Named(String),
}

/// Dimensions in the form of messages: `[?, 3, height]`.
pub struct Dims<'a>(pub &'a [Dim]);

impl Display for Dims<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let dims = self.0.iter().map(|dim| match dim {
            Dim::Known(extent) => extent.to_string(),
            Dim::Named(name) if name.is_empty() => "?".to_owned(),
            Dim::Named(name) => name.clone(),
        });
        write!(f, "[{}]", dims.collect::<Vec<_>>().join(", "))
    }
}

/// `FunctionProto`.
#[derive(Clone, Debug, Default)]
pub struct Function<'a> {
    /// The operator that the function defines.
    pub name: String,
    /// Its domain.
    pub domain: String,
    /// The overload of the function.
    pub overload: String,
    /// Names of its inputs.
    pub inputs: Vec<String>,
    /// Names of its outputs.
    pub outputs: Vec<String>,
    /// Attributes without a default.
    pub attributes: Vec<String>,
    /// Attributes with a default.
    pub defaults: Vec<Attribute<'a>>,
    /// The computation.
    pub nodes: Vec<Node<'a>>,
    /// The versions of the operators in it.
    pub opsets: Vec<OpsetId>,
}

/// Calls `field` for each field of a message.
fn each<'a>(bytes: &'a [u8], depth: usize, mut field: impl FnMut(u64, Wire<'a>) -> Result<()>) -> Result<()> {
    require!(depth < DEPTH, "messages are nested more than {DEPTH} deep");
    let mut fields = Fields::new(bytes);
    while let Some((number, value)) = fields.next()? {
        field(number, value)?;
    }
    Ok(())
}

/// Reads a model. Elements of tensors stay in `bytes`.
///
/// # Errors
/// Returns an error if the bytes are not an ONNX model or are truncated.
pub fn read_model(bytes: &[u8]) -> Result<Model<'_>> {
    let mut model = Model::default();
    let mut has_graph = false;
    each(bytes, 0, |number, value| {
        match number {
            1 => model.ir_version = value.int()?,
            2 => model.producer = value.text()?,
            7 => {
                has_graph = true;
                model.graph = graph(value.bytes()?, 1)?;
            }
            8 => model.opsets.push(opset(value.bytes()?)?),
            25 => model.functions.push(function(value.bytes()?, 1)?),
            _ => {}
        }
        Ok(())
    })
    .map_err(|error| error.within("the file cannot be read"))?;
    require!(has_graph, "the file cannot be read: there is no graph in it: this is not an ONNX model");
    Ok(model)
}

fn opset(bytes: &[u8]) -> Result<OpsetId> {
    let mut opset = OpsetId::default();
    each(bytes, 1, |number, value| {
        match number {
            1 => opset.domain = domain(value.text()?),
            2 => opset.version = value.int()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(opset)
}

/// Normalizes a domain: "ai.onnx" is another name of "".
fn domain(name: String) -> String {
    if name == "ai.onnx" { String::new() } else { name }
}

fn graph(bytes: &[u8], depth: usize) -> Result<Graph<'_>> {
    let mut graph = Graph::default();
    each(bytes, depth, |number, value| {
        match number {
            1 => graph.nodes.push(node(value.bytes()?, depth + 1)?),
            2 => graph.name = value.text()?,
            5 => graph.initializers.push(read_tensor(value.bytes()?)?),
            11 => graph.inputs.push(value_info(value.bytes()?, depth + 1)?),
            12 => graph.outputs.push(value_info(value.bytes()?, depth + 1)?),
            13 => graph.value_infos.push(value_info(value.bytes()?, depth + 1)?),
            15 => graph.sparse_initializers.push(sparse(value.bytes()?, depth + 1)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(graph)
}

fn node(bytes: &[u8], depth: usize) -> Result<Node<'_>> {
    let mut node = Node::default();
    each(bytes, depth, |number, value| {
        match number {
            1 => node.inputs.push(value.text()?),
            2 => node.outputs.push(value.text()?),
            3 => node.name = value.text()?,
            4 => node.op_type = value.text()?,
            5 => node.attributes.push(attribute(value.bytes()?, depth + 1)?),
            7 => node.domain = domain(value.text()?),
            8 => node.overload = value.text()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(node)
}

fn attribute(bytes: &[u8], depth: usize) -> Result<Attribute<'_>> {
    let (mut name, mut ref_name, mut kind) = (String::new(), String::new(), 0);
    let (mut float, mut int, mut text, mut tensor, mut sub) = (0.0, 0, Vec::new(), None, None);
    let (mut floats, mut ints, mut texts, mut tensors, mut graphs) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut present, mut of_sparse) = (0, None);
    each(bytes, depth, |number, value| {
        match number {
            1 => name = value.text()?,
            2 => float = value.float()?,
            3 => int = value.int()?,
            4 => text = value.bytes()?.to_vec(),
            5 => tensor = Some(read_tensor(value.bytes()?)?),
            6 => sub = Some(graph(value.bytes()?, depth + 1)?),
            7 => value.push_fixed(4, &mut floats)?,
            8 => value.push_ints(&mut ints)?,
            9 => texts.push(value.bytes()?.to_vec()),
            10 => tensors.push(read_tensor(value.bytes()?)?),
            11 => graphs.push(graph(value.bytes()?, depth + 1)?),
            20 => kind = value.int()?,
            22 => of_sparse = Some(sparse(value.bytes()?, depth + 1)?),
            21 => ref_name = value.text()?,
            _ => {}
        }
        // Old files do not store the kind; the present field determines it.
        if (2..=11).contains(&number) {
            present = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10][usize::try_from(number).unwrap_or(2) - 2];
        }
        Ok(())
    })?;
    let missing = |what: &str| GraphError::new(format!("attribute `{name}` has no {what}"));
    let value = match if kind == 0 { present } else { kind } {
        1 => AttributeValue::Float(float),
        2 => AttributeValue::Int(int),
        3 => AttributeValue::Text(text),
        4 => AttributeValue::Tensor(tensor.ok_or_else(|| missing("tensor"))?),
        5 => AttributeValue::Graph(Box::new(sub.ok_or_else(|| missing("graph"))?)),
        6 => AttributeValue::Floats(
            floats.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes"))).collect(),
        ),
        7 => AttributeValue::Ints(ints),
        8 => AttributeValue::Texts(texts),
        9 => AttributeValue::Tensors(tensors),
        10 => AttributeValue::Graphs(graphs),
        11 => AttributeValue::Sparse(Box::new(of_sparse.ok_or_else(|| missing("sparse tensor"))?)),
        12 => AttributeValue::Other("a list of sparse tensors"),
        13 | 14 => AttributeValue::Other("a type"),
        0 if !ref_name.is_empty() => AttributeValue::Other("a reference"),
        other => fail!("attribute `{name}` is of the unknown kind {other}"),
    };
    Ok(Attribute { name, ref_name, value })
}

fn sparse(bytes: &[u8], depth: usize) -> Result<SparseTensor<'_>> {
    let mut sparse = SparseTensor::default();
    each(bytes, depth, |number, value| {
        match number {
            1 => sparse.values = read_tensor(value.bytes()?)?,
            2 => sparse.indices = read_tensor(value.bytes()?)?,
            3 => value.push_ints(&mut sparse.dims)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(sparse)
}

/// Reads a tensor: a `TensorProto`, as in a model, or as a separate file.
///
/// # Errors
/// Returns an error if the bytes are not a tensor.
pub fn read_tensor(bytes: &[u8]) -> Result<RawTensor<'_>> {
    let mut tensor = RawTensor::default();
    each(bytes, 1, |number, value| {
        match number {
            1 => value.push_ints(&mut tensor.dims)?,
            2 => tensor.data_type = value.int()?,
            4 => value.push_fixed(4, &mut tensor.float_data)?,
            5 | 7 | 11 => value.push_ints(&mut tensor.int_data)?,
            6 => tensor.string_data.push(value.bytes()?),
            8 => tensor.name = value.text()?,
            9 => tensor.raw_data = Some(value.bytes()?),
            10 => value.push_fixed(8, &mut tensor.double_data)?,
            13 => tensor.external.push(entry(value.bytes()?)?),
            14 => tensor.is_external = value.int()? == 1,
            _ => {}
        }
        Ok(())
    })?;
    Ok(tensor)
}

/// Reads the tensors of a `SequenceProto`, a file of test data.
///
/// # Errors
/// Returns an error if the bytes are not a sequence, or if it has elements other than tensors.
pub fn read_sequence(bytes: &[u8]) -> Result<Vec<RawTensor<'_>>> {
    let mut tensors = Vec::new();
    each(bytes, 1, |number, value| {
        match number {
            3 => tensors.push(read_tensor(value.bytes()?)?),
            4..=7 => fail!("a sequence of other things than tensors"),
            _ => {}
        }
        Ok(())
    })?;
    Ok(tensors)
}

/// Reads an `OptionalProto`, a file of test data: the bytes of its tensor or sequence, if it has
/// one.
///
/// # Errors
/// Returns an error if the bytes are not an optional value, or if it is of another kind.
pub fn read_optional(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let mut inner = None;
    each(bytes, 1, |number, value| {
        match number {
            3 | 5 => inner = Some(value.bytes()?),
            4 | 6 | 7 => fail!("an optional value that is neither a tensor nor a sequence of tensors"),
            _ => {}
        }
        Ok(())
    })?;
    Ok(inner)
}

/// `StringStringEntryProto`.
fn entry(bytes: &[u8]) -> Result<(String, String)> {
    let mut entry = (String::new(), String::new());
    each(bytes, 1, |number, value| {
        match number {
            1 => entry.0 = value.text()?,
            2 => entry.1 = value.text()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(entry)
}

fn value_info(bytes: &[u8], depth: usize) -> Result<ValueInfo> {
    let mut info = ValueInfo::default();
    each(bytes, depth, |number, value| {
        match number {
            1 => info.name = value.text()?,
            2 => info.ty = value_type(value.bytes()?, depth + 1)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(info)
}

fn value_type(bytes: &[u8], depth: usize) -> Result<ValueType> {
    let mut ty = ValueType::Unknown;
    each(bytes, depth, |number, value| {
        match number {
            1 => {
                let (mut element, mut dims) = (0, None);
                each(value.bytes()?, depth + 1, |number, value| {
                    match number {
                        1 => element = value.int()?,
                        2 => dims = Some(shape(value.bytes()?, depth + 2)?),
                        _ => {}
                    }
                    Ok(())
                })?;
                ty = ValueType::Tensor(element, dims);
            }
            4 => ty = ValueType::Sequence(Box::new(element_type(value.bytes()?, depth + 1)?)),
            5 => ty = ValueType::Other("a map"),
            8 => ty = ValueType::Other("a sparse tensor"),
            9 => ty = ValueType::Optional(Box::new(element_type(value.bytes()?, depth + 1)?)),
            _ => {}
        }
        Ok(())
    })?;
    Ok(ty)
}

/// Returns the type of the contents of `TypeProto.Sequence` and `TypeProto.Optional`.
fn element_type(bytes: &[u8], depth: usize) -> Result<ValueType> {
    let mut ty = ValueType::Unknown;
    each(bytes, depth, |number, value| {
        if number == 1 {
            ty = value_type(value.bytes()?, depth + 1)?;
        }
        Ok(())
    })?;
    Ok(ty)
}

fn shape(bytes: &[u8], depth: usize) -> Result<Vec<Dim>> {
    let mut dims = Vec::new();
    each(bytes, depth, |number, value| {
        if number == 1 {
            let mut dim = Dim::Named(String::new());
            each(value.bytes()?, depth + 1, |number, value| {
                match number {
                    // paddle2onnx writes a negative extent for a dynamic dimension.
                    1 => dim = Some(value.int()?).filter(|extent| *extent >= 0).map_or(dim.clone(), Dim::Known),
                    2 => dim = Dim::Named(value.text()?),
                    _ => {}
                }
                Ok(())
            })?;
            dims.push(dim);
        }
        Ok(())
    })?;
    Ok(dims)
}

fn function(bytes: &[u8], depth: usize) -> Result<Function<'_>> {
    let mut function = Function::default();
    each(bytes, depth, |number, value| {
        match number {
            1 => function.name = value.text()?,
            4 => function.inputs.push(value.text()?),
            5 => function.outputs.push(value.text()?),
            6 => function.attributes.push(value.text()?),
            7 => function.nodes.push(node(value.bytes()?, depth + 1)?),
            9 => function.opsets.push(opset(value.bytes()?)?),
            10 => function.domain = domain(value.text()?),
            11 => function.defaults.push(attribute(value.bytes()?, depth + 1)?),
            13 => function.overload = value.text()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(function)
}
