//! Runs lowered functions in the interpreter and compares every element with the graph's own
//! values.

use std::cell::Cell;

use kernpack::{Any, Device, Module};
use kernpack_compiler::arith::Analyzer;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::verify::{Stage, verify, verify_module};
use kernpack_compiler::ir::visit::for_each_stmt;
use kernpack_compiler::ir::{
    DataType, Expr, F32, F64, IrModule, LoweredFunc, OperationNode, StmtNode, Tensor, Var, VarMap, substitute,
};
use kernpack_compiler::pass::PassContext;
use kernpack_compiler::pass::pipeline::{DEVICE, USUAL, find};
use kernpack_compiler::schedule::{Argument, Schedule, create_schedule, lower_function};
use kernpack_compiler::te::eval::{Elements, Evaluator};
use kernpack_compiler::te::operation::post_order;
use kernpack_compiler::text::print;
use kernpack_compiler::{CompileError, ErrorKind, Result, build, build_device};

/// The maximum number of operations of one run.
const MOST_STEPS: u64 = 2_000_000;

/// A graph with its inputs and sizes.
pub(crate) struct Graph {
    outputs: Vec<Tensor>,
    inputs: Vec<Tensor>,
    sizes: Vec<Var>,
    with_passes: bool,
    is_compiled: bool,
    /// The device that kernels run on.
    device: Option<Device>,
    /// The number of programs that ran on the device.
    pub(crate) launched: Cell<usize>,
}

impl Graph {
    /// Creates a graph of outputs; `sizes` are the variables in shapes.
    pub(crate) fn new<'a>(
        outputs: impl IntoIterator<Item = &'a Tensor>,
        sizes: impl IntoIterator<Item = &'a Var>,
    ) -> Self {
        kernpack_compiler::take_reported().expect("the graph is well formed");
        let outputs: Vec<Tensor> = outputs.into_iter().cloned().collect();
        let ops: Vec<_> = outputs.iter().map(|tensor| tensor.op.clone()).collect();
        let states: Vec<Tensor> = post_order(&ops)
            .iter()
            .flat_map(|op| match &**op {
                OperationNode::Scan { state, .. } => state.to_vec(),
                _ => Vec::new(),
            })
            .collect();
        let inputs = post_order(&ops)
            .into_iter()
            .filter(|op| matches!(**op, OperationNode::Placeholder { .. }))
            .map(|op| op.output(0))
            .filter(|tensor| !states.iter().any(|state| state.is(tensor)))
            .collect();
        let sizes = sizes.into_iter().cloned().collect();
        let launched = Cell::new(0);
        Self { outputs, inputs, sizes, with_passes: false, is_compiled: false, device: None, launched }
    }

    /// Enables the passes of the usual pipeline, one after the other.
    pub(crate) fn through_passes(mut self) -> Self {
        self.with_passes = true;
        self
    }

    /// Enables the passes, for a device if the schedule has threads, and otherwise compiled code at
    /// the end.
    pub(crate) fn through_everything(mut self) -> Self {
        (self.with_passes, self.is_compiled) = (true, true);
        self
    }

    /// Enables the passes for a device, and runs the kernels there.
    pub(crate) fn on_device(self, device: Device) -> Self {
        Self { device: Some(device), ..self.through_everything() }
    }

    /// Checks the graph with each of the values for all sizes.
    pub(crate) fn check_sizes(&self, what: &str, values: &[i64], make: impl Fn(&mut Schedule) -> Result<()>) {
        let sizes: Vec<Vec<i64>> = values.iter().map(|value| vec![*value; self.sizes.len()]).collect();
        self.check_lists(what, &sizes, make);
    }

    /// Checks the graph with combinations of sizes.
    pub(crate) fn check_all<const N: usize>(
        &self,
        what: &str,
        sizes: &[[i64; N]],
        make: impl Fn(&mut Schedule) -> Result<()>,
    ) {
        let sizes: Vec<Vec<i64>> = sizes.iter().map(|sizes| sizes.to_vec()).collect();
        self.check_lists(what, &sizes, make);
    }

    fn schedule(&self, make: impl Fn(&mut Schedule) -> Result<()>) -> Result<Schedule> {
        let ops: Vec<_> = self.outputs.iter().map(|tensor| tensor.op.clone()).collect();
        let mut schedule = create_schedule(&ops);
        make(&mut schedule)?;
        Ok(schedule)
    }

    fn check_lists(&self, what: &str, sizes: &[Vec<i64>], make: impl Fn(&mut Schedule) -> Result<()>) {
        if let Err(problem) = self.try_lists(sizes, make) {
            panic!("{what}: {problem}");
        }
    }

    /// Returns true if an output depends on a tensor.
    pub(crate) fn has(&self, tensor: &Tensor) -> bool {
        let ops: Vec<_> = self.outputs.iter().map(|tensor| tensor.op.clone()).collect();
        post_order(&ops).contains(&tensor.op)
    }

    /// The error of an invalid schedule.
    pub(crate) fn problem(&self, make: impl Fn(&mut Schedule) -> Result<()>) -> String {
        self.try_lists(&[], make).expect_err("the schedule is wrong")
    }

    /// The function of a schedule.
    pub(crate) fn lowered(&self, make: impl Fn(&mut Schedule) -> Result<()>) -> Result<LoweredFunc> {
        self.lower(&self.schedule(make)?)
    }

    fn lower(&self, schedule: &Schedule) -> Result<LoweredFunc> {
        let args: Vec<Argument> = self
            .inputs
            .iter()
            .chain(&self.outputs)
            .map(Argument::from)
            .chain(self.sizes.iter().map(Argument::from))
            .collect();
        lower_function(schedule, &args, "f", &PassContext::default())
    }

    /// Checks that a function computes the outputs, whatever its origin.
    pub(crate) fn check_function(&self, what: &str, func: &LoweredFunc, sizes: &[Vec<i64>]) {
        if let Err(problem) = self.compare(func, sizes) {
            panic!("{what}: {problem}");
        }
    }

    /// The first difference between the outputs of function `f` of a module and the graph's.
    pub(crate) fn check_module(&self, what: &str, module: &IrModule, sizes: &[Vec<i64>]) -> Result<(), String> {
        let problem = |error: CompileError| format!("{what}: {error}\n{}", print(module));
        let machine = Machine::of_module(module).map_err(problem)?;
        self.compare_runs(&machine.with_step_limit(MOST_STEPS), &print(module), sizes)
    }

    /// The first difference or error, as a text.
    pub(crate) fn try_lists(
        &self,
        sizes: &[Vec<i64>],
        make: impl Fn(&mut Schedule) -> Result<()>,
    ) -> Result<(), String> {
        let schedule = self.schedule(make).map_err(|error| format!("schedule: {error}"))?;
        let func = self.lower(&schedule).map_err(|error| format!("lowering: {error}"))?;
        if !self.waits_for_none(&func) {
            // Threads are ordered only after barriers are inserted.
            return self.try_device(&func, sizes);
        }
        self.compare(&func, sizes)?;
        if !self.with_passes {
            return Ok(());
        }
        if has_threads(&func) {
            return if self.is_compiled {
                self.try_device(&func, sizes)
            } else {
                self.try_passes(&func, sizes).map(drop)
            };
        }
        let after = self.try_passes(&func, sizes)?;
        if self.is_compiled { self.try_compiled(&after, sizes) } else { Ok(()) }
    }

    /// The first pass after which the function computes something else.
    fn try_passes(&self, func: &LoweredFunc, sizes: &[Vec<i64>]) -> Result<LoweredFunc, String> {
        let context = PassContext::default();
        let (mut func, mut is_vector) = (func.clone(), false);
        for name in USUAL {
            let run = || -> Result<LoweredFunc> {
                let after = find(name)?.call((func.clone(), &context))?;
                Ok(after.to::<LoweredFunc>()?)
            };
            func = run().map_err(|error| format!("{name}: {error}\n{}", print(&func)))?;
            // Selects of vectors read lanes that they do not select, until the last pass masks
            // them.
            is_vector |= *name == "VectorizeLoop";
            if is_vector && Some(name) != USUAL.last() {
                continue;
            }
            self.compare(&func, sizes).map_err(|error| format!("after {name}: {error}"))?;
        }
        Ok(func)
    }

    /// The first pass for a device after which the program computes something else.
    fn try_device(&self, func: &LoweredFunc, sizes: &[Vec<i64>]) -> Result<(), String> {
        let context = PassContext::default();
        let mut program = Any::from(func.clone());
        let (mut is_sound, mut is_device) = (true, true);
        for name in DEVICE {
            let text = |program: &Any| program.to::<LoweredFunc>().map(|func| print(&func)).unwrap_or_default();
            let run = || -> Result<Any> { Ok(find(name)?.call((&program, &context))?) };
            if *name == "VerifyMemory" {
                // Random schedules leave stages on the host. In the interpreter both have one
                // memory.
                is_device = run().is_ok();
                continue;
            }
            program = run().map_err(|error| format!("{name}: {error}\n{}", text(&program)))?;
            let module = match program.to::<LoweredFunc>() {
                Ok(function) => IrModule::new([function]),
                Err(_) => program.to().map_err(|error: kernpack::Error| error.to_string())?,
            };
            verify_module(&module, Stage::Flat).map_err(|error| format!("after {name}: {error}"))?;
            // Selects of vectors read too much until they are masked; threads are ordered only
            // after barriers are inserted.
            is_sound &= *name != "VectorizeLoop";
            is_sound |= *name == "ThreadSync";
            let ends = DEVICE.last() == Some(name);
            let waits = self.waits_for_none(func);
            let is_checked = is_sound && waits || *name == "ThreadSync" || program.to::<IrModule>().is_ok();
            // A run on a device follows one of the interpreter, which finds races.
            if is_checked && (self.device.is_none() || ends) {
                self.check_module(&format!("after {name}"), &module, sizes)?;
            }
        }
        match (self.device, program.to::<IrModule>()) {
            (Some(device), Ok(module)) if is_device => self.try_opencl(&module, device, sizes),
            _ => Ok(()),
        }
    }

    /// The first difference of the results of kernels on a device.
    fn try_opencl(&self, module: &IrModule, device: Device, sizes: &[Vec<i64>]) -> Result<(), String> {
        let target = Target::parse("opencl").map_err(|error| error.to_string())?;
        let built = match build_device(module, &target) {
            Ok(built) => built,
            // What OpenCL C does not have.
            Err(error) if error.kind() == ErrorKind::Target => return Ok(()),
            Err(error) => return Err(format!("opencl: {error}\n{}", print(module))),
        };
        let code = built.imports()[0].inspect_source("cl").unwrap_or_default();
        let what = |sizes: &[i64]| format!("opencl, sizes {sizes:?}\n{code}\n{}", print(module));
        self.compare_calls(&built, device, sizes, what)?;
        self.launched.set(self.launched.get() + 1);
        Ok(())
    }

    /// Returns true if no memory is shared between threads.
    fn waits_for_none(&self, func: &LoweredFunc) -> bool {
        let mut shared = false;
        for_each_stmt(&func.body, |stmt| {
            shared |= matches!(&**stmt, StmtNode::Alloc { buffer, .. } if buffer.scope.as_str() == "shared");
        });
        !shared
    }

    /// The first difference of the results of compiled code.
    fn try_compiled(&self, func: &LoweredFunc, sizes: &[Vec<i64>]) -> Result<(), String> {
        let module = build(func, &Target::host()).map_err(|error| format!("compiled: {error}\n{}", print(func)))?;
        self.compare_calls(&module, Device::CPU, sizes, |sizes| format!("compiled, sizes {sizes:?}\n{}", print(func)))
    }

    /// The first difference of the results of function `f` of a module, whose tensors are on a
    /// device.
    fn compare_calls(
        &self,
        module: &Module,
        device: Device,
        sizes: &[Vec<i64>],
        what: impl Fn(&[i64]) -> String,
    ) -> Result<(), String> {
        let function = module.function("f").map_err(|error| error.to_string())?;
        for sizes in sizes {
            let problem = |error: String| format!("{error}\n{}", what(sizes));
            let there = |tensor: kernpack::Tensor| tensor.to(device).expect("a copy");
            let mut args: Vec<Any> = Vec::new();
            for (number, tensor) in self.inputs.iter().enumerate() {
                let shape = self.shape(tensor, sizes);
                let values = numbers(number as u64, shape.iter().product());
                args.push(there(tensor_of(tensor.dtype, &values, &shape)).into());
            }
            let mut outputs = Vec::new();
            for tensor in &self.outputs {
                let shape = self.shape(tensor, sizes);
                let count = shape.iter().product::<i64>();
                let output = there(tensor_of(tensor.dtype, &numbers(99, count), &shape));
                args.push(output.clone().into());
                outputs.push(output);
            }
            args.extend(sizes.iter().map(|size| Any::from(*size)));
            function.call(&args[..]).map_err(|error| problem(error.to_string()))?;
            let wanted = self.evaluate(sizes).map_err(problem)?;
            for ((tensor, found), wanted) in self.outputs.iter().zip(&outputs).zip(&wanted) {
                let found = elements_of(tensor.dtype, &found.to(Device::CPU).expect("a copy"));
                let differs = |(a, b): (&f64, &f64)| a != b && !(a.is_nan() && b.is_nan());
                if let Some(element) = found.iter().zip(wanted).position(differs) {
                    let (found, wanted) = (found[element], wanted[element]);
                    return Err(problem(format!("element {element} of `{}` is {found}, not {wanted}", tensor.name())));
                }
            }
        }
        Ok(())
    }

    fn compare(&self, func: &LoweredFunc, sizes: &[Vec<i64>]) -> Result<(), String> {
        verify(func, Stage::Flat).map_err(|error| format!("lowered: {error}\n{}", print(func)))?;
        let machine = Machine::new(func).map_err(|error| format!("lowered: {error}\n{}", print(func)))?;
        self.compare_runs(&machine.with_step_limit(MOST_STEPS), &print(func), sizes)
    }

    fn compare_runs(&self, machine: &Machine, text: &str, sizes: &[Vec<i64>]) -> Result<(), String> {
        for sizes in sizes {
            let problem = |error: String| format!("sizes {sizes:?}: {error}\n{text}");
            let found = self.run(machine, sizes).map_err(problem)?;
            let wanted = self.evaluate(sizes).map_err(problem)?;
            for ((tensor, found), wanted) in self.outputs.iter().zip(&found).zip(&wanted) {
                let differs = |(a, b): (&f64, &f64)| a != b && !(a.is_nan() && b.is_nan());
                if let Some(element) = found.iter().zip(wanted).position(differs) {
                    let (found, wanted) = (found[element], wanted[element]);
                    return Err(problem(format!("element {element} of `{}` is {found}, not {wanted}", tensor.name())));
                }
            }
        }
        Ok(())
    }

    fn shape(&self, tensor: &Tensor, sizes: &[i64]) -> Vec<i64> {
        let values: VarMap = self.sizes.iter().cloned().zip(sizes.iter().map(|size| Expr::int(*size))).collect();
        let analyzer = Analyzer::new();
        let extents = tensor.shape.iter().map(|extent| analyzer.simplify(&substitute(&extent, &values)));
        extents.map(|extent| extent.as_int().expect("a size is missing").max(0)).collect()
    }

    fn run(&self, machine: &Machine, sizes: &[i64]) -> Result<Vec<Vec<f64>>, String> {
        let mut args: Vec<Arg> = Vec::new();
        for (number, tensor) in self.inputs.iter().enumerate() {
            let shape = self.shape(tensor, sizes);
            let values = numbers(number as u64, shape.iter().product());
            args.push((&Block::from_f64(tensor.dtype, &shape, &values)).into());
        }
        let mut outputs = Vec::new();
        for tensor in &self.outputs {
            let block = Block::uninit(tensor.dtype, &self.shape(tensor, sizes));
            args.push((&block).into());
            outputs.push(block);
        }
        args.extend(sizes.iter().map(|size| Arg::from(*size)));
        machine.run("f", &args).map_err(|error| error.to_string())?;
        let values = outputs.iter().map(|block| block.to_f64().map_err(|error| error.to_string()));
        values.collect()
    }

    fn evaluate(&self, sizes: &[i64]) -> Result<Vec<Vec<f64>>, String> {
        let mut evaluator = Evaluator::new();
        for (var, size) in self.sizes.iter().zip(sizes) {
            evaluator = evaluator.scalar(var, *size as f64);
        }
        for (number, tensor) in self.inputs.iter().enumerate() {
            let shape: Vec<usize> = self.shape(tensor, sizes).into_iter().map(|extent| extent as usize).collect();
            let mut values = numbers(number as u64, shape.iter().product::<usize>() as i64).into_iter();
            let elements = Elements::from_fn(tensor.dtype, &shape, |_| values.next().expect("as many as elements"));
            evaluator = evaluator.input(tensor, elements);
        }
        let results = evaluator.run(&self.outputs).map_err(|error| format!("evaluator: {error}"))?;
        Ok(results.iter().map(Elements::to_f64).collect())
    }
}

fn has_threads(func: &LoweredFunc) -> bool {
    let mut found = false;
    for_each_stmt(&func.body, |stmt| {
        found |= matches!(&**stmt, StmtNode::Attr { key, .. } if key.as_str() == "thread_extent");
    });
    found
}

fn tensor_of(dtype: DataType, values: &[f64], shape: &[i64]) -> kernpack::Tensor {
    let tensor = match dtype {
        F64 => kernpack::Tensor::from_slice(values, shape),
        F32 => kernpack::Tensor::from_slice(&values.iter().map(|value| *value as f32).collect::<Vec<_>>(), shape),
        _ => kernpack::Tensor::from_slice(&values.iter().map(|value| *value as i32).collect::<Vec<_>>(), shape),
    };
    tensor.expect("a tensor")
}

fn elements_of(dtype: DataType, tensor: &kernpack::Tensor) -> Vec<f64> {
    match dtype {
        F64 => tensor.view::<f64>().expect("of this type").to_vec(),
        F32 => tensor.view::<f32>().expect("of this type").to_vec().into_iter().map(f64::from).collect(),
        _ => tensor.view::<i32>().expect("of this type").to_vec().into_iter().map(f64::from).collect(),
    }
}

/// Small integers, the same ones each time.
pub(crate) fn numbers(seed: u64, count: i64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    let next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % 7) as f64 - 3.0
    };
    std::iter::repeat_with(next).take(count as usize).collect()
}
