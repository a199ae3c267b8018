//! Sums of products by a formula: `bij, bjk -> bik`.

use std::collections::BTreeMap;

use kernpack_compiler::ir::{DataTypeExt, Expr, F32, IterVar, Tensor};
use kernpack_compiler::te::{self, reduce_axis};

use super::call::{Operand, tensor};
use super::{Call, Operator, Pattern};
use crate::error::{Result, fail, require};

/// The operators of this family.
pub(super) const OPERATORS: &[Operator] = &[Operator { name: "Einsum", pattern: Pattern::Heavy, make: einsum }];

/// An axis: a letter, or one of the axes of an ellipsis, counted from the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

/// Parses the axes of a term. `rank` determines the number of axes of an ellipsis.
fn labels(term: &str, rank: Option<usize>, most: usize) -> Result<Vec<Label>> {
    let term: String = term.chars().filter(|letter| !letter.is_whitespace()).collect();
    let (before, after) = match term.split_once("...") {
        Some((before, after)) => (before.to_owned(), Some(after.to_owned())),
        None => (term.clone(), None),
    };
    let letters = |text: &str| -> Result<Vec<Label>> {
        let is_letter = text.chars().all(|letter| letter.is_ascii_alphabetic());
        require!(is_letter, "'{term}' in the equation is not made of letters and one ellipsis");
        Ok(text.chars().map(Label::Letter).collect())
    };
    let mut all = letters(&before)?;
    if let Some(after) = after {
        let after = letters(&after)?;
        let hidden = match rank {
            Some(rank) => {
                let named = all.len() + after.len();
                require!(named <= rank, "'{term}' names {named} axes of a tensor of {rank}");
                rank - named
            }
            None => most,
        };
        all.extend((0..hidden).rev().map(Label::Ellipsis));
        all.extend(after);
    }
    if let Some(rank) = rank {
        require!(all.len() == rank, "'{term}' names {} axes of a tensor of {rank}", all.len());
    }
    Ok(all)
}

/// A factor: its axes, and its elements.
struct Factor {
    labels: Vec<Label>,
    shape: Vec<i64>,
    tensor: Tensor,
}

impl Factor {
    /// Returns the element for values of the axes. An axis with extent 1 is broadcast.
    fn at(&self, values: &BTreeMap<Label, Expr>) -> Expr {
        let indices: Vec<Expr> = self
            .labels
            .iter()
            .zip(&self.shape)
            .map(|(label, extent)| if *extent == 1 { Expr::int(0) } else { values[label].clone() })
            .collect();
        self.tensor.at(&indices)
    }
}

fn einsum(call: &Call) -> Result<Vec<Tensor>> {
    let operands: Vec<&Operand> = call.inputs.iter().flatten().collect();
    let equation = call.attrs.text("equation", "")?;
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation, None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    require!(
        terms.len() == operands.len() && !operands.is_empty(),
        "the equation '{equation}' has {} terms for {} inputs",
        terms.len(),
        operands.len()
    );
    let dtype = operands[0].dtype;
    require!(operands.iter().all(|operand| operand.dtype == dtype), "the inputs have different types");
    let wide = if dtype.is_float() && dtype.bits() < 32 { F32 } else { dtype };
    let mut extents: BTreeMap<Label, i64> = BTreeMap::new();
    let mut counts: BTreeMap<Label, usize> = BTreeMap::new();
    let mut factors = Vec::new();
    for (term, operand) in terms.iter().zip(&operands) {
        let labels = labels(term, Some(operand.rank()), 0)?;
        for (label, extent) in labels.iter().zip(&operand.shape) {
            *counts.entry(*label).or_default() += 1;
            let known = extents.entry(*label).or_insert(*extent);
            if *known == 1 {
                *known = *extent;
            }
            require!(
                *extent == 1 || extent == known,
                "an axis of the equation '{equation}' has the extents {known} and {extent}"
            );
        }
        factors.push(Factor { labels, shape: operand.shape.clone(), tensor: operand.tensor.clone() });
    }
    let most = extents.keys().filter(|label| matches!(label, Label::Ellipsis(_))).count();
    let result = match right {
        Some(right) => labels(right, None, most)?,
        // Those of an ellipsis first, then the letters that occur once, sorted.
        None => {
            let hidden = (0..most).rev().map(Label::Ellipsis);
            let once = counts.iter().filter(|(label, count)| matches!(label, Label::Letter(_)) && **count == 1);
            hidden.chain(once.map(|(label, _)| *label)).collect()
        }
    };
    for (index, label) in result.iter().enumerate() {
        require!(extents.contains_key(label), "an axis of the result of '{equation}' is in no input");
        require!(!result[..index].contains(label), "an axis stands twice in the result of '{equation}'");
    }
    // From left to right: axes that neither a later factor nor the result has are summed as soon as
    // possible.
    let mut factors = factors.into_iter();
    let Some(mut product) = factors.next() else { fail!("the equation has no term") };
    let rest: Vec<Factor> = factors.collect();
    if rest.is_empty() {
        return contracted(&[&product], &result, &extents, wide).map(|tensor| vec![cast(tensor, dtype)]);
    }
    for (number, factor) in rest.iter().enumerate() {
        let is_last = number + 1 == rest.len();
        let later = |label: &Label| {
            result.contains(label) || rest[number + 1..].iter().any(|other| other.labels.contains(label))
        };
        let labels: Vec<Label> = if is_last {
            result.clone()
        } else {
            let mut kept: Vec<Label> = Vec::new();
            for label in product.labels.iter().chain(&factor.labels) {
                if later(label) && !kept.contains(label) {
                    kept.push(*label);
                }
            }
            kept
        };
        let tensor = contracted(&[&product, factor], &labels, &extents, wide)?;
        let shape = tensor.shape.iter().map(|extent| extent.as_int().unwrap_or(0)).collect();
        product = Factor { labels, shape, tensor };
    }
    Ok(vec![cast(product.tensor, dtype)])
}

fn cast(sums: Tensor, dtype: kernpack::DataType) -> Tensor {
    if sums.dtype == dtype {
        return sums;
    }
    let shape: Vec<i64> = sums.shape.iter().map(|extent| extent.as_int().unwrap_or(0)).collect();
    tensor(&shape, |position| sums.at(position).cast(dtype))
}

/// Returns the product of factors, summed over all axes that the result does not have.
fn contracted(
    factors: &[&Factor],
    result: &[Label],
    extents: &BTreeMap<Label, i64>,
    wide: kernpack::DataType,
) -> Result<Tensor> {
    let extent_here = |label: &Label| {
        let own = factors.iter().flat_map(|factor| factor.labels.iter().zip(&factor.shape));
        own.filter(|(own, _)| *own == label).map(|(_, extent)| *extent).max()
    };
    let shape: Vec<i64> = result.iter().map(|label| extent_here(label).unwrap_or(extents[label])).collect();
    let mut gone: Vec<Label> = Vec::new();
    for label in factors.iter().flat_map(|factor| &factor.labels) {
        if !result.contains(label) && !gone.contains(label) {
            gone.push(*label);
        }
    }
    if gone.iter().any(|label| extents[label] == 0) || shape.contains(&0) {
        return Ok(tensor(&shape, |_| te::constant(0.0, wide)));
    }
    let loops: Vec<IterVar> = gone
        .iter()
        .enumerate()
        .map(|(number, label)| reduce_axis(0, extent_here(label).unwrap_or(1), &format!("k{number}")))
        .collect();
    Ok(tensor(&shape, |position| {
        let mut values: BTreeMap<Label, Expr> = result.iter().copied().zip(position.iter().cloned()).collect();
        values.extend(gone.iter().copied().zip(loops.iter().map(IterVar::expr)));
        let elements = factors.iter().map(|factor| factor.at(&values).cast(wide));
        let value = elements.reduce(|product, element| product * element).unwrap_or_else(|| te::constant(0.0, wide));
        if loops.is_empty() { value } else { te::sum(value, &loops[..]) }
    }))
}
