//! The relations between the axes of a stage.

use crate::ir::{Expr, IterVar};

/// The treatment of the iterations of a split that are beyond the end of the axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Tail {
    /// A condition guards them. Loops are partitioned so that only the last part evaluates it.
    #[default]
    Guard,
    /// A condition guards them in each part, of which there is one copy: a vectorized loop uses a
    /// mask. For small code, and for parts so short that a separate loop for the tail is not
    /// worthwhile.
    Predicate,
    /// The last part starts earlier, so that it ends at the end of the axis: without a condition,
    /// some elements are computed twice. The extent must not be less than the factor; only for data
    /// axes of operations without a reduction.
    ShiftInwards,
}

/// A relation between axes of a stage. The relations of a stage are in the order in which the
/// primitives were applied: parents come before children, except for [`Rebase`](Relation::Rebase),
/// which `normalize` puts at the front.
#[derive(Clone)]
pub enum Relation {
    /// `parent = min + outer * extent(inner) + inner` (with [`Tail::ShiftInwards`]:
    /// `min + min(outer * factor, extent - factor) + inner`). One of `factor` and `nparts` is set.
    Split {
        /// The axis that is split.
        parent: IterVar,
        /// The axis over the parts.
        outer: IterVar,
        /// The axis inside a part.
        inner: IterVar,
        /// The extent of `inner`.
        factor: Option<Expr>,
        /// The extent of `outer`.
        nparts: Option<Expr>,
        /// The treatment of the tail.
        tail: Tail,
    },
    /// `outer = min + floordiv(fused, extent(inner))`,
    /// `inner = min + floormod(fused, extent(inner))`.
    Fuse {
        /// The slow axis.
        outer: IterVar,
        /// The fast axis.
        inner: IterVar,
        /// The fused axis.
        fused: IterVar,
    },
    /// `parent = min + rebased`, where `rebased` starts at 0.
    Rebase {
        /// The root axis.
        parent: IterVar,
        /// The leaf that replaces it.
        rebased: IterVar,
    },
    /// A new axis of extent 1, without a parent.
    Singleton {
        /// The axis.
        axis: IterVar,
    },
}

impl Relation {
    /// The axes from which the relation derives others.
    pub fn parents(&self) -> Vec<&IterVar> {
        match self {
            Self::Split { parent, .. } | Self::Rebase { parent, .. } => vec![parent],
            Self::Fuse { outer, inner, .. } => vec![outer, inner],
            Self::Singleton { .. } => Vec::new(),
        }
    }

    /// The axes that the relation creates.
    pub fn children(&self) -> Vec<&IterVar> {
        match self {
            Self::Split { outer, inner, .. } => vec![outer, inner],
            Self::Fuse { fused, .. } => vec![fused],
            Self::Rebase { rebased, .. } => vec![rebased],
            Self::Singleton { axis } => vec![axis],
        }
    }
}
