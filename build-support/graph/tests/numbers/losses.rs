//! Losses as in ONNX's reference: ignored targets give 0, and the mean of no losses is 0 / 0.

use kernpack_compiler::ir::F32;
use kernpack_graph::{Attr, Constant};

use super::program::{Program, known};
use super::{floats, ints, is_close, text};

/// The classes of all rows.
const CLASSES: i64 = 3;

/// The scores of a row, by its number.
fn scores(row: i64) -> [f32; 3] {
    let turn = row as f32;
    [-0.5 - turn, -1.5, -0.25 * turn - 2.0]
}

/// Returns the loss by ONNX's formula.
fn expected(
    scores: &[[f32; 3]],
    targets: &[i64],
    weights: Option<[f32; 3]>,
    ignored: Option<i64>,
    reduction: &str,
) -> Vec<f32> {
    let is_ignored = |target: &i64| ignored == Some(*target);
    let weight = |target: &i64| {
        if is_ignored(target) {
            return 0.0;
        }
        weights.map_or(1.0, |weights| weights[usize::try_from(*target).unwrap()])
    };
    let loss = |(scores, target): (&[f32; 3], &i64)| {
        if is_ignored(target) { 0.0 } else { -scores[usize::try_from(*target).unwrap()] * weight(target) }
    };
    let losses: Vec<f32> = scores.iter().zip(targets).map(loss).collect();
    match reduction {
        "none" => losses,
        "sum" => vec![losses.iter().sum()],
        _ => vec![losses.iter().sum::<f32>() / targets.iter().map(weight).sum::<f32>()],
    }
}

/// Returns the logarithms of the shares of exponentials.
fn normalized(scores: &[[f32; 3]]) -> Vec<[f32; 3]> {
    let of_row = |row: &[f32; 3]| {
        let total = row.iter().map(|score| score.exp()).sum::<f32>().ln();
        row.map(|score| score - total)
    };
    scores.iter().map(of_row).collect()
}

#[test]
fn losses() {
    let targets: [&[i64]; 5] = [&[0, 2, 1, 2], &[1, 1], &[2, 1, 2], &[7, 0, 7], &[]];
    let weightings = [None, Some([0.5, 1.0, 2.0]), Some([1.0, 0.0, 0.0]), Some([1.0, -1.0, 1.0])];
    let mut of_none = 0;
    for targets in targets {
        for ignored in [None, Some(-1), Some(1), Some(2), Some(7)] {
            // An invalid class must be ignored.
            if targets.contains(&7) && ignored != Some(7) {
                continue;
            }
            for weights in weightings {
                for reduction in ["none", "sum", "mean"] {
                    for name in ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"] {
                        let rows: Vec<[f32; 3]> = (0_i64..).take(targets.len()).map(scores).collect();
                        let count = i64::try_from(rows.len()).unwrap();
                        let x = floats(&[count, CLASSES], &rows.concat());
                        let target = ints(&[count], targets);
                        let weight = weights.map(|weights| floats(&[CLASSES], &weights));
                        let mut attrs = vec![("reduction", text(reduction))];
                        attrs.extend(ignored.map(|ignored| ("ignore_index", Attr::Int(ignored))));
                        let of = if name.starts_with('N') { rows } else { normalized(&rows) };
                        let wanted = expected(&of, targets, weights, ignored, reduction);
                        let case = format!("{name} {reduction} of {targets:?}, {ignored:?}, {weights:?}");
                        of_none += usize::from(wanted.iter().any(|loss| loss.is_nan()));
                        let found =
                            super::run_floats(name, &attrs, &[Some(x.clone()), Some(target.clone()), weight.clone()]);
                        assert!(is_close(&found, &wanted), "{case}: {found:?}, expected {wanted:?}");
                        // Compiled code is the same for other lengths.
                        if targets.len() == 3 && weights != weightings[3] {
                            let weight = weight.as_ref().map(|weight| (weight, false));
                            let inputs = [Some((&x, true)), Some((&target, true)), weight];
                            let program = Program::new(name, &attrs, &inputs, 1).unwrap();
                            let found = program.run(&[&x, &target])[0].to_floats().unwrap();
                            let found: Vec<f32> = found.into_iter().map(|loss| loss as f32).collect();
                            assert!(is_close(&found, &wanted), "compiled {case}: {found:?}, expected {wanted:?}");
                        }
                    }
                }
            }
        }
    }
    assert!(of_none > 20, "{of_none}");
}

/// A score that is minus infinity, or NaN, does not count if it is ignored.
#[test]
fn ignored_scores_are_not_looked_at() {
    let x = known(F32, &[2, 3], &[f64::NEG_INFINITY, -1.0, f64::NAN, -1.0, -2.0, -3.0]);
    for target in [0, 2] {
        let attrs = [("ignore_index", Attr::Int(target)), ("reduction", text("sum"))];
        let targets = Constant::of_ints(&[target, 1]);
        let found = super::run_floats("NegativeLogLikelihoodLoss", &attrs, &[Some(x.clone()), Some(targets), None]);
        assert_eq!(found, [2.0]);
    }
    let wrong = [Some(x), Some(Constant::of_ints(&[0, 1])), Some(floats(&[2], &[1.0, 1.0]))];
    let error = super::run("NegativeLogLikelihoodLoss", &[], &wrong).unwrap_err();
    assert!(error.contains("weights [2] for 3 classes"), "{error}");
}
