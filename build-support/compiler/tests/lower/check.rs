//! Runs lowered functions in the interpreter and compares every element with the graph's own values.

use kernpack_compiler::Result;
use kernpack_compiler::arith::Analyzer;
use kernpack_compiler::interpret::{Arg, Block, Machine};
use kernpack_compiler::ir::{Expr, OperationNode, Tensor, Var, VarMap, substitute};
use kernpack_compiler::pass::PassContext;
use kernpack_compiler::schedule::{Argument, Schedule, create_schedule, lower_function};
use kernpack_compiler::te::operation::post_order;

/// A graph with its inputs and sizes.
pub(crate) struct Graph {
    outputs: Vec<Tensor>,
    inputs: Vec<Tensor>,
    sizes: Vec<Var>,
}

impl Graph {
    /// Of outputs; `sizes` are the variables in shapes.
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
        Self { outputs, inputs, sizes: sizes.into_iter().cloned().collect() }
    }

    /// One size, each of the values.
    pub(crate) fn check_sizes(&self, what: &str, values: &[i64], make: impl Fn(&mut Schedule) -> Result<()>) {
        let sizes: Vec<Vec<i64>> = values.iter().map(|value| vec![*value; self.sizes.len()]).collect();
        self.check_lists(what, &sizes, make);
    }

    /// Sizes together.
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

    /// What is wrong with a schedule.
    pub(crate) fn problem(&self, make: impl Fn(&mut Schedule) -> Result<()>) -> String {
        self.try_lists(&[], make).expect_err("the schedule is wrong")
    }

    /// The first difference or error, in words.
    pub(crate) fn try_lists(
        &self,
        sizes: &[Vec<i64>],
        make: impl Fn(&mut Schedule) -> Result<()>,
    ) -> Result<(), String> {
        let schedule = self.schedule(make).map_err(|error| format!("schedule: {error}"))?;
        let plain = self.schedule(|_| Ok(())).map_err(|error| format!("schedule: {error}"))?;
        let args: Vec<Argument> = self
            .inputs
            .iter()
            .chain(&self.outputs)
            .map(Argument::from)
            .chain(self.sizes.iter().map(Argument::from))
            .collect();
        let context = PassContext::default();
        let lower = |schedule: &Schedule| {
            let func = lower_function(schedule, &args, "f", &context).map_err(|error| format!("lowering: {error}"))?;
            Ok::<_, String>((Machine::new(&func).map_err(|error| format!("lowered: {error}"))?, func))
        };
        let (machine, func) = lower(&schedule)?;
        let (reference, _) = lower(&plain)?;
        for sizes in sizes {
            let values: VarMap = self.sizes.iter().cloned().zip(sizes.iter().map(|size| Expr::int(*size))).collect();
            let problem = |error: String| format!("sizes {sizes:?}: {error}\n{}", shown(&func));
            let found = self.run(&machine, &values).map_err(problem)?;
            let wanted = self.run(&reference, &values).map_err(problem)?;
            for ((tensor, found), wanted) in self.outputs.iter().zip(&found).zip(&wanted) {
                if let Some(element) = found.iter().zip(wanted).position(|(a, b)| a != b) {
                    return Err(problem(format!(
                        "element {element} of `{}` is {:?}, not {:?}",
                        tensor.name(),
                        found[element].map(f64::from_bits),
                        wanted[element].map(f64::from_bits)
                    )));
                }
            }
        }
        Ok(())
    }

    fn run(&self, machine: &Machine, values: &VarMap) -> Result<Vec<Vec<Option<u64>>>, String> {
        let analyzer = Analyzer::new();
        let shape_of = |tensor: &Tensor| -> Vec<i64> {
            let extents = tensor.shape.iter().map(|extent| analyzer.simplify(&substitute(&extent, values)));
            extents.map(|extent| extent.as_int().expect("a size is missing").max(0)).collect()
        };
        let mut args: Vec<Arg> = Vec::new();
        for (number, tensor) in self.inputs.iter().enumerate() {
            let shape = shape_of(tensor);
            let count = shape.iter().product();
            args.push((&Block::from_f64(tensor.dtype, &shape, &numbers(number as u64, count))).into());
        }
        let mut outputs = Vec::new();
        for tensor in &self.outputs {
            let block = Block::uninit(tensor.dtype, &shape_of(tensor));
            args.push((&block).into());
            outputs.push(block);
        }
        for var in &self.sizes {
            args.push(Arg::from(values[var].as_int().expect("a size")));
        }
        machine.run("f", &args).map_err(|error| error.to_string())?;
        Ok(outputs.iter().map(Block::known_lanes).collect())
    }
}

fn shown(func: &kernpack_compiler::ir::LoweredFunc) -> String {
    kernpack::reflect::to_json(&func.body)
        .map_or_else(|error| error.to_string(), |json| format!("{} bytes of json", json.len()))
}

/// Small whole numbers, the same ones each time.
pub(crate) fn numbers(seed: u64, count: i64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    let next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % 7) as f64 - 3.0
    };
    std::iter::repeat_with(next).take(count as usize).collect()
}
