//! Operators in edge cases: their inputs are known, so the compiler's reference evaluator computes
//! them when they are added to a graph.

#[path = "numbers/accuracy.rs"]
mod accuracy;
#[path = "numbers/beside.rs"]
mod beside;
#[path = "numbers/edges.rs"]
mod edges;
#[path = "numbers/extents.rs"]
mod extents;
#[path = "numbers/kinds.rs"]
mod kinds;
#[path = "numbers/losses.rs"]
mod losses;
#[path = "numbers/nan.rs"]
mod nan;
#[path = "numbers/narrow.rs"]
mod narrow;
#[path = "numbers/program.rs"]
mod program;
#[path = "numbers/refusals.rs"]
mod refusals;
#[path = "numbers/state.rs"]
mod state;
#[path = "numbers/table.rs"]
mod table;

use std::sync::Arc;

use kernpack::DataType;
use kernpack_compiler::ir::{BOOLEAN, F32, I8, U8};
use kernpack_graph::{Attr, Attrs, Constant, Graph, op};

fn floats(shape: &[i64], values: &[f32]) -> Constant {
    Constant::of_floats(values).reshaped(shape).unwrap()
}

fn ints(shape: &[i64], values: &[i64]) -> Constant {
    Constant::of_ints(values).reshaped(shape).unwrap()
}

fn text(value: &str) -> Attr {
    Attr::Text(value.to_owned())
}

/// Runs an operator of version 28 on known inputs.
fn run(name: &str, attrs: &[(&str, Attr)], inputs: &[Option<Constant>]) -> Result<Vec<Constant>, String> {
    run_several(name, attrs, inputs, 1)
}

fn run_several(
    name: &str,
    attrs: &[(&str, Attr)],
    inputs: &[Option<Constant>],
    outputs: usize,
) -> Result<Vec<Constant>, String> {
    let mut graph = Graph::default();
    let mut own = Attrs::default();
    for (name, value) in attrs {
        own.set(name, value.clone());
    }
    let ids: Vec<_> = inputs.iter().map(|input| Some(graph.add_known("input", input.clone()?))).collect();
    let operator = op::find(name).ok_or("no such operator")?;
    let names: Vec<String> = (0..outputs).map(|number| format!("y{number}")).collect();
    let outputs = graph.add_node(operator, name, Arc::new(own), 28, &ids, &names).map_err(|error| error.to_string())?;
    outputs.into_iter().flatten().map(|id| graph.values[id].known.clone().ok_or("it is not known".to_owned())).collect()
}

fn run_floats(name: &str, attrs: &[(&str, Attr)], inputs: &[Option<Constant>]) -> Vec<f32> {
    let results = run(name, attrs, inputs).unwrap();
    results[0].to_floats().unwrap().into_iter().map(|value| value as f32).collect()
}

fn is_close(got: &[f32], expected: &[f32]) -> bool {
    let is_close = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= 1e-5 * (1.0 + b.abs()) || a.is_nan() && b.is_nan();
    got.len() == expected.len() && got.iter().zip(expected).all(is_close)
}

fn assert_close(got: &[f32], expected: &[f32]) {
    assert!(is_close(got, expected), "{got:?}, expected {expected:?}");
}

#[test]
fn resize() {
    let x = || Some(floats(&[1, 1, 4], &[1., 2., 3., 4.]));
    let with = |mode: &str, coordinates: &str, scale: f32| {
        let attrs = [("mode", text(mode)), ("coordinate_transformation_mode", text(coordinates))];
        run_floats("Resize", &attrs, &[x(), None, Some(floats(&[3], &[1., 1., scale]))])
    };
    assert_close(&with("nearest", "asymmetric", 1.0), &[1., 2., 3., 4.]);
    assert_close(&with("nearest", "asymmetric", 2.0), &[1., 1., 2., 2., 3., 3., 4., 4.]);
    // One element of the result: the first one, not a division by 0.
    assert_close(&with("linear", "align_corners", 0.25), &[1.]);
    assert_close(&with("linear", "pytorch_half_pixel", 0.25), &[1.]);
    assert_close(&with("linear", "half_pixel", 0.5), &[1.5, 3.5]);
    assert_close(&with("cubic", "half_pixel", 1.0), &[1., 2., 3., 4.]);
    // Position 4 is at 1 exactly: a third more or less by rounding would be another element.
    let attrs = [("mode", text("nearest")), ("nearest_mode", text("floor"))];
    let thirds = [Some(floats(&[2], &[1., 2.])), None, Some(floats(&[1], &[3.]))];
    assert_close(&run_floats("Resize", &attrs, &thirds), &[1., 1., 1., 1., 2., 2.]);
    // Integers are truncated, and a cubic curve beyond the largest one is saturated.
    let bytes = Constant::new(U8, &[4], [255_u8, 255, 0, 0].as_slice()).unwrap();
    let result = run("Resize", &[("mode", text("cubic"))], &[Some(bytes), None, Some(floats(&[1], &[2.]))]).unwrap();
    assert_eq!(result[0].bytes()[2], 255);
    // No elements give no elements; a non-empty result cannot be computed from them.
    let nothing = || Some(floats(&[1, 0], &[]));
    let sizes = |extent| [nothing(), None, None, Some(ints(&[2], &[1, extent]))];
    assert!(run_floats("Resize", &[], &sizes(0)).is_empty());
    assert!(run("Resize", &[], &sizes(3)).unwrap_err().contains("has no elements to make [1, 3] of"));
    let both = [x(), None, Some(floats(&[3], &[1.; 3])), Some(ints(&[3], &[1, 1, 4]))];
    assert!(run("Resize", &[], &both).unwrap_err().contains("either scales or extents"));
    let error = run("Resize", &[], &[x(), None, Some(floats(&[3], &[1., 1., 0.]))]).unwrap_err();
    assert!(error.contains("the scale 0 of axis 2 is not above 0"), "{error}");
}

#[test]
fn grid_sample() {
    let x = || Some(floats(&[1, 1, 2, 2], &[1., 2., 3., 4.]));
    let sample = |padding: &str, mode: &str, place: [f32; 2]| {
        let attrs = [("padding_mode", text(padding)), ("mode", text(mode))];
        run_floats("GridSample", &attrs, &[x(), Some(floats(&[1, 1, 1, 2], &place))])[0]
    };
    for mode in ["nearest", "linear", "cubic"] {
        // Far outside there are zeros, also infinitely far.
        for place in [[9., 9.], [f32::INFINITY, 0.], [f32::NEG_INFINITY, f32::NEG_INFINITY]] {
            assert_eq!(sample("zeros", mode, place), 0.0, "{mode} {place:?}");
        }
        assert!(sample("border", mode, [f32::NAN, f32::NAN]).is_finite(), "{mode}");
        assert_eq!(sample("border", mode, [-9., 9.]), 3.0, "{mode}");
    }
    assert_eq!(sample("zeros", "linear", [0., 0.]), 2.5);
    // Half an element beyond the middle of the first one, a cubic curve still reads the others.
    assert!(sample("border", "cubic", [-0.8, -0.8]) < 1.0);
    // An image with one element has no inside to reflect about.
    let one = [Some(floats(&[1, 1, 1, 1], &[7.])), Some(floats(&[1, 1, 1, 2], &[3., -5.]))];
    let attrs = [("padding_mode", text("reflection")), ("align_corners", Attr::Int(1))];
    assert_eq!(run_floats("GridSample", &attrs, &one), [7.]);
}

#[test]
fn attention() {
    let tensor = |shape: &[i64], values: &[f32]| Some(floats(shape, values));
    let q = || tensor(&[1, 1, 2, 1], &[1., 2.]);
    let kv = || tensor(&[1, 1, 2, 1], &[3., 5.]);
    let mask = |values: [u8; 4]| Some(Constant::new(BOOLEAN, &[2, 2], values.as_slice()).unwrap());
    // A row that sees nothing is 0; one that sees one place has its value.
    assert_close(&run_floats("Attention", &[], &[q(), kv(), kv(), mask([0, 0, 0, 1])]), &[0., 5.]);
    // Scores are capped before they are masked: masked places stay masked.
    let capped = [("softcap", Attr::Float(0.5))];
    assert_close(&run_floats("Attention", &capped, &[q(), kv(), kv(), mask([1, 0, 0, 1])]), &[3., 5.]);
    // A shorter mask: places after its end do not count.
    assert_close(&run_floats("Attention", &[], &[q(), kv(), kv(), tensor(&[1, 1], &[0.])]), &[3., 3.]);
    // Earlier places are seen, later ones are not.
    let past = || tensor(&[1, 1, 1, 1], &[7.]);
    let causal = [("is_causal", Attr::Int(1)), ("scale", Attr::Float(1e-9))];
    let results = run_floats("Attention", &causal, &[q(), kv(), kv(), None, past(), past()]);
    assert_close(&results, &[5., 5.]);
    // Four heads of queries, two adjacent heads of keys, all in the last dimension.
    let attrs = [("q_num_heads", Attr::Int(4)), ("kv_num_heads", Attr::Int(2))];
    let heads = [tensor(&[1, 1, 4], &[1.; 4]), tensor(&[1, 1, 2], &[1.; 2]), tensor(&[1, 1, 2], &[8., 9.])];
    assert_close(&run_floats("Attention", &attrs, &heads), &[8., 8., 9., 9.]);
    let error = run("Attention", &[], &heads).unwrap_err();
    assert!(error.contains("attribute `q_num_heads` is needed for inputs of three dimensions"), "{error}");
}

/// All 8-bit floats: they survive conversion to single precision and back, and values between two
/// of them are rounded.
#[test]
fn floats_of_8_bits() {
    // Number in ONNX, code, the largest number, the smallest one above 0.
    let types = [(17, 10, 448.0, -9), (18, 11, 240.0, -10), (19, 12, 57344.0, -16), (20, 13, 57344.0, -17)];
    for (number, code, largest, smallest) in types {
        let dtype = DataType::scalar(code, 8);
        let codes: Vec<u8> = (0..=255).collect();
        let all = Constant::new(dtype, &[256], codes.as_slice()).unwrap();
        let singles = run("Cast", &[("to", Attr::Int(1))], &[Some(all)]).unwrap().remove(0);
        let values = singles.to_floats().unwrap();
        let finite = values.iter().copied().filter(|value| value.is_finite());
        assert_eq!(finite.clone().fold(0.0, f64::max), largest, "{dtype}");
        assert_eq!(finite.filter(|value| *value > 0.0).fold(1.0, f64::min), 2f64.powi(smallest), "{dtype}");
        let back = |values: Vec<f32>, saturate: i64| {
            let count = i64::try_from(values.len()).unwrap();
            let attrs = [("to", Attr::Int(number)), ("saturate", Attr::Int(saturate))];
            let result = run("Cast", &attrs, &[Some(floats(&[count], &values))]).unwrap().remove(0);
            assert_eq!(result.dtype(), dtype);
            result.bytes().to_vec()
        };
        let bytes = back(values.iter().map(|value| *value as f32).collect(), 0);
        for (code, (value, byte)) in values.iter().zip(&bytes).enumerate() {
            assert!(value.is_nan() || usize::from(*byte) == code, "{dtype}: {value} of {code} became {byte}");
        }
        // Halfway between two neighbours the even one is selected; slightly more or less decides.
        for low in 0..127 {
            let (a, b) = (values[low] as f32, values[low + 1] as f32);
            if !a.is_finite() || !b.is_finite() {
                continue;
            }
            let middle = (a + b) / 2.0;
            let bytes = back(vec![middle, middle * (1.0 - 1e-6), middle * (1.0 + 1e-6)], 1);
            let low = u8::try_from(low).unwrap();
            assert_eq!(bytes, [low + low % 2, low, low + 1], "{dtype}: between {a} and {b}");
        }
        let top = values.iter().position(|value| *value == largest).unwrap();
        let far = vec![f32::INFINITY, 1e30, -1e30];
        let saturated: Vec<usize> = back(far.clone(), 1).into_iter().map(usize::from).collect();
        assert_eq!(saturated, [top, top, top + 128], "{dtype}");
        let beyond = Constant::new(dtype, &[3], back(far, 0)).unwrap();
        let beyond = run("Cast", &[("to", Attr::Int(1))], &[Some(beyond)]).unwrap().remove(0);
        assert!(beyond.to_floats().unwrap().iter().all(|value| !value.is_finite()), "{dtype}");
    }
    let x = Constant::new(DataType::scalar(10, 8), &[1], [0_u8].as_slice()).unwrap();
    let error = run("Add", &[], &[Some(x.clone()), Some(x)]).unwrap_err();
    assert!(error.contains("cast them to float32 before"), "{error}");
}

#[test]
fn numbers_of_4_bits() {
    let x = || Some(floats(&[6], &[-9.5, -1.7, -0.2, 1.7, 7.4, 100.0]));
    let cast = |number: i64| run("Cast", &[("to", Attr::Int(number))], &[x()]).unwrap().remove(0);
    // The excess bits are dropped.
    assert_eq!(cast(22).to_ints().unwrap(), [7, -1, 0, 1, 7, 4]);
    assert_eq!(cast(21).to_ints().unwrap(), [7, 15, 0, 1, 7, 4]);
    let fours = run("Cast", &[("to", Attr::Int(1))], &[Some(cast(23))]).unwrap().remove(0);
    assert_eq!(fours.to_floats().unwrap(), [-6., -1.5, 0., 1.5, 6., 6.]);
    // They are moved unchanged.
    let turned = run("Reshape", &[], &[Some(cast(22)), Some(ints(&[2], &[2, 3]))]).unwrap().remove(0);
    let turned = run("Transpose", &[], &[Some(turned)]).unwrap().remove(0);
    assert_eq!((turned.dtype(), turned.to_ints().unwrap()), (DataType::scalar(0, 4), vec![7, 1, -1, 7, 0, 4]));
}

#[test]
fn transforms() {
    let values = [1., -2., 0.5, 4., 3.];
    let x = floats(&[1, 5, 1], &values);
    let spectrum = run("DFT", &[], &[Some(x)]).unwrap().remove(0);
    assert_eq!(spectrum.shape(), [1, 5, 2]);
    let back = run_floats("DFT", &[("inverse", Attr::Int(1))], &[Some(spectrum)]);
    let real: Vec<f32> = back.iter().copied().step_by(2).collect();
    assert_close(&real, &values);
    // Longer than the signal: padded with zeros.
    let padded = run_floats("DFT", &[], &[Some(floats(&[1, 1, 1], &[2.])), Some(ints(&[], &[3]))]);
    assert_close(&padded, &[2., 0., 2., 0., 2., 0.]);
    let error = run("DFT", &[], &[Some(floats(&[3], &[1.; 3]))]).unwrap_err();
    assert!(error.contains("has to be 1 (real) or 2 (complex)"), "{error}");
    assert_close(&run_floats("HannWindow", &[("periodic", Attr::Int(0))], &[Some(ints(&[], &[3]))]), &[0., 1., 0.]);
}

#[test]
fn determinants() {
    // The first pivot is 0; rows that are multiples of each other.
    let matrices = floats(&[2, 3, 3], &[0., 2., 1., 1., 1., 1., 4., 0., 3., 1., 2., 3., 2., 4., 6., 1., 1., 1.]);
    assert_close(&run_floats("Det", &[], &[Some(matrices)]), &[-2., 0.]);
    assert!(run("Det", &[], &[Some(floats(&[2, 3], &[0.; 6]))]).unwrap_err().contains("expected square matrices"));
}

#[test]
fn windows_of_images() {
    // Windows of 2 over 3 elements: the middle one is in both.
    let columns = Some(floats(&[1, 2, 2], &[1., 2., 3., 4.]));
    let inputs = [columns, Some(ints(&[1], &[3])), Some(ints(&[1], &[2]))];
    assert_close(&run_floats("Col2Im", &[], &inputs), &[1., 5., 4.]);
    let unpooled = [Some(floats(&[1, 1, 2], &[5., 6.])), Some(ints(&[1, 1, 2], &[3, 0]))];
    let attrs = [("kernel_shape", Attr::Ints(vec![2])), ("strides", Attr::Ints(vec![2]))];
    assert_close(&run_floats("MaxUnpool", &attrs, &unpooled), &[6., 0., 0., 5.]);
    // Invalid regions terminate.
    for corner in [f32::NAN, f32::INFINITY, 1e30] {
        let region = floats(&[1, 4], &[0., 0., corner, 1.]);
        let inputs = [Some(floats(&[1, 1, 2, 2], &[1.; 4])), Some(region), Some(ints(&[1], &[0]))];
        assert_eq!(run_floats("RoiAlign", &[], &inputs).len(), 1);
    }
}

#[test]
fn tables_of_attributes() {
    let attrs = [
        ("mode", text("TF")),
        ("min_gram_length", Attr::Int(1)),
        ("max_gram_length", Attr::Int(2)),
        ("max_skip_count", Attr::Int(1)),
        ("ngram_counts", Attr::Ints(vec![0, 1])),
        ("ngram_indexes", Attr::Ints(vec![1, 0])),
        ("pool_int64s", Attr::Ints(vec![5, 5, 6])),
    ];
    // 5 alone twice; 5 and 6 adjacent once, and once with one between.
    assert_close(&run_floats("TfIdfVectorizer", &attrs, &[Some(ints(&[4], &[5, 5, 6, 1]))]), &[2., 2.]);
    // A node that leads to itself.
    let one = |values: &[i64]| Attr::Ints(values.to_vec());
    let modes = Constant::new(U8, &[1], [0_u8].as_slice()).unwrap();
    let circle = |child: i64| {
        [
            ("nodes_featureids", one(&[0])),
            ("nodes_modes", Attr::Tensor(modes.clone())),
            ("nodes_splits", Attr::Tensor(floats(&[1], &[0.]))),
            ("nodes_truenodeids", one(&[child])),
            ("nodes_falsenodeids", one(&[0])),
            ("nodes_trueleafs", one(&[0])),
            ("nodes_falseleafs", one(&[1])),
            ("leaf_targetids", one(&[0])),
            ("leaf_weights", Attr::Tensor(floats(&[1], &[3.]))),
            ("tree_roots", one(&[0])),
            ("n_targets", Attr::Int(1)),
        ]
    };
    let rows = Constant::new(F32, &[2, 1], floats(&[2], &[-1., 1.]).bytes()).unwrap();
    let error = run("TreeEnsemble", &circle(0), &[Some(rows.clone())]).unwrap_err();
    assert!(error.contains("expected trees without cycles"), "{error}");
    let error = run("TreeEnsemble", &circle(4), &[Some(rows)]).unwrap_err();
    assert!(error.contains("node 0 of the trees leads to 4 and 0"), "{error}");
}

#[test]
fn weights_are_dequantized() {
    let bytes =
        Constant::new(I8, &[2, 3, 2], (0..12_u8).map(|byte| byte.wrapping_mul(23)).collect::<Vec<_>>()).unwrap();
    let signed: Vec<i64> = bytes.to_ints().unwrap();
    let zeros = |count: usize| Constant::new(I8, &[count as i64], vec![0x80_u8, 0x7f, 3][..count].to_vec()).unwrap();
    for (axis, count, stride) in [(0, 2, 6), (1, 3, 2), (-1, 2, 1), (1, 1, 12)] {
        let scales = floats(&[count as i64], &[0.5, 0.25, 3.0][..count]);
        let attrs = [("axis", Attr::Int(axis))];
        let found = run_floats("DequantizeLinear", &attrs, &[Some(bytes.clone()), Some(scales), Some(zeros(count))]);
        let expected: Vec<f32> = signed
            .iter()
            .enumerate()
            .map(|(place, value)| {
                let which = place / stride % count;
                (*value - [-128, 127, 3][which]) as f32 * [0.5, 0.25, 3.0][which]
            })
            .collect();
        assert_eq!(found, expected, "axis {axis}");
    }
    let scales = Some(floats(&[2], &[0.5, 0.25]));
    assert!(run("DequantizeLinear", &[], &[Some(bytes), scales, None]).unwrap_err().contains("scales for axis 1"));
}
