//! ONNX files: parsed completely, with their sizes checked, but not interpreted.
//!
//! Source: `onnx.proto` and `IR.md` of ONNX. Numbers of fields are those of that file.

mod names;
mod proto;
mod sparse;
mod tensor;
mod twice;
pub(crate) mod versions;
mod wire;

pub use names::attribute_names;
pub(crate) use names::check_attribute_names;
pub use proto::{
    Attribute, AttributeValue, Dim, Dims, ElementType, Function, Graph, Model, Node, OpsetId, RawTensor, ValueInfo,
    ValueType, read_model, read_optional, read_sequence, read_tensor,
};
pub use sparse::{SparseTensor, to_dense};
pub use tensor::{External, dtype_of, to_constant};
pub(crate) use twice::{check_attributes, label};
