//! The reference evaluator: computes a graph without a schedule and without lowering. It is the
//! oracle for everything that is derived from the graph.
//!
//! Floats are rounded to their type after each operation; reductions iterate over their axes in
//! order, the last one fastest. Tensors are evaluated completely, in the order of the graph; scans
//! are evaluated step by step.
//!
//! ```
//! use kernpack_compiler::ir::F32;
//! use kernpack_compiler::te::eval::{Elements, Evaluator};
//! use kernpack_compiler::te::{compute, placeholder, reduce_axis, size, sum};
//!
//! let n = size("n");
//! let a = placeholder((&n, 3), F32, "a");
//! let k = reduce_axis(0, 3, "k");
//! let rows = compute([&n], |[i]| sum(a.at([&i, &k]), &k)).named("rows");
//!
//! let data = Elements::new(&[2, 3], &[1f32, 2.0, 3.0, 10.0, 20.0, 30.0])?;
//! let results = Evaluator::new().input(&a, data).run(&[rows])?;
//! assert_eq!(results[0].to_vec::<f32>()?, [6.0, 60.0]);
//! # Ok::<(), kernpack_compiler::CompileError>(())
//! ```

mod math;
mod op;
mod program;
mod sources;
mod statements;
mod values;

use std::collections::HashMap;
use std::rc::Rc;

pub use values::{Element, Elements, Value};

use self::op::CompiledOp;
use self::program::Program;
use self::sources::{Key, ScanBody, Source};
use super::operation::post_order;
use crate::error::{Result, fail, require, take_reported};
use crate::ir::{DataTypeExt, Expr, ExprNode, Operation, OperationNode, Tensor, Var};

/// Evaluates graphs: set inputs and sizes, then call `run`.
#[derive(Default)]
pub struct Evaluator {
    inputs: Vec<(Tensor, Elements)>,
    scalars: HashMap<Var, Value>,
    functions: HashMap<String, Function>,
}

type Function = Rc<dyn Fn(&[Elements], &mut [Elements]) -> Result<()>>;

impl Evaluator {
    /// Creates an evaluator without inputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the elements of a placeholder; sizes in its shape get their values from it.
    #[must_use]
    pub fn input(mut self, tensor: &Tensor, elements: Elements) -> Self {
        self.inputs.push((tensor.clone(), elements));
        self
    }

    /// Sets the value of a scalar, or of a size that no input determines.
    #[must_use]
    pub fn scalar(mut self, var: &Var, value: impl Into<f64>) -> Self {
        let value = Value::Float(value.into());
        self.scalars.insert(var.clone(), values::cast(crate::ir::F64, var.dtype(), value));
        self
    }

    /// Sets the implementation of a packed or C function that an extern operation calls: it gets
    /// the inputs and the results.
    #[must_use]
    pub fn function(
        mut self,
        name: &str,
        function: impl Fn(&[Elements], &mut [Elements]) -> Result<()> + 'static,
    ) -> Self {
        self.functions.insert(name.to_owned(), Rc::new(function));
        self
    }

    /// Evaluates the elements of these tensors.
    ///
    /// # Errors
    /// Returns errors that were reported during the construction of the graph, and errors for
    /// inputs without elements, or with elements that do not match the placeholder; for a size
    /// without a value; and for a read outside of a tensor, a division by zero, or a state that a
    /// scan reads before it is computed: these with the tensor and the element.
    pub fn run(mut self, outputs: &[Tensor]) -> Result<Vec<Elements>> {
        take_reported()?;
        let mut done: HashMap<Key, Rc<Source>> = HashMap::new();
        for (tensor, elements) in core::mem::take(&mut self.inputs) {
            self.bind_shape(&tensor, &elements)?;
            done.insert(tensor.key(), Rc::new(Source::whole(&tensor, elements)));
        }
        let machine = Machine { scalars: Rc::new(self.scalars), functions: self.functions };
        for (tensor, elements) in done.values().filter_map(|source| source.placeholder()) {
            machine.check_shape(tensor, elements)?;
        }
        let ops: Vec<Operation> = outputs.iter().map(|tensor| tensor.op.clone()).collect();
        let mut inside = Vec::new();
        let order = post_order(&ops);
        for op in &order {
            if let OperationNode::Scan { update, state, .. } = &**op {
                let updates: Vec<Operation> = update.iter().map(|tensor| tensor.op.clone()).collect();
                inside.extend(super::scan::scan_body(&updates, &state.to_vec()));
            }
        }
        for op in &order {
            // Operations inside of a scan are evaluated by the scan; they have no value as outputs.
            if inside.contains(op) {
                require!(!ops.contains(op), Run, "evaluate: `{}` is a part of a scan", op.name());
                continue;
            }
            machine.evaluate(op, &order, &mut done)?;
        }
        let results = outputs.iter().map(|tensor| match done.get(&tensor.key()) {
            Some(source) => source.elements(),
            None => fail!(Run, "evaluate: `{}` has no elements; give it some with `.input`", tensor.name()),
        });
        results.collect()
    }

    /// Sets the sizes that are dimensions themselves to the extents of the elements.
    fn bind_shape(&mut self, tensor: &Tensor, elements: &Elements) -> Result<()> {
        let name = tensor.name();
        require!(
            matches!(&*tensor.op, OperationNode::Placeholder { .. }),
            Run,
            "evaluate: `{name}` is computed; only placeholders are inputs"
        );
        let (own, given) = (tensor.dtype.short_name(), elements.dtype().short_name());
        require!(tensor.dtype == elements.dtype(), Run, "evaluate: `{name}` is of type {own}, its elements of {given}");
        let (rank, shape) = (tensor.shape.len(), elements.shape());
        require!(rank == shape.len(), Run, "evaluate: `{name}` has {rank} dimensions, its elements {}", shape.len());
        for (extent, &actual) in tensor.shape.iter().zip(shape) {
            let var = match &*extent {
                ExprNode::Cast { value, .. } => Var::of(value),
                _ => Var::of(&extent),
            };
            if let Some(var) = var {
                self.scalars.entry(var).or_insert(Value::Int(i64::try_from(actual).unwrap_or(i64::MAX)));
            }
        }
        Ok(())
    }
}

struct Machine {
    scalars: Rc<HashMap<Var, Value>>,
    functions: HashMap<String, Function>,
}

impl Machine {
    fn program(&self) -> Program {
        Program::new(self.scalars.clone())
    }

    /// Evaluates an expression of scalars.
    fn scalar(&self, expr: &Expr) -> Result<i64> {
        let mut program = self.program();
        let node = program.add(expr)?;
        let value = program.value(node, &mut program.frame(), &Nothing)?;
        Ok(value.int())
    }

    fn shape(&self, tensor: &Tensor) -> Result<Vec<usize>> {
        let extents = tensor.shape.iter().map(|extent| {
            let value = self.scalar(&extent)?;
            match usize::try_from(value) {
                Ok(extent) => Ok(extent),
                Err(_) => fail!(Run, "evaluate: `{}` has an extent of {value}", tensor.name()),
            }
        });
        extents.collect()
    }

    fn check_shape(&self, tensor: &Tensor, elements: &Elements) -> Result<()> {
        let (shape, actual) = (self.shape(tensor)?, elements.shape());
        require!(
            shape == actual,
            Run,
            "evaluate: `{}` has the shape {shape:?}, its elements {actual:?}",
            tensor.name()
        );
        Ok(())
    }

    fn evaluate(&self, op: &Operation, order: &[Operation], done: &mut HashMap<Key, Rc<Source>>) -> Result<()> {
        match &**op {
            // A placeholder without elements needs no input.
            OperationNode::Placeholder { .. } => {
                let tensor = op.output(0);
                if !done.contains_key(&tensor.key())
                    && let Ok(shape) = self.shape(&tensor)
                    && shape.contains(&0)
                {
                    let elements = Elements::zeros(tensor.dtype, &shape);
                    done.insert(tensor.key(), Rc::new(Source::whole(&tensor, elements)));
                }
            }
            OperationNode::Compute { .. } => {
                let shape = self.shape(&op.output(0))?;
                let compiled = CompiledOp::new(self, op, &shape, &|tensor| find(done, tensor))?;
                for (tensor, elements) in op.outputs().into_iter().zip(compiled.whole()?) {
                    done.insert(tensor.key(), Rc::new(Source::whole(&tensor, elements)));
                }
            }
            OperationNode::Scan { scan_axis, init, update, state, .. } => {
                let body = ScanBody { machine: self, op, scan_axis, init, update, state };
                body.evaluate(order, done)?;
            }
            OperationNode::Extern { .. } => self.evaluate_extern(op, done)?,
        }
        Ok(())
    }
}

fn find(done: &HashMap<Key, Rc<Source>>, tensor: &Tensor) -> Result<Rc<Source>> {
    match done.get(&tensor.key()) {
        Some(source) => Ok(source.clone()),
        None => fail!(Run, "evaluate: `{}` has no elements; give it some with `.input`", tensor.name()),
    }
}

/// Sources for expressions that read no tensor.
struct Nothing;

impl program::Sources for Nothing {
    fn read(&self, _: usize, _: &[i64]) -> Result<Value> {
        fail!(Run, "evaluate: an extent that is read from a tensor")
    }
}
