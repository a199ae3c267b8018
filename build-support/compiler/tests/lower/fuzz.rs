//! Random graphs with random schedules.

use kernpack_compiler::Result;
use kernpack_compiler::arith::Analyzer;
use kernpack_compiler::ir::{DataType, Expr, F64, I32, IterKind, IterVar, OperationNode, Range, Tensor, Var};
use kernpack_compiler::schedule::{Schedule, Tail};
use kernpack_compiler::te::{compute_dyn, placeholder, reduce_axis, reduce_max, reduce_min, size, sum, thread_axis};

use crate::check::Graph;
use crate::choices::Choices;

/// Constant extents; 0 is only a symbolic size.
const EXTENTS: [i64; 9] = [3, 1, 2, 7, 8, 9, 31, 32, 33];

/// The values of the symbolic size with which a graph runs.
pub(crate) const SIZES: [i64; 6] = [3, 0, 1, 2, 8, 9];

/// A graph, with the properties that a schedule needs.
pub(crate) struct Random {
    pub(crate) graph: Graph,
    stages: Vec<Tensor>,
    is_output: Vec<bool>,
    /// A description of the origin of each stage.
    pub(crate) words: Vec<String>,
}

/// An extent.
#[derive(Clone)]
struct Extent {
    expr: Expr,
}

struct Maker<'a> {
    choices: &'a mut Choices,
    n: Var,
    dtype: DataType,
    /// The tensors that can be read.
    tensors: Vec<(Tensor, Vec<Extent>)>,
}

impl Maker<'_> {
    /// An extent, at most `most` if it is a constant.
    fn extent(&mut self, most: i64) -> Extent {
        let n = &self.n;
        let symbolic = [n.expr().clone(), n.expr() + 1, n.expr() * 2, n.expr().ceil_div(2)];
        let expr = match self.choices.rarely(4) {
            true => self.choices.one(&symbolic),
            false => Expr::int(self.choices.one(&EXTENTS).min(most)),
        };
        Extent { expr }
    }

    fn shape(&mut self) -> Vec<Extent> {
        match self.choices.below(5) {
            0 | 1 => vec![self.extent(33)],
            2 | 3 => vec![self.extent(9), self.extent(9)],
            _ => vec![self.extent(4), self.extent(7), self.extent(4)],
        }
    }

    /// An index as an expression of axes.
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

    /// A read of some tensor, under a condition where the index may be out of bounds.
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
        // All results belong to one operation: the first name applies to all of them.
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

    /// Applies random primitives; returns a description of them.
    pub(crate) fn schedule(&self, s: &mut Schedule, choices: &mut Choices) -> Result<Vec<String>> {
        let is_device = choices.rarely(5);
        let mut plan = Plan { s, choices, log: Vec::new(), is_device };
        let mut inlined = vec![false; self.stages.len()];
        // The loops around the readers of a stage, from the outermost to the innermost.
        let mut around: Vec<Vec<Place>> = vec![Vec::new(); self.stages.len()];
        // The number of a reader's loops that have to be outside of the stage.
        let mut depth: Vec<Vec<Place>> = vec![Vec::new(); self.stages.len()];
        for number in (0..self.stages.len()).rev() {
            let tensor = &self.stages[number];
            let name = format!("s{number}");
            let consumers = self.readers(number, &inlined);
            let is_output = self.is_output[number];
            let is_reduction = plan.s.stage(tensor).get()?.leaves.iter().any(|leaf| leaf.kind == IterKind::CommReduce);
            let several = tensor.op.num_outputs() > 1;
            if !is_output && !is_reduction && !several && plan.choices.rarely(4) {
                plan.s.stage(tensor).compute_inline()?;
                inlined[number] = true;
                plan.log.push(format!("{name}.compute_inline()"));
                continue;
            }
            let cached = match plan.choices.rarely(7) {
                true => Some(plan.cache_write(tensor, &name)?),
                false => None,
            };
            let mut places: Option<Vec<Place>> = None;
            for &consumer in &consumers {
                let here = &around[consumer];
                places = Some(match places {
                    None => here.clone(),
                    Some(places) => places.into_iter().filter(|place| here.contains(place)).collect(),
                });
            }
            let places = if is_output { Vec::new() } else { places.unwrap_or_default() };
            let path = plan.stage(tensor, &name, &places, 0)?;
            depth[number] = path.clone();
            let mut inner = plan.loops(tensor, &name, path)?;
            if let Some(cached) = cached {
                let path = plan.stage(&cached, &format!("{name}.cache"), &inner, 0)?;
                inner = plan.loops(&cached, &format!("{name}.cache"), path)?;
                if plan.choices.rarely(3) {
                    inner = plan.rfactor(&cached, &format!("{name}.cache"), inner)?;
                }
            } else if is_reduction && plan.choices.rarely(5) {
                inner = plan.rfactor(tensor, &name, inner)?;
            }
            around[number] = inner;
        }
        for _ in 0..plan.choices.below(3) {
            self.cache_read(&mut plan, &inlined, &around, &depth)?;
        }
        Ok(plan.log)
    }

    /// Makes one stage read a copy of a tensor.
    fn cache_read(
        &self,
        plan: &mut Plan<'_>,
        inlined: &[bool],
        around: &[Vec<Place>],
        depth: &[Vec<Place>],
    ) -> Result<()> {
        let reader = plan.choices.below(self.stages.len());
        let Some(last) = around[reader].last().filter(|_| !inlined[reader]) else { return Ok(()) };
        // Caches and factored reductions read instead of their stage: the last loop belongs to
        // them.
        let id = plan.s.stage(&last.stage).id()?;
        let inputs = kernpack_compiler::te::operation::input_tensors(plan.s[id].operation());
        if inputs.is_empty() {
            return Ok(());
        }
        let input = plan.choices.one(&inputs);
        let producer =
            self.stages.iter().position(|stage| plan.s.stage(stage).id().ok() == plan.s.stage(&input).id().ok());
        let is_input = matches!(*input.op, OperationNode::Placeholder { .. });
        if producer.map_or(!is_input, |producer| inlined[producer]) {
            return Ok(());
        }
        let outside = producer.map_or(0, |producer| depth[producer].len());
        let copy = plan.s.cache_read(&input, "global", [&last.stage])?;
        plan.log.push(format!("cache_read({}, {})", input.name(), last.stage.name()));
        let path = plan.stage(&copy, "copy", &around[reader], outside)?;
        plan.loops(&copy, "copy", path)?;
        Ok(())
    }

    /// The stages whose loops read a stage, including readers of inlined readers.
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
}

/// A loop of a stage.
#[derive(Clone)]
struct Place {
    stage: Tensor,
    axis: IterVar,
    /// True if each device thread has a private instance of the inside.
    is_local: bool,
    /// The threads that share the inside, if they are not launched there.
    threads: Option<IterVar>,
}

impl Place {
    /// Returns true if a stage of device threads can be computed here.
    fn is_reachable(&self) -> bool {
        self.is_local || self.threads.is_some()
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.stage.is(&other.stage) && self.axis == other.axis
    }
}

/// A schedule under construction.
struct Plan<'a> {
    s: &'a mut Schedule,
    choices: &'a mut Choices,
    log: Vec<String>,
    is_device: bool,
}

impl Plan<'_> {
    fn cache_write(&mut self, tensor: &Tensor, name: &str) -> Result<Tensor> {
        if self.choices.rarely(3) {
            // Another layout.
            let leaves = self.s.stage(tensor).get()?.leaves.clone();
            if let Some(leaf) = leaves.first().filter(|leaf| leaf.kind == IterKind::DataPar) {
                let (outer, inner) = self.s.stage(tensor).split(leaf, 4)?;
                self.s.stage(tensor).reorder([&inner, &outer])?;
                self.log.push(format!("{name}: layout split by 4"));
            }
        }
        self.log.push(format!("{name}.cache = cache_write({name})"));
        self.s.cache_write(tensor, "global")
    }

    /// Computes a stage at one of these loops, or separately: then it has no loops around. At least
    /// the first `outside` ones have to be around it.
    fn stage(&mut self, tensor: &Tensor, name: &str, places: &[Place], outside: usize) -> Result<Vec<Place>> {
        let first = outside.saturating_sub(1);
        let allowed: Vec<usize> =
            (first..places.len()).filter(|&position| !self.is_device || places[position].is_reachable()).collect();
        if allowed.is_empty() || (outside == 0 && self.choices.below(4) == 3) {
            return Ok(Vec::new());
        }
        let position = self.choices.one(&allowed);
        let place = &places[position];
        self.s.stage(tensor).compute_at(&place.stage, &place.axis)?;
        if self.is_device {
            self.s.stage(tensor).set_scope(if place.is_local { "local" } else { "shared" })?;
        }
        if self.choices.rarely(5) {
            self.s.stage(tensor).double_buffer()?;
            self.log.push(format!("{name}.double_buffer()"));
        }
        self.log.push(format!("{name}.compute_at({}, {})", place.stage.name(), place.axis.name()));
        Ok(places[..=position].to_vec())
    }

    /// Makes a loop of a reduction a separate dimension of a tensor.
    fn rfactor(&mut self, tensor: &Tensor, name: &str, around: Vec<Place>) -> Result<Vec<Place>> {
        let leaves = self.s.stage(tensor).get()?.leaves.clone();
        let reduced: Vec<IterVar> = leaves.into_iter().filter(|leaf| leaf.kind == IterKind::CommReduce).collect();
        if reduced.is_empty() {
            return Ok(around);
        }
        let leaf = self.choices.one(&reduced);
        let own = around.iter().position(|place| place.stage.is(tensor)).unwrap_or(around.len());
        let Ok(part) = self.s.rfactor(tensor, &leaf) else { return Ok(around) };
        self.log.push(format!("{name}.rf = rfactor({name}, {})", leaf.name()));
        let mut places = around[..own].to_vec();
        let is_local = places.last().is_some_and(|place| place.is_local);
        for axis in self.s.stage(tensor).get()?.leaves.clone() {
            places.push(Place { stage: tensor.clone(), axis, is_local, threads: None });
        }
        let path = self.stage(&part, &format!("{name}.rf"), &places, 0)?;
        self.loops(&part, &format!("{name}.rf"), path)
    }

    /// Changes the loops of a stage randomly; returns all loops around its body.
    fn loops(&mut self, tensor: &Tensor, name: &str, around: Vec<Place>) -> Result<Vec<Place>> {
        let is_root = around.is_empty();
        let Self { s, choices, log, is_device } = self;
        let mut fixed: Vec<IterVar> = Vec::new();
        let mut shifted = false;
        for _ in 0..choices.below(5) {
            let leaves = s.stage(tensor).get()?.leaves.clone();
            if leaves.is_empty() {
                break;
            }
            let leaf = choices.one(&leaves);
            let axis = leaf.name().to_owned();
            let mut stage = s.stage(tensor);
            match choices.below(8) {
                0..=2 => {
                    let factor = choices.one(&[2, 3, 4, 1, 5, 8]);
                    let (_, inner) = stage.split(&leaf, factor)?;
                    fixed.push(inner);
                    log.push(format!("{name}.split({axis}, {factor})"));
                }
                3 => {
                    let parts = choices.one(&[2, 3, 1, 5]);
                    let (outer, _) = stage.split_nparts(&leaf, parts)?;
                    fixed.push(outer);
                    log.push(format!("{name}.split_nparts({axis}, {parts})"));
                }
                4 | 5 => {
                    let position = leaves.iter().position(|other| *other == leaf).expect("a leaf");
                    if let Some(next) = leaves.get(position + 1).filter(|next| next.kind == leaf.kind) {
                        stage.fuse(&leaf, next)?;
                        log.push(format!("{name}.fuse({axis}, {})", next.name()));
                    }
                }
                6 => {
                    let other = choices.one(&leaves);
                    if other != leaf {
                        stage.reorder([&other, &leaf])?;
                        log.push(format!("{name}.reorder({}, {axis})", other.name()));
                    }
                }
                _ if choices.below(2) == 0 => {
                    if stage.split_tail(&leaf, 4, Tail::ShiftInwards).is_ok() {
                        shifted = true;
                        log.push(format!("{name}.split_tail({axis}, 4, ShiftInwards)"));
                    }
                }
                _ => {
                    let (_, inner) = stage.split_tail(&leaf, 4, Tail::Predicate)?;
                    fixed.push(inner);
                    log.push(format!("{name}.split_tail({axis}, 4, Predicate)"));
                }
            }
        }
        let leaves = s.stage(tensor).get()?.leaves.clone();
        let first = leaves.first().filter(|leaf| is_root && !shifted && leaf.kind == IterKind::DataPar).cloned();
        let (mut threads, mut blocks) = (None, None);
        let sharing = around.last().filter(|place| !place.is_local).and_then(|place| place.threads.clone());
        if let Some(thread) = sharing {
            // All threads of the block compute it together.
            let leaf = match leaves.iter().find(|leaf| !shifted && leaf.kind == IterKind::DataPar) {
                Some(leaf) => leaf.clone(),
                None => s.stage(tensor).fuse_all(&[])?,
            };
            let (_, inner) = s.stage(tensor).split(&leaf, 4)?;
            s.stage(tensor).bind(&inner, &thread)?;
            log.push(format!("{name}: {} shared by threads in parts of 4", leaf.name()));
            threads = Some(inner);
        } else if let Some(leaf) = first {
            if *is_device {
                let (outer, inner) = s.stage(tensor).split(&leaf, 4)?;
                let thread = thread_axis(Some(4), "threadIdx.x");
                s.stage(tensor).bind(&outer, &thread_axis(None, "blockIdx.x"))?.bind(&inner, &thread)?;
                log.push(format!("{name}: {} bound in parts of 4", leaf.name()));
                threads = Some(inner);
                blocks = Some((outer, thread));
            } else if choices.rarely(3) && s.stage(tensor).parallel(&leaf).is_ok() {
                log.push(format!("{name}.parallel({})", leaf.name()));
            }
        }
        let leaves = s.stage(tensor).get()?.leaves.clone();
        if let Some(leaf) = leaves.iter().rev().find(|leaf| fixed.contains(leaf)).filter(|_| choices.rarely(3)) {
            let vector = leaf.kind == IterKind::DataPar && choices.below(2) == 0;
            let copies = leaf.kind == IterKind::DataPar && choices.rarely(3);
            if copies && s.stage(tensor).bind(leaf, &thread_axis(None, "vthread")).is_ok() {
                log.push(format!("{name}: {} bound to vthread", leaf.name()));
            } else if vector && s.stage(tensor).vectorize(leaf).is_ok() {
                log.push(format!("{name}.vectorize({})", leaf.name()));
            } else if s.stage(tensor).unroll(leaf).is_ok() {
                log.push(format!("{name}.unroll({})", leaf.name()));
            }
        }
        if choices.rarely(10) {
            let axes = s.stage(tensor).get()?.all_axes.clone();
            if let Some(axis) = axes.first().filter(|axis| axis.kind == IterKind::DataPar)
                && s.stage(tensor).storage_align(axis, 4, 1).is_ok()
            {
                log.push(format!("{name}.storage_align({}, 4, 1)", axis.name()));
            }
        }
        let mut is_local = around.last().is_some_and(|place| place.is_local);
        let mut around = around;
        for axis in leaves {
            is_local |= threads.as_ref() == Some(&axis);
            let sharing = blocks.as_ref().filter(|(outer, _)| *outer == axis).map(|(_, thread)| thread.clone());
            around.push(Place { stage: tensor.clone(), axis, is_local, threads: sharing });
        }
        Ok(around)
    }
}
