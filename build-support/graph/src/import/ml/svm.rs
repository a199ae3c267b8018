//! `SVMClassifier` and `SVMRegressor`: kernels of support vectors, whose combinations are products.

use kernpack_compiler::ir::F32;

use super::parts::{Classes, Parts, int};
use super::scores::{Transform, best, both, labels, of_several};
use crate::attrs::{Attr, Attrs};
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::op::ml::PAIR_PROBABILITIES;

/// The maximum number of coefficients of all pairs of classes.
const MOST: usize = 1 << 26;

/// Returns the kernel of each row and each support vector.
fn kernels(parts: &mut Parts<'_>, rows: ValueId, vectors: &[f32]) -> Result<ValueId> {
    let params = parts.floats("kernel_params")?;
    let kind = parts.attrs.text("kernel_type", "LINEAR")?.to_owned();
    require!(params.is_empty() || params.len() == 3, "attribute `kernel_params` has {} numbers, not 3", params.len());
    let [gamma, coef, degree] = [0, 1, 2].map(|place| f64::from(params.get(place).copied().unwrap_or(0.0)));
    match kind.as_str() {
        "LINEAR" => parts.product(rows, vectors, &[]),
        "RBF" => {
            let distances = distances(parts, rows, vectors)?;
            let scaled = parts.with("Mul", distances, -gamma)?;
            parts.unary("Exp", scaled)
        }
        "POLY" | "SIGMOID" => {
            let product = parts.product(rows, vectors, &[])?;
            let scaled = parts.with("Mul", product, gamma)?;
            let shifted = parts.with("Add", scaled, coef)?;
            match kind.as_str() {
                "SIGMOID" => parts.unary("Tanh", shifted),
                _ => parts.with("Pow", shifted, degree),
            }
        }
        other => fail!("attribute `kernel_type` is `{other}`, not LINEAR, POLY, RBF or SIGMOID"),
    }
}

/// Returns the squared distances of rows from vectors. They are sums of squares: a difference of
/// products would cancel for vectors that are close.
fn distances(parts: &mut Parts<'_>, rows: ValueId, vectors: &[f32]) -> Result<ValueId> {
    let [count, width] = *parts.shape(rows) else { fail!("expected rows of features, got {:?}", parts.shape(rows)) };
    let fits = width > 0 && int(vectors.len()) % width == 0;
    require!(fits, "{} numbers are not vectors of {width} features", vectors.len());
    let vectors = parts.single(vectors, &[1, int(vectors.len()) / width, width])?;
    let rows = parts.reshaped(rows, &[count, 1, width])?;
    let difference = parts.binary("Sub", rows, vectors)?;
    let square = parts.binary("Mul", difference, difference)?;
    let axes = parts.emitter.ints(&[2]);
    parts.node("ReduceSum", &[("keepdims", Attr::Int(0))], &[square, axes])
}

/// Returns the value of the only target.
pub(super) fn regressor(parts: &mut Parts<'_>) -> Result<ValueId> {
    Transform::of(parts)?.check_single(1, false)?;
    let rows = parts.float_rows()?;
    let (coefficients, rho) = (parts.floats("coefficients")?, parts.floats("rho")?);
    require!(rho.len() == 1, "attribute `rho` has {} numbers, not 1", rho.len());
    let count = parts.attrs.int("n_supports", 0)?;
    let sums = if count > 0 {
        let vectors = parts.floats("support_vectors")?;
        let kernels = kernels(parts, rows, &vectors)?;
        let own = parts.shape(kernels)[1];
        require!(own == count, "attribute `n_supports` is {count}, and there are {own} support vectors");
        parts.product(kernels, &coefficients, &rho)?
    } else {
        parts.product(rows, &coefficients, &rho)?
    };
    let own = parts.shape(sums)[1];
    require!(own == 1, "attribute `coefficients` has {} numbers, those of {own} targets", coefficients.len());
    if !parts.attrs.flag("one_class", false)? {
        return Ok(sums);
    }
    let is_inside = parts.with("Greater", sums, 0.0)?;
    let (one, minus) = (parts.float(1.0, sums)?, parts.float(-1.0, sums)?);
    parts.node("Where", &[], &[is_inside, one, minus])
}

/// Returns labels and scores.
pub(super) fn classifier(parts: &mut Parts<'_>) -> Result<(Classes, [ValueId; 2])> {
    let (classes, transform) = (parts.classes("classlabels_ints")?, Transform::of(parts)?);
    let counts = parts.attrs.ints("vectors_per_class")?.unwrap_or_default();
    let made = match counts.iter().all(|count| *count == 0) {
        true => linear(parts, &classes, transform)?,
        false => pairwise(parts, &classes, &counts, transform)?,
    };
    Ok((classes, made))
}

/// A classifier without support vectors: a row of coefficients for each class.
fn linear(parts: &mut Parts<'_>, classes: &Classes, transform: Transform) -> Result<[ValueId; 2]> {
    let rows = parts.float_rows()?;
    let (coefficients, rho) = (parts.floats("coefficients")?, parts.floats("rho")?);
    require!(rho.len() == 1, "attribute `rho` has {} numbers: without support vectors, 1 is expected", rho.len());
    require!(classes.len() > 1, "a classifier with one class is not supported");
    let sums = parts.product(rows, &coefficients, &vec![rho[0]; classes.len()])?;
    of_several(parts, sums, classes, transform)
}

/// A classifier that compares each pair of classes.
fn pairwise(parts: &mut Parts<'_>, classes: &Classes, counts: &[i64], transform: Transform) -> Result<[ValueId; 2]> {
    let count = classes.len();
    require!(
        counts.len() == count && count > 1,
        "attribute `vectors_per_class` has {} numbers for {count} classes",
        counts.len()
    );
    let rows = parts.float_rows()?;
    let vectors = parts.floats("support_vectors")?;
    let kernels = kernels(parts, rows, &vectors)?;
    let (rho, matrix) = (parts.floats("rho")?, combinations(parts, counts, parts.shape(kernels)[1])?);
    let pairs = count * (count - 1) / 2;
    require!(rho.len() == pairs, "attribute `rho` has {} numbers for {pairs} pairs of classes", rho.len());
    let scores = parts.product(kernels, &matrix, &rho)?;
    let votes = votes(parts, scores, count)?;
    let number = best(parts, votes)?;
    let label = labels(parts, number, classes)?;
    let (factors, addends) = (parts.floats("prob_a")?, parts.floats("prob_b")?);
    let scores = if !factors.is_empty() || !addends.is_empty() {
        let fits = [factors.len(), addends.len()].iter().all(|length| *length == pairs);
        require!(
            fits,
            "attributes `prob_a` and `prob_b` have {} and {} numbers, not {pairs}",
            factors.len(),
            addends.len()
        );
        let (factors, addends) = (parts.single(&factors, &[int(pairs)])?, parts.single(&addends, &[int(pairs)])?);
        let shares = parts.own(&PAIR_PROBABILITIES, Attrs::default(), &[scores, factors, addends])?;
        transform.apply(parts, shares)?
    } else if count == 2 {
        // As onnxruntime: a transform other than a logistic one makes it a share.
        both(parts, scores, transform != Transform::None, transform)?
    } else {
        transform.apply(parts, scores)?
    };
    Ok([label, parts.cast(scores, F32)?])
}

/// Returns a matrix with a row for each pair of classes, whose product with the kernels is the
/// score of the pair. The model has a row of coefficients less than classes: those of a vector for
/// all classes but its own.
fn combinations(parts: &Parts<'_>, counts: &[i64], vectors: i64) -> Result<Vec<f32>> {
    let coefficients = parts.floats("coefficients")?;
    let total = usize::try_from(vectors).unwrap_or(0);
    let counts: Option<Vec<usize>> = counts.iter().map(|count| usize::try_from(*count).ok()).collect();
    let Some(counts) =
        counts.filter(|counts| counts.iter().fold(0, |sum: usize, count| sum.saturating_add(*count)) == total)
    else {
        fail!("attribute `vectors_per_class` does not add up to {total} support vectors")
    };
    let classes = counts.len();
    let fits = coefficients.len() == (classes - 1).saturating_mul(total);
    require!(
        fits,
        "attribute `coefficients` has {} numbers for {classes} classes and {total} support vectors",
        coefficients.len()
    );
    // The votes of pairs are a matrix with a column for each class.
    let size = (classes * (classes - 1) / 2).saturating_mul(total.max(classes));
    require!(
        size <= MOST,
        "{classes} classes with {total} support vectors are not supported: {size} coefficients of pairs are more than {MOST}"
    );
    let begins: Vec<usize> =
        counts.iter().scan(0, |next, count| Some(core::mem::replace(next, *next + count))).collect();
    let mut matrix = Vec::with_capacity(size);
    for first in 0..classes {
        for second in first + 1..classes {
            let mut row = vec![0.0; total];
            for (own, other) in [(first, second - 1), (second, first)] {
                let place = begins[own]..begins[own] + counts[own];
                row[place.clone()].copy_from_slice(&coefficients[other * total..][place]);
            }
            matrix.extend(row);
        }
    }
    Ok(matrix)
}

/// Returns the numbers of pairs that each class wins.
fn votes(parts: &mut Parts<'_>, scores: ValueId, classes: usize) -> Result<ValueId> {
    let (mut gains, mut sure) = (Vec::new(), vec![0.0; classes]);
    for first in 0..classes {
        for second in first + 1..classes {
            let mut row = vec![0.0; classes];
            (row[first], row[second]) = (1.0, -1.0);
            sure[second] += 1.0;
            gains.extend(row);
        }
    }
    let pairs = parts.shape(scores)[1];
    let is_first = parts.with("Greater", scores, 0.0)?;
    let is_first = parts.cast(is_first, F32)?;
    let gains = parts.constant(&gains, &[pairs, int(classes)], F32)?;
    let won = parts.binary("MatMul", is_first, gains)?;
    let sure = parts.constant(&sure, &[int(classes)], F32)?;
    parts.binary("Add", won, sure)
}
