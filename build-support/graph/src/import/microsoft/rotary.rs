//! Rotations of pairs of elements by the angle of their place.

use super::{Contributed, Site, of_domain};
use crate::attrs::Attr;
use crate::error::{Result, fail, require};
use crate::graph::ValueId;

/// The operators of this family.
pub(super) const OPERATORS: &[Contributed] = &[of_domain("RotaryEmbedding", rotary)];

/// Inputs: elements with the dimensions batch, place and elements of all heads, or batch, head,
/// place and element; the places, or the first one; cosines and sines by place.
fn rotary(site: &mut Site<'_>) -> Result<Vec<Option<ValueId>>> {
    site.refuse_flag("is_packed_batching")?;
    let scale = site.attrs.float32("scale", 1.0)?;
    require!(scale == 1.0, "attribute `scale` is {scale}: only 1 is supported");
    let (x, table) = (site.input(0)?, site.input(2)?);
    let (shape, angles) = (site.shape(x), site.shape(table));
    let [_, half] = angles[..] else { fail!("input 2, the cosines, is {angles:?}: expected two dimensions") };
    let (heads, turned) = (site.attrs.int("num_heads", 0)?, site.attrs.int("rotary_embedding_dim", 0)?);
    require!(turned == 0 || heads > 0, "attribute `rotary_embedding_dim` needs attribute `num_heads`");
    let (batch, length, heads, size) = match shape[..] {
        [batch, own, length, size] => (batch, length, own, size),
        [batch, length, all] if heads > 0 => (batch, length, heads, all / heads),
        [batch, length, all] if half > 0 => (batch, length, all / (2 * half), 2 * half),
        _ => fail!("input 0 is {shape:?}: expected three or four dimensions"),
    };
    let wanted = if turned > 0 { turned } else { size };
    require!(
        2 * half == wanted,
        "input 2, the cosines, is {angles:?}: expected {} angles for {wanted} turned elements of each head",
        wanted / 2
    );
    let places = site.input(1)?;
    let own = site.shape(places);
    let places = match own[..] {
        [] | [1] => following(site, places, length)?,
        _ => {
            require!(own == [batch, length], "input 1, the places, is {own:?}: expected [1] or [{batch}, {length}]");
            places
        }
    };
    let places = site.expanded(places, &[batch, length])?;
    let attrs = [
        ("interleaved", Attr::Int(site.attrs.flag("interleaved", false)?.into())),
        ("num_heads", Attr::Int(heads)),
        ("rotary_embedding_dim", Attr::Int(turned)),
    ];
    let sines = site.input(3)?;
    check_sines(site, 3, &angles)?;
    site.node("RotaryEmbedding", &attrs, &[x, table, sines, places]).map(|y| vec![Some(y)])
}

/// Checks that the sines of an input have the shape of the cosines.
pub(super) fn check_sines(site: &Site<'_>, index: usize, cosines: &[i64]) -> Result<()> {
    let own = site.shape(site.input(index)?);
    require!(own == cosines, "input {index}, the sines, is {own:?}: expected {cosines:?}, like the cosines");
    Ok(())
}

/// Returns as many places from the first one on, as a row.
pub(super) fn following(site: &mut Site<'_>, first: ValueId, length: i64) -> Result<ValueId> {
    let steps = super::mask::places(site, length, first)?;
    let row = site.unsqueezed(steps, &[0])?;
    site.node("Add", &[], &[row, first])
}
