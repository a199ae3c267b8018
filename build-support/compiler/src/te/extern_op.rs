//! Tensors that are computed by a C function, a packed function or user-defined statements.

use core::panic::Location;

use kernpack::{DataType, Map};

use super::exprs::Exprs;
use super::placeholder::{checked_shape, counted};
use crate::error::{CompileError, ErrorKind, place, report};
use crate::ir::builtin::{ACCESS_PTR, CALL_PACKED, MAKE_TENSOR};
use crate::ir::{Buffer, CallKind, DataTypeExt, Expr, I32, Operation, OperationNode, Stmt, Tensor};

/// A builder of an extern operation: inputs, then the shapes of the results, then the computation.
#[must_use = "`body` makes the tensors"]
pub struct ExternOp {
    name: String,
    inputs: Vec<Tensor>,
    outputs: Vec<(Vec<Expr>, DataType)>,
    here: &'static Location<'static>,
}

/// Starts an operation whose computation is opaque to the compiler. Its inputs are compact in
/// memory.
///
/// ```
/// use kernpack_compiler::ir::{F32, I64};
/// use kernpack_compiler::te::{extern_op, placeholder};
///
/// let a = placeholder([100], F32, "a");
/// let order = extern_op("order", [&a]).output([100], I64).call_packed("demo.argsort");
/// assert_eq!(order[0].dtype, I64);
/// ```
#[track_caller]
pub fn extern_op<'a>(name: &str, inputs: impl IntoIterator<Item = &'a Tensor>) -> ExternOp {
    ExternOp {
        name: name.to_owned(),
        inputs: inputs.into_iter().cloned().collect(),
        outputs: Vec::new(),
        here: Location::caller(),
    }
}

impl ExternOp {
    /// Adds a result.
    pub fn output(mut self, shape: impl Exprs, dtype: DataType) -> Self {
        let what = format!("result {}", self.outputs.len());
        let shape = checked_shape(&what, &self.name, shape.into_exprs(), self.here);
        self.outputs.push((shape, dtype));
        self
    }

    /// Sets the statements that compute the results from the inputs: the closure gets a buffer for
    /// each input and for each result.
    ///
    /// An operation without results is reported.
    pub fn body(self, body: impl FnOnce(&[Buffer], &[Buffer]) -> Stmt) -> Vec<Tensor> {
        let Self { name, inputs, mut outputs, here } = self;
        if outputs.is_empty() {
            let error = CompileError::new(ErrorKind::Type, format!("extern_op `{name}` has no result"));
            report(error.at(place(here)).note("name each with `.output(shape, dtype)`"));
            outputs.push((Vec::new(), I32));
        }
        let input_buffers: Vec<Buffer> = inputs
            .iter()
            .map(|tensor| Buffer::new(tensor.op.name(), tensor.dtype, tensor.shape.to_vec(), "global"))
            .collect();
        let count = outputs.len();
        let output_buffers: Vec<Buffer> = outputs
            .into_iter()
            .enumerate()
            .map(|(index, (shape, dtype))| {
                let name = if count == 1 { name.clone() } else { format!("{name}_{index}") };
                Buffer::new(&name, dtype, shape, "global")
            })
            .collect();
        let body = body(&input_buffers, &output_buffers);
        let op = Operation::from_node(OperationNode::Extern {
            name: name.as_str().into(),
            span: place(here).into(),
            tag: "".into(),
            attrs: Map::default(),
            inputs: inputs.into(),
            input_buffers: input_buffers.into(),
            output_buffers: output_buffers.into(),
            body,
        });
        op.outputs()
    }

    /// Calls a packed function by its global name, with the inputs and then the results as tensors,
    /// which are borrowed for the call.
    pub fn call_packed(self, function: &str) -> Vec<Tensor> {
        self.body(|inputs, outputs| {
            let tensors = inputs.iter().map(|buffer| tensor_argument(buffer, 1));
            let results = outputs.iter().map(|buffer| tensor_argument(buffer, 2));
            let args = core::iter::once(Expr::text(function)).chain(tensors).chain(results);
            Stmt::evaluate(Expr::builtin(CALL_PACKED, I32, args))
        })
    }

    /// Calls a C function by its symbol:
    /// `void function(const a*, .., result*, .., int64_t extra, ..)`, with pointers to the first
    /// elements.
    pub fn call_c(self, function: &str, extra: impl Exprs) -> Vec<Tensor> {
        let extra = extra.into_exprs();
        self.body(|inputs, outputs| {
            let sources = inputs.iter().map(|buffer| pointer_argument(buffer, 1));
            let results = outputs.iter().map(|buffer| pointer_argument(buffer, 2));
            let args = sources.chain(results).chain(extra);
            Stmt::evaluate(Expr::call(CallKind::Extern, function, I32, args))
        })
    }
}

impl Buffer {
    /// Reads the element at these indices, in statements of extern operations and instructions:
    /// `buffer.read([&i, &j])`.
    ///
    /// A wrong number of indices is reported.
    #[track_caller]
    pub fn read(&self, indices: impl Exprs) -> Expr {
        let index = self.checked_index(indices.into_exprs(), Location::caller());
        Expr::load(self, index)
    }

    /// Writes the element at these indices. A constant takes the buffer's type.
    ///
    /// A wrong number of indices, and a value of another type, are reported.
    #[track_caller]
    pub fn write(&self, indices: impl Exprs, value: impl Into<Expr>) -> Stmt {
        let here = Location::caller();
        let index = self.checked_index(indices.into_exprs(), here);
        let mut value = value.into();
        let is_constant = value.as_int().is_some_and(|int| self.dtype.can_hold(int))
            || value.as_float().is_some() && self.dtype.is_float();
        if is_constant {
            value = value.cast(self.dtype);
        }
        if value.dtype() != self.dtype {
            let (own, given) = (self.dtype.short_name(), value.dtype().short_name());
            let error = format!("`{}` has elements of type {own}, got {given}", self.name);
            report(CompileError::new(ErrorKind::Type, error).at(place(here)));
            value = Expr::constant(self.dtype, 0);
        }
        Stmt::store(self.clone(), index, value)
    }

    fn checked_index(&self, mut indices: Vec<Expr>, here: &Location<'_>) -> Expr {
        let rank = self.shape.len();
        if indices.len() != rank {
            let given = counted(indices.len(), "index");
            let error = format!("buffer `{}` has {}, got {given}", self.name, counted(rank, "dimension"));
            report(CompileError::new(ErrorKind::Type, error).at(place(here)));
            indices.resize(rank, Expr::int(0));
        }
        self.flat_index(&indices)
    }
}

fn first_element(buffer: &Buffer) -> Expr {
    Expr::load(buffer, buffer.elem_offset.clone())
}

/// The buffer as a `DLTensor` for a packed function; `rw` is 1 if the function reads it, 2 if it
/// writes it, 3 for both.
pub fn tensor_argument(buffer: &Buffer, rw: i64) -> Expr {
    let args = [first_element(buffer), Expr::int(rw)].into_iter();
    let args = args.chain(buffer.shape.iter()).chain(buffer.full_strides());
    Expr::builtin(MAKE_TENSOR, crate::ir::POINTER, args)
}

/// A pointer to the first element of a buffer for a C function; `rw` is 1 if the function reads it,
/// 2 if it writes it, 3 for both.
pub fn pointer_argument(buffer: &Buffer, rw: i64) -> Expr {
    let mut extent = Expr::int(1);
    for dimension in buffer.shape.iter() {
        extent = extent * dimension.cast(crate::ir::I64);
    }
    Expr::builtin(ACCESS_PTR, crate::ir::POINTER, [first_element(buffer), extent, Expr::int(rw)])
}
