//! `InjectPrefetch`: determines the regions that a loop reads or writes some iterations ahead.
//!
//! Before: attributes `prefetch_scope` in loops, with a tensor and the number of iterations ahead.
//! After: `Prefetch` statements with regions.

use std::collections::HashMap;

use kernpack::Array;

use crate::arith::{Analyzer, IntSet, SetMap};
use crate::error::Result;
use crate::ir::mutate::{MutateStmts, mutate_stmt_parts};
use crate::ir::visit::{Visit, walk_expr, walk_stmt};
use crate::ir::{Expr, ExprNode, Range, Stmt, StmtNode, Tensor, Var, substitute};
use crate::schedule::PREFETCH_SCOPE;

/// Inserts a `Prefetch` at the beginning of a loop's body, for the region that the body reads or
/// writes that many iterations later.
///
/// # Errors
/// Returns no errors at present.
pub fn inject_prefetch(stmt: &Stmt) -> Result<Stmt> {
    InjectPrefetch { loops: Vec::new(), analyzer: Analyzer::new() }.mutate_stmt(stmt)
}

struct InjectPrefetch {
    /// The variables of the surrounding loops, the innermost one last.
    loops: Vec<Var>,
    analyzer: Analyzer,
}

impl MutateStmts for InjectPrefetch {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Result<Stmt> {
        match &**stmt {
            StmtNode::For { var, min, extent, .. } => {
                let mark = self.analyzer.mark();
                self.analyzer.bind(var, &Range::new(min, extent));
                self.loops.push(var.clone());
                let stmt = mutate_stmt_parts(self, stmt);
                self.loops.pop();
                self.analyzer.restore(mark);
                stmt
            }
            StmtNode::Attr { key, node, value, body } if key.as_str() == PREFETCH_SCOPE => {
                let body = self.mutate_stmt(body)?;
                let (Some(var), Ok(tensor)) = (self.loops.last(), node.to::<Tensor>()) else {
                    return Ok(body);
                };
                let mut uses = Uses { tensor: &tensor, analyzer: &self.analyzer, sets: SetMap::new(), region: None };
                uses.visit_stmt(&body);
                let Some(region) = uses.region else { return Ok(body) };
                let later = HashMap::from([(var.clone(), var + value)]);
                let region = region.iter().zip(tensor.shape.iter()).map(|(set, extent)| {
                    let range = set.cover_range(Some(&Range::until(&extent)), &self.analyzer);
                    let range = range.unwrap_or_else(|| Range::until(&extent));
                    Range::new(substitute(&range.min, &later), substitute(&range.extent, &later))
                });
                let prefetch = StmtNode::Prefetch { tensor: tensor.clone(), region: region.collect() };
                Ok(Stmt::seq([Stmt::from_node(prefetch), body]))
            }
            _ => mutate_stmt_parts(self, stmt),
        }
    }
}

/// The part of a tensor that statements read or write.
struct Uses<'a> {
    tensor: &'a Tensor,
    analyzer: &'a Analyzer,
    sets: SetMap,
    region: Option<Vec<IntSet>>,
}

impl Uses<'_> {
    fn add(&mut self, tensor: &Tensor, indices: &Array<Expr>) {
        if !tensor.is(self.tensor) {
            return;
        }
        let sets: Vec<IntSet> =
            indices.iter().map(|index| IntSet::evaluate(&index, &self.sets, self.analyzer)).collect();
        self.region = Some(match self.region.take() {
            None => sets,
            Some(region) => region.iter().zip(&sets).map(|(a, b)| a.union(b, self.analyzer)).collect(),
        });
    }
}

impl Visit for Uses<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        walk_expr(self, expr);
        if let ExprNode::TensorRead { tensor, indices } = &**expr {
            self.add(tensor, indices);
        }
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match &**stmt {
            StmtNode::For { var, min, extent, .. } => {
                // From the outside in: a range can depend on the loops around it.
                let range = IntSet::of_range(&Range::new(min, extent)).relaxed(&self.sets, self.analyzer);
                self.sets.insert(var.clone(), range);
                walk_stmt(self, stmt);
                self.sets.remove(var);
            }
            StmtNode::TensorWrite { tensor, indices, .. } => {
                walk_stmt(self, stmt);
                self.add(tensor, indices);
            }
            _ => walk_stmt(self, stmt),
        }
    }
}
