//! Weights that were transformed at compile time, as the products read them.

use super::super::super::code::prefetch_later;
use crate::ir::{Buffer, Expr, Stmt, Tensor, Var};

/// The weights, in blocks of `width` output channels, which are computed in panels.
pub(super) struct LaidOut {
    pub(super) buffer: Buffer,
    pub(super) width: i64,
    /// The number of output channels that are computed together.
    pub(super) panel: i64,
    /// The number of places of a tile.
    pub(super) places: i64,
    /// The number of input channels.
    pub(super) depth: i64,
}

impl LaidOut {
    /// The position of a panel's weights for a place and an input channel.
    pub(super) fn position(&self, at: &Expr, place: &Expr, c: &Expr) -> Expr {
        let channel = at * self.panel;
        let (block, lane) = (channel.floor_div(self.width), channel.floor_mod(self.width));
        ((block * self.places + place) * self.depth + c) * self.width + lane
    }

    /// Prefetches the weights of the next place, which would otherwise cause stalls: those of a
    /// whole model come from the last-level cache. Each of `parts` parts of the tiles prefetches
    /// some of them.
    pub(super) fn ahead(&self, (at, place): (&Expr, &Expr), (part, parts): (&Expr, i64), c: &Var) -> Stmt {
        const LINE: i64 = 16;
        let of_place = self.depth * self.width;
        let lines = (of_place / LINE).max(1);
        let each = (lines + parts * self.depth - 1) / (parts * self.depth);
        let step = part * self.depth + c;
        let from = self.position(at, place, &Expr::int(0)) + of_place;
        let last = self.buffer.shape.iter().filter_map(|extent| extent.as_int()).product::<i64>() - 1;
        let one = |line: i64| prefetch_later(&self.buffer, (&from + (&step * each + line) * LINE).min(last));
        Stmt::seq((0..each).map(one))
    }
}

/// The number of output channels that are adjacent in memory.
pub(super) fn width_of(laid_out: &Tensor) -> i64 {
    laid_out.shape.iter().last().and_then(|extent| extent.as_int()).unwrap_or(0)
}
