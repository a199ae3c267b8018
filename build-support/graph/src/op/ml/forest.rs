//! Trees as flat tables, from the attributes of the operators of trees.
//!
//! Branches have the numbers from 0, leaves those after the branches. Each has two children; those
//! of a leaf are the leaf itself, so that a walk may take more steps than the tree has levels. A
//! walk compares in one or two ways: the other comparisons exchange the children, and equality is
//! two branches.

use kernpack::DataType;
use kernpack_compiler::ir::{F32, F64, I32, U8};

use super::trees::{Facts, Layout, Rule};
use crate::constant::Constant;
use crate::error::{Result, require};

/// The maximum number of branches and leaves, and of their weights: the numbers of tables are
/// `int32`.
pub(super) const MOST: usize = 1 << 29;

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

    /// Returns the tables: [`Facts`]; features, splits and children of branches and leaves; roots;
    /// base values; flags; and weights, targets and begins of votes.
    pub(super) fn tables(&self) -> Result<Vec<Constant>> {
        let (steps, rule) = self.steps();
        let (count, leaves) = (steps.len(), self.leaves());
        let number = |child: &Child| match child {
            Child::Branch(branch) => *branch,
            Child::Leaf(leaf) => count + leaf,
        };
        let layout = self.layout();
        let (levels, is_cyclic) = levels(&steps, &self.roots);
        let has_nan = steps.iter().any(|step| step.takes_nan);
        let facts = Facts {
            rule,
            has_flags: has_nan || rule == Rule::Either,
            is_cyclic,
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
        let inline = |leaf: usize| if layout == Layout::Inline { sums[leaf] } else { 0.0 };
        let features = steps.iter().map(|step| step.feature).chain((0..leaves).map(|_| 0));
        let splits = self.floats(steps.iter().map(|step| step.split).chain((0..leaves).map(inline)))?;
        let children = steps.iter().flat_map(|step| step.children.map(|child| int(number(&child))));
        let children = children.chain((count..count + leaves).flat_map(|leaf| [int(leaf); 2]));
        let flags = steps.iter().map(|step| u8::from(step.takes_equal) + 2 * u8::from(step.takes_nan));
        let flags: Vec<u8> = if facts.has_flags { flags.chain((0..leaves).map(|_| 0)).collect() } else { vec![0] };
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
        Ok(vec![
            Constant::of_ints(&facts.to_ints()),
            numbers_of(features)?,
            splits,
            numbers_of(children)?,
            numbers_of(self.roots.iter().map(|root| int(number(root))))?,
            self.floats(base)?,
            Constant::new(U8, &[int(flags.len())], flags)?,
            self.floats(weights)?,
            numbers_of(targets)?,
            numbers_of(begins)?,
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
    fn floats(&self, values: impl IntoIterator<Item = f64>) -> Result<Constant> {
        let mut bytes = Vec::new();
        for value in values {
            if self.dtype == F64 {
                bytes.extend(value.to_le_bytes());
            } else {
                #[expect(clippy::cast_possible_truncation, reason = "it was a float32, or is a sum of them")]
                bytes.extend((value as f32).to_le_bytes());
            }
        }
        let (dtype, width) = if self.dtype == F64 { (F64, 8) } else { (F32, 4) };
        Constant::new(dtype, &[int(bytes.len() / width)], bytes)
    }
}

fn int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns a table of numbers below [`MOST`].
fn numbers_of(values: impl IntoIterator<Item = i64>) -> Result<Constant> {
    let bytes: Vec<u8> =
        values.into_iter().flat_map(|value| i32::try_from(value).unwrap_or(i32::MAX).to_le_bytes()).collect();
    Constant::new(I32, &[int(bytes.len() / 4)], bytes)
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
