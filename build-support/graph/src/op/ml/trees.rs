//! The walk through trees, for rows of features.
//!
//! Several walks are in progress at the same time, because each step waits for memory: eight rows
//! through one tree, or one row through eight trees if there are fewer rows. A walk that is at a
//! leaf stays there, so that all of them take the same number of steps, without branches.

use kernpack::DataType;
use kernpack_compiler::ir::builtin::REINTERPRET;
use kernpack_compiler::ir::{BF16, Buffer, DataTypeExt, Expr, F16, F32, F64, ForKind, I64, Stmt, Tensor, Var};
use kernpack_compiler::te::{self, extern_op};

use super::facts::{Facts, Layout, Rule};
use crate::error::{Result, require};
use crate::op::call::{extents, zeros};
use crate::op::extremum::{max, min};
use crate::op::statements::{as_long_as, each, element, in_vectors, lanes, put};
use crate::op::{Call, Operator, Pattern};

/// The sums of the leaves of trees. The importer adds the rest of `TreeEnsemble`.
pub(super) const TREE_ENSEMBLE: Operator = Operator { name: "TreeEnsemble", pattern: Pattern::Opaque, make };

/// The same, with its tables as inputs.
pub(crate) static TREES: Operator = TREE_ENSEMBLE;

/// The sums of the leaves of a classifier, for each class.
pub(crate) static CLASSIFIER_TREES: Operator = Operator { name: "TreeEnsembleClassifier", ..TREE_ENSEMBLE };

/// The sums of the leaves of a regressor, for each target.
pub(crate) static REGRESSOR_TREES: Operator = Operator { name: "TreeEnsembleRegressor", ..TREE_ENSEMBLE };

/// The numbers of a node.
pub(super) const WORDS: i64 = 4;

/// Flags beside the feature of a branch: it takes equal numbers, or NaN, to its second child.
pub(super) const TAKES_EQUAL: i64 = 1 << 29;
pub(super) const TAKES_NAN: i64 = 1 << 30;

/// The places of the tables among the inputs of the kernel.
const NODES: usize = 1;
const SPLITS: usize = 2;
const ROOTS: usize = 3;
const BASE: usize = 4;
const WEIGHTS: usize = 5;
const TARGETS: usize = 6;
const BEGINS: usize = 7;

/// The number of walks at the same time.
const WALKS: i64 = 8;

/// The maximum number of steps between two checks for walks that are not at a leaf.
const STEPS: i64 = 4;

/// The maximum number of groups of rows that walk through a tree before the next tree.
const GROUPS: i64 = 8;

/// Fewer steps than this are not split among threads.
const SHARED: i64 = 1 << 15;

/// The lanes of a vector of weights.
const LANES: i64 = 8;

fn make(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    require!(x.rank() == 2, "expected rows of features, got {:?}", x.shape);
    require!(call.attrs.int("post_transform", 0)? == 0, "attribute `post_transform` other than 0 is not supported");
    let tables = (1..9).map(|index| call.input(index)).collect::<Result<Vec<_>>>()?;
    let facts = Facts::of(tables[0])?;
    let has_any_type = call.name != "TreeEnsemble" && !x.dtype.is_bool();
    let fits = has_any_type || x.dtype == facts.dtype || facts.dtype == F16 && x.dtype == F32;
    require!(fits, "features of {} and leaves of {}", x.dtype, facts.dtype);
    require!(
        facts.features <= x.shape[1],
        "a node asks for feature {}, and rows {:?} have {}",
        facts.features - 1,
        x.shape,
        x.shape[1]
    );
    // Half precision is computed in single precision: this result is replaced by `half::make`.
    if x.dtype == F16 || x.dtype == BF16 {
        return Ok(vec![zeros(&[x.shape[0], facts.targets], x.dtype)]);
    }
    let dtype = if x.dtype == F64 || facts.dtype == F64 { F64 } else { F32 };
    let shape = [x.shape[0], facts.targets];
    if shape.contains(&0) {
        return Ok(vec![zeros(&shape, dtype)]);
    }
    let inputs: Vec<&Tensor> =
        core::iter::once(&x.tensor).chain(tables[1..].iter().map(|table| &table.tensor)).collect();
    let op = extern_op("trees", inputs).output(extents(&shape), dtype);
    Ok(op.body(|inputs, outputs| {
        let rows = Rows { facts, dtype, count: x.shape[0], width: x.shape[1], inputs, sums: &outputs[0] };
        rows.all()
    }))
}

/// The rows of a call, and the places of the tables.
struct Rows<'b> {
    facts: Facts,
    dtype: DataType,
    count: i64,
    width: i64,
    /// The rows and the tables.
    inputs: &'b [Buffer],
    sums: &'b Buffer,
}

/// A walk: the start of its row in the features and in the sums, and the branch where it begins.
struct Walk {
    features: Expr,
    sums: Expr,
    root: Expr,
}

impl Rows<'_> {
    fn float(&self, value: f64) -> Expr {
        te::constant(value, self.dtype)
    }

    fn index(&self, table: usize, place: impl Into<Expr>) -> Expr {
        element(&self.inputs[table], place).cast(I64)
    }

    fn number(&self, table: usize, place: impl Into<Expr>) -> Expr {
        element(&self.inputs[table], place).cast(self.dtype)
    }

    /// Computes all rows: in blocks, which threads share, of groups of rows.
    fn all(&self) -> Stmt {
        let groups = self.count / WALKS;
        let size = (groups / GROUPS).clamp(1, GROUPS);
        let blocks = groups / size;
        let rest = groups % size;
        let work = self.count.saturating_mul(self.facts.trees).saturating_mul(self.facts.levels.clamp(1, 8));
        let kind = if blocks > 1 && work >= SHARED { ForKind::Parallel } else { ForKind::Serial };
        let mut parts = Vec::new();
        if blocks > 0 {
            let block = Var::index("block");
            let body = self.block(&(block.expr() * (size * WALKS)), size);
            parts.push(Stmt::for_loop(block, 0, blocks, kind, body));
        }
        if rest > 0 {
            parts.push(self.block(&Expr::int(blocks * size * WALKS), rest));
        }
        if self.count % WALKS > 0 {
            parts.push(each("row", self.count % WALKS, |row| self.row(&(row + groups * WALKS))));
        }
        Stmt::seq(parts)
    }

    /// Computes groups of rows, each tree for all of them before the next one.
    fn block(&self, first: &Expr, groups: i64) -> Stmt {
        let trees = each("tree", self.facts.trees, |tree| {
            let root = Var::index("root");
            let body = each("group", groups, |group| {
                let walks = (0..WALKS).map(|lane| {
                    let row = first + group * WALKS + lane;
                    Walk { features: &row * self.width, sums: row * self.facts.targets, root: root.expr().clone() }
                });
                self.walks(&walks.collect::<Vec<_>>())
            });
            Stmt::seq([Stmt::bind(root.clone(), self.index(ROOTS, tree.clone())), body])
        });
        Stmt::seq([self.begin(first, groups * WALKS), trees, self.finish(first, groups * WALKS)])
    }

    /// Computes a row, several trees at the same time.
    fn row(&self, row: &Expr) -> Stmt {
        let several = |first: &Expr, count: i64| {
            let walks = (0..count).map(|lane| Walk {
                features: row * self.width,
                sums: row * self.facts.targets,
                root: self.index(ROOTS, first + lane),
            });
            self.walks(&walks.collect::<Vec<_>>())
        };
        let (whole, rest) = (self.facts.trees / WALKS, self.facts.trees % WALKS);
        let mut parts = vec![self.begin(row, 1)];
        if whole > 0 {
            parts.push(each("trees", whole, |group| several(&(group * WALKS), WALKS)));
        }
        if rest > 0 {
            parts.push(several(&Expr::int(whole * WALKS), rest));
        }
        parts.push(self.finish(row, 1));
        Stmt::seq(parts)
    }

    /// Walks to leaves, and adds their weights in the order of the walks.
    fn walks(&self, walks: &[Walk]) -> Stmt {
        let count = i64::try_from(walks.len()).unwrap_or(i64::MAX);
        let nodes = Buffer::new("nodes", I64, [Expr::int(count)], "local");
        let at = |lane: i64| element(&nodes, Expr::int(lane));
        let begin = (0..).zip(walks).map(|(lane, walk)| put(&nodes, Expr::int(lane), walk.root.clone()));
        let begin: Vec<Stmt> = core::iter::once(Stmt::alloc(nodes.clone())).chain(begin).collect();
        let step = |_| Stmt::seq((0..).zip(walks).map(|(lane, walk)| self.step(&nodes, lane, walk)));
        let steps = Stmt::seq((0..self.facts.levels.clamp(1, STEPS)).map(step));
        let first = (1..count).fold(at(0), |first, lane| first.min(at(lane)));
        let is_inside = first.less(self.facts.branches * WORDS);
        let walking = as_long_as(is_inside, steps);
        let arrive = (0..).zip(walks).map(|(lane, walk)| self.arrive(&at(lane), &walk.sums));
        Stmt::seq(begin.into_iter().chain([walking]).chain(arrive))
    }

    /// Returns the split of a branch, or the weight in its place.
    fn split(&self, node: &Expr) -> Expr {
        if self.inputs[SPLITS].dtype == F64 {
            return self.number(SPLITS, node.floor_div(WORDS));
        }
        Expr::builtin(REINTERPRET, F32, [element(&self.inputs[NODES], node + 1)]).cast(self.dtype)
    }

    /// Goes from a node to its child, or stays at a leaf.
    fn step(&self, nodes: &Buffer, lane: i64, walk: &Walk) -> Stmt {
        let (node, word) = (Var::index("node"), Var::index("word"));
        let value = Var::new("value", self.dtype);
        let has_flag = |flag: i64| word.expr().floor_div(flag).floor_mod(2).equals(1);
        let feature = if self.facts.has_flags { word.expr().floor_mod(TAKES_EQUAL) } else { word.expr().clone() };
        let split = self.split(node.expr());
        let own = value.expr();
        let mut holds = match self.facts.rule {
            Rule::AtMost => own.less_equal(split),
            Rule::Less => own.less(split),
            Rule::Either => own.less(&split).or(own.equals(&split).and(has_flag(TAKES_EQUAL))),
        };
        if self.facts.has_flags && self.inputs[0].dtype.is_float() {
            holds = holds.or(te::isnan(own).and(has_flag(TAKES_NAN)));
        }
        let child = node.expr() + 2 + Expr::select(holds, Expr::int(1), Expr::int(0));
        Stmt::seq([
            Stmt::bind(node.clone(), element(nodes, Expr::int(lane))),
            Stmt::bind(word.clone(), self.index(NODES, node.expr().clone())),
            Stmt::bind(value.clone(), self.number(0, &walk.features + feature)),
            put(nodes, Expr::int(lane), self.index(NODES, child)),
        ])
    }

    /// Adds the weights of a leaf to the sums of a row.
    fn arrive(&self, leaf: &Expr, sums: &Expr) -> Stmt {
        let add = |target: Expr, weight: Expr| {
            let place = sums + target;
            let old = element(self.sums, place.clone());
            let new = match self.facts.aggregate {
                2 => min(old, weight),
                3 => max(old, weight),
                _ => old + weight,
            };
            put(self.sums, place, new)
        };
        let own = leaf.floor_div(WORDS) - self.facts.branches;
        match self.facts.layout {
            Layout::Inline => add(Expr::int(0), self.split(leaf)),
            Layout::Full => {
                let first = Var::index("first");
                let body = in_vectors("target", self.facts.targets, LANES, |begin, count| {
                    lanes(count, |lane| {
                        let target = begin + lane;
                        add(target.clone(), self.number(WEIGHTS, first.expr() + target))
                    })
                });
                Stmt::seq([Stmt::bind(first.clone(), own * self.facts.targets), body])
            }
            Layout::Listed => {
                let begin = Var::index("begin");
                let count = self.index(BEGINS, &own + 1) - begin.expr();
                let body = each("vote", count, |vote| {
                    let place = begin.expr() + vote;
                    add(self.index(TARGETS, place.clone()), self.number(WEIGHTS, place))
                });
                Stmt::seq([Stmt::bind(begin.clone(), self.index(BEGINS, own)), body])
            }
        }
    }

    /// The value of a sum without leaves.
    fn nothing(&self) -> Expr {
        self.float(match self.facts.aggregate {
            2 => f64::INFINITY,
            3 => f64::NEG_INFINITY,
            _ => 0.0,
        })
    }

    fn begin(&self, first: &Expr, rows: i64) -> Stmt {
        let first = first * self.facts.targets;
        each("begun", rows * self.facts.targets, |place| put(self.sums, &first + place, self.nothing()))
    }

    /// Replaces sums by averages, and the extremum of no leaves by zero, and adds the base values.
    fn finish(&self, first: &Expr, rows: i64) -> Stmt {
        let Facts { aggregate, targets, trees, has_base, .. } = self.facts;
        if aggregate == 1 && !has_base {
            return Stmt::nothing();
        }
        each("finished", rows, |row| {
            each("target", targets, |target| {
                let place = (first + row) * targets + target;
                let value = element(self.sums, place.clone());
                let value = match aggregate {
                    #[expect(clippy::cast_precision_loss, reason = "there are at most 2^29 trees")]
                    0 => value / self.float(trees as f64),
                    2 | 3 => te::select(value.equals(self.nothing()), self.float(0.0), value),
                    _ => value,
                };
                let base = if has_base { self.number(BASE, target.clone()) } else { self.float(0.0) };
                put(self.sums, place, if has_base { value + base } else { value })
            })
        })
    }
}
