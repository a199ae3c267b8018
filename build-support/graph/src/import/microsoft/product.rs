//! Products and convolutions with what onnxruntime fuses with them.

use super::activation::{with_list, with_numbers};
use super::{Contributed, Site, of_domain};
use crate::attrs::Attr;
use crate::error::{Result, require};
use crate::graph::ValueId;

/// The operators of this family.
pub(super) const OPERATORS: &[Contributed] =
    &[of_domain("FusedConv", conv), of_domain("FusedGemm", gemm), of_domain("FusedMatMul", matmul)];

/// Returns the attributes with these names.
pub(super) fn chosen<'n>(site: &Site<'_>, names: &[&'n str]) -> Vec<(&'n str, Attr)> {
    names.iter().filter_map(|name| Some((*name, site.attrs.get(name)?.clone()))).collect()
}

/// Inputs: the image, the weights, the bias, and a value that is added before the activation.
fn conv(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let attrs = chosen(site, &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"]);
    let inputs = [Some(site.input(0)?), Some(site.input(1)?), site.optional(2)];
    let mut y = site.with_optional("Conv", &attrs, &inputs)?;
    if let Some(other) = site.optional(3) {
        let (shape, own) = (site.shape(y), site.shape(other));
        require!(own == shape, "input 3, which is added to the convolution, is {own:?}: expected {shape:?}");
        y = site.node("Add", &[], &[y, other])?;
    }
    with_list(site, y).map(|y| vec![Some(y)])
}

fn gemm(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let attrs = chosen(site, &["alpha", "beta", "transA", "transB"]);
    let inputs = [Some(site.input(0)?), Some(site.input(1)?), site.optional(2)];
    let y = site.with_optional("Gemm", &attrs, &inputs)?;
    with_numbers(site, y).map(|y| vec![Some(y)])
}

fn matmul(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    let (a, b) = (site.input(0)?, site.input(1)?);
    let alpha = site.attrs.float32("alpha", 1.0)?;
    let batches = [site.attrs.flag("transBatchA", false)?, site.attrs.flag("transBatchB", false)?];
    let turns = [site.attrs.flag("transA", false)?, site.attrs.flag("transB", false)?];
    let (of_a, of_b) = (site.shape(a), site.shape(b));
    require!(
        batches == [false; 2] || of_a.len() > 2 && of_a.len() == of_b.len(),
        "attributes `transBatchA` and `transBatchB` are for inputs of the same rank, from three on, got {of_a:?} and {of_b:?}"
    );
    // Two matrices are multiplied without transposing them first.
    if site.rank(a) == 2 && site.rank(b) == 2 {
        let mut attrs = chosen(site, &["transA", "transB"]);
        attrs.push(("alpha", Attr::Float(alpha)));
        return site.node("Gemm", &attrs, &[a, b]).map(|y| vec![Some(y)]);
    }
    let a = turned(site, a, batches[0], turns[0])?;
    let b = turned(site, b, batches[1], turns[1])?;
    let y = site.node("MatMul", &[], &[a, b])?;
    site.scaled(y, alpha).map(|y| vec![Some(y)])
}

/// Moves the first dimension behind the batch, and swaps the last two. A vector is kept.
fn turned(site: &mut Site<'_>, x: ValueId, batch: bool, swaps: bool) -> Result<ValueId> {
    let rank = site.rank(x);
    let mut perm: Vec<i64> = (0..i64::try_from(rank).unwrap_or(0)).collect();
    if rank < 2 {
        return Ok(x);
    }
    if batch {
        perm[..rank - 1].rotate_left(1);
    }
    if swaps {
        perm.swap(rank - 2, rank - 1);
    }
    if perm.is_sorted() {
        return Ok(x);
    }
    site.node("Transpose", &[("perm", Attr::Ints(perm))], &[x])
}
