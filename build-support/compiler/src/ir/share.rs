//! Names for shared parts: converts expressions that are small as graphs but huge as trees to a
//! form that is also small as a tree.
//!
//! A code generator or printer traverses an expression as a tree. `x + x`, where `x` is `y + y`,
//! and so on 60 times, has 61 nodes and would take 2^60 steps. [`bind_shared`] gives such parts
//! names with `Let`:
//!
//! ```
//! use kernpack_compiler::ir::share::{bind_shared, tree_size};
//! use kernpack_compiler::ir::{Stmt, Var};
//!
//! let mut sum = Var::index("i").expr().clone();
//! for _ in 0..60 {
//!     sum = &sum ^ &(&sum * &sum);
//! }
//! assert_eq!(tree_size(&sum), u64::MAX);
//! let named = bind_shared(&Stmt::evaluate(sum))?;
//! assert!(named.to_string().len() < 5_000);
//! # Ok::<(), kernpack_compiler::CompileError>(())
//! ```
//!
//! Expressions that are no larger than [`LARGE`] are unchanged, and so are those that share little.
//! A part gets a name where it is always evaluated, or where its evaluation cannot fail. A part
//! with side effects gets no name, because the effect occurs once for each use.

use std::collections::HashMap;

use super::builtin::{Effect, effect};
use super::expr::{BinaryOp, Expr, ExprNode, Var};
use super::mutate::{Mutate, mutate_expr_parts};
use super::shared::{ByAddress, is_shared};
use super::stmt::Stmt;
use super::visit::{Visit, walk_expr};
use super::{DataTypeExt, with_stack};
use crate::error::{CompileError, ErrorKind, Result};

/// The maximum number of tree nodes up to which an expression stays a tree.
pub const LARGE: u64 = 1024;

/// The number of regions at which the conversion is abandoned.
const MOST_REGIONS: usize = 1 << 13;

/// The number of result nodes at which the conversion is abandoned.
const MOST_NODES: usize = 1 << 17;

/// The number of nodes of an expression where shared parts count once for each use; `u64::MAX` if
/// it is larger.
pub fn tree_size(expr: &Expr) -> u64 {
    let mut sizes = Sizes::default();
    sizes.visit_expr(expr);
    sizes.total
}

#[derive(Default)]
struct Sizes {
    /// The sizes of shared parts.
    known: ByAddress<u64>,
    total: u64,
}

impl Visit for Sizes {
    fn visit_expr(&mut self, expr: &Expr) {
        let shared = is_shared(expr);
        if shared && let Some(size) = self.known.get(&expr.address()) {
            self.total = self.total.saturating_add(*size);
            return;
        }
        let before = core::mem::take(&mut self.total);
        walk_expr(self, expr);
        let own = self.total.saturating_add(1);
        if shared {
            self.known.insert(expr.address(), own);
        }
        self.total = before.saturating_add(own);
    }
}

/// Returns the statement with names for the shared parts of its large expressions.
///
/// # Errors
/// Returns an error for an expression that stays too large: its parts are shared between sides of
/// selects where they may not always be evaluated.
pub fn bind_shared(stmt: &Stmt) -> Result<Stmt> {
    Statements.mutate_stmt(stmt)
}

/// Returns the expression with names for its shared parts; the expression itself if it is not
/// [`LARGE`].
///
/// # Errors
/// Returns the errors of [`bind_shared`].
pub fn bind_shared_expr(expr: &Expr) -> Result<Expr> {
    let size = tree_size(expr);
    if size <= LARGE { Ok(expr.clone()) } else { Graph::new(expr)?.bound(expr, size) }
}

struct Statements;

impl Mutate for Statements {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        bind_shared_expr(expr)
    }
}

/// A region whose expressions are evaluated together: the whole, a side of a select, the body of a
/// name, a part of a reduction.
type Region = usize;

/// Returns true if a part of a node starts a separate region.
fn begins_region(expr: &Expr, part: usize) -> bool {
    match &**expr {
        ExprNode::IfThenElse { .. } => part > 0,
        ExprNode::Let { .. } => part == 1,
        ExprNode::Reduce { .. } => true,
        _ => false,
    }
}

struct Parts(Vec<Expr>);

impl Visit for Parts {
    fn visit_expr(&mut self, expr: &Expr) {
        self.0.push(expr.clone());
    }
}

/// The parts of an expression, in evaluation order.
fn parts(expr: &Expr) -> Vec<Expr> {
    let mut parts = Parts(Vec::new());
    walk_expr(&mut parts, expr);
    parts.0
}

/// One node of the graph.
struct Node {
    expr: Expr,
    /// The node of each part.
    parts: Vec<usize>,
    /// The users of the node, each with the position among the user's parts.
    users: Vec<(usize, usize)>,
    /// True if the node has no side effects.
    pure: bool,
    /// True if its evaluation cannot fail for any values of variables.
    total: bool,
    /// The regions in which it is evaluated.
    regions: Vec<Region>,
    /// True if it has a name in its only region.
    named: bool,
}

struct Graph {
    /// The nodes; parts come before the nodes that contain them.
    nodes: Vec<Node>,
    /// The region around each region; the outermost region contains itself.
    outer: Vec<Region>,
    /// The selects in each region, with the regions of their sides.
    choices: HashMap<Region, Vec<(Region, Region)>>,
    /// The regions that start at nodes: by node, part and surrounding region.
    inner: HashMap<(usize, usize, Region), Region>,
}

impl Graph {
    fn new(expr: &Expr) -> Result<Self> {
        let mut graph = Self { nodes: Vec::new(), outer: vec![0], choices: HashMap::new(), inner: HashMap::new() };
        graph.add(expr, &mut ByAddress::default());
        for index in 0..graph.nodes.len() {
            for (position, part) in graph.nodes[index].parts.clone().into_iter().enumerate() {
                graph.nodes[part].users.push((index, position));
            }
        }
        graph.place()?;
        Ok(graph)
    }

    fn add(&mut self, expr: &Expr, known: &mut ByAddress<usize>) -> usize {
        let shared = is_shared(expr);
        if shared && let Some(index) = known.get(&expr.address()) {
            return *index;
        }
        let parts: Vec<usize> = parts(expr).iter().map(|part| with_stack(|| self.add(part, known))).collect();
        let (mut pure, mut total) = match &**expr {
            ExprNode::Load { .. } | ExprNode::TensorRead { .. } => (true, false),
            ExprNode::Binary {
                op: BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod,
                b,
                dtype,
                ..
            } => (true, dtype.is_float() || b.as_int().is_some_and(|divisor| divisor != 0)),
            ExprNode::Call { kind, name, .. } => {
                let effect = effect(*kind, name.as_str());
                (effect <= Effect::Reads, effect == Effect::Pure)
            }
            _ => (true, true),
        };
        for part in &parts {
            pure &= self.nodes[*part].pure;
            total &= self.nodes[*part].total;
        }
        let node =
            Node { expr: expr.clone(), parts, users: Vec::new(), pure, total, regions: Vec::new(), named: false };
        self.nodes.push(node);
        let index = self.nodes.len() - 1;
        if shared {
            known.insert(expr.address(), index);
        }
        index
    }

    /// Finds the regions of each node, and decides whether it gets a name there.
    fn place(&mut self) -> Result<()> {
        let last = self.nodes.len() - 1;
        let whole_is_pure = self.nodes[last].pure;
        self.nodes[last].regions.push(0);
        for index in (0..=last).rev() {
            let mut regions = core::mem::take(&mut self.nodes[index].regions);
            for (user, position) in self.nodes[index].users.clone() {
                for region in self.nodes[user].regions.clone() {
                    let region = if begins_region(&self.nodes[user].expr, position) {
                        self.inner[&(user, position, region)]
                    } else {
                        region
                    };
                    if !regions.contains(&region) {
                        regions.push(region);
                    }
                }
            }
            let node = &self.nodes[index];
            // A node that reads memory keeps its position relative to nodes that change memory.
            let movable = node.pure && (whole_is_pure || node.total);
            if node.users.len() > 1 && movable && has_name(&node.expr) {
                let common = self.common(&regions);
                if node.total || self.is_certain(common, &regions) {
                    regions = vec![common];
                    self.nodes[index].named = true;
                }
            }
            let expr = self.nodes[index].expr.clone();
            for region in &regions {
                let count = self.nodes[index].parts.len();
                let begun: Vec<Region> = (0..count)
                    .filter(|part| begins_region(&expr, *part))
                    .map(|part| {
                        self.outer.push(*region);
                        self.inner.insert((index, part, *region), self.outer.len() - 1);
                        self.outer.len() - 1
                    })
                    .collect();
                if let (ExprNode::IfThenElse { .. }, [a, b]) = (&*expr, &begun[..]) {
                    self.choices.entry(*region).or_default().push((*a, *b));
                }
            }
            if self.outer.len() > MOST_REGIONS {
                return Err(too_large());
            }
            self.nodes[index].regions = regions;
        }
        Ok(())
    }

    fn depth(&self, mut region: Region) -> usize {
        let mut depth = 0;
        while region != 0 {
            region = self.outer[region];
            depth += 1;
        }
        depth
    }

    /// The innermost region around all of these regions.
    fn common(&self, regions: &[Region]) -> Region {
        regions.iter().copied().reduce(|a, b| self.common_of_two(a, b)).unwrap_or(0)
    }

    fn common_of_two(&self, mut a: Region, mut b: Region) -> Region {
        let (mut depth_a, mut depth_b) = (self.depth(a), self.depth(b));
        while a != b {
            if depth_a >= depth_b {
                a = self.outer[a];
                depth_a -= 1;
            } else {
                b = self.outer[b];
                depth_b -= 1;
            }
        }
        a
    }

    /// Returns true if a node that is evaluated in all of the regions `used` is evaluated whenever
    /// `region` is.
    fn is_certain(&self, region: Region, used: &[Region]) -> bool {
        used.contains(&region)
            || self.choices.get(&region).is_some_and(|choices| {
                choices.iter().any(|(a, b)| with_stack(|| self.is_certain(*a, used) && self.is_certain(*b, used)))
            })
    }

    /// The expression with names.
    fn bound(&self, expr: &Expr, size: u64) -> Result<Expr> {
        if self.nodes.len() as u64 > size / 2 {
            return Ok(expr.clone());
        }
        let mut named: HashMap<Region, Vec<usize>> = HashMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if node.named {
                named.entry(node.regions[0]).or_default().push(index);
            }
        }
        let mut write = Write { graph: self, named, names: HashMap::new(), nodes: 0 };
        write.region(self.nodes.len() - 1, 0)
    }
}

/// Returns true if a value can have a name: memory locations, pointers and values as cheap as a
/// name cannot.
fn has_name(expr: &Expr) -> bool {
    let plain = !matches!(
        **expr,
        ExprNode::Int { .. }
            | ExprNode::Float { .. }
            | ExprNode::Text { .. }
            | ExprNode::Var { .. }
            | ExprNode::Load { .. }
            | ExprNode::TensorRead { .. }
            | ExprNode::Ramp { .. }
            | ExprNode::Broadcast { .. }
            | ExprNode::Reduce { .. }
    );
    plain && expr.lanes() > 0 && !expr.dtype().is_handle()
}

fn too_large() -> CompileError {
    CompileError::new(
        ErrorKind::Lower,
        "an expression whose parts are shared so often that it has no form of reasonable size",
    )
    .note("give parts that several sides of conditions use a name or a tensor of their own")
}

/// Writes the regions, from the outermost to the innermost.
struct Write<'a> {
    graph: &'a Graph,
    /// The nodes that get names in each region, parts first.
    named: HashMap<Region, Vec<usize>>,
    names: HashMap<usize, Var>,
    nodes: usize,
}

impl Write<'_> {
    fn region(&mut self, body: usize, region: Region) -> Result<Expr> {
        let mut bound = Vec::new();
        for index in self.named.get(&region).cloned().unwrap_or_default() {
            let value = self.node(index, region)?;
            let var = Var::new("shared", value.dtype());
            self.names.insert(index, var.clone());
            bound.push((var, value));
        }
        let mut body = self.part(body, region)?;
        for (var, value) in bound.into_iter().rev() {
            body = Expr::from_node(ExprNode::Let { var, value, body });
        }
        Ok(body)
    }

    /// The name of a node, or the node itself.
    fn part(&mut self, index: usize, region: Region) -> Result<Expr> {
        match self.names.get(&index) {
            Some(var) => Ok(var.expr().clone()),
            None => with_stack(|| self.node(index, region)),
        }
    }

    fn node(&mut self, index: usize, region: Region) -> Result<Expr> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(too_large());
        }
        let node = &self.graph.nodes[index];
        if node.parts.is_empty() {
            return Ok(node.expr.clone());
        }
        let mut parts = Vec::with_capacity(node.parts.len());
        for (position, part) in node.parts.iter().enumerate() {
            parts.push(match self.graph.inner.get(&(index, position, region)) {
                Some(inner) => self.region(*part, *inner)?,
                None => self.part(*part, region)?,
            });
        }
        mutate_expr_parts(&mut InOrder(parts.into_iter()), &node.expr)
    }
}

/// Replaces the parts by new ones, in evaluation order.
struct InOrder(std::vec::IntoIter<Expr>);

impl Mutate for InOrder {
    fn mutate_expr(&mut self, expr: &Expr) -> Result<Expr> {
        Ok(self.0.next().unwrap_or_else(|| expr.clone()))
    }
}
