//! Compilation of a lowered function to operations on registers.

use std::collections::HashMap;
use std::rc::Rc;

use super::code::{BufferCode, FunctionCode, Op, Origin, ParamCode, Reg, Visible};
use crate::error::Result;
use crate::ir::share::bind_shared;
use crate::ir::{Buffer, Expr, FuncKind, LoweredFunc, Reducer, Stmt, Var};

/// State that all functions of a machine share.
pub(super) struct Shared<'a> {
    /// The position of each function of the module, by name.
    pub(super) names: &'a HashMap<String, usize>,
    /// The statements, for messages.
    pub(super) origins: &'a mut Vec<Origin>,
    /// The combiners of reductions across threads; they follow the module's functions.
    pub(super) reducers: &'a mut Vec<FunctionCode>,
}

pub(super) struct LoopLabels {
    /// The jumps out of the loop, whose targets are set at its end.
    pub(super) breaks: Vec<usize>,
    /// The jumps to the next iteration.
    pub(super) continues: Vec<usize>,
    /// The number of allocations outside the loop.
    pub(super) allocated: usize,
    /// True if an iteration can be left from inside: not for threads or tasks.
    pub(super) serial: bool,
}

pub(super) struct Compiler<'a, 'b> {
    pub(super) shared: &'a mut Shared<'b>,
    pub(super) function: Rc<str>,
    pub(super) ops: Vec<Op>,
    pub(super) origins: Vec<u32>,
    pub(super) stmt: u32,
    pub(super) vars: HashMap<Var, Reg>,
    pub(super) visible: Option<Rc<Visible>>,
    /// The first address and the end of aliases, by data pointer.
    pub(super) views: HashMap<Var, Option<Reg>>,
    /// Registers from here on are free for temporaries.
    pub(super) floor: Reg,
    pub(super) next: Reg,
    pub(super) registers: usize,
    /// The values of this statement's expressions by node; inner levels are conditional.
    pub(super) memo: Vec<HashMap<(usize, bool), Reg>>,
    /// The active lanes, under a vector condition.
    pub(super) active: Option<(Reg, u16)>,
    /// True if overflow is an error: in indices, extents and guards.
    pub(super) checked: bool,
    pub(super) allocated: Vec<Reg>,
    pub(super) loops: Vec<LoopLabels>,
    pub(super) kernel: bool,
    pub(super) parallel: bool,
    pub(super) reducers: Vec<Reducer>,
}

/// Compiles a function.
pub(super) fn compile(func: &LoweredFunc, shared: &mut Shared<'_>) -> Result<FunctionCode> {
    let mut compiler = Compiler::new(func.name.as_str(), shared);
    let named = bind_shared(&func.body).map(|body| func.with_body(body));
    named
        .and_then(|func| compiler.function_code(&func))
        .map_err(|error| error.note(format!("in function `{}`", func.name)))
}

impl<'a, 'b> Compiler<'a, 'b> {
    pub(super) fn new(function: &str, shared: &'a mut Shared<'b>) -> Self {
        let function: Rc<str> = function.into();
        shared.origins.push(Origin { stmt: None, function: function.clone(), visible: None });
        let stmt = shared.origins.len() as u32 - 1;
        Self {
            shared,
            function,
            ops: Vec::new(),
            origins: Vec::new(),
            stmt,
            vars: HashMap::new(),
            visible: None,
            views: HashMap::new(),
            floor: 0,
            next: 0,
            registers: 0,
            memo: vec![HashMap::new()],
            active: None,
            checked: false,
            allocated: Vec::new(),
            loops: Vec::new(),
            kernel: false,
            parallel: false,
            reducers: Vec::new(),
        }
    }

    pub(super) fn emit(&mut self, op: Op) -> usize {
        self.ops.push(op);
        self.origins.push(self.stmt);
        self.ops.len() - 1
    }

    /// A register for a value of this statement.
    pub(super) fn temporary(&mut self) -> Reg {
        let reg = self.next;
        self.next += 1;
        self.registers = self.registers.max(self.next);
        reg
    }

    /// A register until the end of the scope.
    pub(super) fn lasting(&mut self) -> Reg {
        let reg = self.floor;
        self.floor += 1;
        self.next = self.next.max(self.floor);
        self.registers = self.registers.max(self.next);
        reg
    }

    pub(super) fn define(&mut self, var: &Var) -> Reg {
        let reg = self.lasting();
        self.define_as(var, reg);
        reg
    }

    pub(super) fn define_as(&mut self, var: &Var, reg: Reg) {
        self.vars.insert(var.clone(), reg);
        self.visible = Some(Rc::new(Visible { var: var.clone(), reg, outer: self.visible.take() }));
    }

    /// Starts a statement: its temporaries, and its place for messages.
    pub(super) fn begin(&mut self, stmt: &Stmt) {
        self.next = self.floor;
        self.memo = vec![HashMap::new()];
        self.shared.origins.push(Origin {
            stmt: Some(stmt.clone()),
            function: self.function.clone(),
            visible: self.visible.clone(),
        });
        self.stmt = self.shared.origins.len() as u32 - 1;
    }

    /// Compiles a body; its definitions end with it.
    pub(super) fn body(&mut self, stmt: &Stmt) -> Result<()> {
        let (vars, visible, views) = (self.vars.clone(), self.visible.clone(), self.views.clone());
        let (floor, allocated) = (self.floor, self.allocated.len());
        self.stmts(stmt)?;
        self.free_to(allocated);
        self.allocated.truncate(allocated);
        (self.vars, self.visible, self.views, self.floor) = (vars, visible, views, floor);
        Ok(())
    }

    /// Emits code that frees later allocations, and keeps their records.
    pub(super) fn free_to(&mut self, count: usize) {
        for position in (count..self.allocated.len()).rev() {
            self.emit(Op::Free { data: self.allocated[position] });
        }
    }

    pub(super) fn function_code(&mut self, func: &LoweredFunc) -> Result<FunctionCode> {
        let params: Vec<_> = func.params.iter().collect();
        for param in &params {
            self.define(&param.var);
        }
        // The symbols that shapes define come first, then the checks of the others.
        let mut codes = Vec::new();
        let mut checks = Vec::new();
        for param in &params {
            let var = self.vars[&param.var];
            let mut code = ParamCode { name: param.var.name().to_owned(), dtype: param.var.dtype(), var, buffer: None };
            if let Some(buffer) = &param.buffer {
                code.buffer = Some(self.param_buffer(buffer, param.output, &mut checks)?);
            }
            codes.push(code);
        }
        self.next = self.floor;
        for (given, expr, what) in checks {
            let expected = self.index(&expr)?;
            self.emit(Op::CheckArgument { given, expected, what });
        }
        let body = self.ops.len();
        let mut launch = Vec::new();
        if func.kind == FuncKind::Device {
            launch = self.device_body(func)?;
        } else {
            self.body(&func.body)?;
        }
        self.emit(Op::Return { value: None });
        Ok(FunctionCode {
            name: self.function.clone(),
            params: codes,
            ret: (func.ret.lanes() > 0).then_some(func.ret),
            ops: core::mem::take(&mut self.ops),
            origins: core::mem::take(&mut self.origins),
            registers: self.registers,
            body,
            launch,
        })
    }

    pub(super) fn param_buffer(
        &mut self,
        buffer: &Buffer,
        output: bool,
        checks: &mut Vec<(Reg, Expr, String)>,
    ) -> Result<BufferCode> {
        let name = buffer.name.to_string();
        let data = match self.vars.get(&buffer.data) {
            Some(reg) => *reg,
            None => self.define(&buffer.data),
        };
        self.views.insert(buffer.data.clone(), None);
        let mut symbol = |this: &mut Self, expr: &Expr, what: String| {
            let given = this.lasting();
            match Var::of(expr) {
                Some(var) if !this.vars.contains_key(&var) => this.define_as(&var, given),
                _ => checks.push((given, expr.clone(), what)),
            }
            given
        };
        let mut shape = Vec::new();
        for (axis, extent) in buffer.shape.iter().enumerate() {
            shape.push(symbol(self, &extent, format!("extent {axis} of `{name}`")));
        }
        let mut strides = Vec::new();
        for (axis, stride) in buffer.strides.iter().enumerate() {
            strides.push(symbol(self, &stride, format!("stride {axis} of `{name}`")));
        }
        let offset = symbol(self, &buffer.elem_offset, format!("offset of `{name}`"));
        Ok(BufferCode {
            name,
            data,
            dtype: buffer.dtype,
            alignment: buffer.data_alignment,
            output,
            shape,
            strides,
            offset,
        })
    }

    pub(super) fn set_target(&mut self, at: usize) {
        let here = self.ops.len();
        match &mut self.ops[at] {
            Op::Jump { target } | Op::JumpUnless { target, .. } | Op::Loop { target, .. } => *target = here,
            Op::Launch { end, .. } | Op::Fork { end, .. } => *end = here,
            _ => unreachable!("only jumps have targets"),
        }
    }
}
