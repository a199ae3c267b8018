//! MakePackedAPI: a function of tensors and scalars becomes a packed function, which checks and unpacks its arguments.

use std::collections::HashMap;

use kernpack::{Any, DataType, Map, Str};

use super::PassContext;
use crate::error::{Result, fail, require};
use crate::ir::builtin::{self, StructField};
use crate::ir::mutate::{Mutate, mutate_stmt_parts};
use crate::ir::{
    BinaryOp, Buffer, DataTypeExt, Expr, ExprNode, F64, FuncKind, I32, I64, LoweredFunc, LoweredFuncNode, POINTER,
    Param, ParamNode, Stmt, StmtNode, U8, U16, U64, Var,
};

/// Type indices of FFI values.
mod type_index {
    pub(super) const NONE: i64 = 0;
    pub(super) const INT: i64 = 1;
    pub(super) const BOOL: i64 = 2;
    pub(super) const FLOAT: i64 = 3;
    pub(super) const OPAQUE_POINTER: i64 = 4;
    pub(super) const TENSOR_POINTER: i64 = 7;
    pub(super) const OBJECTS: i64 = 64;
    pub(super) const TENSOR: i64 = 70;
}

/// Bytes of an object's header, behind which a tensor object has its `DLTensor`.
const HEADER: i64 = 24;

/// The kind of device that a function of the cpu takes tensors of, unless its attribute `device_type` says another.
const CPU: i64 = 1;

/// A function of kind `Mixed` as a packed function: `i32 (ptr self, ptr args, i32 num_args, ptr result)`. Others stay.
///
/// Arguments are checked in the order of Apache TVM's, with its kinds and texts of errors. Sizes that occur first in a tensor's shape are read from it, later
/// ones are compared. The body runs in a scope of its own, the attribute `compute_scope`. Data may have any address that fits its elements, unless the attribute
/// `data_alignment` asks for a multiple of a power of two: vector instructions lose nothing by it, and tensors of other libraries can be used as they are.
///
/// # Errors
/// An alignment that is no power of two; shapes with variables that no argument has.
pub fn make_packed_api(function: &LoweredFunc, _: &PassContext) -> Result<LoweredFunc> {
    if function.kind != FuncKind::Mixed {
        return Ok(function.clone());
    }
    let name = function.name.as_str();
    let [this, args, count, result] = [
        Var::new("self_handle", POINTER),
        Var::new("args", POINTER),
        Var::new("num_args", I32),
        Var::new("result", POINTER),
    ];
    let mut binder = Binder {
        name: name.to_owned(),
        signature: signature(function),
        args: args.clone(),
        device_type: function.attr("device_type").and_then(|value| value.to().ok()).unwrap_or(CPU),
        alignment: function.attr("data_alignment").and_then(|value| value.to().ok()).unwrap_or(1),
        declared: Vec::new(),
        late: Vec::new(),
        shapes: Vec::new(),
        offsets: Vec::new(),
        pending: Vec::new(),
        known: HashMap::new(),
        device: None,
    };
    require!(
        u64::try_from(binder.alignment).is_ok_and(u64::is_power_of_two),
        Lower,
        "`{name}`: data_alignment is {}, which is no power of two",
        binder.alignment
    );
    let params = function.params.to_vec();
    binder.check_count(&count, params.len());
    for (index, param) in params.iter().enumerate() {
        binder.unpack(index, param)?;
    }
    // Scalars are known to all shapes, whatever their order.
    for (index, param) in params.iter().enumerate() {
        if let Some(buffer) = &param.buffer {
            binder.bind_tensor(index, param, buffer)?;
        }
    }
    let mut stmts = binder.finish()?;
    for param in &params {
        if let Some(buffer) = &param.buffer {
            let data = field(param.var.expr(), StructField::Data, POINTER);
            stmts.push(Stmt::from_node(StmtNode::Alias { buffer: buffer.clone(), data }));
        }
    }
    let has_value = function.ret.lanes() != 0 && function.ret.bits() != 0;
    let body = if has_value {
        ReturnToResult { result: result.clone() }.mutate_stmt(&function.body)?
    } else {
        ReturnNothing.mutate_stmt(&function.body)?
    };
    stmts.push(Stmt::attr("compute_scope", Str::from(format!("{name}_compute_")), 0, body));
    stmts.push(Stmt::return_value(Expr::constant(I32, 0)));
    let plain = |var: Var| Param::from_node(ParamNode { var, buffer: None, output: false });
    Ok(LoweredFunc::from_node(LoweredFuncNode {
        params: [this, args, count, result].into_iter().map(plain).collect(),
        ret: I32,
        kind: FuncKind::Host,
        body: Stmt::seq(stmts),
        attrs: with_signature(&function.attrs, &signature(function)),
        ..function.to_node()
    }))
}

/// The attributes of a packed function: those of the function, with how its errors write it.
fn with_signature(attrs: &Map<Str, Any>, signature: &str) -> Map<Str, Any> {
    let mut entries: Vec<(Str, Any)> = attrs.iter().filter(|(key, _)| key.as_str() != "signature").collect();
    entries.push(("signature".into(), Str::from(signature).into()));
    entries.into_iter().collect()
}

/// `f(A: Tensor([n, 4], float32), k: int32)`.
pub(crate) fn signature(function: &LoweredFunc) -> String {
    let params: Vec<String> = function
        .params
        .iter()
        .map(|param| match &param.buffer {
            Some(buffer) => {
                let shape: Vec<String> = buffer.shape.iter().map(|extent| describe(&extent, &|_| None)).collect();
                format!("{}: Tensor([{}], {})", argument_name(&param), shape.join(", "), buffer.dtype)
            }
            None => format!("{}: {}", argument_name(&param), param.var.dtype()),
        })
        .collect();
    format!("{}({})", function.name.as_str(), params.join(", "))
}

/// What messages call an argument.
fn argument_name(param: &Param) -> String {
    match &param.buffer {
        Some(buffer) => buffer.name.as_str().to_owned(),
        None => param.var.name().to_owned(),
    }
}

/// An extent as text. `name` says what stands for a variable.
fn describe(expr: &Expr, name: &dyn Fn(&Var) -> Option<String>) -> String {
    let part = |expr: &Expr| match &**expr {
        ExprNode::Binary { .. } => format!("({})", describe(expr, name)),
        _ => describe(expr, name),
    };
    match &**expr {
        ExprNode::Int { value, .. } => value.to_string(),
        ExprNode::Var { .. } => {
            let var = Var::of(expr);
            var.as_ref().and_then(name).or_else(|| Some(var?.name().to_owned())).unwrap_or_default()
        }
        ExprNode::Cast { value, .. } => describe(value, name),
        ExprNode::Binary { op, a, b, .. } => {
            let infix = |symbol: &str| format!("{} {symbol} {}", part(a), part(b));
            match op {
                BinaryOp::Add => format!("{} + {}", describe(a, name), part(b)),
                BinaryOp::Sub => format!("{} - {}", describe(a, name), part(b)),
                BinaryOp::Mul => infix("*"),
                BinaryOp::FloorDiv | BinaryOp::Div => infix("//"),
                BinaryOp::FloorMod | BinaryOp::Mod => infix("%"),
                BinaryOp::Min => format!("min({}, {})", describe(a, name), describe(b, name)),
                BinaryOp::Max => format!("max({}, {})", describe(a, name), describe(b, name)),
                _ => infix("?"),
            }
        }
        _ => "..".to_owned(),
    }
}

/// A field of the struct that a pointer points to.
fn field(pointer: &Expr, field: StructField, dtype: DataType) -> Expr {
    element(pointer, 0, field, dtype)
}

fn element(pointer: &Expr, index: usize, field: StructField, dtype: DataType) -> Expr {
    let number = |value: i64| Expr::constant(I32, value);
    Expr::builtin(builtin::STRUCT_GET, dtype, [pointer.clone(), number(index as i64), number(field as i64)])
}

fn is_null(pointer: &Expr) -> Expr {
    Expr::builtin(builtin::ISNULLPTR, crate::ir::BOOLEAN, [pointer.clone()])
}

/// What is checked and bound, in the order of the checks.
struct Binder {
    name: String,
    signature: String,
    args: Var,
    device_type: i64,
    /// What data pointers have to be multiples of.
    alignment: i64,
    /// Checks and definitions of the arguments one by one.
    declared: Vec<Stmt>,
    /// Checks that need definitions of several arguments.
    late: Vec<Stmt>,
    shapes: Vec<Stmt>,
    offsets: Vec<Stmt>,
    pending: Vec<Pending>,
    /// Where each variable is defined: `A.shape[0]`.
    known: HashMap<Var, String>,
    /// The number of the device of the first tensor, and where it was read.
    device: Option<(Var, String)>,
}

/// The comparison of a value with an expression.
struct Pending {
    condition: Expr,
    place: String,
    index: usize,
    expected: Expr,
}

/// A list of statements that checks are added to.
type Checks = Vec<Stmt>;

impl Binder {
    fn assert(&self, to: &mut Checks, condition: Expr, kind: &str, message: &[&str]) {
        if !condition.is_true() {
            let parts = message.iter().map(|part| Str::from(*part));
            to.push(Stmt::assert(condition, kind, parts));
        }
    }

    /// `{what} on argument #{index} when calling:\n  `{signature}`,\n  expected {expected}`
    fn require(
        &self,
        to: &mut Checks,
        condition: Expr,
        kind: &str,
        what: [&str; 3],
        index: usize,
        expected: [&str; 2],
    ) {
        let index = index.to_string();
        let message = [
            what[0],
            what[1],
            what[2],
            "on argument #",
            &index,
            " when calling:\n  `",
            &self.signature,
            "`,\n  expected ",
            expected[0],
            expected[1],
        ];
        self.assert(to, condition, kind, &message);
    }

    fn check_count(&mut self, count: &Var, wanted: usize) {
        let mut checks = Vec::new();
        let number = wanted.to_string();
        let calling = [" when calling:\n  `", self.signature.as_str(), "`"];
        let message = ["Expected ", &number, " arguments", calling[0], calling[1], calling[2]];
        self.assert(&mut checks, count.equals(Expr::constant(I32, wanted as i64)), "TypeError", &message);
        if wanted > 0 {
            let message = ["args pointer is NULL", calling[0], calling[1], calling[2]];
            self.assert(&mut checks, is_null(self.args.expr()).negated(), "TypeError", &message);
        }
        self.declared.extend(checks);
    }

    /// Checks the type of an argument, and gives its variable the value.
    fn unpack(&mut self, index: usize, param: &Param) -> Result<()> {
        let name = argument_name(param);
        let dtype = param.var.dtype();
        let args = self.args.expr().clone();
        let tag = Var::new(format!("{name}.type_index"), I32);
        self.declared.push(Stmt::bind(tag.clone(), element(&args, index, StructField::AnyTypeIndex, I32)));
        let is = |value: i64| tag.equals(Expr::constant(I32, value));
        let any_of = |values: &[i64]| values.iter().map(|value| is(*value)).reduce(|a, b| a.or(b));
        let payload = |dtype: DataType| element(&args, index, StructField::AnyValue, dtype);
        let (accepted, expected, value) = if param.buffer.is_some() || dtype.is_handle() {
            let pointers = [type_index::NONE, type_index::OPAQUE_POINTER, type_index::TENSOR_POINTER];
            let accepted =
                any_of(&pointers).map(|known| known.or(tag.greater_equal(Expr::constant(I32, type_index::OBJECTS))));
            let behind = Expr::builtin(
                builtin::HANDLE_ADD_BYTE_OFFSET,
                POINTER,
                [payload(POINTER), Expr::constant(I32, HEADER)],
            );
            let value = Expr::if_then_else(is(type_index::TENSOR), behind, payload(POINTER));
            (accepted, if param.buffer.is_some() { "Tensor" } else { "pointer" }, value)
        } else if dtype.is_bool() {
            let value = payload(I64).differs(0);
            (any_of(&[type_index::BOOL, type_index::INT]), "boolean", value)
        } else if dtype.is_integer() {
            (any_of(&[type_index::INT, type_index::BOOL]), "int", payload(I64).cast(dtype))
        } else if dtype.is_float() {
            let accepted = any_of(&[type_index::FLOAT, type_index::INT, type_index::BOOL]);
            let value = Expr::if_then_else(is(type_index::FLOAT), payload(F64), payload(I64).cast(F64)).cast(dtype);
            (accepted, "float", value)
        } else {
            fail!(Type, "`{}`: parameter `{name}` is {}, which no FFI value can be", self.name, dtype.short_name())
        };
        require!(dtype.is_scalar(), Type, "`{}`: parameter `{name}` is a vector", self.name);
        let mut checks = Vec::new();
        let accepted = accepted.unwrap_or_else(|| Expr::bool(true));
        self.require(&mut checks, accepted, "TypeError", ["Mismatched type ", "", ""], index, [expected, ""]);
        self.declared.extend(checks);
        self.declared.push(Stmt::bind(param.var.clone(), value));
        self.known.insert(param.var.clone(), name);
        Ok(())
    }

    /// Compares a value of an argument with an expression, or defines the variable that the expression is.
    fn bind_size(&mut self, index: usize, place: String, expected: &Expr, actual: Expr) {
        if let Some(var) = Var::of(expected)
            && !self.known.contains_key(&var)
        {
            self.declared.push(Stmt::bind(var.clone(), actual.cast(var.dtype())));
            self.known.insert(var, place);
            return;
        }
        let condition = expected.equals(actual.cast(expected.dtype()));
        let mut checks = Vec::new();
        match Var::of(expected).and_then(|var| self.known.get(&var).cloned()) {
            Some(first) => {
                let what = ["Mismatched ", &place, " "];
                self.require(&mut checks, condition, "ValueError", what, index, ["to match ", &first]);
            }
            // What stands for its variables is known when all arguments were seen.
            None => self.pending.push(Pending { condition, place, index, expected: expected.clone() }),
        }
        self.shapes.extend(checks);
    }

    /// Checks a tensor's fields, and defines what its shape defines.
    fn bind_tensor(&mut self, index: usize, param: &Param, buffer: &Buffer) -> Result<()> {
        let name = buffer.name.as_str().to_owned();
        let handle = param.var.expr().clone();
        let dtype = buffer.dtype;
        let shape = buffer.shape.to_vec();
        let mut checks = Vec::new();
        let number = |value: i64| Expr::constant(I32, value);
        self.require(
            &mut checks,
            is_null(&handle).negated(),
            "TypeError",
            ["Mismatched type ", "", ""],
            index,
            ["Tensor", ""],
        );
        let rank = shape.len().to_string();
        let condition = number(shape.len() as i64).equals(field(&handle, StructField::Ndim, I32));
        self.require(&mut checks, condition, "ValueError", ["Mismatched ", &name, ".ndim "], index, [&rank, ""]);
        let raw = dtype.as_raw();
        let condition = field(&handle, StructField::TypeCode, U8)
            .equals(Expr::constant(U8, i64::from(raw.code)))
            .and(field(&handle, StructField::TypeBits, U8).equals(Expr::constant(U8, i64::from(raw.bits))))
            .and(field(&handle, StructField::TypeLanes, U16).equals(Expr::constant(U16, i64::from(raw.lanes))));
        let expected = dtype.to_string();
        self.require(&mut checks, condition, "TypeError", ["Mismatched ", &name, ".dtype "], index, [&expected, ""]);
        self.declared.extend(checks);

        let shape_pointer = Var::new(format!("{name}_shape"), POINTER);
        let strides_pointer = Var::new(format!("{name}_strides"), POINTER);
        self.declared.push(Stmt::bind(shape_pointer.clone(), field(&handle, StructField::Shape, POINTER)));
        for (axis, extent) in shape.iter().enumerate() {
            let actual = element(shape_pointer.expr(), axis, StructField::Int64Element, I64);
            self.bind_size(index, format!("{name}.shape[{axis}]"), extent, actual);
        }
        self.declared.push(Stmt::bind(strides_pointer.clone(), field(&handle, StructField::Strides, POINTER)));
        self.bind_strides(index, buffer, &strides_pointer);

        let mut checks = Vec::new();
        let device_type = field(&handle, StructField::DeviceType, I32);
        let condition = device_type.equals(number(self.device_type));
        let expected = device_name(self.device_type);
        let what = ["Mismatched ", &name, ".device_type "];
        self.require(&mut checks, condition, "ValueError", what, index, [&expected, ""]);
        self.declared.extend(checks);
        self.bind_device(index, &name, &handle);
        self.bind_data(index, buffer, &handle);
        self.bind_offset(index, buffer, &handle)
    }

    fn bind_strides(&mut self, index: usize, buffer: &Buffer, pointer: &Var) {
        let name = buffer.name.as_str();
        let shape = buffer.shape.to_vec();
        let actual = |axis: usize| element(pointer.expr(), axis, StructField::Int64Element, I64);
        if buffer.strides.is_empty() {
            // A stride along an axis of one element says nothing, and neither do the strides of a tensor without elements.
            let strides = buffer.full_strides();
            let fits = strides
                .iter()
                .enumerate()
                .map(|(axis, stride)| shape[axis].equals(1).or(stride.cast(I64).equals(actual(axis))));
            if let Some(condition) = fits.reduce(|a, b| a.and(b)) {
                let mut checks = Vec::new();
                let what = ["Mismatched ", name, ".strides "];
                let expected = ["to be compact array", ""];
                self.require(&mut checks, condition, "ValueError", what, index, expected);
                let given = is_null(pointer.expr()).negated();
                self.late.push(Stmt::if_then(given, Stmt::seq(checks), None));
            }
            return;
        }
        let mut compact = Expr::int(1);
        for axis in (0..shape.len()).rev() {
            let stride = buffer.strides.get(axis).unwrap_or_else(|| Expr::int(1));
            let given = Expr::if_then_else(is_null(pointer.expr()), compact.clone(), actual(axis));
            self.bind_size(index, format!("{name}.strides[{axis}]"), &stride, given);
            compact = compact * shape[axis].cast(I64);
        }
    }

    fn bind_device(&mut self, index: usize, name: &str, handle: &Expr) {
        let actual = field(handle, StructField::DeviceId, I32);
        let place = format!("{name}.device_id");
        match self.device.clone() {
            None => {
                let var = Var::new("dev_id", I32);
                self.declared.push(Stmt::bind(var.clone(), actual));
                self.device = Some((var, place));
            }
            Some((first, where_from)) => {
                let mut checks = Vec::new();
                let condition = first.equals(actual);
                let expected = ["to match ", where_from.as_str()];
                self.require(&mut checks, condition, "ValueError", ["Mismatched ", &place, " "], index, expected);
                self.late.extend(checks);
            }
        }
    }

    fn bind_data(&mut self, index: usize, buffer: &Buffer, handle: &Expr) {
        let name = buffer.name.as_str();
        let data = field(handle, StructField::Data, POINTER);
        let is_empty = buffer.shape.iter().map(|extent| extent.equals(0)).reduce(|a, b| a.or(b));
        let unless_empty = |condition: Expr| match &is_empty {
            Some(empty) if !empty.is_false() => empty.or(condition),
            _ => condition,
        };
        let mut checks = Vec::new();
        let condition = unless_empty(is_null(&data).negated());
        let expected = ["non-NULL data pointer", ""];
        self.require(&mut checks, condition, "ValueError", [name, " data pointer is NULL ", ""], index, expected);
        if self.alignment > 1 {
            let address = Expr::builtin(builtin::REINTERPRET, U64, [data]);
            let rest = address & Expr::constant(U64, self.alignment - 1);
            let bytes = self.alignment.to_string();
            let expected = format!("data alignment={bytes} bytes");
            let condition = unless_empty(rest.equals(Expr::constant(U64, 0)));
            let what = ["Misaligned Tensor data ", "", ""];
            self.require(&mut checks, condition, "ValueError", what, index, [&expected, ""]);
        }
        self.late.extend(checks);
    }

    fn bind_offset(&mut self, index: usize, buffer: &Buffer, handle: &Expr) -> Result<()> {
        let name = buffer.name.as_str();
        let bytes = (buffer.dtype.lane_bytes() * usize::from(buffer.dtype.lanes())) as i64;
        let actual = field(handle, StructField::ByteOffset, U64);
        let place = format!("{name}.byte_offset");
        let offset = &buffer.elem_offset;
        if offset.as_int().is_some() || Var::of(offset).is_none_or(|var| self.known.contains_key(&var)) {
            let wanted = (offset.cast(I64) * bytes).cast(U64);
            let expected = describe(&(offset.cast(I64) * bytes), &|var| self.known.get(var).cloned());
            let mut checks = Vec::new();
            let condition = wanted.equals(actual);
            self.require(&mut checks, condition, "ValueError", ["Invalid ", &place, " "], index, [&expected, ""]);
            self.offsets.extend(checks);
            return Ok(());
        }
        let Some(var) = Var::of(offset) else { fail!(Internal, "an offset of `{name}` that is no variable") };
        let factor = buffer.offset_factor.max(1).saturating_mul(bytes);
        let mut checks = Vec::new();
        let condition = actual.binary_mod(factor).equals(Expr::constant(U64, 0));
        let expected = [&*factor.to_string(), " bytes as its divisor"];
        self.require(&mut checks, condition, "ValueError", ["Invalid ", &place, " "], index, expected);
        self.declared.extend(checks);
        let elements = Expr::binary(BinaryOp::Div, actual, Expr::constant(U64, bytes));
        self.declared.push(Stmt::bind(var.clone(), elements.cast(var.dtype())));
        self.known.insert(var, place);
        Ok(())
    }

    /// All checks, in order.
    fn finish(&mut self) -> Result<Vec<Stmt>> {
        crate::error::take_reported()?;
        let mut checks = Vec::new();
        for Pending { condition, place, index, expected } in core::mem::take(&mut self.pending) {
            let mut unknown = None;
            crate::ir::visit::for_each_expr(&expected, |part| {
                unknown = unknown.take().or(Var::of(part).filter(|var| !self.known.contains_key(var)));
            });
            if let Some(var) = unknown {
                fail!(
                    Lower,
                    "`{}`: {place} is `{}`, but no argument says what `{}` is",
                    self.name,
                    describe(&expected, &|_| None),
                    var.name()
                );
            }
            let text = describe(&expected, &|var| self.known.get(var).cloned());
            let what = ["Invalid ", &place, " "];
            self.require(&mut checks, condition, "ValueError", what, index, [&text, ""]);
        }
        self.shapes.extend(checks);
        let mut stmts = core::mem::take(&mut self.declared);
        stmts.append(&mut self.late);
        stmts.append(&mut self.shapes);
        stmts.append(&mut self.offsets);
        Ok(stmts)
    }
}

impl Expr {
    /// Remainder of an unsigned integer.
    fn binary_mod(&self, divisor: i64) -> Self {
        Self::binary(BinaryOp::Mod, self, Self::constant(self.dtype(), divisor))
    }
}

/// The name of a kind of device.
fn device_name(kind: i64) -> String {
    match kind {
        1 => "cpu",
        2 => "cuda",
        4 => "opencl",
        7 => "vulkan",
        8 => "metal",
        10 => "rocm",
        other => return format!("device type {other}"),
    }
    .to_owned()
}

/// Returned values go to the memory for the result.
struct ReturnToResult {
    result: Var,
}

impl Mutate for ReturnToResult {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        let StmtNode::Return { value } = &**stmt else { return mutate_stmt_parts(self, stmt) };
        let dtype = value.dtype();
        let (index, stored) = if dtype.is_bool() {
            (type_index::BOOL, value.cast(I64))
        } else if dtype.is_integer() {
            (type_index::INT, value.cast(I64))
        } else if dtype.is_float() {
            (type_index::FLOAT, value.cast(F64))
        } else {
            (type_index::OPAQUE_POINTER, value.clone())
        };
        let number = |value: i64| Expr::constant(I32, value);
        let set = |field: StructField, value: Expr| {
            let args = [self.result.expr().clone(), number(0), number(field as i64), value];
            Stmt::evaluate(Expr::builtin(builtin::STRUCT_SET, I32, args))
        };
        Ok(Stmt::seq([
            set(StructField::AnyTypeIndex, number(index)),
            set(StructField::AnyPadding, number(0)),
            set(StructField::AnyValue, stored),
            Stmt::return_value(number(0)),
        ]))
    }
}

/// A function without a value ends with status 0.
struct ReturnNothing;

impl Mutate for ReturnNothing {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::Return { value } if !value.is_int(0) || value.dtype() != I32 => {
                Ok(Stmt::return_value(Expr::constant(I32, 0)))
            }
            StmtNode::Return { .. } => Ok(stmt.clone()),
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}
