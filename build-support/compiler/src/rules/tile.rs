//! The shape of register tiles of products.

use super::TargetDescription;

/// The rows and vectors of a register tile. The number of vectors is a power of two: LLVM splits
/// and widens others badly (48 lanes: 20 times slower).
pub(crate) fn tile(target: &TargetDescription, rows: Option<i64>, row_bytes: Option<i64>) -> (i64, i64) {
    let (mut height, vectors) = match (target.vector_registers, target.masks, target.fma) {
        (32, true, _) => match rows {
            Some(1) => (1, 4),
            Some(2..=6) => (6, 4),
            Some(7..=8) => (8, 2),
            // Rows that are a multiple of 4 KiB apart use the same lines of the L1 cache.
            _ if row_bytes.is_some_and(|bytes| bytes % 4096 == 0) => (target.l1_ways.clamp(4, 14), 2),
            _ => (14, 2),
        },
        (32, false, _) => (8, 2),
        (_, _, true) => (6, 2),
        _ => (4, 2),
    };
    if let Some(rows) = rows.map(|rows| rows.max(1)) {
        // Rows are divided evenly: no tile is much smaller than the others.
        let tiles = (rows + height - 1) / height;
        height = (rows + tiles - 1) / tiles;
    }
    (height, vectors)
}
