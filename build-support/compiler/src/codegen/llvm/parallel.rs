//! Parallel loops: the body becomes a function for one task's part of the iterations, which the
//! runtime's thread pool calls for each task. Also the compute scope: a body as a separate
//! function, whose pointers do not alias.

use inkwell::IntPredicate;
use inkwell::module::Linkage;
use inkwell::types::BasicType;
use inkwell::values::{BasicValue, FunctionValue, IntValue, PointerValue};
use kernpack::{Any, Str};

use super::CodeGenLLVM;
use super::control::LoopHints;
use super::emit::Value;
use super::runtime::Runtime;
use super::state::{Convention, State, Task};
use crate::error::{Result, fail};
use crate::ir::visit::{Visit, walk_expr, walk_stmt};
use crate::ir::{Expr, ExprNode, Stmt, StmtNode, Var};

/// Collects the variables that a body uses, in order.
#[derive(Default)]
struct Used(Vec<Var>, std::collections::HashSet<Var>);

impl Used {
    fn add(&mut self, var: &Var) {
        if self.1.insert(var.clone()) {
            self.0.push(var.clone());
        }
    }
}

impl Visit for Used {
    fn visit_expr(&mut self, expr: &Expr) {
        match &**expr {
            ExprNode::Var { .. } => {
                if let Some(var) = Var::of(expr) {
                    self.add(&var);
                }
            }
            ExprNode::Load { buffer, .. } => self.add(&buffer.data),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let StmtNode::Store { buffer, .. } = &**stmt {
            self.add(&buffer.data);
        }
        walk_stmt(self, stmt);
    }
}

impl<'ctx> CodeGenLLVM<'ctx, '_> {
    /// The variables of the current function that some expressions and a body use, with their
    /// values.
    fn captured(&self, exprs: &[&Expr], body: &Stmt) -> Vec<(Var, Value<'ctx>)> {
        let mut used = Used::default();
        exprs.iter().for_each(|expr| used.visit_expr(expr));
        used.visit_stmt(body);
        used.0.into_iter().filter_map(|var| Some((var.clone(), *self.state.vars.get(&var)?))).collect()
    }

    /// Starts a function that belongs to the current one; returns the state of the outer one.
    fn begin_inner(&mut self, function: FunctionValue<'ctx>, name: &str) -> Result<State<'ctx>> {
        let inner = State {
            modular: self.state.modular.clone(),
            regions: self.state.regions.clone(),
            index_facts: self.state.index_facts.clone(),
            pointers: self.state.pointers.clone(),
            fast_math: self.state.fast_math,
            noalias: self.state.noalias,
            argument_alignment: self.state.argument_alignment,
            ..State::default()
        };
        let outer = core::mem::replace(&mut self.state, inner);
        self.begin_function(function, name, Convention::Status, outer.line)?;
        Ok(outer)
    }

    /// Emits a body as a separate function, whose parameters are the values that it uses.
    pub(super) fn compute_scope(&mut self, name: &Any, body: &Stmt) -> Result<()> {
        let captured = self.captured(&[], body);
        let name = match name.to::<Str>() {
            Ok(name) => name.as_str().to_owned(),
            Err(_) => format!("{}_compute_", self.state.name),
        };
        let mut params = Vec::new();
        for (_, value) in &captured {
            params.push(value.get_type().into());
        }
        let ty = self.context.i32_type().fn_type(&params, false);
        let function = self.module.add_function(&name, ty, Some(Linkage::Internal));
        for (position, (var, value)) in captured.iter().enumerate() {
            if value.is_pointer_value() {
                self.set_pointer_attributes(function, position as u32, var);
            }
        }
        let here = self.current_block()?;
        let outer = self.begin_inner(function, &name)?;
        for ((var, _), value) in captured.iter().zip(function.get_param_iter()) {
            value.set_name(var.name());
            self.state.vars.insert(var.clone(), value);
        }
        self.body(body)?;
        self.end_function()?;
        self.state = outer;
        self.builder.position_at_end(here);
        self.mark_line();
        let args: Vec<_> = captured.iter().map(|(_, value)| (*value).into()).collect();
        let call = self.builder.build_direct_call(function, &args, "")?;
        match call.try_as_basic_value().basic() {
            Some(status) => self.check_status(status),
            None => fail!(Internal, "a compute scope without a status"),
        }
    }

    /// Emits a parallel loop. `is_strided`: with `n` tasks, each one runs every `n`-th iteration.
    pub(super) fn parallel_for(
        &mut self,
        var: &Var,
        (min, extent): (&Expr, &Expr),
        is_strided: bool,
        hints: LoopHints,
        body: &Stmt,
    ) -> Result<()> {
        let strided = |task: Task<'ctx>| Task { is_strided: task.is_strided || is_strided, ..task };
        match self.state.task {
            // Inside of a launch point, this loop is the one that is split.
            Some(task) if task.is_open => self.task_loop(strided(task), var, min, extent, hints, body),
            // Inside of a task, there are no further threads.
            Some(_) => {
                let (begin, end) = self.bounds(min, extent)?;
                let step = begin.get_type().const_int(1, false);
                self.for_range(var, (begin, end, step), hints, |this| this.body(body))
            }
            None => {
                let (begin, end) = self.bounds(min, extent)?;
                let mut count = self.builder.build_int_sub(end, begin, "")?;
                if let Some(is_small) = self.has_little_work(extent, body)? {
                    let one = count.get_type().const_int(1, false);
                    let is_small = self.value(&is_small)?;
                    let Value::IntValue(chosen) = self.select(is_small, one.into(), count.into())? else {
                        fail!(Internal, "a number of iterations that is not an integer")
                    };
                    count = chosen;
                }
                let captured = self.captured(&[min, extent], body);
                let lambda =
                    self.lambda(&captured, |this, task| this.task_loop(strided(task), var, min, extent, hints, body))?;
                self.launch(lambda, &captured, Some(count))
            }
        }
    }

    /// Emits a body that all tasks run; parallel loops in it are split among them.
    pub(super) fn launch_point(&mut self, body: &Stmt) -> Result<()> {
        if self.state.task.is_some() {
            return self.body(body);
        }
        let captured = self.captured(&[], body);
        let lambda = self.lambda(&captured, |this, task| {
            this.state.task = Some(Task { is_open: true, ..task });
            this.body(body)
        })?;
        self.launch(lambda, &captured, None)
    }

    /// Waits for the other tasks.
    pub(super) fn barrier(&mut self) -> Result<()> {
        let Some(task) = self.state.task else { return Ok(()) };
        let status = self.call_runtime(Runtime::ParallelBarrier, &[task.id.into(), task.environment.into()])?;
        self.check_status(status)
    }

    /// Emits the iterations of one task.
    fn task_loop(
        &mut self,
        task: Task<'ctx>,
        var: &Var,
        min: &Expr,
        extent: &Expr,
        hints: LoopHints,
        body: &Stmt,
    ) -> Result<()> {
        let (begin, end) = self.bounds(min, extent)?;
        let ty = begin.get_type();
        let (id, count) = (
            self.builder.build_int_cast_sign_flag(task.id, ty, true, "")?,
            self.builder.build_int_cast_sign_flag(task.count, ty, true, "")?,
        );
        let one = ty.const_int(1, false);
        let (from, to, step) = if task.is_strided {
            (self.builder.build_int_nsw_add(begin, id, "")?, end, count)
        } else {
            let builder = &self.builder;
            let total = builder.build_int_nsw_sub(end, begin, "")?;
            let rounded = builder.build_int_nsw_add(total, builder.build_int_nsw_sub(count, one, "")?, "")?;
            let part = builder.build_int_signed_div(rounded, count, "")?;
            let least = |a: IntValue<'ctx>| -> Result<IntValue<'ctx>> {
                let less = builder.build_int_compare(IntPredicate::SLT, a, total, "")?;
                Ok(builder.build_select(less, a, total, "")?.into_int_value())
            };
            let first = least(builder.build_int_nsw_mul(id, part, "")?)?;
            let following = builder.build_int_nsw_add(id, one, "")?;
            let last = least(builder.build_int_nsw_mul(following, part, "")?)?;
            (builder.build_int_nsw_add(begin, first, "")?, builder.build_int_nsw_add(begin, last, "")?, one)
        };
        let outer = self.state.task.replace(Task { is_open: false, is_strided: false, ..task });
        self.for_range(var, (from, to, step), hints, |this| this.body(body))?;
        self.state.task = outer;
        Ok(())
    }

    /// `i32 lambda(i32 task_id, ptr environment, ptr data)`, where `data` contains the captured
    /// values.
    fn lambda(
        &mut self,
        captured: &[(Var, Value<'ctx>)],
        write: impl FnOnce(&mut Self, Task<'ctx>) -> Result<()>,
    ) -> Result<FunctionValue<'ctx>> {
        let (pointer, int) = (self.pointer_type(), self.context.i32_type());
        let ty = int.fn_type(&[int.into(), pointer.into(), pointer.into()], false);
        let name = format!("__tvm_parallel_lambda.{}", self.state.name);
        let function = self.module.add_function(&name, ty, Some(Linkage::Private));
        let here = self.current_block()?;
        let name = self.state.name.clone();
        let outer = self.begin_inner(function, &name)?;
        let params = function.get_params();
        let [Value::IntValue(id), Value::PointerValue(environment), Value::PointerValue(data)] = params[..] else {
            fail!(Internal, "the parameters of a parallel task")
        };
        let fields: Vec<_> = captured.iter().map(|(_, value)| value.get_type()).collect();
        let structure = self.context.struct_type(&fields, false);
        for (index, (var, _)) in captured.iter().enumerate() {
            let place = self.builder.build_struct_gep(structure, data, index as u32, "")?;
            let value = self.builder.build_load(fields[index], place, var.name())?;
            if let Some(load) = super::emit::instruction(value) {
                let nothing = self.context.metadata_node(&[]);
                let _ = load.set_metadata(nothing, self.context.get_kind_id("invariant.load"));
                if value.is_pointer_value() {
                    self.annotate_pointer(load, var);
                }
            }
            self.state.vars.insert(var.clone(), value);
        }
        let task = self.task(id, environment)?;
        write(self, task)?;
        self.end_function()?;
        self.state = outer;
        self.builder.position_at_end(here);
        self.mark_line();
        Ok(function)
    }

    /// The task with this number; its environment contains the number of tasks.
    fn task(&self, id: IntValue<'ctx>, environment: PointerValue<'ctx>) -> Result<Task<'ctx>> {
        let count = self.bytes_behind(environment, 8)?;
        let count = self.builder.build_load(self.context.i32_type(), count, "num_task")?.into_int_value();
        Ok(Task { id, count, environment, is_strided: false, is_open: false })
    }

    /// Sets the task at the start of a function that all tasks of a launch call: its last two
    /// parameters identify the task.
    pub(super) fn begin_task(&mut self, function: FunctionValue<'ctx>) -> Result<()> {
        let params = function.get_params();
        let [.., Value::IntValue(id), Value::PointerValue(environment)] = params[..] else {
            fail!(Internal, "the parameters of a function that tasks call")
        };
        self.state.task = Some(Task { is_open: true, ..self.task(id, environment)? });
        Ok(())
    }

    /// Annotates a loaded pointer with the facts that are attributes of a parameter elsewhere.
    fn annotate_pointer(&self, load: inkwell::values::InstructionValue<'ctx>, var: &Var) {
        let Some(facts) = self.state.pointers.get(var) else { return };
        let number = |value: u64| self.context.metadata_node(&[self.context.i64_type().const_int(value, false).into()]);
        let set = |kind: &str, node| {
            let _ = load.set_metadata(node, self.context.get_kind_id(kind));
        };
        if facts.align > 1 {
            set("align", number(facts.align));
        }
        if facts.bytes > 0 {
            set("dereferenceable", number(facts.bytes));
            set("nonnull", self.context.metadata_node(&[]));
        }
    }

    /// Runs a task function: in the thread pool, or directly if `count`, the number of iterations
    /// or of tasks that are worth it, is 0 or 1.
    fn launch(
        &mut self,
        lambda: FunctionValue<'ctx>,
        captured: &[(Var, Value<'ctx>)],
        count: Option<IntValue<'ctx>>,
    ) -> Result<()> {
        let int = self.context.i32_type();
        let fields: Vec<_> = captured.iter().map(|(_, value)| value.get_type()).collect();
        let structure = self.context.struct_type(&fields, false);
        let data = self.stack_array(structure.into(), 1, 16, "data")?;
        for (index, (_, value)) in captured.iter().enumerate() {
            let place = self.builder.build_struct_gep(structure, data, index as u32, "")?;
            self.builder.build_store(place, *value)?;
        }
        let address = lambda.as_global_value().as_pointer_value();
        let zero: Value<'ctx> = int.const_zero().into();
        let Some(count) = count else {
            let status = self.call_runtime(Runtime::ParallelLaunch, &[address.into(), data.into(), zero])?;
            return self.check_status(status);
        };
        let (alone, pool, after) = (self.new_block("alone"), self.new_block("pool"), self.new_block("launched"));
        let one = count.get_type().const_int(1, false);
        let is_small = self.builder.build_int_compare(IntPredicate::SLE, count, one, "")?;
        self.builder.build_conditional_branch(is_small, alone, pool)?;
        self.builder.position_at_end(alone);
        let environment = self.context.struct_type(&[self.pointer_type().into(), int.into()], false);
        let place = self.stack_array(environment.as_basic_type_enum(), 1, 8, "environment")?;
        self.builder.build_store(place, self.pointer_type().const_null())?;
        let number = self.bytes_behind(place, 8)?;
        self.builder.build_store(number, int.const_int(1, false))?;
        let call = self.builder.build_direct_call(lambda, &[zero.into(), place.into(), data.into()], "")?;
        let Some(first) = call.try_as_basic_value().basic() else { fail!(Internal, "a task without a status") };
        let from_alone = self.jump(after)?;
        self.builder.position_at_end(pool);
        let second = self.call_runtime(Runtime::ParallelLaunch, &[address.into(), data.into(), zero])?;
        let from_pool = self.jump(after)?;
        self.builder.position_at_end(after);
        let phi = self.builder.build_phi(int, "")?;
        phi.add_incoming(&[(&first as &dyn BasicValue<'ctx>, from_alone), (&second, from_pool)]);
        self.check_status(phi.as_basic_value())
    }
}
