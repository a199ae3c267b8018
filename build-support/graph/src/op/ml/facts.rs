//! The facts that the kernel of trees depends on, beside the tables of their nodes.

use kernpack::DataType;
use kernpack_compiler::ir::{F16, F32, F64};

use crate::error::{GraphError, Result};
use crate::op::Operand;

/// The comparison of branches with their children: of a feature and a split, which lead to the
/// second child if it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    /// The feature is at most the split.
    AtMost,
    /// The feature is less.
    Less,
    /// The feature is less, or equal if the branch has this flag.
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

/// The facts that the kernel of trees depends on, beside their tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Facts {
    pub(super) rule: Rule,
    /// True if branches have flags.
    pub(super) has_flags: bool,
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
    pub(super) fn to_ints(self) -> [i64; 11] {
        let dtype = [F16, F32, F64].iter().position(|dtype| *dtype == self.dtype).unwrap_or(1);
        [
            self.rule as i64,
            self.has_flags.into(),
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

    /// Reads the numbers of a table.
    ///
    /// # Errors
    /// Returns an error for another table.
    pub(super) fn of(table: &Operand) -> Result<Self> {
        let numbers = table.value.as_ref().map(|value| value.to_ints()).transpose()?.unwrap_or_default();
        let Ok([rule, flags, layout, targets, aggregate, trees, branches, levels, features, base, dtype]) =
            <[i64; 11]>::try_from(numbers)
        else {
            return Err(GraphError::new("the tables of its trees are missing"));
        };
        let pick = |number: i64| usize::try_from(number).unwrap_or(0).min(2);
        Ok(Self {
            rule: [Rule::AtMost, Rule::Less, Rule::Either][pick(rule)],
            has_flags: flags != 0,
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
