//! `MatMulNBits`: weights stay in their few bits, in the order in which the product reads them.

use super::{Contributed, Site, of_domain};
use crate::attrs::{Attr, Attrs};
use crate::constant::Constant;
use crate::error::{Fix, GraphError, Result, require};
use crate::graph::ValueId;
use crate::op::BLOCK_PRODUCT;
use kernpack_compiler::ir::{DataTypeExt, U8};

/// The operators of this family.
pub(super) const OPERATORS: &[Contributed] = &[of_domain("MatMulNBits", product)];

/// The number of columns of a panel.
const PANEL: usize = 16;

/// The extents of the weights.
struct Blocks {
    columns: usize,
    depth: i64,
    /// The number of blocks of a column.
    count: usize,
    /// The number of weights of a block.
    size: usize,
    /// The number of bits of a weight: 2, 4 or 8.
    bits: usize,
}

impl Blocks {
    fn new(site: &Site<'_>) -> Result<Self> {
        let (columns, depth) = (site.attrs.needed_int("N")?, site.attrs.needed_int("K")?);
        let (size, bits) = (site.attrs.needed_int("block_size")?, site.attrs.int("bits", 4)?);
        let extent = |value: i64, name: &str| match usize::try_from(value) {
            Ok(value @ 1..) => Ok(value),
            _ => Err(GraphError::new(format!("attribute `{name}` is {value}: expected a positive number"))),
        };
        require!(matches!(bits, 2 | 4 | 8), "attribute `bits` is {bits}: 2, 4 and 8 are supported");
        let fits = size >= 16 && size & (size - 1) == 0;
        require!(fits, "attribute `block_size` is {size}: expected a power of two from 16 on");
        let (size, rows) = (extent(size, "block_size")?, extent(depth, "K")?);
        let blocks = Self {
            columns: extent(columns, "N")?,
            depth,
            count: rows.div_ceil(size),
            size,
            bits: extent(bits, "bits")?,
        };
        let total = blocks.count.checked_mul(size).and_then(|rows| rows.checked_mul(blocks.columns));
        require!(
            total.is_some_and(|total| i64::try_from(total).is_ok()),
            "attributes `N` and `K` are {columns} and {depth}, which are too many weights"
        );
        Ok(blocks)
    }

    /// The number of weights of a byte.
    fn parts(&self) -> usize {
        8 / self.bits
    }

    /// Returns a number of a packed row.
    fn number(&self, row: &[u8], index: usize) -> u8 {
        let byte = row[index / self.parts()];
        let shifted = byte >> (index % self.parts() * self.bits);
        if self.bits == 8 { shifted } else { shifted & ((1 << self.bits) - 1) }
    }

    /// The number of columns of all panels.
    fn width(&self) -> usize {
        self.columns.next_multiple_of(PANEL * self.parts())
    }

    /// Returns the weights in panels: each byte has those of adjacent panels.
    fn packed(&self, bytes: &[u8]) -> Vec<u8> {
        let (rows, length) = (self.count * self.size, self.size / self.parts());
        let mut packed = vec![0; rows * self.width() / self.parts()];
        for (column, own) in bytes.chunks_exact((self.count * length).max(1)).enumerate() {
            let (panel, lane) = (column / PANEL, column % PANEL);
            let shift = panel % self.parts() * self.bits;
            let first = panel / self.parts() * rows;
            for row in 0..rows {
                let weight = self.number(&own[row / self.size * length..], row % self.size);
                packed[(first + row) * PANEL + lane] |= weight << shift;
            }
        }
        packed
    }

    /// Returns numbers of blocks, `[column, block]`, as `[block, column]`, with zeros behind the
    /// last column.
    fn by_block(&self, numbers: &[f32]) -> Result<Constant> {
        let mut turned = vec![0.0; self.count * self.width()];
        for (column, own) in numbers.chunks_exact(self.count).enumerate() {
            for (block, number) in own.iter().enumerate() {
                turned[block * self.width() + column] = *number;
            }
        }
        Constant::of_floats(&turned).reshaped(&[extent(self.count), extent(self.width())])
    }

    /// Returns packed zero points, `[column, byte]`, as floats.
    fn zeros(&self, bytes: &[u8], length: usize) -> Vec<f32> {
        let rows = bytes.chunks_exact(length.max(1));
        rows.flat_map(|row| (0..self.count).map(|block| f32::from(self.number(row, block)))).collect()
    }
}

/// Returns the elements of an input that has to be constant.
fn known(site: &Site<'_>, index: usize) -> Result<Constant> {
    let known = site.emitter.graph.values[site.input(index)?].known.clone();
    known.ok_or_else(|| {
        let what = "has to be known when the model is compiled, and depends on what the model is called with";
        GraphError::new(format!("input {index} {what}")).fix(&Fix::Constant)
    })
}

fn extent(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Inputs: rows, weights, their scales, their zero points, an order of groups, the bias.
fn product(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let prepacked = site.attrs.int("weight_prepacked", 0)?;
    require!(prepacked == 0, "attribute `weight_prepacked` is {prepacked}: weights for a GPU are not supported");
    site.refuse(4, "the order of groups")?;
    let (blocks, mut x) = (Blocks::new(site)?, site.input(0)?);
    let shape = site.shape(x);
    require!(
        shape.last() == Some(&blocks.depth),
        "the rows are {shape:?}: expected a last dimension of {}, attribute `K`",
        blocks.depth
    );
    let (columns, count) = (extent(blocks.columns), extent(blocks.count));
    let weights = known(site, 1)?;
    let expected = [columns, count, extent(blocks.size / blocks.parts())];
    require!(
        weights.shape() == expected && weights.dtype() == U8,
        "the weights are {} {:?}: expected uint8 {expected:?}",
        weights.dtype(),
        weights.shape()
    );
    let panels = [extent(blocks.width() / blocks.parts() / PANEL), count * extent(blocks.size), extent(PANEL)];
    let weights = Constant::new(U8, &panels, blocks.packed(weights.bytes()))?;
    let weights = site.emitter.graph.add_known(&format!("{}.weights", site.emitter.name), weights);
    let scales = blocks.by_block(&numbers(site, 2, "the scales", [columns, count])?)?;
    let scales = site.emitter.graph.add_known(&format!("{}.scales", site.emitter.name), scales);
    let zeros = zeros(site, &blocks)?;
    let missing = count * extent(blocks.size) - blocks.depth;
    if missing > 0 {
        let mut pads = vec![0; 2 * shape.len()];
        pads[2 * shape.len() - 1] = missing;
        let pads = site.emitter.ints(&pads);
        x = site.node("Pad", &[], &[x, pads])?;
    }
    let mut attrs = Attrs::default();
    attrs.set("bits", Attr::Int(extent(blocks.bits)));
    attrs.set("N", Attr::Int(columns));
    let y = site.emitter.add((&BLOCK_PRODUCT).into(), attrs, &[Some(x), Some(weights), Some(scales), zeros], 1)?[0];
    site.check_row(5, "the bias", y)?;
    let bias = site.optional(5);
    site.plus(y, bias).map(|y| vec![Some(y)])
}

/// Returns constant numbers of blocks, which may have one dimension.
fn numbers(site: &Site<'_>, index: usize, what: &str, expected: [i64; 2]) -> Result<Vec<f32>> {
    let known = known(site, index)?;
    let fits = known.shape() == expected || known.shape() == [expected[0] * expected[1]];
    require!(fits, "input {index}, {what}, is {:?}: expected {expected:?}", known.shape());
    Ok(known.to_floats()?.into_iter().map(|number| number as f32).collect())
}

/// Returns the zero points as floats: they are packed like the weights, or floats.
fn zeros(site: &mut Site<'_>, blocks: &Blocks) -> Result<Option<ValueId>> {
    let Some(id) = site.optional(3) else { return Ok(None) };
    let (columns, count) = (extent(blocks.columns), extent(blocks.count));
    let zeros = if site.dtype(id) == U8 {
        let length = (blocks.count * blocks.bits).div_ceil(8);
        let packed = known(site, 3)?;
        let fits = packed.shape() == [columns, extent(length)] || packed.shape() == [columns * extent(length)];
        require!(fits, "input 3, the zero points, is {:?}: expected [{columns}, {length}]", packed.shape());
        blocks.zeros(packed.bytes(), length)
    } else {
        let dtype = site.dtype(id);
        require!(dtype.is_float(), "input 3, the zero points, is {dtype}: expected uint8 or floats");
        numbers(site, 3, "the zero points", [columns, count])?
    };
    let zeros = blocks.by_block(&zeros)?;
    Ok(Some(site.emitter.graph.add_known(&format!("{}.zeros", site.emitter.name), zeros)))
}
