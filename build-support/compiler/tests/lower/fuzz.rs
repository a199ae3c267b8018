//! Random graphs with random schedules.

use kernpack_compiler::Result;
use kernpack_compiler::arith::Analyzer;
use kernpack_compiler::ir::{DataType, Expr, F64, I32, IterKind, IterVar, Range, Tensor, Var};
use kernpack_compiler::schedule::{Schedule, Tail};
use kernpack_compiler::te::{compute_dyn, placeholder, reduce_axis, reduce_max, reduce_min, size, sum};

use crate::check::Graph;
use crate::choices::Choices;

const EXTENTS: [i64; 10] = [3, 1, 2, 0, 7, 8, 9, 31, 32, 33];

/// Extents of the symbolic size that a graph is run with.
pub(crate) const SIZES: [i64; 6] = [3, 0, 1, 2, 8, 9];

/// A graph, and what a schedule needs to know of it.
pub(crate) struct Random {
    pub(crate) graph: Graph,
    stages: Vec<Tensor>,
    is_output: Vec<bool>,
    /// What each stage was made of, in words.
    pub(crate) words: Vec<String>,
}

/// An extent with its largest value in a run.
#[derive(Clone)]
struct Extent {
    expr: Expr,
    most: i64,
}

struct Maker<'a> {
    choices: &'a mut Choices,
    n: Var,
    dtype: DataType,
    /// What can be read.
    tensors: Vec<(Tensor, Vec<Extent>)>,
}

impl Maker<'_> {
    fn extent(&mut self, most: i64) -> Extent {
        if self.choices.rarely(4) {
            let (expr, most) = self.choices.one(&[
                (self.n.expr().clone(), 9),
                (self.n.expr() + 1, 10),
                (self.n.expr() * 2, 18),
                (self.n.expr().ceil_div(2), 5),
            ]);
            return Extent { expr, most };
        }
        let value = self.choices.one(&EXTENTS).min(most);
        Extent { expr: Expr::int(value), most: value }
    }

    fn shape(&mut self) -> Vec<Extent> {
        match self.choices.below(5) {
            0 | 1 => vec![self.extent(33)],
            2 | 3 => vec![self.extent(9), self.extent(9)],
            _ => vec![self.extent(4), self.extent(7), self.extent(4)],
        }
    }

    /// An index in terms of axes.
    fn index(&mut self, axes: &[(IterVar, Extent)]) -> Expr {
        if axes.is_empty() || self.choices.rarely(12) {
            return Expr::int(self.choices.below(4) as i64);
        }
        let (axis, extent) = self.choices.one(axes);
        let (other, _) = self.choices.one(axes);
        let by = self.choices.below(5) as i64 - 2;
        match self.choices.below(12) {
            0..=3 => axis.expr(),
            4 | 5 => axis.expr() + by,
            6 => axis.expr() * 2 + by,
            7 => axis.floor_div(2) + by,
            8 => axis.floor_mod(3),
            9 => extent.expr - 1 - axis.expr(),
            10 => axis.expr() + other.expr() + by,
            _ => axis.expr() * 2 + other.expr() - 1,
        }
    }

    /// A read of some tensor; a condition stands around it where the index may be outside.
    fn read(&mut self, axes: &[(IterVar, Extent)], near: &[(IterVar, Extent)]) -> Expr {
        // Later tensors are more likely, so that graphs are deep.
        let last = self.tensors.len() - 1;
        let number = if self.choices.below(3) < 2 { last } else { self.choices.below(self.tensors.len()) };
        let (tensor, extents) = self.tensors[number].clone();
        let analyzer = Analyzer::new();
        for (axis, extent) in axes {
            let range = axis.dom.clone().unwrap_or_else(|| Range::until(&extent.expr));
            analyzer.bind(&axis.var, &range);
        }
        let mut indices = Vec::new();
        let mut inside = Expr::bool(true);
        for (dimension, extent) in extents.iter().enumerate() {
            let index = match near.get(dimension) {
                Some((axis, _)) if self.choices.below(3) == 0 => axis.expr(),
                _ => self.index(axes),
            };
            let index = if self.choices.rarely(10) && extent.expr.as_int().is_some_and(|extent| extent > 0) {
                index.min(&extent.expr - 1).max(0)
            } else {
                index
            };
            for condition in [index.greater_equal(0), index.less(&extent.expr)] {
                if !analyzer.can_prove(&condition) {
                    inside = inside.and(condition);
                }
            }
            indices.push(index);
        }
        let outside = Expr::constant(self.dtype, self.choices.below(3) as i64);
        if inside.is_false() {
            return outside;
        }
        let read = tensor.at(&indices);
        Expr::if_then_else(inside, read, outside)
    }

    fn expression(&mut self, axes: &[(IterVar, Extent)], near: &[(IterVar, Extent)]) -> Expr {
        let mut value = self.read(axes, near);
        for _ in 0..self.choices.below(3) {
            let other = self.read(axes, near);
            value = match self.choices.below(5) {
                0 => value + other,
                1 => value - other,
                2 => value.max(other),
                3 => value.min(other) * 2,
                _ => match axes.first() {
                    Some((axis, _)) => Expr::select(axis.floor_mod(2).equals(0), value, other),
                    None => other,
                },
            };
        }
        value
    }

    fn stage(&mut self, name: &str, words: &mut Vec<String>) -> Vec<Tensor> {
        let shape = self.shape();
        let extents: Vec<Expr> = shape.iter().map(|extent| extent.expr.clone()).collect();
        let is_reduction = self.choices.rarely(3);
        let reduced: Vec<(IterVar, Extent)> = if is_reduction {
            let count = 1 + self.choices.below(2);
            (0..count)
                .map(|number| {
                    let extent = self.extent(if count == 1 { 9 } else { 4 });
                    let min = self.choices.below(2) as i64;
                    (reduce_axis(min, &extent.expr, ["r", "s"][number]), extent)
                })
                .collect()
        } else {
            Vec::new()
        };
        let results = if !is_reduction && self.choices.rarely(8) { 2 } else { 1 };
        let reducer = self.choices.below(3);
        let tensors = compute_dyn(&extents, |axes| {
            let near: Vec<(IterVar, Extent)> = axes.iter().cloned().zip(shape.iter().cloned()).collect();
            let mut all = near.clone();
            all.extend(reduced.iter().cloned());
            let near =
                if is_reduction && self.choices.below(2) == 0 { all.iter().rev().cloned().collect() } else { near };
            let mut bodies = Vec::new();
            for _ in 0..results {
                bodies.push(self.expression(&all, &near));
            }
            if is_reduction {
                let axes: Vec<IterVar> = reduced.iter().map(|(axis, _)| axis.clone()).collect();
                let source = bodies.swap_remove(0);
                bodies = vec![match reducer {
                    0 => sum(source, axes),
                    1 => reduce_max(source, axes),
                    _ => reduce_min(source, axes),
                }];
            }
            words.push(format!("{name}: {} axes, {} reduced, {results} results", axes.len(), reduced.len()));
            bodies
        });
        let tensors: Vec<Tensor> = tensors.into_iter().map(|tensor| tensor.named(name)).collect();
        // All results are of one operation: the first name gives it to all.
        let op = tensors[0].op.clone();
        let tensors: Vec<Tensor> = (0..tensors.len()).map(|result| op.output(result)).collect();
        self.tensors.extend(tensors.iter().map(|tensor| (tensor.clone(), shape.clone())));
        tensors
    }
}

impl Random {
    /// A graph of 2 to 5 stages.
    pub(crate) fn graph(choices: &mut Choices) -> Self {
        let n = size("n");
        let dtype = choices.one(&[F64, I32]);
        let mut maker = Maker { choices, n: n.clone(), dtype, tensors: Vec::new() };
        for name in ["a", "b"].iter().take(1 + maker.choices.below(2)) {
            let shape = maker.shape();
            let extents: Vec<Expr> = shape.iter().map(|extent| extent.expr.clone()).collect();
            let tensor = placeholder(&extents, dtype, name);
            maker.tensors.push((tensor, shape));
        }
        let mut words = Vec::new();
        let count = 2 + maker.choices.below(4);
        let (mut stages, mut outputs) = (Vec::new(), Vec::new());
        for number in 0..count {
            let tensors = maker.stage(&format!("s{number}"), &mut words);
            let is_output = number + 1 == count || maker.choices.rarely(8);
            if is_output {
                outputs.extend(tensors.iter().cloned());
            }
            stages.push((tensors[0].clone(), is_output));
        }
        let graph = Graph::new(&outputs, [&n]);
        let is_used = |tensor: &Tensor| graph.has(tensor);
        let stages: Vec<_> = stages.iter().filter(|(tensor, _)| is_used(tensor)).cloned().collect();
        let (stages, is_output) = stages.into_iter().unzip();
        Self { graph, stages, is_output, words }
    }

    /// Random primitives on it; what they were comes back in words.
    pub(crate) fn schedule(&self, s: &mut Schedule, choices: &mut Choices) -> Result<Vec<String>> {
        let mut log = Vec::new();
        let mut inlined = vec![false; self.stages.len()];
        // Loops around what is inside of each loop of a stage, the loop itself included.
        let mut around: Vec<Vec<(usize, IterVar)>> = vec![Vec::new(); self.stages.len()];
        for number in (0..self.stages.len()).rev() {
            let tensor = &self.stages[number];
            let consumers = self.readers(number, &inlined);
            let is_reduction = s.stage(tensor).get()?.leaves.iter().any(|leaf| leaf.kind == IterKind::CommReduce);
            let is_output = self.is_output[number];
            let several = tensor.op.num_outputs() > 1;
            if !is_output && !is_reduction && !several && choices.rarely(4) {
                s.stage(tensor).compute_inline()?;
                inlined[number] = true;
                log.push(format!("s.stage(&s{number}).compute_inline()"));
                continue;
            }
            let mut places: Option<Vec<(usize, IterVar)>> = None;
            for &consumer in &consumers {
                let here = &around[consumer];
                places = Some(match places {
                    None => here.clone(),
                    Some(places) => places.into_iter().filter(|place| here.contains(place)).collect(),
                });
            }
            let places = places.unwrap_or_default();
            let mut enclosing = Vec::new();
            if !is_output && !places.is_empty() && choices.below(4) < 3 {
                let at = choices.below(places.len());
                let (stage, axis) = places[at].clone();
                s.stage(tensor).compute_at(&self.stages[stage], &axis)?;
                log.push(format!("s.stage(&s{number}).compute_at(&s{stage}, {})", axis.name()));
                let outer = &around[stage];
                let position = outer.iter().position(|place| *place == (stage, axis.clone())).expect("a place");
                enclosing = outer[..=position].to_vec();
            }
            self.loops(s, number, enclosing.is_empty(), choices, &mut log)?;
            if choices.rarely(10) {
                let axes = s.stage(tensor).get()?.all_axes.clone();
                if let Some(axis) = axes.first().filter(|axis| !is_output && axis.kind == IterKind::DataPar) {
                    s.stage(tensor).storage_align(axis, 4, 1)?;
                    log.push(format!("s.stage(&s{number}).storage_align({}, 4, 1)", axis.name()));
                }
            }
            let leaves = s.stage(tensor).get()?.leaves.clone();
            enclosing.extend(leaves.into_iter().map(|leaf| (number, leaf)));
            around[number] = enclosing;
        }
        Ok(log)
    }

    /// The stages whose loops read a stage: readers of inlined readers.
    fn readers(&self, number: usize, inlined: &[bool]) -> Vec<usize> {
        let mut readers = Vec::new();
        for (reader, tensor) in self.stages.iter().enumerate().skip(number + 1) {
            let inputs = kernpack_compiler::te::operation::input_tensors(&tensor.op);
            if inputs.iter().any(|input| input.op == self.stages[number].op) {
                if inlined[reader] {
                    readers.extend(self.readers(reader, inlined));
                } else {
                    readers.push(reader);
                }
            }
        }
        readers
    }

    fn loops(
        &self,
        s: &mut Schedule,
        number: usize,
        is_root: bool,
        choices: &mut Choices,
        log: &mut Vec<String>,
    ) -> Result<()> {
        let tensor = &self.stages[number];
        let mut fixed: Vec<IterVar> = Vec::new();
        let mut shifted = false;
        for _ in 0..choices.below(5) {
            let leaves = s.stage(tensor).get()?.leaves.clone();
            if leaves.is_empty() {
                break;
            }
            let leaf = choices.one(&leaves);
            let name = leaf.name().to_owned();
            let mut stage = s.stage(tensor);
            match choices.below(8) {
                0..=2 => {
                    let factor = choices.one(&[2, 3, 4, 1, 5, 8]);
                    let (_, inner) = stage.split(&leaf, factor)?;
                    fixed.push(inner);
                    log.push(format!("s.stage(&s{number}).split({name}, {factor})"));
                }
                3 => {
                    let parts = choices.one(&[2, 3, 1, 5]);
                    let (outer, _) = stage.split_nparts(&leaf, parts)?;
                    fixed.push(outer);
                    log.push(format!("s.stage(&s{number}).split_nparts({name}, {parts})"));
                }
                4 | 5 => {
                    let position = leaves.iter().position(|other| *other == leaf).expect("a leaf");
                    if let Some(next) = leaves.get(position + 1).filter(|next| next.kind == leaf.kind) {
                        stage.fuse(&leaf, next)?;
                        log.push(format!("s.stage(&s{number}).fuse({name}, {})", next.name()));
                    }
                }
                6 => {
                    let other = choices.one(&leaves);
                    if other != leaf {
                        stage.reorder([&other, &leaf])?;
                        log.push(format!("s.stage(&s{number}).reorder({}, {name})", other.name()));
                    }
                }
                _ => {
                    if stage.split_tail(&leaf, 4, Tail::ShiftInwards).is_ok() {
                        shifted = true;
                        log.push(format!("s.stage(&s{number}).split_tail({name}, 4, ShiftInwards)"));
                    }
                }
            }
        }
        let leaves = s.stage(tensor).get()?.leaves.clone();
        if let Some(leaf) = leaves.iter().rev().find(|leaf| fixed.contains(leaf)).filter(|_| choices.rarely(3)) {
            if leaf.kind == IterKind::DataPar && choices.below(2) == 0 {
                s.stage(tensor).vectorize(leaf)?;
                log.push(format!("s.stage(&s{number}).vectorize({})", leaf.name()));
            } else {
                s.stage(tensor).unroll(leaf)?;
                log.push(format!("s.stage(&s{number}).unroll({})", leaf.name()));
            }
        }
        if let Some(leaf) = leaves.first().filter(|leaf| is_root && !shifted && leaf.kind == IterKind::DataPar) {
            if choices.rarely(3) && s.stage(tensor).parallel(leaf).is_ok() {
                log.push(format!("s.stage(&s{number}).parallel({})", leaf.name()));
            }
        }
        Ok(())
    }
}
