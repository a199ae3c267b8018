//! Tensors as results of operations: objects with object fields, some of them of another library.

use expr::{Expr, IntImm};
use kernpack::sys::abi::dtype_code;
use kernpack::{Any, Array, DataType, ObjRef, Object, Result, Str, ensure, packed_func};

/// The operation that computes a tensor.
#[derive(Object)]
#[object(key = "extension.Operation")]
#[repr(C)]
pub struct Operation {
    /// The name of the operation.
    pub name: Str,
}

/// An operation without a computation: the tensor is an input.
#[derive(Object)]
#[object(key = "extension.PlaceholderOp")]
#[repr(C)]
pub struct PlaceholderOp {
    #[base]
    base: Operation,
}

/// An operation on other tensors.
#[derive(Object)]
#[object(key = "extension.ComputeOp")]
#[repr(C)]
pub struct ComputeOp {
    #[base]
    base: Operation,
    /// The input tensors.
    pub inputs: Array<ObjRef<TensorNode>>,
}

/// A tensor that has not been computed: the known facts about a result.
#[derive(Object)]
#[object(key = "extension.Tensor")]
#[repr(C)]
pub struct TensorNode {
    /// Its dimensions.
    pub shape: Array<ObjRef<Expr>>,
    /// The type of its elements.
    pub dtype: DataType,
    /// The operation that it is a result of.
    pub op: ObjRef<Operation>,
    /// The index of the tensor among the operation's results.
    pub value_index: i64,
}

/// Creates an input tensor. A dimension is an integer or an expression.
#[packed_func]
pub fn placeholder(shape: Vec<Any>, dtype: DataType, name: Str) -> Result<ObjRef<TensorNode>> {
    let shape = shape.iter().map(dimension).collect::<Result<Vec<_>>>()?;
    let op = ObjRef::new(PlaceholderOp { base: Operation { name } }).upcast();
    Ok(ObjRef::new(TensorNode { shape: shape.into(), dtype, op, value_index: 0 }))
}

/// Returns the tensor with the elements of `x` plus one.
#[packed_func]
pub fn add_one(x: ObjRef<TensorNode>, name: Str) -> ObjRef<TensorNode> {
    let (shape, dtype) = (x.shape.clone(), x.dtype);
    let op = ObjRef::new(ComputeOp { base: Operation { name }, inputs: vec![x].into() }).upcast();
    ObjRef::new(TensorNode { shape, dtype, op, value_index: 0 })
}

/// Returns the name of the operation that computes a tensor: `x.op.name`. Accepts any object with
/// such fields, including Apache TVM's tensors.
#[packed_func]
pub fn op_name(x: Any) -> Result<Str> {
    x.field("op")?.field("name")?.to()
}

/// Converts one dimension from an integer or an expression of an integer type.
fn dimension(value: &Any) -> Result<ObjRef<Expr>> {
    if let Ok(value) = value.to::<i64>() {
        ensure!(value >= 0, ValueError, "a dimension cannot be negative, got {value}");
        return Ok(ObjRef::new(IntImm::new(value, DataType::INT64)).upcast());
    }
    let expr: ObjRef<Expr> = value.to()?;
    ensure!(
        matches!(expr.dtype.code(), dtype_code::INT | dtype_code::UINT),
        TypeError,
        "a dimension must be an integer, got an expression of type {}",
        expr.dtype
    );
    Ok(expr)
}
