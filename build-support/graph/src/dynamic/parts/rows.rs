//! The comparison of two operations at an index of the dimension.

use std::collections::HashMap;

use kernpack_compiler::arith::{Analyzer, same};
use kernpack_compiler::ir::mutate::mutate_expr_parts;
use kernpack_compiler::ir::visit::uses_var;
use kernpack_compiler::ir::{Expr, ExprNode, IterVar, Mutate, Operation, OperationNode, Range, Tensor, Var, VarMap};

use super::open::{EXTENT, OTHERS, Open, Outcome, STATEMENTS};
use crate::error::Result;

/// The operations of two nodes, and the positions of the dimension in their results.
pub(super) struct Pairs {
    pub(super) numbers: HashMap<Operation, usize>,
    pub(super) open: Vec<Option<Open>>,
}

impl Pairs {
    pub(super) fn number(&self, tensor: &Tensor) -> Option<usize> {
        self.numbers.get(&tensor.op).copied()
    }
}

/// Checks that both operations compute the same at each index of the dimension, from values at that
/// index. `own` is the position of the dimension in their results.
pub(super) fn same_rows(
    (one, a): (&Operation, i64),
    (other, b): (&Operation, i64),
    own: Option<Open>,
    pairs: &Pairs,
) -> Outcome {
    let mut names = Names::default();
    let first = Rows::of(one, a, own, pairs, &mut names)?;
    let second = Rows::of(other, b, own, pairs, &mut names)?;
    let same_counts = first.reads.len() == second.reads.len() && first.bodies.len() == second.bodies.len();
    if !same_counts || first.reduced != second.reduced {
        return Err(EXTENT);
    }
    let equal = |x: &Expr, y: &Expr| same(x, y) || first.analyzer.can_prove_equal(x, y);
    for ((number, indices), (other_number, other_indices)) in first.reads.iter().zip(&second.reads) {
        let is_same = number == other_number && indices.iter().zip(other_indices).all(|(x, y)| equal(x, y));
        if !is_same {
            return Err(EXTENT);
        }
    }
    let mut bodies = first.bodies.iter().zip(&second.bodies);
    // Expressions that are too large for the former are compared once for each shared part.
    let alike = |x: &Expr, y: &Expr| same(x, y) || kernpack::structural::equal(x, y).unwrap_or(false);
    if bodies.all(|(x, y)| alike(x, y)) { Ok(()) } else { Err(EXTENT) }
}

/// Variables with the same meaning in both operations.
#[derive(Default)]
struct Names {
    /// The index of the dimension.
    index: Option<Var>,
    axes: Vec<Var>,
    /// The part of an axis outside the index of the dimension.
    outer: Option<Var>,
    /// Elements that are read.
    elements: Vec<Var>,
}

impl Names {
    fn index(&mut self) -> Var {
        self.index.get_or_insert_with(|| Var::index("index")).clone()
    }

    fn outer(&mut self) -> Var {
        self.outer.get_or_insert_with(|| Var::index("outer")).clone()
    }

    fn axis(&mut self, number: usize) -> Var {
        while self.axes.len() <= number {
            self.axes.push(Var::index(format!("axis{}", self.axes.len())));
        }
        self.axes[number].clone()
    }
}

/// Computes the expressions of an operation at an index of the dimension.
struct Rows<'a> {
    analyzer: Analyzer,
    /// The index of the dimension, and its extent.
    index: Var,
    extent: i64,
    /// Axes by the variables of the operation.
    axes: VarMap,
    pairs: &'a Pairs,
    names: &'a mut Names,
    /// The reads, by the number of the operation: indices without that of the dimension.
    reads: Vec<(usize, Vec<Expr>)>,
    /// The rewritten expressions, so that shared subexpressions are processed once.
    done: HashMap<Expr, Expr>,
    problem: Option<&'static str>,
}

/// The result of [`Rows`].
struct Found {
    analyzer: Analyzer,
    /// The extents of the axes of a reduction.
    reduced: Vec<Option<i64>>,
    reads: Vec<(usize, Vec<Expr>)>,
    bodies: Vec<Expr>,
}

impl<'a> Rows<'a> {
    fn of(op: &Operation, extent: i64, own: Option<Open>, pairs: &'a Pairs, names: &'a mut Names) -> Outcome<Found> {
        let OperationNode::Compute { axes, reduce_axes, bodies, .. } = &**op else { return Err(STATEMENTS) };
        let index = names.index();
        let mut rows = Rows {
            analyzer: Analyzer::new(),
            index: index.clone(),
            extent,
            axes: VarMap::new(),
            pairs,
            names,
            reads: Vec::new(),
            done: HashMap::new(),
            problem: None,
        };
        rows.analyzer.bind(&index, &Range::until(Expr::int(extent)));
        for (number, axis) in axes.iter().chain(reduce_axes.iter()).enumerate() {
            rows.axis(number, &axis, own.filter(|open| open.axis == number))?;
        }
        let mut parts = Vec::new();
        for body in bodies.iter() {
            match &*body {
                ExprNode::Reduce { sources, condition, init, .. } => {
                    parts.extend(sources.iter().chain([condition.clone()]).chain(init.iter()));
                }
                _ => parts.push(body),
            }
        }
        let mut made = Vec::new();
        for part in parts {
            let part = rows.mutate_expr(&part).map_err(|_| OTHERS)?;
            if let Some(problem) = rows.problem {
                return Err(problem);
            }
            if uses_var(&part, |var| *var == index) {
                return Err(OTHERS);
            }
            made.push(part);
        }
        let extent = |axis: IterVar| axis.extent().and_then(|extent| extent.as_int());
        let reduced = reduce_axes.iter().map(extent).collect();
        Ok(Found { analyzer: rows.analyzer, reduced, reads: rows.reads, bodies: made })
    }

    /// Adds an axis: that of the dimension counts its indices, and the indices within one of them.
    fn axis(&mut self, number: usize, axis: &IterVar, open: Option<Open>) -> Outcome {
        let var = self.names.axis(number);
        let dom = axis.dom.as_ref().filter(|dom| dom.min.is_int(0)).ok_or(EXTENT)?;
        let (extent, value) = match open {
            None => (dom.extent.clone(), var.expr().clone()),
            Some(Open { outer, inner, .. }) => {
                let mut index = self.index.expr().clone();
                if outer != 1 {
                    let var = self.names.outer();
                    self.analyzer.bind(&var, &Range::until(Expr::int(outer)));
                    index = var.expr() * self.extent + index;
                }
                if inner == 1 { (Expr::int(1), index) } else { (Expr::int(inner), index * inner + &var) }
            }
        };
        self.analyzer.bind(&var, &Range::until(extent));
        self.axes.insert(axis.var.clone(), value);
        Ok(())
    }

    /// Replaces an element that is read by a separate variable.
    fn read(&mut self, tensor: &Tensor, indices: Vec<Expr>) -> Outcome<Expr> {
        let number = self.pairs.number(tensor).ok_or(EXTENT)?;
        let open = self.pairs.open.get(number).copied().ok_or(EXTENT)?;
        let mut places = Vec::new();
        for (axis, place) in indices.into_iter().enumerate() {
            let place = match open.filter(|open| open.axis == axis) {
                None => place,
                Some(Open { outer, inner, .. }) => {
                    let mut place = place;
                    if outer != 1 {
                        let part = self.analyzer.simplify(&place.floor_div(self.extent * inner));
                        place = place - &part * (self.extent * inner);
                        places.push(part);
                    }
                    let rest = self.analyzer.simplify(&(place - self.index.expr() * inner));
                    let fits =
                        self.analyzer.can_prove(&rest.greater_equal(0)) && self.analyzer.can_prove(&rest.less(inner));
                    if !fits {
                        return Err(OTHERS);
                    }
                    rest
                }
            };
            places.push(place);
        }
        let uses_index = |place: &Expr| uses_var(place, |var| *var == self.index);
        for place in &mut places {
            if uses_index(place) {
                *place = self.analyzer.simplify(place);
            }
            if uses_index(place) {
                return Err(OTHERS);
            }
        }
        let element = self.reads.len();
        self.reads.push((number, places));
        if self.names.elements.len() == element {
            self.names.elements.push(Var::new(format!("element{element}"), tensor.dtype));
        }
        let var = &self.names.elements[element];
        if var.dtype() == tensor.dtype { Ok(var.expr().clone()) } else { Err(EXTENT) }
    }
}

impl Mutate for Rows<'_> {
    fn mutate_expr(&mut self, expr: &Expr) -> kernpack_compiler::Result<Expr> {
        if let Some(done) = self.done.get(expr) {
            return Ok(done.clone());
        }
        let made = match &**expr {
            ExprNode::Var { .. } => {
                Ok(Var::of(expr).and_then(|var| self.axes.get(&var).cloned()).unwrap_or_else(|| expr.clone()))
            }
            ExprNode::TensorRead { tensor, indices } => {
                let indices = indices.iter().map(|index| self.mutate_expr(&index)).collect::<Result<_, _>>()?;
                match self.read(tensor, indices) {
                    Ok(element) => Ok(element),
                    Err(problem) => {
                        self.problem.get_or_insert(problem);
                        Ok(expr.clone())
                    }
                }
            }
            _ => mutate_expr_parts(self, expr),
        }?;
        self.done.insert(expr.clone(), made.clone());
        Ok(made)
    }
}
