//! `SVMClassifier` and `SVMRegressor`: kernels of support vectors, whose combinations are products.

use kernpack_compiler::ir::F32;

use super::scores::{Transform, best, both, labels, of_several};
use super::site::{Classes, int};
use crate::attrs::{Attr, Attrs};
use crate::error::{Result, fail, require};
use crate::graph::ValueId;
use crate::import::site::Site;
use crate::op::ml::PAIR_PROBABILITIES;

/// The maximum number of coefficients of all pairs of classes.
const MOST: usize = 1 << 26;

/// Returns the kernel of each row and each support vector.
fn kernels(site: &mut Site<'_>, rows: ValueId, vectors: &[f32]) -> Result<ValueId> {
    let params = site.attrs.floats("kernel_params")?;
    let kind = site.attrs.text("kernel_type", "LINEAR")?.to_owned();
    require!(params.is_empty() || params.len() == 3, "attribute `kernel_params` has {} numbers, not 3", params.len());
    let [gamma, coef, degree] = [0, 1, 2].map(|place| f64::from(params.get(place).copied().unwrap_or(0.0)));
    match kind.as_str() {
        "LINEAR" => site.product(rows, vectors, &[]),
        "RBF" => {
            let distances = distances(site, rows, vectors)?;
            let scaled = site.with("Mul", distances, -gamma)?;
            site.unary("Exp", scaled)
        }
        "POLY" | "SIGMOID" => {
            let product = site.product(rows, vectors, &[])?;
            let scaled = site.with("Mul", product, gamma)?;
            let shifted = site.with("Add", scaled, coef)?;
            match kind.as_str() {
                "SIGMOID" => site.unary("Tanh", shifted),
                _ => site.with("Pow", shifted, degree),
            }
        }
        other => fail!("attribute `kernel_type` is `{other}`, not LINEAR, POLY, RBF or SIGMOID"),
    }
}

/// Returns the squared distances of rows from vectors. They are sums of squares: a difference of
/// products would cancel for vectors that are close.
fn distances(site: &mut Site<'_>, rows: ValueId, vectors: &[f32]) -> Result<ValueId> {
    let [count, width] = *site.shape(rows) else { fail!("expected rows of features, got {:?}", site.shape(rows)) };
    let fits = width > 0 && int(vectors.len()) % width == 0;
    require!(fits, "{} numbers are not vectors of {width} features", vectors.len());
    let vectors = site.single(vectors, &[1, int(vectors.len()) / width, width])?;
    let rows = site.reshaped(rows, &[count, 1, width])?;
    let difference = site.binary("Sub", rows, vectors)?;
    let square = site.binary("Mul", difference, difference)?;
    let axes = site.emitter.ints(&[2]);
    site.node("ReduceSum", &[("keepdims", Attr::Int(0))], &[square, axes])
}

/// Returns the value of the only target.
pub(super) fn regressor(site: &mut Site<'_>) -> Result<ValueId> {
    Transform::of(site)?.check_single(1, false)?;
    let rows = site.float_rows()?;
    let (coefficients, rho) = (site.attrs.floats("coefficients")?, site.attrs.floats("rho")?);
    require!(rho.len() == 1, "attribute `rho` has {} numbers, not 1", rho.len());
    let count = site.attrs.int("n_supports", 0)?;
    let sums = if count > 0 {
        let vectors = site.attrs.floats("support_vectors")?;
        let kernels = kernels(site, rows, &vectors)?;
        let own = site.shape(kernels)[1];
        require!(own == count, "attribute `n_supports` is {count}, and there are {own} support vectors");
        site.product(kernels, &coefficients, &rho)?
    } else {
        site.product(rows, &coefficients, &rho)?
    };
    let own = site.shape(sums)[1];
    require!(own == 1, "attribute `coefficients` has {} numbers, those of {own} targets", coefficients.len());
    if !site.attrs.flag("one_class", false)? {
        return Ok(sums);
    }
    let is_inside = site.with("Greater", sums, 0.0)?;
    let (one, minus) = (site.float(1.0, sums)?, site.float(-1.0, sums)?);
    site.node("Where", &[], &[is_inside, one, minus])
}

/// Returns labels and scores.
pub(super) fn classifier(site: &mut Site<'_>) -> Result<(Classes, [ValueId; 2])> {
    let (classes, transform) = (site.classes("classlabels_ints")?, Transform::of(site)?);
    let counts = site.attrs.ints("vectors_per_class")?.unwrap_or_default();
    let made = match counts.iter().all(|count| *count == 0) {
        true => linear(site, &classes, transform)?,
        false => pairwise(site, &classes, &counts, transform)?,
    };
    Ok((classes, made))
}

/// A classifier without support vectors: a row of coefficients for each class.
fn linear(site: &mut Site<'_>, classes: &Classes, transform: Transform) -> Result<[ValueId; 2]> {
    let rows = site.float_rows()?;
    let (coefficients, rho) = (site.attrs.floats("coefficients")?, site.attrs.floats("rho")?);
    require!(rho.len() == 1, "attribute `rho` has {} numbers: without support vectors, 1 is expected", rho.len());
    require!(classes.len() > 1, "a classifier with one class is not supported");
    let sums = site.product(rows, &coefficients, &vec![rho[0]; classes.len()])?;
    of_several(site, sums, classes, transform)
}

/// A classifier that compares each pair of classes.
fn pairwise(site: &mut Site<'_>, classes: &Classes, counts: &[i64], transform: Transform) -> Result<[ValueId; 2]> {
    let count = classes.len();
    require!(
        counts.len() == count && count > 1,
        "attribute `vectors_per_class` has {} numbers for {count} classes",
        counts.len()
    );
    let rows = site.float_rows()?;
    let vectors = site.attrs.floats("support_vectors")?;
    let kernels = kernels(site, rows, &vectors)?;
    let (rho, matrix) = (site.attrs.floats("rho")?, combinations(site, counts, site.shape(kernels)[1])?);
    let pairs = count * (count - 1) / 2;
    require!(rho.len() == pairs, "attribute `rho` has {} numbers for {pairs} pairs of classes", rho.len());
    let scores = site.product(kernels, &matrix, &rho)?;
    let votes = votes(site, scores, count)?;
    let number = best(site, votes)?;
    let label = labels(site, number, classes)?;
    let (factors, addends) = (site.attrs.floats("prob_a")?, site.attrs.floats("prob_b")?);
    let scores = if !factors.is_empty() || !addends.is_empty() {
        let fits = [factors.len(), addends.len()].iter().all(|length| *length == pairs);
        require!(
            fits,
            "attributes `prob_a` and `prob_b` have {} and {} numbers, not {pairs}",
            factors.len(),
            addends.len()
        );
        let (factors, addends) = (site.single(&factors, &[int(pairs)])?, site.single(&addends, &[int(pairs)])?);
        let shares = site.own(&PAIR_PROBABILITIES, Attrs::default(), &[scores, factors, addends])?;
        transform.apply(site, shares)?
    } else if count == 2 {
        // As onnxruntime: a transform other than a logistic one makes it a share.
        both(site, scores, transform != Transform::None, transform)?
    } else {
        transform.apply(site, scores)?
    };
    Ok([label, site.cast(scores, F32)?])
}

/// Returns a matrix with a row for each pair of classes, whose product with the kernels is the
/// score of the pair. The model has a row of coefficients less than classes: those of a vector for
/// all classes but its own.
fn combinations(site: &Site<'_>, counts: &[i64], vectors: i64) -> Result<Vec<f32>> {
    let coefficients = site.attrs.floats("coefficients")?;
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
fn votes(site: &mut Site<'_>, scores: ValueId, classes: usize) -> Result<ValueId> {
    let (mut gains, mut sure) = (Vec::new(), vec![0.0; classes]);
    for first in 0..classes {
        for second in first + 1..classes {
            let mut row = vec![0.0; classes];
            (row[first], row[second]) = (1.0, -1.0);
            sure[second] += 1.0;
            gains.extend(row);
        }
    }
    let pairs = site.shape(scores)[1];
    let is_first = site.with("Greater", scores, 0.0)?;
    let is_first = site.cast(is_first, F32)?;
    let gains = site.constant(&gains, &[pairs, int(classes)], F32)?;
    let won = site.binary("MatMul", is_first, gains)?;
    let sure = site.constant(&sure, &[int(classes)], F32)?;
    site.binary("Add", won, sure)
}
