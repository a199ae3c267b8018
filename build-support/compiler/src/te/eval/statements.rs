//! Extern operations: functions from the caller, and statements, which are run one by one.

use std::collections::HashMap;
use std::rc::Rc;

use super::sources::{Key, Source};
use super::values::{Elements, Value, binary, cast, compare};
use super::{Function, Machine, find, math};
use crate::error::{CompileError, ErrorKind, Result, fail, require};
use crate::ir::builtin::{ACCESS_PTR, CALL_PACKED, MAKE_TENSOR};
use crate::ir::{
    Buffer, CallKind, DataTypeExt, Expr, ExprNode, LogicOp, Operation, OperationNode, Stmt, StmtNode, Var, with_stack,
};

impl Machine {
    pub(super) fn evaluate_extern(&self, op: &Operation, done: &mut HashMap<Key, Rc<Source>>) -> Result<()> {
        let OperationNode::Extern { inputs, input_buffers, output_buffers, body, .. } = &**op else {
            unreachable!("asked for an extern operation");
        };
        let mut memory = Memory { machine: self, buffers: HashMap::new(), vars: HashMap::new() };
        for (tensor, buffer) in inputs.iter().zip(input_buffers.iter()) {
            memory.add(&buffer, find(done, &tensor)?.elements()?);
        }
        let outputs = op.outputs();
        for (tensor, buffer) in outputs.iter().zip(output_buffers.iter()) {
            memory.add(&buffer, Elements::zeros(tensor.dtype, &self.shape(tensor)?));
        }
        memory.run(body).map_err(|error| {
            if error.what().starts_with("evaluate: ") {
                return error;
            }
            CompileError::new(ErrorKind::Run, format!("evaluate: `{}`: {}", op.name(), error.what())).at(op.span())
        })?;
        for (tensor, buffer) in outputs.iter().zip(output_buffers.iter()) {
            let elements = memory.buffers.remove(&buffer.data);
            let elements = elements.unwrap_or_else(|| unreachable!("it was added"));
            done.insert(tensor.key(), Rc::new(Source::whole(tensor, elements)));
        }
        Ok(())
    }
}

/// Buffers and variables of statements that are being run.
struct Memory<'a> {
    machine: &'a Machine,
    buffers: HashMap<Var, Elements>,
    vars: HashMap<Var, Value>,
}

impl Memory<'_> {
    fn add(&mut self, buffer: &Buffer, elements: Elements) {
        self.buffers.insert(buffer.data.clone(), elements);
    }

    fn run(&mut self, stmt: &Stmt) -> Result<()> {
        with_stack(|| self.run_one(stmt))
    }

    fn run_one(&mut self, stmt: &Stmt) -> Result<()> {
        match &**stmt {
            StmtNode::Seq { stmts } => stmts.iter().try_for_each(|stmt| self.run(&stmt)),
            StmtNode::For { var, min, extent, body, .. } => {
                let (min, extent) = (self.value(min)?.int(), self.value(extent)?.int());
                for index in 0..extent {
                    self.vars.insert(var.clone(), Value::Int(min + index));
                    self.run(body)?;
                }
                Ok(())
            }
            StmtNode::If { condition, then_body, else_body } => {
                if self.value(condition)?.is_true() {
                    return self.run(then_body);
                }
                else_body.as_ref().map_or(Ok(()), |body| self.run(body))
            }
            StmtNode::While { condition, body } => {
                while self.value(condition)?.is_true() {
                    self.run(body)?;
                }
                Ok(())
            }
            StmtNode::Bind { var, value } => {
                let value = self.value(value)?;
                self.vars.insert(var.clone(), value);
                Ok(())
            }
            StmtNode::Alloc { buffer, .. } => {
                let extents = buffer.shape.iter().map(|extent| {
                    let extent = self.value(&extent)?.int();
                    Ok(usize::try_from(extent).unwrap_or(0))
                });
                let shape: Result<Vec<usize>> = extents.collect();
                self.buffers.insert(buffer.data.clone(), Elements::zeros(buffer.dtype, &shape?));
                Ok(())
            }
            StmtNode::Store { buffer, index, value, mask } => {
                if let Some(mask) = mask
                    && !self.value(mask)?.is_true()
                {
                    return Ok(());
                }
                let (index, value) = (self.value(index)?.int(), self.value(value)?);
                let position = self.position(buffer, index)?;
                if let Some(elements) = self.buffers.get_mut(&buffer.data) {
                    elements.set(position, value);
                }
                Ok(())
            }
            StmtNode::Attr { body, .. } => self.run(body),
            StmtNode::Assert { condition, parts, .. } => {
                let holds = self.value(condition)?.is_true();
                let message: String = parts.iter().map(|part| part.as_str().to_owned()).collect();
                require!(holds, Run, "{message}");
                Ok(())
            }
            StmtNode::Evaluate { value } => self.effect(value),
            _ => fail!(Run, "a statement that only lowered functions have"),
        }
    }

    fn position(&self, buffer: &Buffer, index: i64) -> Result<usize> {
        let count = self.buffers.get(&buffer.data).map(Elements::len);
        let Some(count) = count else { fail!(Run, "`{}` is not a buffer of the operation", buffer.name) };
        match usize::try_from(index) {
            Ok(position) if position < count => Ok(position),
            _ => fail!(Run, "element {index} of `{}`, which has {count}", buffer.name),
        }
    }

    /// Runs a call for its side effects.
    fn effect(&mut self, expr: &Expr) -> Result<()> {
        let ExprNode::Call { kind, name, args, .. } = &**expr else {
            return self.value(expr).map(|_| ());
        };
        let packed = *kind == CallKind::Builtin && name.as_str() == CALL_PACKED;
        let function = match (packed, args.get(0).as_deref()) {
            (true, Some(ExprNode::Text { value })) => value.as_str().to_owned(),
            _ => name.as_str().to_owned(),
        };
        let Some(known) = self.machine.functions.get(&function).cloned() else {
            if *kind == CallKind::Builtin && !packed {
                return self.value(expr).map(|_| ());
            }
            fail!(Run, "evaluate: `{function}` is unknown here; say what it does with `.function(\"{function}\", ..)`");
        };
        self.call(&known, &args.to_vec())
    }

    /// Calls a function with the buffers among the arguments, separated into read and written ones.
    fn call(&mut self, function: &Function, args: &[Expr]) -> Result<()> {
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for arg in args {
            let ExprNode::Call { kind: CallKind::Builtin, name, args, .. } = &**arg else { continue };
            let rw = match name.as_str() {
                ACCESS_PTR => args.get(2),
                MAKE_TENSOR => args.get(1),
                _ => continue,
            };
            let first = args.get(0);
            let Some(ExprNode::Load { buffer, .. }) = first.as_deref() else {
                fail!(Run, "a pointer that is not to a buffer");
            };
            let rw = rw.and_then(|rw| rw.as_int()).unwrap_or(3);
            if rw & 1 != 0 {
                read.push(buffer.data.clone());
            }
            if rw & 2 != 0 {
                written.push(buffer.data.clone());
            }
        }
        let fetch = |vars: &[Var], buffers: &HashMap<Var, Elements>| -> Vec<Elements> {
            vars.iter().filter_map(|var| buffers.get(var).cloned()).collect()
        };
        let inputs = fetch(&read, &self.buffers);
        let mut outputs = fetch(&written, &self.buffers);
        function(&inputs, &mut outputs)?;
        for (var, elements) in written.into_iter().zip(outputs) {
            self.buffers.insert(var, elements);
        }
        Ok(())
    }

    fn value(&self, expr: &Expr) -> Result<Value> {
        with_stack(|| self.value_of(expr))
    }

    fn value_of(&self, expr: &Expr) -> Result<Value> {
        Ok(match &**expr {
            ExprNode::Int { value, .. } => Value::Int(*value),
            ExprNode::Float { value, .. } => Value::Float(*value),
            ExprNode::Var { name, .. } => {
                let var = Var::of(expr).unwrap_or_else(|| unreachable!("it is a variable"));
                match self.vars.get(&var).or_else(|| self.machine.scalars.get(&var)) {
                    Some(value) => *value,
                    None => fail!(Run, "`{name}` has no value"),
                }
            }
            ExprNode::Cast { dtype, value } => cast(value.dtype(), *dtype, self.value(value)?),
            ExprNode::Binary { op, a, b, dtype } => binary(*op, *dtype, self.value(a)?, self.value(b)?)?,
            ExprNode::Compare { op, a, b } => compare(*op, a.dtype(), self.value(a)?, self.value(b)?),
            ExprNode::Logic { op, a, b } => {
                let (a, b) = (self.value(a)?.is_true(), self.value(b)?.is_true());
                Value::Int(i64::from(if *op == LogicOp::And { a && b } else { a || b }))
            }
            ExprNode::Not { value } => Value::Int((!self.value(value)?.is_true()).into()),
            ExprNode::Select { condition, true_value: a, false_value: b }
            | ExprNode::IfThenElse { condition, then_value: a, else_value: b } => {
                let holds = self.value(condition)?.is_true();
                self.value(if holds { a } else { b })?
            }
            ExprNode::Load { buffer, index, .. } => {
                let position = self.position(buffer, self.value(index)?.int())?;
                self.buffers[&buffer.data].get(position)
            }
            ExprNode::Call { kind: CallKind::Builtin, name, args, dtype } => {
                let from = args.get(0).map_or(*dtype, |first| first.dtype());
                let args: Result<Vec<Value>> = args.iter().map(|arg| self.value(&arg)).collect();
                math::call(name.as_str(), from, *dtype, &args?)?
            }
            _ => fail!(Run, "an expression of type {} that has no value here", expr.dtype().short_name()),
        })
    }
}
