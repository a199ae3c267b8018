//! Programs of any shape, from a list of choices: without choices there are no further nodes. A
//! failing program therefore shrinks with its list.

use kernpack::{Any, Array, IntoAny, Map, Str};
use kernpack_compiler::ir::builtin::MATH;
use kernpack_compiler::ir::{
    BF16, BOOLEAN, BinaryOp, Buffer, BufferNode, CallKind, CompareOp, DataType, DataTypeExt, Expr, ExprNode, F16, F32,
    F64, ForKind, FuncKind, I8, I32, I64, IrModule, IrModuleNode, IterKind, IterVar, IterVarNode, LogicOp, LoweredFunc,
    LoweredFuncNode, POINTER, Param, ParamNode, Range, Reducer, ReducerNode, Stmt, StmtNode, Tensor, U8, U64, Var,
};
use kernpack_compiler::ir::{Operation, OperationNode};

const SCALARS: [DataType; 9] = [I64, F32, I32, BOOLEAN, F64, U8, U64, F16, BF16];
const NAMES: [&str; 12] =
    ["i", "a", "i.outer", "in", "weird name", "x\"y`z\\\n", "", "i_1", "inf", "a.data", "threadIdx.x", "9"];

pub(crate) struct Builder<'a> {
    choices: &'a [u8],
    vars: Vec<Var>,
    buffers: Vec<Buffer>,
    pub(crate) tensors: Vec<Tensor>,
    /// All variables that were bound, for the few that are bound again.
    bound: Vec<Var>,
}

/// A tensor that programs read; placeholders are equal only to themselves.
pub(crate) fn placeholder(name: &str, dtype: DataType, rank: usize) -> Tensor {
    let shape = (0..rank).map(|axis| Expr::int(axis as i64 + 4)).collect();
    Operation::from_node(OperationNode::Placeholder { name: name.into(), span: "".into(), shape, dtype }).output(0)
}

impl<'a> Builder<'a> {
    pub(crate) fn new(choices: &'a [u8]) -> Self {
        let tensors = vec![placeholder("A", F32, 2), placeholder("B", I64, 0)];
        Self { choices, vars: Vec::new(), buffers: Vec::new(), tensors, bound: Vec::new() }
    }

    fn choose(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.choices.split_first() else { return 0 };
        self.choices = rest;
        usize::from(*first) % count
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.choose(NAMES.len())]
    }

    fn scalar(&mut self) -> DataType {
        SCALARS[self.choose(SCALARS.len())]
    }

    fn dtype(&mut self) -> DataType {
        let lanes = [1, 1, 4, 8][self.choose(4)];
        self.scalar().with_lanes(lanes)
    }

    fn var(&mut self, dtype: DataType) -> Var {
        if let Some(var) = self.bound.last()
            && var.dtype() == dtype
            && self.choices.first() == Some(&255)
        {
            return var.clone();
        }
        let name = self.name();
        let var =
            if dtype.is_integer() && self.choose(4) == 1 { Var::size(name, dtype) } else { Var::new(name, dtype) };
        self.bound.push(var.clone());
        var
    }

    pub(crate) fn expr(&mut self, dtype: DataType) -> Expr {
        match self.node(dtype) {
            Some(node) => Expr::from_node(node),
            None => self.leaf(dtype),
        }
    }

    fn pair(&mut self, dtype: DataType) -> (Expr, Expr) {
        (self.expr(dtype), self.expr(dtype))
    }

    fn leaf(&mut self, dtype: DataType) -> Expr {
        if !dtype.is_scalar() {
            let value = self.expr(dtype.element());
            return value.broadcast(dtype.lanes());
        }
        let known: Vec<Var> = self.vars.iter().filter(|var| var.dtype() == dtype).cloned().collect();
        let pick = self.choose(known.len() * 2 + 2);
        if let Some(var) = known.get(pick / 2) {
            return var.expr().clone();
        }
        if dtype.is_handle() {
            return Expr::from_node(ExprNode::Int { dtype, value: 0 });
        }
        if dtype.is_float() {
            let values = [0.0, -0.0, 1.5, 0.1, -2.5e-3, 1e30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-310];
            let value = values[self.choose(values.len())];
            // Single precision also as created by `From<f64>`: not rounded.
            let rounded = kernpack_compiler::ir::builder::round_float(dtype, value);
            let value = if dtype == F32 && self.choose(3) == 2 { value } else { rounded };
            return Expr::from_node(ExprNode::Float { dtype, value });
        }
        let values = [0, 1, -1, 7, i64::MIN, i64::MAX, 300];
        let value = values[self.choose(values.len())];
        Expr::constant(dtype, value)
    }

    fn node(&mut self, dtype: DataType) -> Option<ExprNode> {
        let lanes = dtype.lanes();
        Some(match self.choose(22) {
            1 => {
                let from = self.scalar().with_lanes(lanes);
                ExprNode::Cast { dtype, value: self.expr(from) }
            }
            2 | 3 if dtype.is_bool() => {
                let of = self.scalar().with_lanes(lanes);
                let (a, b) = self.pair(of);
                let op = [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];
                ExprNode::Compare { op: op[self.choose(6)], a, b }
            }
            4 if dtype.is_bool() => {
                let (a, b) = self.pair(dtype);
                ExprNode::Logic { op: [LogicOp::And, LogicOp::Or][self.choose(2)], a, b }
            }
            5 if dtype.is_bool() => ExprNode::Not { value: self.expr(dtype) },
            2..=6 => {
                let (a, b) = self.pair(dtype);
                let op = match self.choose(14) {
                    0 => BinaryOp::Add,
                    1 => BinaryOp::Sub,
                    2 => BinaryOp::Mul,
                    3 => BinaryOp::Div,
                    4 => BinaryOp::Mod,
                    5 => BinaryOp::FloorDiv,
                    6 => BinaryOp::FloorMod,
                    7 => BinaryOp::Min,
                    8 => BinaryOp::Max,
                    9 => BinaryOp::BitAnd,
                    10 => BinaryOp::BitOr,
                    11 => BinaryOp::BitXor,
                    12 => BinaryOp::ShiftLeft,
                    _ => BinaryOp::ShiftRight,
                };
                ExprNode::Binary { op, a, b, dtype }
            }
            7 => {
                let condition = self.expr(BOOLEAN.with_lanes(lanes));
                let (true_value, false_value) = self.pair(dtype);
                ExprNode::Select { condition, true_value, false_value }
            }
            8 => {
                let condition = self.expr(BOOLEAN);
                let (then_value, else_value) = self.pair(dtype);
                ExprNode::IfThenElse { condition, then_value, else_value }
            }
            9 if dtype.is_integer() && lanes > 1 => {
                let (base, stride) = self.pair(dtype.element());
                ExprNode::Ramp { base, stride, lanes }
            }
            10 if lanes > 1 => {
                let vectors: Array<Expr> = [self.expr(dtype), self.expr(dtype.element())].into_iter().collect();
                let indices = (0..lanes).map(|_| self.choose(usize::from(lanes) + 1) as i64).collect();
                ExprNode::Shuffle { vectors, indices }
            }
            11 => {
                let of = self.dtype();
                let value = self.expr(of);
                let var = self.var(of);
                self.vars.push(var.clone());
                let body = self.expr(dtype);
                self.vars.pop();
                ExprNode::Let { var, value, body }
            }
            12..=14 => {
                let fitting: Vec<Buffer> = self
                    .buffers
                    .iter()
                    .filter(|buffer| {
                        buffer.dtype.element() == dtype.element() && lanes.is_multiple_of(buffer.dtype.lanes())
                    })
                    .cloned()
                    .collect();
                if fitting.is_empty() {
                    return None;
                }
                let buffer = fitting[self.choose(fitting.len())].clone();
                let places = lanes / buffer.dtype.lanes();
                let of = [I64, I32][self.choose(2)];
                let index = self.expr(of.with_lanes(places));
                let mask = (self.choose(3) == 1).then(|| self.expr(BOOLEAN.with_lanes(places)));
                ExprNode::Load { buffer, index, mask, dtype }
            }
            15 => match self.tensors.iter().find(|tensor| tensor.dtype == dtype).cloned() {
                Some(tensor) => {
                    let indices = tensor.shape.iter().map(|_| self.expr(I64)).collect();
                    ExprNode::TensorRead { tensor, indices }
                }
                None => return None,
            },
            16 if dtype.is_float() => {
                let (name, arity) = MATH[self.choose(MATH.len())];
                let args = (0..arity).map(|_| self.expr(dtype)).collect();
                ExprNode::Call { kind: CallKind::Builtin, name: name.into(), args, dtype }
            }
            17 => {
                let kind = [
                    CallKind::Builtin,
                    CallKind::Extern,
                    CallKind::PureExtern,
                    CallKind::LlvmIntrinsic,
                    CallKind::Packed,
                    CallKind::Function,
                ][self.choose(6)];
                let name = ["struct_get", "likely", "select", "llvm.sqrt", "a \"b\""][self.choose(5)];
                let of = self.dtype();
                let args = [Expr::text(self.name()), self.expr(of)];
                let args = args.into_iter().skip(self.choose(2)).collect();
                ExprNode::Call { kind, name: name.into(), args, dtype }
            }
            18 if dtype.is_scalar() => {
                let reducer = self.reducer(dtype);
                let axis = self.iter_var(IterKind::CommReduce);
                self.vars.push(axis.var.clone());
                let sources = [self.expr(dtype)].into_iter().collect();
                let condition = self.expr(BOOLEAN);
                let init = (0..self.choose(2)).map(|_| self.expr(dtype)).collect();
                self.vars.pop();
                ExprNode::Reduce {
                    reducer,
                    sources,
                    axes: [axis].into_iter().collect(),
                    condition,
                    init,
                    value_index: 0,
                }
            }
            _ => return None,
        })
    }

    fn reducer(&mut self, dtype: DataType) -> Reducer {
        let (x, y) = (Var::new(self.name(), dtype), Var::new("y", dtype));
        let outer = core::mem::replace(&mut self.vars, vec![x.clone(), y.clone()]);
        let results = [self.expr(dtype)].into_iter().collect();
        self.vars.clear();
        let identity = [self.leaf(dtype)].into_iter().collect();
        self.vars = outer;
        Reducer::from_node(ReducerNode {
            lhs: [x].into_iter().collect(),
            rhs: [y].into_iter().collect(),
            results,
            identity,
        })
    }

    fn range(&mut self) -> Range {
        let min = if self.choose(2) == 0 { Expr::int(0) } else { self.expr(I64) };
        Range::new(min, self.expr(I64))
    }

    fn iter_var(&mut self, kind: IterKind) -> IterVar {
        let dom = (self.choose(3) > 0).then(|| self.range());
        let thread_tag = if kind == IterKind::ThreadIndex { "threadIdx.x" } else { "" };
        let var = Var::new(self.name(), I64);
        IterVar::from_node(IterVarNode { dom, var, kind, thread_tag: thread_tag.into(), span: "".into() })
    }

    fn buffer(&mut self, data: Option<Var>) -> Buffer {
        let mut dtype = self.scalar();
        if self.choose(5) == 4 {
            dtype = dtype.with_lanes(4);
        }
        let rank = self.choose(3);
        let shape: Array<Expr> = (0..rank).map(|_| self.expr(I64)).collect();
        let strides = if self.choose(4) == 1 { (0..rank).map(|_| self.expr(I64)).collect() } else { Array::default() };
        let elem_offset = if self.choose(4) == 1 { self.expr(I64) } else { Expr::int(0) };
        let name = self.name();
        Buffer::from_node(BufferNode {
            data: data.unwrap_or_else(|| Var::new(name, POINTER)),
            name: name.into(),
            dtype,
            shape,
            strides,
            elem_offset,
            scope: ["global", "local", "shared.dyn", "strange scope"][self.choose(4)].into(),
            data_alignment: [64, 16][self.choose(2)],
            offset_factor: [0, 8][self.choose(2)],
        })
    }

    fn any(&mut self, depth: usize) -> Any {
        match self.choose(if depth > 2 { 7 } else { 12 }) {
            1 => [-3i64, 17, i64::MIN][self.choose(3)].into_any(),
            2 => [0.5, -1e300, f64::INFINITY, 3.0][self.choose(4)].into_any(),
            3 => true.into_any(),
            4 => Str::from(self.name()).into_any(),
            5 => F16.with_lanes(4).into_any(),
            6 => {
                let dtype = self.dtype();
                self.expr(dtype).into_any()
            }
            7 => (0..self.choose(3)).map(|_| self.any(depth + 1)).collect::<Array<Any>>().into_any(),
            8 => [(Str::from(self.name()), self.any(depth + 1))].into_iter().collect::<Map<Str, Any>>().into_any(),
            9 => match self.buffers.last() {
                Some(buffer) => buffer.clone().into_any(),
                None => Any::default(),
            },
            10 => self.tensors[0].clone().into_any(),
            11 => self.reducer(F32).into_any(),
            _ => Any::default(),
        }
    }

    fn annotations(&mut self) -> Map<Str, Any> {
        let count = [0, 0, 1, 2][self.choose(4)];
        (0..count).map(|_| (Str::from(self.name()), self.any(0))).collect()
    }

    fn body(&mut self) -> Stmt {
        let (vars, buffers) = (self.vars.len(), self.buffers.len());
        let count = self.choose(4);
        let stmts: Vec<Stmt> = (0..count).map(|_| self.stmt()).collect();
        self.vars.truncate(vars);
        self.buffers.truncate(buffers);
        Stmt::seq(stmts)
    }

    fn stmt(&mut self) -> Stmt {
        let node = match self.choose(17) {
            0 => {
                let dtype = [I64, I32, U8][self.choose(3)];
                let min = if self.choose(2) == 0 { Expr::constant(dtype, 0) } else { self.expr(dtype) };
                let extent = self.expr(dtype);
                let annotations = self.annotations();
                let var = self.var(dtype);
                self.vars.push(var.clone());
                let kinds = [
                    ForKind::Serial,
                    ForKind::Parallel,
                    ForKind::Vectorized,
                    ForKind::Unrolled,
                    ForKind::ThreadBinding,
                ];
                let kind = kinds[self.choose(5)];
                let body = self.body();
                self.vars.pop();
                StmtNode::For { var, min, extent, kind, annotations, body }
            }
            1..=3 if !self.buffers.is_empty() => {
                let pick = self.choose(self.buffers.len());
                let buffer = self.buffers[pick].clone();
                let places = [1, 4][self.choose(2)];
                let index = self.expr(I64.with_lanes(places));
                let value = self.expr(buffer.dtype.with_lanes(buffer.dtype.lanes() * places));
                let mask = (self.choose(3) == 1).then(|| self.expr(BOOLEAN.with_lanes(places)));
                StmtNode::Store { buffer, index, value, mask }
            }
            4 => {
                let pick = self.choose(2);
                let tensor = self.tensors[pick].clone();
                let indices = tensor.shape.iter().map(|_| self.expr(I64)).collect();
                let value = self.expr(tensor.dtype);
                StmtNode::TensorWrite { tensor, indices, value }
            }
            5 => {
                let tensor = self.tensors[0].clone();
                let region = [self.range(), self.range()].into_iter().collect();
                let scope = ["", "shared"][self.choose(2)];
                StmtNode::Realize { tensor, region, scope: scope.into(), annotations: self.annotations() }
            }
            6 => StmtNode::Prefetch {
                tensor: self.tensors[0].clone(),
                region: [self.range(), self.range()].into_iter().collect(),
            },
            7 | 1 => {
                let annotations = self.annotations();
                let buffer = self.buffer(None);
                self.buffers.push(buffer.clone());
                self.vars.push(buffer.data.clone());
                StmtNode::Alloc { buffer, annotations }
            }
            8 => {
                let data = self.expr(POINTER);
                let buffer = self.buffer(None);
                self.buffers.push(buffer.clone());
                StmtNode::Alias { buffer, data }
            }
            9 | 2 => {
                let dtype = self.dtype();
                let value = self.expr(dtype);
                let var = self.var(dtype);
                self.vars.push(var.clone());
                StmtNode::Bind { var, value }
            }
            10 => {
                let value = self.expr(I64);
                let axis = self.iter_var(IterKind::ThreadIndex);
                self.vars.push(axis.var.clone());
                let body = self.body();
                self.vars.pop();
                StmtNode::Attr { key: "thread_extent".into(), node: axis.into_any(), value, body }
            }
            11 => {
                let (node, dtype) = (self.any(0), self.dtype());
                let value = self.expr(dtype);
                StmtNode::Attr { key: self.name().into(), node, value, body: self.body() }
            }
            12 => StmtNode::Assert {
                condition: self.expr(BOOLEAN),
                kind: "ValueError".into(),
                parts: (0..self.choose(3)).map(|_| Str::from(self.name())).collect(),
            },
            13 => {
                let condition = self.expr(BOOLEAN);
                let then_body = self.body();
                let else_body = (self.choose(2) == 1).then(|| self.body());
                StmtNode::If { condition, then_body, else_body }
            }
            14 => StmtNode::While { condition: self.expr(BOOLEAN), body: self.body() },
            15 => {
                let dtype = self.dtype();
                StmtNode::Return { value: self.expr(dtype) }
            }
            _ => {
                // Another node for known memory.
                if let Some(known) = self.buffers.last().cloned()
                    && self.choose(2) == 1
                {
                    let view = self.buffer(Some(known.data.clone()));
                    self.buffers.push(view);
                }
                let dtype = self.dtype();
                StmtNode::Evaluate { value: self.expr(dtype) }
            }
        };
        Stmt::from_node(node)
    }

    fn param(&mut self) -> Param {
        if self.choose(3) == 1 {
            let dtype = self.scalar();
            let var = self.var(dtype);
            self.vars.push(var.clone());
            return Param::from_node(ParamNode { var, buffer: None, output: false });
        }
        let symbol = match self.choose(3) {
            0 => Var::size("n", I64),
            1 => Var::new("stride", I32),
            _ => Var::size("m", I32),
        };
        let buffer = self.buffer(None);
        let shape = buffer.shape.iter().chain([symbol.expr().clone()]).collect();
        let buffer = Buffer::from_node(BufferNode { shape, strides: Array::default(), ..buffer.to_node() });
        self.vars.push(symbol);
        self.buffers.push(buffer.clone());
        let var = if self.choose(2) == 1 { Var::new(self.name(), POINTER) } else { buffer.data.clone() };
        Param::from_node(ParamNode { var, buffer: Some(buffer), output: self.choose(2) == 1 })
    }

    pub(crate) fn func(&mut self) -> LoweredFunc {
        self.vars.clear();
        self.buffers.clear();
        let params = (0..self.choose(4)).map(|_| self.param()).collect();
        let kind = [FuncKind::Mixed, FuncKind::Host, FuncKind::Device, FuncKind::Internal][self.choose(4)];
        let thread_axes: Array<IterVar> = (0..self.choose(2)).map(|_| self.iter_var(IterKind::ThreadIndex)).collect();
        self.vars.extend(thread_axes.iter().map(|axis| axis.var.clone()));
        // A free variable.
        self.vars.push(Var::new("free", I8));
        let rets = [kernpack_compiler::interpret::NOTHING, I32, F32.with_lanes(0)];
        LoweredFunc::from_node(LoweredFuncNode {
            name: self.name().into(),
            params,
            ret: rets[self.choose(3)],
            kind,
            thread_axes,
            body: self.body(),
            attrs: self.annotations(),
        })
    }

    pub(crate) fn module(&mut self) -> IrModule {
        let attrs = self.annotations();
        let functions = (0..=self.choose(2)).map(|_| self.func()).collect();
        IrModule::from_node(IrModuleNode { functions, attrs })
    }
}
