//! The graph: nodes by index.

use std::collections::HashMap;

use kernpack::DataType;
use kernpack_compiler::ir::{Buffer, LoweredFunc, POINTER, Var};
use kernpack_compiler::{CompileError, ErrorKind, Result};
use serde_json::Value;

/// A graph, with the variables that were made for its nodes.
pub(crate) struct Graph<'a> {
    nodes: &'a [Value],
    /// Variables by the index of their node, so that each node is one variable.
    pub(crate) vars: HashMap<usize, Var>,
    pub(crate) buffers: HashMap<usize, Buffer>,
    pub(crate) functions: Vec<LoweredFunc>,
}

/// An error that names the problem of the graph.
pub(crate) fn problem(what: impl Into<String>) -> CompileError {
    CompileError::new(ErrorKind::Syntax, what)
}

impl<'a> Graph<'a> {
    pub(crate) fn new(nodes: &'a [Value]) -> Self {
        Self { nodes, vars: HashMap::new(), buffers: HashMap::new(), functions: Vec::new() }
    }

    pub(crate) fn key(&self, index: usize) -> Result<&'a str> {
        let node = self.nodes.get(index).ok_or_else(|| problem(format!("there is no node {index}")))?;
        node["type"].as_str().ok_or_else(|| problem(format!("node {index} has no type")))
    }

    pub(crate) fn data(&self, index: usize) -> &'a Value {
        static NOTHING: Value = Value::Null;
        self.nodes.get(index).map_or(&NOTHING, |node| &node["data"])
    }

    /// A field that is an index of another node.
    pub(crate) fn field(&self, index: usize, name: &str) -> Result<usize> {
        let value = &self.data(index)[name];
        let found = value.as_u64().and_then(|value| usize::try_from(value).ok());
        found.ok_or_else(|| {
            problem(format!("field `{name}` of node {index} ({}) is {value}", self.key(index).unwrap_or("?")))
        })
    }

    /// A field that may be null.
    pub(crate) fn optional(&self, index: usize, name: &str) -> Result<Option<usize>> {
        let found = self.field(index, name)?;
        Ok((self.key(found)? != "None").then_some(found))
    }

    /// The nodes of an array.
    pub(crate) fn array(&self, index: usize) -> Result<Vec<usize>> {
        let items = self.data(index).as_array().ok_or_else(|| problem(format!("node {index} is no array")))?;
        items
            .iter()
            .map(|item| {
                item.as_u64()
                    .and_then(|item| usize::try_from(item).ok())
                    .ok_or_else(|| problem("an array of no indices"))
            })
            .collect()
    }

    /// The entries of a map with texts as keys.
    pub(crate) fn map(&self, index: usize) -> Result<Vec<(String, usize)>> {
        let items = self.array(index)?;
        items.chunks_exact(2).map(|pair| Ok((self.text(pair[0])?, pair[1]))).collect()
    }

    /// A text, or the text of a `StringImm`.
    pub(crate) fn text(&self, index: usize) -> Result<String> {
        match self.key(index)? {
            "ir.StringImm" => self.text(self.field(index, "value")?),
            "ir.GlobalVar" => self.text(self.field(index, "name_hint")?),
            _ => match self.data(index).as_str() {
                Some(text) => Ok(text.to_owned()),
                None => Err(problem(format!("node {index} ({}) is not a text", self.key(index)?))),
            },
        }
    }

    /// An integer, or the value of an `IntImm`. A value that does not fit into 64 signed bits is
    /// given by its bits.
    pub(crate) fn integer(&self, index: usize) -> Result<i64> {
        match self.key(index)? {
            "ir.IntImm" => self.integer(self.field(index, "value")?),
            "bool" => Ok(i64::from(self.data(index).as_bool().unwrap_or(false))),
            "ffi.BigInt" => {
                let text = self.data(index).as_str().unwrap_or_default();
                text.parse::<i64>()
                    .or_else(|_| text.parse::<u64>().map(|value| value as i64))
                    .map_err(|_| problem(format!("the integer {text} has more than 64 bits")))
            }
            _ => match self.data(index).as_i64() {
                Some(value) => Ok(value),
                None => Err(problem(format!("node {index} ({}) is not an integer", self.key(index)?))),
            },
        }
    }

    /// The type that a type node stands for; for a pointer, a buffer or a text that of a pointer;
    /// `None` for no value.
    pub(crate) fn dtype(&self, index: usize) -> Result<Option<DataType>> {
        match self.key(index)? {
            "ir.PrimType" => parse_dtype(self.data(index)["dtype"].as_str().unwrap_or_default()),
            "ir.PointerType" | "tirx.BufferType" | "ir.StringType" | "tirx.TensorMapType" => Ok(Some(POINTER)),
            "ir.TupleType" => Ok(None),
            key => Err(problem(format!("unknown type node {key}"))),
        }
    }
}

/// The type of a text like `float32x4`; `None` for an empty text.
pub(crate) fn parse_dtype(text: &str) -> Result<Option<DataType>> {
    if text.is_empty() || text == "void" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| problem(format!("unknown dtype {text}")))
}
