//! Graphs that are scheduled, run and compared with the reference evaluator.

use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{F32, IterVar, Tensor, Var};
use kernpack_compiler::pass::PassContext;
use kernpack_compiler::schedule::{Argument, Schedule, Stage, create_schedule, lower_function};
use kernpack_compiler::te::eval::{Elements, Evaluator};
use kernpack_compiler::te::{compute, placeholder, reduce_axis, size, sum};
use kernpack_compiler::{Result, take_reported};

/// A graph: its outputs, inputs and sizes.
pub(crate) struct Graph {
    outputs: Vec<Tensor>,
    inputs: Vec<Tensor>,
    pub(crate) sizes: Vec<Var>,
}

impl Graph {
    pub(crate) fn new(outputs: &[&Tensor], inputs: &[&Tensor], sizes: &[&Var]) -> Self {
        take_reported().unwrap();
        Self {
            outputs: outputs.iter().map(|tensor| (*tensor).clone()).collect(),
            inputs: inputs.iter().map(|tensor| (*tensor).clone()).collect(),
            sizes: sizes.iter().map(|var| (*var).clone()).collect(),
        }
    }

    pub(crate) fn schedule(&self) -> Schedule {
        create_schedule(self.outputs.iter().map(|tensor| tensor.op.clone()).collect::<Vec<_>>())
    }

    /// Runs the scheduled graph and compares each element with the evaluator's, for each list of
    /// sizes.
    pub(crate) fn check(&self, sizes: &[&[i64]], make: impl FnOnce(&mut Schedule) -> Result<()>) -> String {
        let mut schedule = self.schedule();
        make(&mut schedule).unwrap();
        let nest = schedule.loop_nest();
        let tensors = self.inputs.iter().chain(&self.outputs).map(Argument::from);
        let args: Vec<Argument> = tensors.chain(self.sizes.iter().map(Argument::from)).collect();
        let func = lower_function(&schedule, &args, "f", &PassContext::default())
            .unwrap_or_else(|error| panic!("{error}\n{nest}"));
        let machine = Machine::new(&func).unwrap();
        for sizes in sizes {
            self.run(&machine, sizes).unwrap_or_else(|error| panic!("sizes {sizes:?}: {error}\n{nest}\n{func}"));
        }
        nest
    }

    fn run(&self, machine: &Machine, sizes: &[i64]) -> Result<()> {
        let values: Vec<(Var, i64)> = self.sizes.iter().cloned().zip(sizes.iter().copied()).collect();
        let mut evaluator = Evaluator::new();
        for (var, value) in &values {
            evaluator = evaluator.scalar(var, *value as f64);
        }
        let mut args: Vec<Arg> = Vec::new();
        for (number, tensor) in self.inputs.iter().enumerate() {
            let shape = shape_of(tensor, &values);
            let count: i64 = shape.iter().product();
            let numbers: Vec<f64> = (0..count).map(|index| ((index * 7 + number as i64 * 3) % 11 - 5) as f64).collect();
            let block = Block::from_f64(tensor.dtype, &shape, &numbers);
            args.push((&block).into());
            let mut next = numbers.into_iter();
            let shape: Vec<usize> = shape.iter().map(|&extent| extent as usize).collect();
            let elements = Elements::from_fn(tensor.dtype, &shape, |_| next.next().unwrap());
            evaluator = evaluator.input(tensor, elements);
        }
        let blocks: Vec<Block> =
            self.outputs.iter().map(|tensor| Block::uninit(tensor.dtype, &shape_of(tensor, &values))).collect();
        args.extend(blocks.iter().map(Arg::from));
        args.extend(values.iter().map(|(_, value)| Arg::from(*value)));
        machine.run("f", &args)?;
        for ((block, wanted), tensor) in blocks.iter().zip(evaluator.run(&self.outputs)?).zip(&self.outputs) {
            assert_eq!(block.to_f64()?, wanted.to_f64(), "{} for {sizes:?}", tensor.name());
        }
        Ok(())
    }
}

pub(crate) fn shape_of(tensor: &Tensor, values: &[(Var, i64)]) -> Vec<i64> {
    let values = values.iter().map(|(var, value)| (var.clone(), (*value).into())).collect();
    let analyzer = kernpack_compiler::arith::Analyzer::new();
    let extents = tensor.shape.iter().map(|extent| {
        analyzer.simplify(&kernpack_compiler::ir::substitute(&extent, &values)).as_int().expect("a size is missing")
    });
    extents.collect()
}

pub(crate) fn names(stage: &Stage) -> Vec<&str> {
    stage.leaves.iter().map(|leaf| leaf.name()).collect()
}

pub(crate) fn leaves(s: &Schedule, tensor: &Tensor) -> Vec<String> {
    names(&s[s.stage_of(&tensor.op).unwrap()]).into_iter().map(str::to_owned).collect()
}

/// `c[i, j] = sum over k of a[i, k] * b[k, j]`.
pub(crate) fn matmul(m: i64, k: i64, n: i64) -> (Graph, Tensor, IterVar) {
    let (a, b) = (placeholder([m, k], F32, "a"), placeholder([k, n], F32, "b"));
    let r = reduce_axis(0, k, "k");
    let c = compute([m, n], |[i, j]| sum(a.at([&i, &r]) * b.at([&r, &j]), &r)).named("c");
    (Graph::new(&[&c], &[&a, &b], &[]), c, r)
}

/// `a`, `b = a + 1`, `c = b * 2` of `n` elements.
pub(crate) fn chain() -> (Graph, [Tensor; 3]) {
    let n = size("n");
    let a = placeholder([&n], F32, "a");
    let b = compute([&n], |[i]| a.at([&i]) + 1.0).named("b");
    let c = compute([&n], |[i]| b.at([&i]) * 2.0).named("c");
    (Graph::new(&[&c], &[&a], &[&n]), [a, b, c])
}

pub(crate) const SIZES: [&[i64]; 9] = [&[0], &[1], &[2], &[3], &[7], &[8], &[9], &[31], &[33]];
