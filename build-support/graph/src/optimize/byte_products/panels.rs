//! Byte matrices in the layout of products.

use kernpack_compiler::ir::{I8, U8};

use crate::constant::Constant;
use crate::error::Result;

/// Columns of a panel, and the number of contiguous rows, as in the compiler's rule `dot`.
pub(super) const COLUMNS: usize = 16;
pub(super) const DEPTH: usize = 4;

/// A matrix of signed bytes: `[column / 16][row / 4][column % 16][row % 4]`, padded with zeros
/// after the last row and column.
pub(super) struct Panels {
    pub(super) bytes: Constant,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// The sum of each column's bytes without their zero point.
    pub(super) sums: Vec<i64>,
    /// The zero point of each column.
    pub(super) zeros: Vec<i64>,
}

impl Panels {
    /// Packs a matrix, or its transpose if `turned` is true. `zeros` has one zero point, or one for
    /// each column. Returns `None` if it is not a matrix, or if they do not match.
    pub(super) fn of(matrix: &Constant, turned: bool, zeros: &[i64]) -> Result<Option<Self>> {
        let &[first, second] = matrix.shape() else { return Ok(None) };
        let (Ok(first), Ok(second)) = (usize::try_from(first), usize::try_from(second)) else { return Ok(None) };
        let (rows, columns) = if turned { (second, first) } else { (first, second) };
        if ![I8, U8].contains(&matrix.dtype()) || zeros.len() != 1 && zeros.len() != columns {
            return Ok(None);
        }
        // Unsigned bytes are shifted with their zero points.
        let shift: i64 = if matrix.dtype() == U8 { 128 } else { 0 };
        let zeros: Vec<i64> = (0..columns).map(|column| zeros[column % zeros.len()] - shift).collect();
        let (count, groups) = (columns.div_ceil(COLUMNS), rows.div_ceil(DEPTH));
        let mut bytes = vec![0_u8; count * groups * COLUMNS * DEPTH];
        let mut sums = vec![0_i64; columns];
        for row in 0..rows {
            for column in 0..columns {
                let byte = matrix.bytes()[if turned { column * rows + row } else { row * columns + column }];
                let byte = if shift == 0 { byte } else { byte ^ 0x80 };
                let (panel, group) = (column / COLUMNS, row / DEPTH);
                bytes[((panel * groups + group) * COLUMNS + column % COLUMNS) * DEPTH + row % DEPTH] = byte;
                sums[column] += i64::from(byte.cast_signed()) - zeros[column];
            }
        }
        let shape = [count, groups, COLUMNS, DEPTH].map(|extent| i64::try_from(extent).unwrap_or(i64::MAX));
        Ok(Some(Self { bytes: Constant::new(I8, &shape, bytes)?, rows, columns, sums, zeros }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_by_columns_of_four_rows() {
        // Five rows, two columns.
        let bytes: Vec<u8> = vec![1, 11, 2, 12, 3, 13, 4, 14, 5, 255];
        let matrix = Constant::new(I8, &[5, 2], bytes).unwrap();
        let panels = Panels::of(&matrix, false, &[0]).unwrap().unwrap();
        assert_eq!((panels.rows, panels.columns, panels.bytes.shape()), (5, 2, &[1, 2, 16, 4][..]));
        assert_eq!(panels.bytes.bytes()[..8], [1, 2, 3, 4, 11, 12, 13, 14]);
        assert_eq!(panels.bytes.bytes()[64..72], [5, 0, 0, 0, 255, 0, 0, 0]);
        assert_eq!((panels.sums, panels.zeros), (vec![15, 49], vec![0, 0]));
        // The same numbers as unsigned bytes, transposed, with zero points.
        let bytes: Vec<u8> = vec![129, 130, 131, 132, 133, 139, 140, 141, 142, 127];
        let turned = Constant::new(U8, &[2, 5], bytes).unwrap();
        let other = Panels::of(&turned, true, &[128, 129]).unwrap().unwrap();
        assert!(other.bytes == panels.bytes);
        assert_eq!((other.sums, other.zeros), (vec![15, 44], vec![0, 1]));
        assert!(Panels::of(&turned, true, &[1, 2, 3]).unwrap().is_none());
        assert!(Panels::of(&Constant::of_floats(&[1.0]), false, &[0]).unwrap().is_none());
    }
}
