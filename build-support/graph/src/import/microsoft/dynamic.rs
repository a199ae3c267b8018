//! Products of bytes whose results are floats.

use super::quantized::check_number;
use super::{Contributed, Site, of_domain};
use crate::attrs::Attr;
use crate::error::{Result, require};
use crate::graph::ValueId;
use crate::import::quantize::quantized_by_range;

/// The operators of this family.
pub(super) const OPERATORS: &[Contributed] =
    &[of_domain("DynamicQuantizeMatMul", dynamic), of_domain("MatMulIntegerToFloat", to_float)];

/// A product of bytes: the factors, their scales and zero points, and the bias.
struct Product {
    factors: [ValueId; 2],
    scales: [ValueId; 2],
    zeros: [Option<ValueId>; 2],
    bias: Option<ValueId>,
}

impl Product {
    fn add(self, site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
        let Self { factors: [a, b], scales: [a_scale, b_scale], zeros, bias } = self;
        let sums = site.with_optional("MatMulInteger", &[], &[Some(a), Some(b), zeros[0], zeros[1]])?;
        let wide = site.node("Cast", &[("to", Attr::Int(1))], &[sums])?;
        let scale = site.node("Mul", &[], &[a_scale, b_scale])?;
        let y = site.node("Mul", &[], &[wide, scale])?;
        site.plus(y, bias).map(|y| vec![Some(y)])
    }
}

/// Checks a scale, a zero point or a bias of the second factor: one number, or one for each column.
pub(super) fn check_columns(site: &Site<'_>, index: usize, what: &str, b: ValueId) -> Result<()> {
    let Some(id) = site.optional(index) else { return Ok(()) };
    let (shape, of) = (site.shape(id), site.shape(b));
    let columns = of.last().copied().unwrap_or(1);
    let fits = shape.is_empty() || shape == [1] || shape == [columns];
    require!(fits, "input {index}, {what}, is {shape:?}: expected one number, or one for each column of {of:?}");
    Ok(())
}

/// Inputs: floats, bytes, the scale and the zero point of the bytes, the bias.
fn dynamic(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let (x, b, b_scale) = (site.input(0)?, site.input(1)?, site.input(2)?);
    check_columns(site, 2, "the scale", b)?;
    check_columns(site, 3, "the zero point", b)?;
    site.check_row(4, "the bias", b)?;
    let [a, a_scale, a_zero] = quantized_by_range(&mut site.emitter, x)?;
    let zeros = [Some(a_zero), site.optional(3)];
    Product { factors: [a, b], scales: [a_scale, b_scale], zeros, bias: site.optional(4) }.add(site)
}

/// Inputs: two factors, their scales, their zero points, the bias.
fn to_float(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let (a, b, scales) = (site.input(0)?, site.input(1)?, [site.input(2)?, site.input(3)?]);
    check_number(site, 2, "the scale of the first factor")?;
    check_number(site, 4, "the zero point of the first factor")?;
    check_columns(site, 3, "the scale of the second factor", b)?;
    check_columns(site, 5, "the zero point of the second factor", b)?;
    site.check_row(6, "the bias", b)?;
    let dtype = site.dtype(scales[0]);
    require!(dtype == kernpack_compiler::ir::F32, "scales of {dtype} are not supported: expected float32");
    let zeros = [site.optional(4), site.optional(5)];
    Product { factors: [a, b], scales, zeros, bias: site.optional(6) }.add(site)
}
