//! The reads of one operation.

use std::collections::HashSet;

use kernpack::structural;

use super::EntryCheck;
use super::domain::{Domain, Domains};
use crate::arith::{Analyzer, IntSet, SetMap};
use crate::error::{CompileError, ErrorKind, Result};
use crate::ir::mutate::mutate_expr_parts;
use crate::ir::shared::Memo;
use crate::ir::visit::{Visit, uses_var, walk_expr};
use crate::ir::{BinaryOp, Expr, ExprNode, I64, IterVar, Mutate, Operation, OperationNode, Range, Tensor, Var};
use crate::te::operation::{bodies_once, reads_tensor};
use crate::text;

/// The number of selects whose conditions are taken into account. Parts that selects share are
/// examined in each of them: without a limit, chains of selects would take exponential time.
const CHOICES: usize = 2000;

pub(super) struct Reads<'a> {
    kernel: &'a str,
    op: &'a Operation,
    known: &'a HashSet<Var>,
    domains: &'a mut Domains,
    analyzer: Analyzer,
    /// An analyzer that ignores that scalars of the caller wrap; the ends of an interval that are
    /// checked at the entry may wrap.
    plain: Analyzer,
    axes: HashSet<Var>,
    sets: SetMap,
    /// True if the operation computes its first and last elements.
    exact: bool,
    /// The condition under which no element is computed.
    empty: Expr,
    /// The number of surrounding conditions.
    guards: usize,
    choices: usize,
    /// The parts that were examined under the surrounding conditions, by address.
    seen: Vec<HashSet<usize>>,
    names: Names,
    pub(super) entry: Vec<EntryCheck>,
    pub(super) errors: Vec<CompileError>,
    pub(super) unknown: Vec<Tensor>,
}

/// The tensors of which an operation may read elements that do not exist if all of it is computed,
/// after the checks at the entry.
pub(super) fn unproved(kernel: &str, op: &Operation, known: &HashSet<Var>, entry: &[EntryCheck]) -> Vec<Tensor> {
    let whole = Domain { exact: false, ..Domain::whole(&op.output(0)) };
    let mut apart = Domains::of_outputs(&[]);
    let mut reads = Reads::new(kernel, op, &whole, known, &mut apart);
    entry.iter().for_each(|check| reads.analyzer.enter(&check.condition));
    reads.visit_op(op);
    reads.unknown
}

/// Variables that replace elements; the same element has the same variable wherever it is read.
#[derive(Default)]
struct Names {
    reads: Vec<(u64, Expr, Var)>,
    memo: Memo,
}

impl Mutate for Names {
    fn memo(&mut self) -> Option<&mut Memo> {
        Some(&mut self.memo)
    }

    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        let expr = mutate_expr_parts(self, expr)?;
        if !matches!(*expr, ExprNode::TensorRead { .. }) {
            return Ok(expr);
        }
        let hash = structural::hash(&expr).unwrap_or_default();
        let mut reads = self.reads.iter().filter(|(own, ..)| *own == hash);
        let same = reads.find(|(_, read, _)| structural::equal(read, &expr).unwrap_or(false));
        if let Some((.., var)) = same {
            return Ok(var.expr().clone());
        }
        let var = Var::new("element", expr.dtype());
        self.reads.push((hash, expr, var.clone()));
        Ok(var.expr().clone())
    }
}

impl<'a> Reads<'a> {
    pub(super) fn new(
        kernel: &'a str,
        op: &'a Operation,
        domain: &Domain,
        known: &'a HashSet<Var>,
        domains: &'a mut Domains,
    ) -> Self {
        let mut reads = Self {
            kernel,
            op,
            known,
            domains,
            analyzer: Analyzer::new(),
            plain: Analyzer::new(),
            axes: HashSet::new(),
            sets: SetMap::new(),
            exact: domain.exact,
            empty: Expr::bool(false),
            guards: 0,
            choices: 0,
            seen: vec![HashSet::new()],
            names: Names::default(),
            entry: Vec::new(),
            errors: Vec::new(),
            unknown: Vec::new(),
        };
        for var in known {
            reads.analyzer.mark_data(var);
        }
        if let OperationNode::Compute { axes, reduce_axes, .. } = &**op {
            for (axis, range) in axes.iter().zip(&domain.ranges) {
                reads.axis(&axis, range);
            }
            for axis in reduce_axes.iter() {
                if let Some(range) = &axis.dom {
                    reads.axis(&axis, range);
                }
            }
        }
        reads
    }

    fn axis(&mut self, axis: &IterVar, range: &Range) {
        self.exact &= self.is_known(&range.min) && self.is_known(&range.extent);
        if self.exact {
            self.empty = self.empty.or(range.extent.less_equal(0));
        }
        self.analyzer.bind(&axis.var, range);
        self.plain.bind(&axis.var, range);
        self.sets.insert(axis.var.clone(), IntSet::of_range(range));
        self.axes.insert(axis.var.clone());
    }

    /// Returns true if the value depends only on the arguments of the kernel.
    fn is_known(&self, expr: &Expr) -> bool {
        !uses_var(expr, |var| !self.known.contains(var)) && !reads_tensor(expr)
    }

    /// Returns true if the value depends only on sizes.
    fn is_size(&self, expr: &Expr) -> bool {
        self.is_known(expr) && !uses_var(expr, |var| !var.is_size())
    }

    pub(super) fn visit_op(&mut self, op: &Operation) {
        let OperationNode::Compute { bodies, .. } = &**op else { return };
        for body in bodies_once(bodies) {
            self.visit_expr(&body);
        }
    }

    /// The expression with variables in place of elements, which are data.
    fn named(&mut self, expr: &Expr) -> Expr {
        let count = self.names.reads.len();
        let named = self.names.mutate_expr(expr).unwrap_or_else(|_| expr.clone());
        for (.., var) in &self.names.reads[count..] {
            self.analyzer.mark_data(var);
        }
        named
    }

    /// Visits parts that are evaluated where a condition holds, or where it does not.
    fn under(&mut self, condition: &Expr, holds: bool, parts: &[Expr]) {
        let mark = self.analyzer.mark();
        self.guards += 1;
        let counts = self.choices < CHOICES;
        if counts {
            self.choices += 1;
            if holds {
                self.analyzer.enter(condition)
            } else {
                self.analyzer.enter_negation(condition)
            }
            self.seen.push(HashSet::new());
        }
        parts.iter().for_each(|part| self.visit_expr(part));
        if counts {
            self.seen.pop();
        }
        self.guards -= 1;
        self.analyzer.restore(mark);
    }

    fn read(&mut self, tensor: &Tensor, indices: &[Expr]) {
        let mut part = Domain { ranges: Vec::new(), exact: self.exact && self.guards == 0 };
        let mut used = HashSet::new();
        for (dimension, (index, extent)) in indices.iter().zip(tensor.shape.iter()).enumerate() {
            let index = self.named(index);
            let attained = self.is_attained(&index, &mut HashSet::new());
            let ends = self.ends(&index, &self.analyzer);
            let checked = if attained { self.ends(&index, &self.plain) } else { ends.clone() };
            self.bounds(tensor, dimension, &index, &extent, [&ends, &checked], attained);
            // The elements of another operation that are read are in the box of all indices; its
            // corners are read if no axis occurs in two indices.
            part.exact &= attained && self.axes_of(&index).into_iter().all(|var| used.insert(var));
            part.ranges.push(match ends {
                [Some(min), Some(max)] => {
                    let extent = self.analyzer.simplify(&(max - &min + 1));
                    Range::new(min, extent)
                }
                _ => {
                    part.exact = false;
                    Range::until(extent)
                }
            });
        }
        self.domains.read(tensor, part);
    }

    /// The ends of the interval of an index, if the arguments of the kernel determine them.
    fn ends(&self, index: &Expr, analyzer: &Analyzer) -> [Option<Expr>; 2] {
        let set = IntSet::evaluate(index, &self.sets, analyzer);
        let ends = [set.min(), set.max()].map(|end| end.map(|end| analyzer.simplify(end)));
        ends.map(|end| end.filter(|end| self.is_known(end)))
    }

    fn axes_of(&self, index: &Expr) -> Vec<Var> {
        self.axes.iter().filter(|axis| uses_var(index, |var| var == *axis)).cloned().collect()
    }

    /// Returns true if the index takes the values of both ends of its interval, for any ranges of
    /// the axes.
    fn is_attained(&self, index: &Expr, used: &mut HashSet<Var>) -> bool {
        if self.is_known(index) {
            return true;
        }
        match &**index {
            ExprNode::Var { .. } => Var::of(index).is_some_and(|var| self.axes.contains(&var) && used.insert(var)),
            ExprNode::Cast { dtype, value } if *dtype == I64 && value.dtype() == I64 => self.is_attained(value, used),
            ExprNode::Binary { op, a, b, .. } => match op {
                BinaryOp::Add | BinaryOp::Sub | BinaryOp::Min | BinaryOp::Max => {
                    self.is_attained(a, used) && self.is_attained(b, used)
                }
                BinaryOp::Mul if self.is_size(b) => self.is_attained(a, used),
                BinaryOp::Mul if self.is_size(a) => self.is_attained(b, used),
                BinaryOp::FloorDiv | BinaryOp::Div if b.as_int().is_some_and(|divisor| divisor > 0) => {
                    self.is_attained(a, used)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Decides one dimension of a read.
    fn bounds(
        &mut self,
        tensor: &Tensor,
        dimension: usize,
        index: &Expr,
        extent: &Expr,
        [ends, checked]: [&[Option<Expr>; 2]; 2],
        attained: bool,
    ) {
        let analyzer = &self.analyzer;
        let [min, max] = ends;
        let proves = |direct: Expr, end: &Option<Expr>, test: &dyn Fn(&Expr) -> Expr| {
            analyzer.can_prove(&direct) || end.as_ref().is_some_and(|end| analyzer.can_prove(&test(end)))
        };
        let low = proves(index.greater_equal(0), min, &|min| min.greater_equal(0));
        let high = proves(index.less(extent), max, &|max| max.less(extent));
        if low && high {
            return;
        }
        let decides = self.guards == 0 && self.exact && self.is_known(extent);
        if let ([Some(min), Some(max)], true, true) = (checked, decides, attained) {
            let outside = analyzer.can_prove(&min.less(0)) || analyzer.can_prove(&max.greater_equal(extent));
            if outside {
                self.errors.push(self.error(tensor, dimension, index, (min, max), extent));
                return;
            }
            let mut inside = Expr::bool(true);
            if self.is_size(min) && self.is_size(max) {
                inside = if low { inside } else { min.greater_equal(0) };
                inside = if high { inside } else { inside.and(max.less(extent)) };
            } else {
                // A scalar of the caller may be so large that one end wraps; then the other end is
                // out of bounds.
                for end in [min, max] {
                    inside = inside.and(end.greater_equal(0)).and(end.less(extent));
                }
            }
            self.at_entry(tensor, dimension, index, extent, inside);
            return;
        }
        // For any index, there has to be an element.
        if decides {
            let mark = analyzer.mark();
            analyzer.enter(&extent.greater_equal(1));
            let inside = index.greater_equal(0).and(index.less(extent));
            let set = IntSet::evaluate(index, &self.sets, analyzer);
            let by_ends = |end: Option<&Expr>, test: &dyn Fn(&Expr) -> Expr| {
                end.is_some_and(|end| analyzer.can_prove(&test(end)))
            };
            let proved = analyzer.can_prove(&inside)
                || by_ends(set.min(), &|min| min.greater_equal(0)) && by_ends(set.max(), &|max| max.less(extent));
            analyzer.restore(mark);
            if proved {
                self.at_entry(tensor, dimension, index, extent, extent.greater_equal(1));
                return;
            }
        }
        self.unknown.push(tensor.clone());
    }

    fn at_entry(&mut self, tensor: &Tensor, dimension: usize, index: &Expr, extent: &Expr, inside: Expr) {
        let condition = Analyzer::new().simplify(&self.empty.or(&inside));
        let message = format!(
            "Invalid {name}.shape[{dimension}] when calling `{kernel}`: {name} is read at index `{index}` of dimension \
             {dimension}, outside of its extent `{extent}`: expected `{inside}`",
            name = tensor.name(),
            kernel = self.kernel,
            index = text::print(index),
            extent = text::print(extent),
            inside = text::print(&inside),
        );
        if !self.entry.iter().any(|check| check.message == message) {
            self.entry.push(EntryCheck { condition, message });
        }
    }

    fn error(
        &self,
        tensor: &Tensor,
        dimension: usize,
        index: &Expr,
        (min, max): (&Expr, &Expr),
        extent: &Expr,
    ) -> CompileError {
        let [index, min, max, extent] = [index, min, max, extent].map(text::print);
        let what = format!(
            "kernel `{}`: `{}` reads `{}` at index `{index}` of dimension {dimension}, which is `{min}` to `{max}`, outside of \
             its extent `{extent}`",
            self.kernel,
            self.op.name(),
            tensor.name(),
        );
        CompileError::new(ErrorKind::Type, what)
            .at(self.op.span())
            .note("read it under a condition: `Expr::if_then_else(inside, x.at(..), 0.0)`")
    }
}

impl Visit for Reads<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        let address = expr.address();
        if self.seen.iter().any(|seen| seen.contains(&address)) {
            return;
        }
        if let Some(seen) = self.seen.last_mut() {
            seen.insert(address);
        }
        match &**expr {
            ExprNode::TensorRead { tensor, indices } => {
                walk_expr(self, expr);
                self.read(tensor, &indices.to_vec());
            }
            ExprNode::Select { condition, true_value: a, false_value: b }
            | ExprNode::IfThenElse { condition, then_value: a, else_value: b }
                if condition.lanes() == 1 =>
            {
                self.visit_expr(condition);
                let condition = self.named(condition);
                crate::ir::with_stack(|| {
                    self.under(&condition, true, std::slice::from_ref(a));
                    self.under(&condition, false, std::slice::from_ref(b));
                });
            }
            ExprNode::Reduce { sources, condition, init, .. } => {
                init.iter().for_each(|value| self.visit_expr(&value));
                self.visit_expr(condition);
                let sources: Vec<Expr> = sources.iter().collect();
                if condition.is_true() {
                    sources.iter().for_each(|source| self.visit_expr(source));
                } else {
                    let condition = self.named(condition);
                    self.under(&condition, true, &sources);
                }
            }
            ExprNode::Let { var, value, .. } => {
                let value = self.named(value);
                self.analyzer.bind_value(var, &value);
                let set = IntSet::evaluate(&value, &self.sets, &self.analyzer);
                self.sets.insert(var.clone(), set);
                walk_expr(self, expr);
            }
            _ => walk_expr(self, expr),
        }
    }
}
