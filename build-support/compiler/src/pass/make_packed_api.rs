//! `MakePackedAPI`: converts a function with named parameters to a packed function that checks its
//! arguments.
//!
//! The result is `i32 (ptr self, ptr args, i32 num_args, ptr result)`: 0, or -1 with an error
//! raised. Kinds and texts of the errors are those of functions that Apache TVM 0.27 generates
//! (`../shared/spec/tvm.md` D.1). In addition, the function rejects numbers that do not fit into
//! the parameter's type, negative extents, and outputs that overlap another argument, because the
//! code relies on that. It accepts tensors with a byte offset, strides of dimensions with one
//! element, any strides of empty tensors, and data at any address that is aligned for its elements.
//! The attribute `data_alignment` of a function (a power of two) requires a larger alignment;
//! without it, tensors of other libraries can be used as they are, and vector instructions do not
//! benefit from more.
//!
//! The attribute `device_type` of a function is the kind of device of its tensors. Then the body
//! gets the data pointers of DLPack as they are, the offset of each tensor is the `elem_offset` of
//! its buffer, and the device is made the current one. The attribute `versions` lists the kinds of
//! devices that the function has versions for: the version for CPUs passes calls on by the device
//! of the first tensor.
//!
//! The body becomes an `Attr` `compute_scope`, which code generators emit as a separate function.

use std::collections::HashMap;

use kernpack::{Any, DataType, Result as PackedResult, Str, packed_func};

use super::PassContext;
use super::overlaps::PAIRS_ONE_BY_ONE;
use super::pipeline::on_functions;
use super::versions;
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::builtin::{HANDLE_ADD_BYTE_OFFSET, ISNULLPTR, STRUCT_GET, STRUCT_SET, StructField};
use crate::ir::mutate::{Mutate, mutate_stmt_parts};
use crate::ir::visit::uses_var;
use crate::ir::{
    Buffer, DataTypeExt, Expr, F64, FuncKind, I32, I64, LoweredFunc, LoweredFuncNode, POINTER, Param, ParamNode, Stmt,
    StmtNode, U8, U16, Var,
};
use crate::text;

/// The prefix of the symbol of a packed function.
pub const PACKED_PREFIX: &str = "__tvm_ffi_";

// Type indices of the ABI.
const NONE: i64 = 0;
const INT: i64 = 1;
const BOOL: i64 = 2;
const FLOAT: i64 = 3;
const OPAQUE_POINTER: i64 = 4;
const TENSOR_POINTER: i64 = 7;
const TENSOR: i64 = 70;
/// The offset of the `DLTensor` in a tensor object.
const TENSOR_HEADER: i64 = 24;
/// The kind of device of tensors in memory of the host.
pub(super) const CPU: i64 = 1;

/// Converts functions of kind `Mixed` to packed functions of kind `Host`; others are unchanged.
///
/// # Errors
/// Returns an error for a size in a shape that no argument determines.
pub fn make_packed_api(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    if function.kind != FuncKind::Mixed {
        return Ok(function.clone());
    }
    let own = [("self", POINTER), ("args", POINTER), ("num_args", I32), ("result", POINTER)]
        .map(|(name, dtype)| Var::new(name, dtype));
    let [_, args, num_args, result] = &own;
    let mut entry = Entry {
        args: args.clone(),
        signature: signature(function).as_str().into(),
        known: HashMap::new(),
        late: Vec::new(),
        device_id: None,
        stmts: Vec::new(),
        alignment: function.attr("data_alignment").and_then(|value| value.to().ok()).unwrap_or(1),
        device_type: function.attr("device_type").and_then(|value| value.to().ok()).unwrap_or(CPU),
        versions: versions::versions(function)?,
    };
    if !u64::try_from(entry.alignment).is_ok_and(u64::is_power_of_two) {
        let what = format!("`{}`: data_alignment {} is not a power of two", function.name, entry.alignment);
        return Err(CompileError::new(ErrorKind::Lower, what));
    }
    let params = function.params.to_vec();
    let count = params.len() as i64;
    entry.check(num_args.equals(count), "TypeError", &format!("Expected {count} arguments"), None);
    if count > 0 {
        entry.check(is_null(args).negated(), "TypeError", "args pointer is NULL", None);
    }
    let values: Vec<Value> = params.iter().enumerate().map(|(index, param)| entry.value(index, param)).collect();
    let values: Vec<Handle> = values.into_iter().flatten().collect();
    entry.other_versions(function, values.first(), &own);
    let outputs = values.iter().filter(|value| value.output).count();
    if outputs * values.len() <= PAIRS_ONE_BY_ONE || entry.has_handles() {
        let tensors: Vec<Tensor> = values.into_iter().map(|value| entry.tensor(value)).collect::<Result<_>>()?;
        entry.late()?;
        let tensors: Vec<Tensor> = tensors.into_iter().map(|tensor| entry.data(tensor)).collect();
        entry.overlaps(&tensors);
    } else {
        entry.many(values)?;
    }
    let name = function.name.as_str();
    let body = Returns { result: has_value(function.ret).then(|| result.clone()) }.mutate_stmt(&function.body)?;
    let body = entry.on_device(body);
    let Entry { mut stmts, .. } = entry;
    stmts.push(Stmt::attr("compute_scope", Any::from(format!("{name}_compute_").as_str()), 0, body));
    stmts.push(Stmt::return_value(Expr::constant(I32, 0)));
    let plain = |var: Var| Param::from_node(ParamNode { var, buffer: None, output: false });
    Ok(LoweredFunc::from_node(LoweredFuncNode {
        params: own.map(plain).into(),
        ret: I32,
        kind: FuncKind::Host,
        body: Stmt::seq(stmts),
        ..function.to_node()
    }))
}

/// [`make_packed_api`] for a function or for all functions of a module.
#[packed_func(name = "kernpack.pass.MakePackedAPI")]
fn packed(program: Any, context: PassContext) -> PackedResult<Any> {
    on_functions(&program, &context, make_packed_api)
}

/// The signature of a function: `f(a: Tensor([n, 4], float32), k: int32)`.
pub fn signature(function: &LoweredFunc) -> String {
    let params = function.params.iter().map(|param| match &param.buffer {
        Some(buffer) => {
            let extents: Vec<String> = buffer.shape.iter().map(|extent| text::print(&extent)).collect();
            format!("{}: Tensor([{}], {})", buffer.name, extents.join(", "), buffer.dtype)
        }
        None => format!("{}: {}", param.var.name(), param.var.dtype()),
    });
    format!("{}({})", function.name, params.collect::<Vec<_>>().join(", "))
}

pub(super) fn struct_get(of: &Expr, index: i64, field: StructField, dtype: DataType) -> Expr {
    Expr::builtin(STRUCT_GET, dtype, [of.clone(), Expr::constant(I32, index), Expr::constant(I32, field as i64)])
}

pub(super) fn is_null(pointer: &Expr) -> Expr {
    Expr::builtin(ISNULLPTR, crate::ir::BOOLEAN, [pointer.clone()])
}

/// A tensor argument.
pub(super) struct Handle {
    pub(super) index: usize,
    /// The pointer to the `DLTensor`.
    pub(super) pointer: Var,
    pub(super) buffer: Buffer,
    pub(super) output: bool,
}

type Value = Option<Handle>;

/// A tensor whose shape is bound.
pub(super) struct Tensor {
    pub(super) index: usize,
    pub(super) pointer: Var,
    pub(super) buffer: Buffer,
    pub(super) output: bool,
    /// The number of elements.
    pub(super) size: Var,
    /// The number of elements from the first to the last one, including those between that do not
    /// belong to the tensor.
    pub(super) span: Var,
    /// The offset in bytes of the first element from the data pointer; none if the pointer is its
    /// address.
    pub(super) offset: Option<Var>,
}

pub(super) struct Entry {
    args: Var,
    /// The signature, which is part of the text of every assertion.
    signature: Str,
    /// The sizes that arguments have determined, and the place of each.
    pub(super) known: HashMap<Var, String>,
    /// Computed extents of sizes that were not known yet: argument, name, actual value, expected
    /// value.
    late: Vec<(usize, String, Expr, Expr)>,
    /// The first tensor's device, and its name.
    pub(super) device_id: Option<(Var, String)>,
    pub(super) stmts: Vec<Stmt>,
    /// The required alignment of data pointers.
    pub(super) alignment: i64,
    /// The device type of the tensors.
    pub(super) device_type: i64,
    /// The kinds of devices that the function has versions for, if there are several.
    pub(super) versions: Vec<String>,
}

impl Entry {
    /// An assertion: `{problem} on argument #i when calling: ..`.
    pub(super) fn check(&mut self, condition: Expr, kind: &str, problem: &str, argument: Option<(usize, &str)>) {
        if condition.is_true() {
            return;
        }
        let mut parts: Vec<Str> = vec![problem.into()];
        if let Some((index, _)) = argument {
            parts.push(format!(" on argument #{index}").as_str().into());
        }
        parts.extend([" when calling:\n  `".into(), self.signature.clone(), "`".into()]);
        if let Some((_, expected)) = argument {
            parts.push(format!(",\n  expected {expected}").as_str().into());
        }
        self.stmts.push(Stmt::assert(condition, kind, parts));
    }

    pub(super) fn bind(&mut self, name: &str, value: Expr) -> Var {
        let var = Var::new(name, value.dtype());
        self.stmts.push(Stmt::bind(var.clone(), value));
        var
    }

    /// Checks the type of an argument; a number is bound to its parameter.
    fn value(&mut self, index: usize, param: &Param) -> Value {
        let at = index as i64;
        let args = self.args.expr().clone();
        let name = param.buffer.as_ref().map_or_else(|| param.var.name().to_owned(), |buffer| buffer.name.to_string());
        let kind = self.bind(&format!("{name}.type_index"), struct_get(&args, at, StructField::AnyTypeIndex, I32));
        let expected = |entry: &mut Self, kinds: &[i64], expected: &str| {
            let fits = kinds.iter().map(|wanted| kind.equals(*wanted)).reduce(|any, one| any.or(one));
            let fits = fits.unwrap_or_else(|| Expr::bool(false));
            entry.check(fits, "TypeError", "Mismatched type", Some((index, expected)));
        };
        let integer = struct_get(&args, at, StructField::AnyValue, I64);
        if let Some(buffer) = &param.buffer {
            expected(self, &[TENSOR_POINTER, TENSOR], "Tensor");
            let pointer = self.handle(&name, index);
            return Some(Handle { index, pointer, buffer: buffer.clone(), output: param.output });
        }
        let dtype = param.var.dtype();
        let value = if dtype.is_handle() {
            expected(self, &[NONE, OPAQUE_POINTER, TENSOR_POINTER], "pointer");
            struct_get(&args, at, StructField::AnyValue, POINTER)
        } else if dtype.is_float() {
            expected(self, &[FLOAT, INT, BOOL], "float");
            let float = struct_get(&args, at, StructField::AnyValue, F64);
            Expr::if_then_else(kind.equals(FLOAT), float, integer.cast(F64)).cast(dtype)
        } else if dtype.is_bool() {
            expected(self, &[BOOL, INT], "boolean");
            integer.differs(0)
        } else {
            expected(self, &[INT, BOOL], "int");
            let value = self.bind(&format!("{name}.value"), integer);
            let narrow = value.cast(dtype);
            // An unsigned 64-bit integer has the bits of the argument.
            if dtype.bits() < 64 {
                let problem = format!("Invalid {name}");
                self.check(narrow.cast(I64).equals(&value), "ValueError", &problem, Some((index, &dtype.to_string())));
            }
            narrow
        };
        self.stmts.push(Stmt::bind(param.var.clone(), value));
        self.known.insert(param.var.clone(), name);
        None
    }

    /// The `DLTensor` of a tensor argument.
    pub(super) fn handle(&mut self, name: &str, index: usize) -> Var {
        let get = |field, dtype| struct_get(self.args.expr(), index as i64, field, dtype);
        let value = get(StructField::AnyValue, POINTER);
        let inside = Expr::builtin(HANDLE_ADD_BYTE_OFFSET, POINTER, [value.clone(), Expr::int(TENSOR_HEADER)]);
        let is_object = get(StructField::AnyTypeIndex, I32).equals(TENSOR);
        let pointer = Expr::select(is_object, inside, value);
        self.bind(&format!("{name}.handle"), pointer)
    }

    /// Checks type and shape of a tensor, and binds sizes from it.
    pub(super) fn tensor(&mut self, value: Handle) -> Result<Tensor> {
        let Handle { index, pointer, buffer, output } = value;
        let name = buffer.name.to_string();
        let get = |field: StructField, dtype: DataType| struct_get(&pointer, 0, field, dtype);
        let rank = buffer.shape.len();
        self.check(
            get(StructField::Ndim, I32).equals(rank),
            "ValueError",
            &format!("Mismatched {name}.ndim"),
            Some((index, &rank.to_string())),
        );
        let dtype = buffer.dtype;
        let same_type = get(StructField::TypeCode, U8)
            .equals(i64::from(dtype.code()))
            .and(get(StructField::TypeBits, U8).equals(i64::from(dtype.bits())))
            .and(get(StructField::TypeLanes, U16).equals(i64::from(dtype.lanes())));
        self.check(same_type, "TypeError", &format!("Mismatched {name}.dtype"), Some((index, &dtype.to_string())));
        self.check(
            get(StructField::DeviceType, I32).equals(self.device_type),
            "ValueError",
            &format!("Mismatched {name}.device_type"),
            Some((index, &self.expected_device())),
        );
        let device = self.bind(&format!("{name}.device_id"), get(StructField::DeviceId, I32));
        match self.device_id.clone() {
            None => self.device_id = Some((device, name.clone())),
            Some((first, first_name)) => self.check(
                device.equals(&first),
                "ValueError",
                &format!("Mismatched {name}.device_id"),
                Some((index, &format!("to match {first_name}.device_id"))),
            ),
        }
        let shape = self.bind(&format!("{name}.shape"), get(StructField::Shape, POINTER));
        let mut extents = Vec::with_capacity(rank);
        for (dimension, expected) in buffer.shape.iter().enumerate() {
            let place = format!("{name}.shape[{dimension}]");
            let extent = struct_get(&shape, dimension as i64, StructField::Int64Element, I64);
            let extent = self.bind(&place, extent);
            self.extent(index, &place, extent.expr(), &expected);
            extents.push(extent);
        }
        let mut size = Expr::int(1);
        for extent in &extents {
            size = size * extent;
        }
        let size = self.bind(&format!("{name}.size"), size);
        let mut span = size.clone();
        if rank > 0 {
            let strides = self.bind(&format!("{name}.strides"), get(StructField::Strides, POINTER));
            if buffer.strides.is_empty() {
                self.compact(index, &name, &strides, &extents, &size);
            } else {
                span = self.strided(index, &buffer, &strides, &extents, &size);
            }
        }
        Ok(Tensor { index, pointer, buffer, output, size, span, offset: None })
    }

    /// Checks that the elements are row-major and compact, with any strides for dimensions with one
    /// element.
    fn compact(&mut self, index: usize, name: &str, strides: &Var, extents: &[Var], size: &Var) {
        let mut compact = Expr::bool(true);
        let mut stride = Expr::int(1);
        for dimension in (0..extents.len()).rev() {
            let own = struct_get(strides, dimension as i64, StructField::Int64Element, I64);
            compact = extents[dimension].equals(1).or(own.equals(&stride)).and(compact);
            stride = stride * &extents[dimension];
        }
        let fits = Expr::if_then_else(is_null(strides).or(size.equals(0)), true, compact);
        self.check(fits, "ValueError", &format!("Mismatched {name}.strides"), Some((index, "to be compact array")));
    }

    /// Binds or compares the strides of the argument: they define variables, or are compared.
    /// Returns the number of elements from the first to the last one.
    fn strided(&mut self, index: usize, buffer: &Buffer, strides: &Var, extents: &[Var], size: &Var) -> Var {
        let name = buffer.name.to_string();
        let mut row = Expr::int(1);
        let mut span = Expr::int(1);
        for dimension in (0..extents.len()).rev() {
            let own = struct_get(strides, dimension as i64, StructField::Int64Element, I64);
            let place = format!("{name}.strides[{dimension}]");
            let stride = self.bind(&place, Expr::if_then_else(is_null(strides), row.clone(), own));
            let matters = |condition: Expr| size.equals(0).or(extents[dimension].equals(1)).or(condition);
            self.check(
                matters(stride.greater_equal(0)),
                "ValueError",
                &format!("Invalid {place}"),
                Some((index, "a stride of 0 or more")),
            );
            let expected = buffer.strides.get(dimension).unwrap_or_else(|| Expr::int(1));
            match Var::of(&expected) {
                Some(var) if !self.known.contains_key(&var) => {
                    self.stmts.push(Stmt::bind(var.clone(), stride.cast(var.dtype())));
                    self.known.insert(var, place);
                }
                Some(var) => {
                    let first = format!("to match {}", self.known[&var]);
                    let fits = matters(stride.equals(var.cast(I64)));
                    self.check(fits, "ValueError", &format!("Mismatched {place}"), Some((index, &first)));
                }
                // Strides that are computed may depend on sizes of later arguments.
                None => self.late.push((index, place, stride.expr().clone(), expected)),
            }
            span = span + (&extents[dimension] - 1) * &stride;
            row = row * &extents[dimension];
        }
        self.bind(&format!("{name}.span"), Expr::select(size.equals(0), 0, span))
    }

    /// Handles one dimension: it defines a size, or is compared.
    fn extent(&mut self, index: usize, place: &str, found: &Expr, expected: &Expr) {
        if let Some(var) = Var::of(expected) {
            if let Some(first) = self.known.get(&var).cloned() {
                let problem = format!("Mismatched {place}");
                self.check(
                    found.equals(var.cast(I64)),
                    "ValueError",
                    &problem,
                    Some((index, &format!("to match {first}"))),
                );
                return;
            }
            let problem = format!("Invalid {place}");
            self.check(found.greater_equal(0), "ValueError", &problem, Some((index, "a size of 0 or more")));
            self.stmts.push(Stmt::bind(var.clone(), found.cast(var.dtype())));
            self.known.insert(var, place.to_owned());
            return;
        }
        if let Some(constant) = expected.as_int() {
            self.check(
                found.equals(constant),
                "ValueError",
                &format!("Invalid {place}"),
                Some((index, &constant.to_string())),
            );
            return;
        }
        self.late.push((index, place.to_owned(), found.clone(), expected.clone()));
    }

    /// Checks computed extents.
    pub(super) fn late(&mut self) -> Result<()> {
        for (index, place, found, expected) in std::mem::take(&mut self.late) {
            if uses_var(&expected, |var| !self.known.contains_key(var)) {
                return Err(CompileError::new(
                    ErrorKind::Lower,
                    format!(
                        "`{place}` is `{}`, and no argument has a size of it as its extent",
                        text::print(&expected)
                    ),
                )
                .note("sizes are read off the arguments: give an argument that size as a whole dimension"));
            }
            let wanted = text::print(&expected);
            self.check(
                found.equals(expected.cast(I64)),
                "ValueError",
                &format!("Invalid {place}"),
                Some((index, &wanted)),
            );
        }
        Ok(())
    }
}

/// Returns true if functions of this type return a value.
fn has_value(ret: DataType) -> bool {
    ret.lanes() != 0 && ret.bits() != 0
}

/// Stores returned values to the memory for the result; a function without a value returns 0.
struct Returns {
    result: Option<Var>,
}

impl Mutate for Returns {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let StmtNode::Return { value } = &**stmt else { return mutate_stmt_parts(self, stmt) };
        let end = Stmt::return_value(Expr::constant(I32, 0));
        let Some(result) = &self.result else { return Ok(end) };
        let dtype = value.dtype();
        let (index, value) = match () {
            () if dtype.is_bool() => (BOOL, value.cast(I64)),
            () if dtype.is_integer() => (INT, value.cast(I64)),
            () if dtype.is_float() => (FLOAT, value.cast(F64)),
            () => (OPAQUE_POINTER, value.clone()),
        };
        let number = |value: i64| Expr::constant(I32, value);
        let set = |field: StructField, value: Expr| {
            let args = [result.expr().clone(), number(0), number(field as i64), value];
            Stmt::evaluate(Expr::builtin(STRUCT_SET, I32, args))
        };
        let fields = [
            set(StructField::AnyTypeIndex, number(index)),
            set(StructField::AnyPadding, number(0)),
            set(StructField::AnyValue, value),
            end,
        ];
        Ok(Stmt::seq(fields))
    }
}
