//! Operators of language models, compared with plain loops: attention with windows, linear
//! attention, a convolution with a state, caches.

use kernpack::DataType;
use kernpack_compiler::ir::{F16, F32};
use kernpack_graph::{Attr, Constant};

use super::program::{Program, known};
use super::{ints, run, text};

/// Numbers between -1 and 1 that differ.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|place| ((place * 53 + seed * 29) % 97) as f64 / 48.5 - 1.0).collect()
}

fn count(shape: &[i64]) -> usize {
    usize::try_from(shape.iter().product::<i64>()).unwrap()
}

/// Runs compiled code on arguments.
fn compiled(name: &str, attrs: &[(&str, Attr)], inputs: &[Option<Constant>], outputs: usize) -> Vec<Vec<f64>> {
    let given: Vec<Option<(&Constant, bool)>> =
        inputs.iter().map(|input| input.as_ref().map(|input| (input, true))).collect();
    let program = Program::new(name, attrs, &given, outputs).unwrap();
    let results = program.run(&inputs.iter().flatten().collect::<Vec<_>>());
    results.iter().map(|result| result.to_floats().unwrap()).collect()
}

fn assert_near(got: &[f64], expected: &[f64], dtype: DataType, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let error = if dtype == F16 { 4e-3 } else { 1e-5 };
    for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!(
            (got - expected).abs() <= error * (1.0 + expected.abs()),
            "{what}: {place}: {got}, expected {expected}"
        );
    }
}

/// A call of linear attention: batch, steps, heads of queries, of keys, rows and columns of the
/// state.
struct Linear([usize; 6]);

impl Linear {
    /// Returns the result and the state, for inputs in the order of the operator.
    fn expected(&self, given: &[Option<Vec<f64>>], rule: &str) -> [Vec<f64>; 2] {
        let Self([batch, steps, q_heads, heads, rows, columns]) = *self;
        let [Some(q), Some(k), Some(v), past, decay, beta] = given else { panic!("inputs are missing") };
        let mut state = past.clone().unwrap_or_else(|| vec![0.0; batch * heads * rows * columns]);
        let mut result = vec![0.0; batch * steps * q_heads * columns];
        for (b, t, h) in
            (0..batch * steps * heads).map(|place| (place / (steps * heads), place / heads % steps, place % heads))
        {
            let at = b * steps + t;
            let own = &mut state[(b * heads + h) * rows * columns..][..rows * columns];
            let key = &k[(at * heads + h) * rows..][..rows];
            if let Some(decay) = decay {
                let is_whole = decay.len() == batch * steps * heads;
                for (place, cell) in own.iter_mut().enumerate() {
                    let row = (at * heads + h) * rows + place / columns;
                    *cell *= decay[if is_whole { at * heads + h } else { row }].exp();
                }
            }
            let mut update = v[(at * heads + h) * columns..][..columns].to_vec();
            if let Some(beta) = beta {
                let rate = beta[if beta.len() == batch * steps { at } else { at * heads + h }];
                for (column, value) in update.iter_mut().enumerate() {
                    let seen: f64 = (0..rows).map(|row| key[row] * own[row * columns + column]).sum();
                    *value = rate * (*value - seen);
                }
            }
            for (place, cell) in own.iter_mut().enumerate() {
                *cell += key[place / columns] * update[place % columns];
            }
            for query in h * (q_heads / heads)..(h + 1) * (q_heads / heads) {
                for column in 0..columns {
                    let read = |row: usize| q[(at * q_heads + query) * rows + row] * own[row * columns + column];
                    let sum: f64 = (0..rows).map(read).sum();
                    result[(at * q_heads + query) * columns + column] = sum / (rows as f64).sqrt();
                }
            }
        }
        assert!(["linear", "gated", "delta", "gated_delta"].contains(&rule));
        [result, state]
    }
}

#[test]
fn linear_attention() {
    let mut seed = 0;
    for rule in ["linear", "gated", "delta", "gated_delta"] {
        for (extents, has_past, is_whole) in [([2, 3, 4, 2, 3, 5], true, false), ([1, 4, 2, 2, 8, 8], false, true)] {
            for dtype in [F32, F16] {
                let [batch, steps, q_heads, heads, rows, columns] =
                    extents.map(|extent| i64::try_from(extent).unwrap());
                let (gates, deltas) = (rule.starts_with("gated"), rule.ends_with("delta"));
                let width = if is_whole { heads } else { heads * rows };
                let shapes = [
                    Some(vec![batch, steps, q_heads * rows]),
                    Some(vec![batch, steps, heads * rows]),
                    Some(vec![batch, steps, heads * columns]),
                    has_past.then(|| vec![batch, heads, rows, columns]),
                    gates.then(|| vec![batch, steps, width]),
                    deltas.then(|| vec![batch, steps, if is_whole { 1 } else { heads }]),
                ];
                let inputs: Vec<Option<Constant>> = shapes
                    .iter()
                    .map(|shape| {
                        seed += 1;
                        shape.as_ref().map(|shape| known(dtype, shape, &numbers(count(shape), seed)))
                    })
                    .collect();
                let given: Vec<Option<Vec<f64>>> =
                    inputs.iter().map(|input| input.as_ref().map(|input| input.to_floats().unwrap())).collect();
                let expected = Linear(extents).expected(&given, rule);
                let attrs = [
                    ("q_num_heads", Attr::Int(q_heads)),
                    ("kv_num_heads", Attr::Int(heads)),
                    ("update_rule", text(rule)),
                ];
                let got = compiled("LinearAttention", &attrs, &inputs, 2);
                for (got, expected) in got.iter().zip(&expected) {
                    assert_near(got, expected, dtype, &format!("{rule} {extents:?} {dtype}"));
                }
            }
        }
    }
    // The state may be of another type than the rest.
    let mixed = |dtype: DataType, shape: &[i64], seed: usize| Some(known(dtype, shape, &numbers(count(shape), seed)));
    let shape = [1, 2, 4];
    for (own, state) in [(F16, F32), (F32, F16)] {
        let inputs =
            [mixed(own, &shape, 1), mixed(own, &shape, 2), mixed(own, &shape, 3), mixed(state, &[1, 2, 2, 2], 4)];
        let attrs = [("q_num_heads", Attr::Int(2)), ("kv_num_heads", Attr::Int(2)), ("update_rule", text("linear"))];
        let given: Vec<Option<Vec<f64>>> =
            inputs.iter().map(|input| input.as_ref().map(|input| input.to_floats().unwrap())).collect();
        let given: Vec<Option<Vec<f64>>> = given.into_iter().chain([None, None]).collect();
        let expected = Linear([1, 2, 2, 2, 2, 2]).expected(&given, "linear");
        let got = compiled("LinearAttention", &attrs, &inputs, 2);
        for (got, expected) in got.iter().zip(&expected) {
            assert_near(got, expected, F16, &format!("{own} with a state of {state}"));
        }
    }
    let x = |last: i64| Some(known(F32, &[1, 2, last], &numbers(count(&[2, last]), 1)));
    let heads = [("q_num_heads", Attr::Int(2)), ("kv_num_heads", Attr::Int(1))];
    let error = run("LinearAttention", &heads, &[x(4), x(2), x(2)]).unwrap_err();
    assert!(error.contains("input 4, `decay`, is missing: this update rule needs it"), "{error}");
    let error = run("LinearAttention", &heads, &[x(4), x(2), x(2), None, x(3), x(1)]).unwrap_err();
    assert!(error.contains("input `decay` is [1, 2, 3]: expected [1, 2, 1 or 2]"), "{error}");
}

/// A call for each part of a sequence gives the same results as one call for the whole.
#[test]
fn a_convolution_carries_its_state() {
    for dtype in [F32, F16] {
        for kernel in [1_i64, 2, 4] {
            let (x, weight) = (
                known(dtype, &[2, 3, 7], &numbers(42, 1)),
                known(dtype, &[3, 1, kernel], &numbers(count(&[3, kernel]), 2)),
            );
            let bias = known(dtype, &[3], &numbers(3, 3));
            let attrs = [("activation", text("silu"))];
            let (values, weights) = (x.to_floats().unwrap(), weight.to_floats().unwrap());
            let biases = bias.to_floats().unwrap();
            let expected: Vec<f64> = (0..42_usize)
                .map(|place| {
                    let (channel, at) = (place / 7 % 3, i64::try_from(place % 7).unwrap());
                    let term = |k: i64| {
                        let from = at + k - (kernel - 1);
                        let own = usize::try_from(i64::try_from(channel).unwrap() * kernel + k).unwrap();
                        if from < 0 {
                            0.0
                        } else {
                            weights[own] * values[place / 7 * 7 + usize::try_from(from).unwrap()]
                        }
                    };
                    let sum = (0..kernel).map(term).sum::<f64>() + biases[channel];
                    sum / (1.0 + (-sum).exp())
                })
                .collect();
            let whole =
                compiled("CausalConvWithState", &attrs, &[Some(x), Some(weight.clone()), Some(bias.clone()), None], 2);
            assert_near(&whole[0], &expected, dtype, "whole");
            let mut past: Option<Constant> = None;
            for (first, last) in [(0, 1), (1, 3), (3, 7)] {
                let part: Vec<f64> = (0..6).flat_map(|row| values[row * 7 + first..row * 7 + last].to_vec()).collect();
                let part = known(dtype, &[2, 3, i64::try_from(last - first).unwrap()], &part);
                let inputs = [Some(part), Some(weight.clone()), Some(bias.clone()), past.take()];
                let made = compiled("CausalConvWithState", &attrs, &inputs, 2);
                let wanted: Vec<f64> =
                    (0..6).flat_map(|row| expected[row * 7 + first..row * 7 + last].to_vec()).collect();
                assert_near(&made[0], &wanted, dtype, &format!("{first} to {last} of {kernel}"));
                past = Some(known(dtype, &[2, 3, kernel - 1], &made[1]));
            }
            assert_near(&past.unwrap().to_floats().unwrap(), &whole[1], dtype, "state");
        }
    }
}

#[test]
fn caches_take_rows() {
    let (cache, update) = (known(F32, &[2, 5, 2], &numbers(20, 1)), known(F32, &[2, 3, 2], &numbers(12, 2)));
    for (mode, first) in [("linear", [0, 2]), ("linear", [1, 1]), ("circular", [3, 4]), ("circular", [7, 0])] {
        let mut expected = cache.to_floats().unwrap();
        for (place, value) in update.to_floats().unwrap().into_iter().enumerate() {
            let (batch, row, column) = (place / 6, place / 2 % 3, place % 2);
            expected[batch * 10 + (first[batch] + row) % 5 * 2 + column] = value;
        }
        let first = first.map(|first| i64::try_from(first).unwrap());
        let inputs = [Some(cache.clone()), Some(update.clone()), Some(ints(&[2], &first))];
        assert_eq!(compiled("TensorScatter", &[("mode", text(mode))], &inputs, 1)[0], expected, "{mode} {first:?}");
    }
    let inputs = [Some(cache.clone()), Some(update), Some(ints(&[2], &[0, 3]))];
    let error = run("TensorScatter", &[], &inputs).unwrap_err();
    assert!(error.contains("index out of range: 3 of input 2 ('input') is not in the range 0 to 2"), "{error}");
    let error = run("TensorScatter", &[("axis", Attr::Int(0))], &[Some(cache.clone()), Some(cache)]).unwrap_err();
    assert!(error.contains("attribute `axis` is the axis of batches"), "{error}");
}

/// Windows and lengths exclude keys; a query that sees none gives zeros.
#[test]
fn attention_sees_a_window() {
    let (queries, keys) = (3_i64, 5_i64);
    let q = known(F32, &[2, 1, queries, 1], &numbers(6, 1));
    let (k, v) = (known(F32, &[2, 1, keys, 1], &numbers(10, 2)), known(F32, &[2, 1, keys, 1], &numbers(10, 3)));
    let (qs, ks, vs) = (q.to_floats().unwrap(), k.to_floats().unwrap(), v.to_floats().unwrap());
    for lengths in [None, Some([5, 2]), Some([0, 4])] {
        for (left, right) in [(-1, -1), (0, 0), (2, 1), (-1, 1), (1, i64::MAX)] {
            for is_causal in [false, true].into_iter().take(1 + usize::from(left == 2 || right == 0)) {
                let mut expected = Vec::new();
                for (batch, query) in (0..2_i64).flat_map(|batch| (0..queries).map(move |query| (batch, query))) {
                    let length = lengths.map(|lengths: [i64; 2]| lengths[usize::try_from(batch).unwrap()]);
                    let place = query + length.map_or(0, |length| length - queries);
                    let is_seen = |key: i64| {
                        key < length.unwrap_or(keys)
                            && (!is_causal || key <= place)
                            && (left < 0 || place - key <= left)
                            && (right < 0 || key - place <= right)
                    };
                    let (mut total, mut sum) = (0.0, 0.0);
                    for key in (0..keys).filter(|key| is_seen(*key)) {
                        let own = usize::try_from(batch * keys + key).unwrap();
                        let weight = (qs[usize::try_from(batch * queries + query).unwrap()] * ks[own]).exp();
                        total += weight;
                        sum += weight * vs[own];
                    }
                    expected.push(if total == 0.0 { 0.0 } else { sum / total });
                }
                let attrs = [
                    ("left_window_size", Attr::Int(left)),
                    ("right_window_size", Attr::Int(right)),
                    ("is_causal", Attr::Int(is_causal.into())),
                ];
                let mut inputs = vec![Some(q.clone()), Some(k.clone()), Some(v.clone()), None, None, None];
                inputs.push(lengths.map(|lengths| ints(&[2], &lengths)));
                let got = compiled("Attention", &attrs, &inputs, 1);
                assert_near(&got[0], &expected, F32, &format!("{lengths:?} {left} {right} {is_causal}"));
            }
        }
    }
    let given =
        |last: Option<Constant>| vec![Some(q.clone()), Some(k.clone()), Some(v.clone()), None, None, None, last];
    let error = run("Attention", &[("left_window_size", Attr::Int(-2))], &given(None)).unwrap_err();
    assert!(error.contains("attribute `left_window_size` is -2: expected -1 or a number of keys"), "{error}");
    let error = run("Attention", &[], &given(Some(ints(&[2], &[1, 6])))).unwrap_err();
    assert!(error.contains("length out of range: 6 of input 6 ('input') is not in the range 0 to 5"), "{error}");
    let error = run("Attention", &[("softmax_precision", Attr::Int(7))], &given(None)).unwrap_err();
    assert!(error.contains("attribute `softmax_precision` is 7, not 1 (float32)"), "{error}");
}

/// Remainders with the sign of the divisor, and shifts of signed numbers by any amount.
#[test]
fn remainders_and_shifts_of_version_28() {
    let values = [7.5, -7.5, 6.0, -6.0, 0.0, -0.0, f64::INFINITY, f64::NAN];
    let divisors = [2.0, -2.0, 3.0, -3.0, f64::INFINITY, f64::NEG_INFINITY, 0.0];
    for x in values {
        for y in divisors {
            let of = |value: f64| Some(known(F32, &[1], &[value]));
            let got = run("Mod", &[], &[of(x), of(y)]).unwrap()[0].to_floats().unwrap()[0];
            let rest = x % y;
            let expected = if rest == 0.0 {
                0f64.copysign(y)
            } else if (rest < 0.0) != (y < 0.0) {
                rest + y
            } else {
                rest
            };
            let fits = got.is_nan() && expected.is_nan() || got.to_bits() == expected.to_bits();
            assert!(fits, "{x} mod {y}: {got}, expected {expected}");
        }
    }
    let amounts: Vec<i64> = vec![0, 1, 31, 62, 63, 64, 65, -1, i64::MIN, i64::MAX];
    for x in [5_i64, -5, i64::MIN, i64::MAX, -1] {
        let all = vec![x; amounts.len()];
        for direction in ["LEFT", "RIGHT"] {
            let expected: Vec<i64> = amounts
                .iter()
                .map(|amount| match (direction, u32::try_from(*amount).ok().filter(|amount| *amount < 64)) {
                    ("LEFT", Some(amount)) => x << amount,
                    ("LEFT", None) => 0,
                    (_, Some(amount)) => x >> amount,
                    (_, None) => x >> 63,
                })
                .collect();
            let inputs = [Some(ints(&[10], &all)), Some(ints(&[10], &amounts))];
            let got = run("BitShift", &[("direction", text(direction))], &inputs).unwrap()[0].to_ints().unwrap();
            assert_eq!(got, expected, "{x} {direction}");
        }
    }
}
