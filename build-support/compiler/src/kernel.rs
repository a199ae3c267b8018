//! A kernel as a user writes it: inputs, outputs, the computation, and its schedule.

mod devices;

use core::panic::Location;
use std::collections::HashSet;
use std::sync::Arc;

use kernpack::DataType;

use crate::error::{CompileError, ErrorKind, Result, place, report, take_reported, with_reported};
use crate::ir::{LoweredFunc, Operation, OperationNode, Tensor, Var};
use crate::pass::{PassContext, Program, pipeline};
use crate::rules::{self, Outcome, TargetDescription};
use crate::schedule::{Argument, Schedule, StageId, create_schedule, lower_checked, named_buffer};
use crate::te::in_bounds::{self, Checks};
use crate::te::{self, Exprs};

/// A schedule from the user.
type UserSchedule = Arc<dyn Fn(&mut Schedule, &TargetDescription) -> Result<()> + Send + Sync>;

/// A parameter of a kernel.
#[derive(Clone)]
pub struct KernelParam {
    /// The name of the argument.
    pub name: String,
    /// The kind of the argument.
    pub kind: KernelParamKind,
}

/// The kind of an argument.
#[derive(Clone)]
pub enum KernelParamKind {
    /// A tensor that is read.
    Input(Tensor),
    /// A tensor that is written.
    Output(Tensor),
    /// A scalar.
    Scalar(Var),
}

/// A builder of a kernel's computation, created by `Library::te` of kernpack-build, or by
/// [`Kernel::new`].
///
/// ```
/// use kernpack_compiler::ir::F32;
/// use kernpack_compiler::te::compute;
/// use kernpack_compiler::{Kernel, PassContext, TargetDescription};
///
/// let mut k = Kernel::new("scale");
/// let n = k.size("n");
/// let x = k.input("x", [&n], F32);
/// let by = k.scalar("by", F32);
/// k.output("y", compute([&n], |[i]| x.at([&i]) * &by));
/// let function = k.lower(&TargetDescription::x86_64_v3(), &PassContext::default()).unwrap();
/// assert_eq!(function.name, "scale");
/// assert_eq!(function.params.len(), 3);
/// ```
#[derive(Clone)]
pub struct Kernel {
    name: String,
    doc: String,
    place: String,
    params: Vec<KernelParam>,
    schedule: Option<UserSchedule>,
    /// The schedules for other devices, by kind.
    device_schedules: Vec<(String, UserSchedule)>,
    /// The kinds of devices to compile for, if they are not those of all kernels.
    devices: Option<Vec<String>>,
    rules: Vec<UserRule>,
    /// True if reads are known to be in bounds.
    trusted: bool,
}

/// A rule from the user: place, name, function.
type UserRule = (String, String, kernpack::Function);

impl Kernel {
    /// Creates a kernel without arguments.
    #[track_caller]
    pub fn new(name: &str) -> Self {
        let place = place(Location::caller());
        Self {
            name: name.to_owned(),
            doc: String::new(),
            place,
            params: Vec::new(),
            schedule: None,
            device_schedules: Vec::new(),
            devices: None,
            rules: Vec::new(),
            trusted: false,
        }
    }

    /// Sets the documentation, which is available in every language.
    pub fn doc(&mut self, text: &str) -> &mut Self {
        text.clone_into(&mut self.doc);
        self
    }

    /// Declares a size of argument shapes: its value comes from the first argument that has it, and
    /// the other arguments are compared with it.
    pub fn size(&mut self, name: &str) -> Var {
        te::size(name)
    }

    /// Declares a size as an argument, after those declared before it: for sizes that no argument's
    /// shape has by itself, and functions whose tensors are addresses.
    #[doc(hidden)]
    #[track_caller]
    pub fn size_argument(&mut self, size: &Var) {
        self.add(size.name(), KernelParamKind::Scalar(size.clone()));
    }

    /// Declares a tensor that the kernel reads.
    #[track_caller]
    pub fn input(&mut self, name: &str, shape: impl Exprs, dtype: DataType) -> Tensor {
        let tensor = te::placeholder(shape, dtype, name);
        self.add(name, KernelParamKind::Input(tensor.clone()));
        tensor
    }

    /// Declares a scalar argument.
    #[track_caller]
    pub fn scalar(&mut self, name: &str, dtype: DataType) -> Var {
        let var = te::var(name, dtype);
        self.add(name, KernelParamKind::Scalar(var.clone()));
        var
    }

    /// Declares a tensor that the kernel writes. Its memory belongs to the caller and must not
    /// overlap that of other arguments.
    #[track_caller]
    pub fn output(&mut self, name: &str, tensor: Tensor) {
        if matches!(*tensor.op, OperationNode::Placeholder { .. }) {
            report(
                CompileError::new(ErrorKind::Type, format!("output `{name}` of kernel `{}` is an input", self.name))
                    .at(place(Location::caller()))
                    .note("an output is computed: to copy an input, compute `a.at([&i])` for each element"),
            );
        }
        self.add(name, KernelParamKind::Output(tensor));
    }

    /// Sets the schedule of the kernel, which replaces the rules. The closure is called for each
    /// CPU level for which the kernel is compiled.
    pub fn schedule<F>(&mut self, schedule: F)
    where
        F: Fn(&mut Schedule, &TargetDescription) -> Result<()> + Send + Sync + 'static,
    {
        self.schedule = Some(Arc::new(schedule));
    }

    /// Adds a user-defined rule for CPUs, which is tried on each stage of this kernel at its place
    /// among the others: `first`, `last`, `before:NAME`, `after:NAME` or `instead:NAME`. A schedule
    /// from the user overrides all rules. For packed functions of other languages, see
    /// [`Self::packed_rule`].
    ///
    /// ```
    /// use kernpack_compiler::rules::Outcome;
    ///
    /// let mut k = kernpack_compiler::Kernel::new("scale");
    /// k.rule("before:elementwise", "serial", |schedule, stage, _target| {
    ///     let Some(last) = schedule[stage].leaves.last().cloned() else {
    ///         return Ok(Outcome::Declined("it has no loop".into()));
    ///     };
    ///     schedule.stage(stage).vectorize(&last)?;
    ///     Ok(Outcome::Applied)
    /// });
    /// ```
    pub fn rule<F>(&mut self, place: &str, name: &str, rule: F)
    where
        F: Fn(&mut Schedule, StageId, &TargetDescription) -> Result<Outcome> + Send + Sync + 'static,
    {
        self.packed_rule(place, name, &rules::function(rule));
    }

    /// Like [`Self::rule`], with a packed function `(schedule, stage, target)` that returns
    /// nothing, or the reason why the rule does not match.
    pub fn packed_rule(&mut self, place: &str, name: &str, rule: &kernpack::Function) {
        self.rules.push((place.to_owned(), name.to_owned(), rule.clone()));
    }

    /// Omits the checks of reads: the code that created the kernel guarantees that they are in
    /// bounds.
    #[doc(hidden)]
    pub fn trust_reads(&mut self) {
        self.trusted = true;
    }

    #[track_caller]
    fn add(&mut self, name: &str, kind: KernelParamKind) {
        if self.params.iter().any(|param| param.name == name) {
            report(
                CompileError::new(ErrorKind::Type, format!("kernel `{}` has two arguments `{name}`", self.name))
                    .at(place(Location::caller())),
            );
        }
        self.params.push(KernelParam { name: name.to_owned(), kind });
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The documentation.
    pub fn documentation(&self) -> &str {
        &self.doc
    }

    /// The place where the user created it.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The parameters, in order.
    pub fn params(&self) -> &[KernelParam] {
        &self.params
    }

    /// Checks that no mistakes were reported while the kernel was built, and that it has outputs.
    ///
    /// # Errors
    /// Returns these mistakes as an error.
    pub fn check(&self) -> Result<()> {
        take_reported()?;
        if !self.params.iter().any(|param| matches!(param.kind, KernelParamKind::Output(_))) {
            return Err(CompileError::new(ErrorKind::Type, format!("kernel `{}` has no output", self.name))
                .at(&self.place)
                .note("name what is computed: `k.output(\"out\", tensor)`"));
        }
        Ok(())
    }

    /// Returns the schedule for a target: the user's, or that of the rules. The reasons of rules
    /// that declined are recorded in the context.
    ///
    /// # Errors
    /// Returns the errors of the user's schedule.
    pub fn scheduled(&self, target: &TargetDescription, context: &PassContext) -> Result<Schedule> {
        let outputs: Vec<Operation> = self
            .params
            .iter()
            .filter_map(|param| match &param.kind {
                KernelParamKind::Output(tensor) => Some(tensor.op.clone()),
                _ => None,
            })
            .collect();
        let mut schedule = create_schedule(&outputs);
        with_reported(|| {
            let Some(user) = self.user_schedule(target) else {
                return self.schedule_by_rules(&mut schedule, target, context);
            };
            user(&mut schedule, target)
        })?;
        Ok(schedule)
    }

    fn schedule_by_rules(
        &self,
        schedule: &mut Schedule,
        target: &TargetDescription,
        context: &PassContext,
    ) -> Result<()> {
        let mut list = rules::of_target(context, target);
        for (place, name, rule) in self.rules.iter().filter(|_| target.is_cpu()) {
            list = rules::insert(&list, place, name, rule).map_err(|error| error.at(&self.place))?;
        }
        rules::schedule_by(schedule, &list, target, context)
    }

    /// The checks for its reads.
    fn checks(&self, target: &TargetDescription) -> Result<Checks> {
        if self.trusted {
            return Ok(Checks::default());
        }
        let (mut outputs, mut known) = (Vec::new(), HashSet::new());
        for param in &self.params {
            match &param.kind {
                KernelParamKind::Scalar(var) => drop(known.insert(var.clone())),
                KernelParamKind::Input(tensor) | KernelParamKind::Output(tensor) => {
                    known.extend(tensor.shape.iter().filter_map(|extent| Var::of(&extent)));
                }
            }
            if let KernelParamKind::Output(tensor) = &param.kind {
                outputs.push(tensor.clone());
            }
        }
        let checks = in_bounds::check(&self.name, &outputs, &known)?;
        Ok(Checks { on_device: !target.is_cpu(), ..checks })
    }

    /// Lowers the kernel to loops for a target, with all passes that do not depend on the code
    /// generator.
    ///
    /// Reads of tensors are proved to be in bounds. Where this depends on sizes, the sizes are
    /// checked when the kernel is called; data-dependent reads are checked one by one.
    ///
    /// # Errors
    /// Returns an error for mistakes in the kernel and its schedule, with their places, and for
    /// reads that are certainly out of bounds.
    pub fn lower(&self, target: &TargetDescription, context: &PassContext) -> Result<LoweredFunc> {
        match self.lower_program(target, context)? {
            Program::Function(function) => Ok(function),
            Program::Module(_) => {
                let what = format!("kernel `{}`: the passes gave kernpack.ir.IrModule", self.name);
                Err(CompileError::new(ErrorKind::Lower, what)
                    .at(&self.place)
                    .note("the pipeline of a kernel returns one kernpack.ir.LoweredFunc"))
            }
        }
    }

    /// Like [`Self::lower`], for a pipeline that may split the kernel into a function of the host
    /// and kernels of a device, such as [`pipeline::DEVICE`].
    ///
    /// # Errors
    /// Returns the errors of [`Self::lower`].
    pub fn lower_program(&self, target: &TargetDescription, context: &PassContext) -> Result<Program> {
        self.check()?;
        let checks = self.checks(target)?;
        let schedule = self.scheduled(target, context)?;
        let arguments: Vec<Argument> = self
            .params
            .iter()
            .map(|param| match &param.kind {
                KernelParamKind::Input(tensor) | KernelParamKind::Output(tensor) => {
                    Argument::Buffer(tensor.clone(), named_buffer(tensor, &param.name))
                }
                KernelParamKind::Scalar(var) => Argument::Var(var.clone()),
            })
            .collect();
        let lowered = lower_checked(&schedule, &arguments, &self.name, context, &checks)
            .and_then(|function| pipeline::run(function, &pipeline::of(context), context))
            .map_err(|error| if target.is_cpu() { error } else { error.at(&self.place) })?;
        Program::of(&lowered).ok_or_else(|| {
            let what = format!("kernel `{}`: the passes gave {}", self.name, lowered.type_name());
            CompileError::new(ErrorKind::Lower, what).at(&self.place)
        })
    }
}
