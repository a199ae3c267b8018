//! How the axes of a stage are made of one another.

use crate::ir::{Expr, IterVar};

/// What is done with the iterations of a split that are beyond the end of the axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Tail {
    /// They are guarded by a condition. Loops are partitioned so that only the last part asks for it.
    #[default]
    Guard,
    /// They are guarded by a condition in each part, of which there is one copy: a vectorized loop has a mask. For code that is to be small, and for parts so
    /// short that a loop of its own for the rest does not pay.
    Predicate,
    /// The last part begins earlier, so that it ends where the axis does: no condition, some elements are computed twice. The extent must not be below the
    /// factor; only data axes of operations without a reduction.
    ShiftInwards,
}

/// A relation between axes of a stage. Those of a stage are in the order in which the primitives were applied: parents come before children, but for
/// [`Rebase`](Relation::Rebase), which `normalize` puts in front.
#[derive(Clone)]
pub enum Relation {
    /// `parent = min + outer * extent(inner) + inner` (with [`Tail::ShiftInwards`]: `min + min(outer * factor, extent - factor) + inner`). One of `factor`
    /// and `nparts` is given.
    Split {
        /// What is split.
        parent: IterVar,
        /// Over the parts.
        outer: IterVar,
        /// Inside a part.
        inner: IterVar,
        /// Extent of `inner`.
        factor: Option<Expr>,
        /// Extent of `outer`.
        nparts: Option<Expr>,
        /// What is done with the rest.
        tail: Tail,
    },
    /// `outer = min + floordiv(fused, extent(inner))`, `inner = min + floormod(fused, extent(inner))`.
    Fuse {
        /// The slow one.
        outer: IterVar,
        /// The fast one.
        inner: IterVar,
        /// Both.
        fused: IterVar,
    },
    /// `parent = min + rebased`, where `rebased` starts at 0.
    Rebase {
        /// A root axis.
        parent: IterVar,
        /// The leaf in its place.
        rebased: IterVar,
    },
    /// An axis of extent 1, of nothing.
    Singleton {
        /// The axis.
        axis: IterVar,
    },
}

impl Relation {
    /// The axes that it takes.
    pub fn parents(&self) -> Vec<&IterVar> {
        match self {
            Self::Split { parent, .. } | Self::Rebase { parent, .. } => vec![parent],
            Self::Fuse { outer, inner, .. } => vec![outer, inner],
            Self::Singleton { .. } => Vec::new(),
        }
    }

    /// The axes that it makes.
    pub fn children(&self) -> Vec<&IterVar> {
        match self {
            Self::Split { outer, inner, .. } => vec![outer, inner],
            Self::Fuse { fused, .. } => vec![fused],
            Self::Rebase { rebased, .. } => vec![rebased],
            Self::Singleton { axis } => vec![axis],
        }
    }
}
