//! Trees as flat tables, from the attributes of the operators of trees.
//!
//! Branches have the numbers from 0, leaves those after the branches. Each has two children; those
//! of a leaf are the leaf itself, so that a walk may take more steps than the tree has levels. A
//! walk compares in one or two ways: the other comparisons exchange the children, and equality is
//! two branches.

use kernpack::DataType;
use kernpack_compiler::ir::{F32, F64, I32};

use super::facts::{Facts, Layout, Rule};
use super::trees::{TAKES_EQUAL, TAKES_NAN, WORDS};
use crate::constant::Constant;
use crate::error::{Result, require};

/// The maximum number of branches, of leaves, and of their weights: the numbers of tables are
/// `int32`, and a node has four of them.
pub(super) const MOST: usize = 1 << 27;

/// Weights are stored for all targets of all leaves if this makes them at most this many times as
/// many.
const FILLED: usize = 4;

/// The comparison of a branch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Leq,
    Lt,
    Gte,
    Gt,
    Eq,
    Neq,
}

/// The modes by their numbers and names in ONNX. Number 6 of the numbers is a set.
pub(super) const MODES: [(&str, Mode); 6] = [
    ("BRANCH_LEQ", Mode::Leq),
    ("BRANCH_LT", Mode::Lt),
    ("BRANCH_GTE", Mode::Gte),
    ("BRANCH_GT", Mode::Gt),
    ("BRANCH_EQ", Mode::Eq),
    ("BRANCH_NEQ", Mode::Neq),
];

#[derive(Clone, Copy)]
pub(super) enum Child {
    Branch(usize),
    Leaf(usize),
}

pub(super) struct Branch {
    pub(super) feature: i64,
    pub(super) mode: Mode,
    pub(super) split: f64,
    pub(super) if_true: Child,
    pub(super) if_false: Child,
    /// True if NaN leads to `if_true`.
    pub(super) takes_nan: bool,
}

/// A branch with one of two comparisons.
struct Step {
    feature: i64,
    split: f64,
    children: [Child; 2],
    takes_equal: bool,
    takes_nan: bool,
}

/// The trees of an operator.
pub(super) struct Forest {
    pub(super) branches: Vec<Branch>,
    /// The votes of each leaf end where those of the next one begin.
    pub(super) begins: Vec<usize>,
    pub(super) votes: Vec<(i64, f64)>,
    pub(super) roots: Vec<Child>,
    pub(super) base: Vec<f64>,
    pub(super) targets: i64,
    pub(super) aggregate: i64,
    pub(super) dtype: DataType,
}

impl Forest {
    /// Checks the numbers that tables and kernels depend on.
    pub(super) fn checked(self) -> Result<Self> {
        let most = i64::try_from(MOST).unwrap_or(i64::MAX);
        require!(
            (1..=most).contains(&self.targets),
            "there are {} targets or classes: expected 1 to {most}",
            self.targets
        );
        let wrong = self.branches.iter().map(|branch| branch.feature).find(|feature| !(0..most).contains(feature));
        require!(wrong.is_none(), "attribute `nodes_featureids` has {}: expected 0 to {most}", wrong.unwrap_or(0));
        let fits = [0, usize::try_from(self.targets).unwrap_or(0)].contains(&self.base.len());
        require!(
            fits,
            "attribute `base_values` has {} values for {} targets or classes",
            self.base.len(),
            self.targets
        );
        Ok(self)
    }

    fn leaves(&self) -> usize {
        self.begins.len() - 1
    }

    /// Returns the branches with at most two comparisons, and the rule that they need.
    fn steps(&self) -> (Vec<Step>, Rule) {
        let mut behind = Vec::new();
        let mut steps = Vec::with_capacity(self.branches.len());
        for branch in &self.branches {
            let Branch { feature, split, if_true, if_false, takes_nan, .. } = *branch;
            let of = |children: [Child; 2], takes_equal, takes_nan| Step {
                feature,
                split,
                children,
                takes_equal,
                takes_nan,
            };
            let next = Child::Branch(self.branches.len() + behind.len());
            steps.push(match branch.mode {
                // No number is above NaN, either: the opposite comparison would hold.
                Mode::Gt | Mode::Gte if split.is_nan() => of([if_false, if_true], true, takes_nan),
                Mode::Leq => of([if_false, if_true], true, takes_nan),
                Mode::Lt => of([if_false, if_true], false, takes_nan),
                // The opposite comparison, with exchanged children.
                Mode::Gt => of([if_true, if_false], true, !takes_nan),
                Mode::Gte => of([if_true, if_false], false, !takes_nan),
                // At most, and then not less. NaN is not less.
                Mode::Eq => {
                    behind.push(of([if_true, if_false], false, false));
                    of([if_false, next], true, takes_nan)
                }
                Mode::Neq => {
                    behind.push(of([if_false, if_true], false, false));
                    of([if_true, next], true, false)
                }
            });
        }
        steps.extend(behind);
        let rule = match steps.iter().filter(|step| step.takes_equal).count() {
            count if count == steps.len() => Rule::AtMost,
            0 => Rule::Less,
            _ => Rule::Either,
        };
        (steps, rule)
    }

    /// Returns the form in which the weights of leaves are stored.
    fn layout(&self) -> Layout {
        let (leaves, targets) = (self.leaves(), usize::try_from(self.targets).unwrap_or(usize::MAX));
        let counts = || self.begins.windows(2).map(|pair| &self.votes[pair[0]..pair[1]]);
        let sums = self.aggregate <= 1;
        // The least and the largest weight are those of leaves that have one.
        let is_full =
            || counts().all(|votes| (0..).zip(votes).all(|(place, vote)| vote.0 == place) && votes.len() == targets);
        let is_small = leaves.saturating_mul(targets) <= self.votes.len().saturating_mul(FILLED);
        match () {
            () if targets == 1 && (sums || is_full()) => Layout::Inline,
            () if sums && is_small || is_full() => Layout::Full,
            () => Layout::Listed,
        }
    }

    /// Returns the tables: [`Facts`]; nodes; splits, if they are doubles; roots; base values; and
    /// weights, targets and begins of votes.
    ///
    /// A node has [`WORDS`] numbers: its feature and flags, the bits of its split, and the places
    /// of its children.
    pub(super) fn tables(&self) -> Result<Vec<Constant>> {
        let (steps, rule) = self.steps();
        let (count, leaves) = (steps.len(), self.leaves());
        let layout = self.layout();
        let most = (1 << 29) - 1;
        require!(count + leaves <= most, "the trees have {} comparisons and leaves: expected {most}", count + leaves);
        let (levels, is_cyclic) = levels(&steps, &self.roots);
        require!(!is_cyclic, "a way through the trees comes back to a node: expected trees without cycles");
        let has_nan = steps.iter().any(|step| step.takes_nan);
        let facts = Facts {
            rule,
            has_flags: has_nan || rule == Rule::Either,
            layout,
            targets: self.targets,
            aggregate: self.aggregate,
            trees: int(self.roots.len()),
            branches: int(count),
            levels: int(levels),
            features: steps.iter().map(|step| step.feature + 1).max().unwrap_or(0),
            has_base: !self.base.is_empty(),
            dtype: self.dtype,
        };
        let sums = self.leaf_sums(layout);
        let is_wide = self.dtype == F64;
        let mut nodes = Vec::with_capacity((count + leaves) * 16);
        let mut splits = Vec::new();
        let mut node = |word: i64, split: f64, children: [i64; 2]| {
            put(&mut nodes, word);
            nodes.extend_from_slice(&if is_wide { [0; 4] } else { single(split).to_le_bytes() });
            put(&mut nodes, children[0]);
            put(&mut nodes, children[1]);
            if is_wide {
                splits.push(split);
            }
        };
        for step in &steps {
            let flags = i64::from(step.takes_equal) * TAKES_EQUAL + i64::from(step.takes_nan) * TAKES_NAN;
            let flags = if facts.has_flags { flags } else { 0 };
            node(step.feature + flags, step.split, step.children.map(|child| place(child, count)));
        }
        for leaf in 0..leaves {
            let inline = if layout == Layout::Inline { sums.get(leaf).copied() } else { None };
            let weight = inline.unwrap_or(0.0);
            node(0, weight, [place(Child::Leaf(leaf), count); 2]);
        }
        let (weights, targets, begins) = match layout {
            Layout::Inline => (vec![0.0], vec![0], vec![0]),
            Layout::Full => (sums, vec![0], vec![0]),
            Layout::Listed => (
                self.votes.iter().map(|vote| vote.1).chain([0.0]).collect(),
                self.votes.iter().map(|vote| vote.0).chain([0]).collect(),
                self.begins.iter().map(|begin| int(*begin)).collect(),
            ),
        };
        let base = if self.base.is_empty() { vec![0.0] } else { self.base.clone() };
        let splits = if splits.is_empty() { vec![0.0] } else { splits };
        let roots: Vec<i64> = self.roots.iter().map(|root| place(*root, count)).collect();
        Ok(vec![
            Constant::of_ints(&facts.to_ints()),
            Constant::new(I32, &[int(nodes.len() / 4)], nodes)?,
            self.floats(&splits)?,
            numbers_of(&roots)?,
            self.floats(&base)?,
            self.floats(&weights)?,
            numbers_of(&targets)?,
            numbers_of(&begins)?,
        ])
    }

    /// Returns the sums of the votes of each leaf for each target.
    fn leaf_sums(&self, layout: Layout) -> Vec<f64> {
        if layout == Layout::Listed {
            return Vec::new();
        }
        let targets = usize::try_from(self.targets).unwrap_or(0);
        let mut sums = vec![0.0; self.leaves() * targets];
        for (leaf, pair) in self.begins.windows(2).enumerate() {
            for (target, weight) in &self.votes[pair[0]..pair[1]] {
                sums[leaf * targets + usize::try_from(*target).unwrap_or(0)] += weight;
            }
        }
        sums
    }

    /// Returns a table of floats: doubles if the model has doubles.
    fn floats(&self, values: &[f64]) -> Result<Constant> {
        let mut bytes = Vec::with_capacity(values.len() * 8);
        for value in values {
            if self.dtype == F64 {
                bytes.extend_from_slice(&value.to_le_bytes());
            } else {
                bytes.extend_from_slice(&single(*value).to_le_bytes());
            }
        }
        Constant::new(if self.dtype == F64 { F64 } else { F32 }, &[int(values.len())], bytes)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it was a float32, or is a sum of them")]
fn single(value: f64) -> f32 {
    value as f32
}

fn int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the place of a node in the table of nodes. Leaves are behind the branches.
fn place(node: Child, branches: usize) -> i64 {
    int(match node {
        Child::Branch(branch) => branch,
        Child::Leaf(leaf) => branches + leaf,
    }) * WORDS
}

/// Adds a number that [`MOST`] limits.
fn put(bytes: &mut Vec<u8>, value: i64) {
    bytes.extend_from_slice(&i32::try_from(value).unwrap_or(i32::MAX).to_le_bytes());
}

/// Returns a table of numbers that [`MOST`] limits.
fn numbers_of(values: &[i64]) -> Result<Constant> {
    let mut bytes = Vec::with_capacity(values.len() * 4);
    for value in values {
        put(&mut bytes, *value);
    }
    Constant::new(I32, &[int(values.len())], bytes)
}

/// Returns the largest number of branches on the way from a root to a leaf, and true if a way comes
/// back to a branch.
fn levels(steps: &[Step], roots: &[Child]) -> (usize, bool) {
    const NEW: usize = usize::MAX;
    const OPEN: usize = usize::MAX - 1;
    let mut below = vec![NEW; steps.len()];
    let mut is_cyclic = false;
    let of = |below: &[usize], child: &Child| match child {
        Child::Branch(branch) if below[*branch] < OPEN => below[*branch],
        _ => 0,
    };
    let mut left: Vec<usize> = Vec::new();
    for root in roots {
        let Child::Branch(root) = root else { continue };
        left.push(*root);
        while let Some(branch) = left.last().copied() {
            if below[branch] == NEW {
                below[branch] = OPEN;
                for child in &steps[branch].children {
                    match child {
                        Child::Branch(child) if below[*child] == NEW => left.push(*child),
                        Child::Branch(child) => is_cyclic |= below[*child] == OPEN,
                        Child::Leaf(_) => {}
                    }
                }
                continue;
            }
            if below[branch] == OPEN {
                below[branch] = 1 + steps[branch].children.iter().map(|child| of(&below, child)).max().unwrap_or(0);
            }
            left.pop();
        }
    }
    (roots.iter().map(|root| of(&below, root)).max().unwrap_or(0), is_cyclic)
}
