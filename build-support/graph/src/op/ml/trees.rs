//! The walk through trees, for rows of features.
//!
//! Several walks are in progress at the same time, because each step waits for memory: eight rows
//! through one tree, or one row through eight trees if there are fewer rows. A walk that is at a
//! leaf stays there, so that all of them take the same number of steps, without branches.

use kernpack::DataType;
use kernpack_compiler::ir::{BF16, Buffer, DataTypeExt, Expr, F16, F32, F64, ForKind, I64, Stmt, Tensor, Var};
use kernpack_compiler::te::{self, extern_op};

use crate::error::{GraphError, Result, require};
use crate::op::call::{extents, zeros};
use crate::op::extremum::{max, min};
use crate::op::statements::{Variable, as_long_as, each, element, in_vectors, lanes, put, when};
use crate::op::{Call, Operand, Operator, Pattern};

/// The sums of the leaves of trees. The importer adds the rest of `TreeEnsemble`.
pub(super) const TREE_ENSEMBLE: Operator = Operator { name: "TreeEnsemble", pattern: Pattern::Opaque, make };

/// The sums of the leaves of a classifier, for each class.
pub(crate) static CLASSIFIER_TREES: Operator = Operator { name: "TreeEnsembleClassifier", ..TREE_ENSEMBLE };

/// The sums of the leaves of a regressor, for each target.
pub(crate) static REGRESSOR_TREES: Operator = Operator { name: "TreeEnsembleRegressor", ..TREE_ENSEMBLE };

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

/// The comparison of branches with their children: of a feature and a split, which lead to the
/// second child if it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    /// The feature is at most the split.
    AtMost,
    /// The feature is less.
    Less,
    /// The feature is less, or equal if the branch has flag 1.
    Either,
}

/// The form in which the weights of leaves are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// One weight, in the place of the split.
    Inline,
    /// Weights for all targets.
    Full,
    /// A list of targets and weights.
    Listed,
}

/// What the kernel of trees depends on, beside their tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Facts {
    pub(super) rule: Rule,
    /// True if branches have flags: 1 for [`Rule::Either`], 2 if NaN leads to the second child.
    pub(super) has_flags: bool,
    /// True if a walk may come back to a branch; it ends without a leaf.
    pub(super) is_cyclic: bool,
    pub(super) layout: Layout,
    pub(super) targets: i64,
    /// The number of the function in `TreeEnsemble`: average, sum, minimum, maximum.
    pub(super) aggregate: i64,
    pub(super) trees: i64,
    pub(super) branches: i64,
    /// The largest number of branches on the way to a leaf.
    pub(super) levels: i64,
    /// The smallest number of features that rows must have.
    pub(super) features: i64,
    pub(super) has_base: bool,
    /// The type of splits and weights in the model.
    pub(super) dtype: DataType,
}

impl Facts {
    /// Returns them as numbers, for a table.
    pub(super) fn to_ints(self) -> [i64; 12] {
        let dtype = [F16, F32, F64].iter().position(|dtype| *dtype == self.dtype).unwrap_or(1);
        [
            self.rule as i64,
            self.has_flags.into(),
            self.is_cyclic.into(),
            self.layout as i64,
            self.targets,
            self.aggregate,
            self.trees,
            self.branches,
            self.levels,
            self.features,
            self.has_base.into(),
            i64::try_from(dtype).unwrap_or(1),
        ]
    }

    fn of(table: &Operand) -> Result<Self> {
        let numbers = table.value.as_ref().map(|value| value.to_ints()).transpose()?.unwrap_or_default();
        let Ok([rule, flags, cyclic, layout, targets, aggregate, trees, branches, levels, features, base, dtype]) =
            <[i64; 12]>::try_from(numbers)
        else {
            return Err(GraphError::new("the tables of its trees are missing"));
        };
        let pick = |number: i64| usize::try_from(number).unwrap_or(0).min(2);
        Ok(Self {
            rule: [Rule::AtMost, Rule::Less, Rule::Either][pick(rule)],
            has_flags: flags != 0,
            is_cyclic: cyclic != 0,
            layout: [Layout::Inline, Layout::Full, Layout::Listed][pick(layout)],
            targets,
            aggregate,
            trees,
            branches,
            levels,
            features,
            has_base: base != 0,
            dtype: [F16, F32, F64][pick(dtype)],
        })
    }
}

fn make(call: &Call) -> Result<Vec<Tensor>> {
    let x = call.input(0)?;
    require!(x.rank() == 2, "expected rows of features, got {:?}", x.shape);
    require!(call.attrs.int("post_transform", 0)? == 0, "attribute `post_transform` other than 0 is not supported");
    let tables = (1..11).map(|index| call.input(index)).collect::<Result<Vec<_>>>()?;
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
            Stmt::seq([Stmt::bind(root.clone(), self.index(4, tree.clone())), body])
        });
        Stmt::seq([self.begin(first, groups * WALKS), trees, self.finish(first, groups * WALKS)])
    }

    /// Computes a row, several trees at the same time.
    fn row(&self, row: &Expr) -> Stmt {
        let several = |first: &Expr, count: i64| {
            let walks = (0..count).map(|lane| Walk {
                features: row * self.width,
                sums: row * self.facts.targets,
                root: self.index(4, first + lane),
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
        let is_inside = first.less(self.facts.branches);
        let walking = if self.facts.is_cyclic {
            let taken = Variable::index("taken");
            let bound = taken.get().less_equal(self.facts.branches);
            let body = Stmt::seq([steps, taken.add(1)]);
            Stmt::seq([taken.begin(0), as_long_as(is_inside.and(bound), body)])
        } else {
            as_long_as(is_inside, steps)
        };
        let arrive = (0..).zip(walks).map(|(lane, walk)| {
            let arrive = self.arrive(&at(lane), &walk.sums);
            if self.facts.is_cyclic { when(at(lane).greater_equal(self.facts.branches), arrive) } else { arrive }
        });
        Stmt::seq(begin.into_iter().chain([walking]).chain(arrive))
    }

    /// Goes from a node to its child, or stays at a leaf.
    fn step(&self, nodes: &Buffer, lane: i64, walk: &Walk) -> Stmt {
        let node = Var::index("node");
        let value = Var::new("value", self.dtype);
        let place = &walk.features + self.index(1, node.expr().clone());
        let split = self.number(2, node.expr().clone());
        let flag = |bit: i64| self.index(6, node.expr().clone()).floor_div(bit).floor_mod(2).equals(1);
        let value_of = value.expr();
        let mut holds = match self.facts.rule {
            Rule::AtMost => value_of.less_equal(split),
            Rule::Less => value_of.less(split),
            Rule::Either => value_of.less(&split).or(value_of.equals(&split).and(flag(1))),
        };
        if self.facts.has_flags && self.inputs[0].dtype.is_float() {
            holds = holds.or(te::isnan(value_of).and(flag(2)));
        }
        let child = node.expr() * 2 + Expr::select(holds, Expr::int(1), Expr::int(0));
        Stmt::seq([
            Stmt::bind(node.clone(), element(nodes, Expr::int(lane))),
            Stmt::bind(value.clone(), self.number(0, place)),
            put(nodes, Expr::int(lane), self.index(3, child)),
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
        let own = leaf - self.facts.branches;
        match self.facts.layout {
            Layout::Inline => add(Expr::int(0), self.number(2, leaf.clone())),
            Layout::Full => {
                let first = Var::index("first");
                let body = in_vectors("target", self.facts.targets, LANES, |begin, count| {
                    lanes(count, |lane| {
                        let target = begin + lane;
                        add(target.clone(), self.number(7, first.expr() + target))
                    })
                });
                Stmt::seq([Stmt::bind(first.clone(), own * self.facts.targets), body])
            }
            Layout::Listed => {
                let begin = Var::index("begin");
                let count = self.index(9, &own + 1) - begin.expr();
                let body = each("vote", count, |vote| {
                    let place = begin.expr() + vote;
                    add(self.index(8, place.clone()), self.number(7, place))
                });
                Stmt::seq([Stmt::bind(begin.clone(), self.index(9, own)), body])
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
                let base = if has_base { self.number(5, target.clone()) } else { self.float(0.0) };
                put(self.sums, place, if has_base { value + base } else { value })
            })
        })
    }
}
