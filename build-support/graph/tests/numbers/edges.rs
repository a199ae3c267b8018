//! Values at the ends of their types, and places outside images.

use kernpack::DataType;
use kernpack_compiler::ir::{BOOLEAN, F16, F32, U64};
use kernpack_graph::{Attr, Constant};

use super::program::{Program, known};
use super::{ints, run, text};

fn unsigned(values: &[u64]) -> Constant {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Constant::new(U64, &[values.len() as i64], bytes).unwrap()
}

fn words(constant: &Constant) -> Vec<u64> {
    assert_eq!(constant.dtype(), U64);
    constant.bytes().chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

const LARGE: [u64; 7] = [0, 1, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1025, u64::MAX];

/// Returns the first result of an operator with known inputs, with all inputs known except the
/// first one, and with all as arguments.
fn all_ways(name: &str, attrs: &[(&str, Attr)], inputs: &[Constant]) -> Vec<Constant> {
    let mut results = vec![run(name, attrs, &inputs.iter().cloned().map(Some).collect::<Vec<_>>()).unwrap().remove(0)];
    // The evaluator is sufficient for operators without separate code for large integers.
    if ["Add", "Sub", "Mul", "BitwiseAnd", "BitwiseXor", "Equal", "LessOrEqual", "GreaterOrEqual", "Mod"]
        .contains(&name)
    {
        return results;
    }
    let last = inputs.len() - 1;
    let ways: [&dyn Fn(usize) -> bool; 2] = [&|index| index == 0, &|_| true];
    for is_argument in &ways[..if last == 0 { 1 } else { 2 }] {
        let given: Vec<_> = inputs.iter().enumerate().map(|(index, x)| Some((x, is_argument(index)))).collect();
        let arguments: Vec<&Constant> =
            inputs.iter().enumerate().filter(|(index, _)| is_argument(*index)).map(|(_, x)| x).collect();
        results.push(Program::new(name, attrs, &given, 1).unwrap().run(&arguments).remove(0));
    }
    results
}

#[test]
fn unsigned_integers_keep_their_value() {
    let x = unsigned(&LARGE);
    // A single number is a constant of the expression.
    for other in [3, (1 << 63) + 1] {
        let y = unsigned(&[other]);
        type Function = fn(u64, u64) -> u64;
        let of_two: [(&str, Function); 9] = [
            ("Add", u64::wrapping_add),
            ("Sub", u64::wrapping_sub),
            ("Mul", u64::wrapping_mul),
            ("Div", |a, b| a / b),
            ("Mod", |a, b| a % b),
            ("Max", u64::max),
            ("Min", u64::min),
            ("BitwiseAnd", |a, b| a & b),
            ("BitwiseXor", |a, b| a ^ b),
        ];
        for (name, function) in of_two {
            for found in all_ways(name, &[], &[x.clone(), y.clone()]) {
                assert_eq!(words(&found), LARGE.map(|value| function(value, other)), "{name} {other}");
            }
        }
        type Comparison = fn(u64, u64) -> bool;
        let compared: [(&str, Comparison); 5] = [
            ("Equal", |a, b| a == b),
            ("Less", |a, b| a < b),
            ("Greater", |a, b| a > b),
            ("LessOrEqual", |a, b| a <= b),
            ("GreaterOrEqual", |a, b| a >= b),
        ];
        for (name, function) in compared {
            for found in all_ways(name, &[], &[x.clone(), y.clone()]) {
                assert_eq!(found.dtype(), BOOLEAN);
                let wanted = LARGE.map(|value| u8::from(function(value, other)));
                assert_eq!(found.bytes(), wanted, "{name} {other}");
            }
        }
        // As floats, and of one known element.
        for (number, dtype) in [(1, "float32"), (11, "float64")] {
            for value in [&x, &y] {
                for found in all_ways("Cast", &[("to", Attr::Int(number))], core::slice::from_ref(value)) {
                    let wanted: Vec<f64> = words(value)
                        .into_iter()
                        .map(|value| if number == 1 { f64::from(value as f32) } else { value as f64 })
                        .collect();
                    assert_eq!(found.to_floats().unwrap(), wanted, "{dtype} {value:?}");
                }
            }
        }
        let truth = [("to", Attr::Int(9))];
        assert_eq!(all_ways("Cast", &truth, core::slice::from_ref(&y))[1].bytes(), [1]);
        // A shape filled with it, and a clipped value.
        let filled = run("ConstantOfShape", &[("value", Attr::Tensor(y.clone()))], &[Some(ints(&[1], &[2]))]).unwrap();
        assert_eq!(words(&filled[0]), [other; 2]);
        let low = unsigned(&[1]).reshaped(&[]).unwrap();
        for found in all_ways("Clip", &[], &[x.clone(), low, y.reshaped(&[]).unwrap()]) {
            assert_eq!(words(&found), LARGE.map(|value| value.clamp(1, other)), "Clip {other}");
        }
    }
    let axes = ints(&[1], &[0]);
    let keeps = [("keepdims", Attr::Int(0))];
    for (name, wanted) in [("ReduceMax", u64::MAX), ("ReduceMin", 0)] {
        for found in [
            run(name, &keeps, &[Some(x.clone()), Some(axes.clone())]).unwrap().remove(0),
            Program::new(name, &keeps, &[Some((&x, true)), Some((&axes, false))], 1).unwrap().run(&[&x]).remove(0),
        ] {
            assert_eq!(words(&found), [wanted], "{name}");
        }
    }
    for found in all_ways("ArgMax", &[], core::slice::from_ref(&x)) {
        assert_eq!(found.to_ints().unwrap(), [6]);
    }
    // If a signed integer is expected, it is an error.
    let error = x.to_ints().unwrap_err().to_string();
    assert_eq!(error, "element 4 is 9223372036854775808: expected an integer of at most 9223372036854775807");
    assert_eq!(x.to_floats().unwrap(), LARGE.map(|value| value as f64));
}

/// Powers of integers wrap like products, and lose no digit.
#[test]
fn powers_of_integers_are_exact() {
    let bases = [-3, -2, -1, 0, 1, 2, 3, 7, i64::MAX, i64::MIN];
    let exponents = [0, 1, 2, 3, 5, 31, 39, 40, 41, 63, 64, 65, 1 << 40, i64::MAX, -1, -2, -3, i64::MIN];
    let power = |base: i64, exponent: i64| match (base, exponent) {
        (1, ..0) => 1,
        (-1, ..0) => 1 - 2 * (exponent & 1),
        (_, ..0) => 0,
        _ => (0..64).rev().fold(1_i64, |power, bit| {
            let square = power.wrapping_mul(power);
            if exponent >> bit & 1 == 1 { square.wrapping_mul(base) } else { square }
        }),
    };
    let pairs: Vec<(i64, i64)> =
        bases.iter().flat_map(|base| exponents.iter().map(|exponent| (*base, *exponent))).collect();
    let count = pairs.len() as i64;
    let (x, y): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
    let expected: Vec<i64> = pairs.iter().map(|(base, exponent)| power(*base, *exponent)).collect();
    for found in all_ways("Pow", &[], &[ints(&[count], &x), ints(&[count], &y)]) {
        assert_eq!(found.to_ints().unwrap(), expected);
    }
    // A known exponent, and one of another type.
    for exponent in exponents {
        let expected: Vec<i64> = bases.iter().map(|base| power(*base, exponent)).collect();
        let base = ints(&[bases.len() as i64], &bases);
        let found = run("Pow", &[], &[Some(base), Some(ints(&[], &[exponent]))]).unwrap().remove(0);
        assert_eq!(found.to_ints().unwrap(), expected, "{exponent}");
    }
    let base = Constant::new(DataType::scalar(0, 32), &[2], [3_i32, -3].map(i32::to_le_bytes).concat()).unwrap();
    let exponent = Constant::new(DataType::scalar(1, 8), &[2], vec![30_u8, 21]).unwrap();
    for found in all_ways("Pow", &[], &[base, exponent]) {
        assert_eq!(found.to_ints().unwrap(), [3_i64.pow(30) as i32, -(3_i64.pow(21)) as i32].map(i64::from));
    }
    let bytes = Constant::new(DataType::scalar(1, 8), &[3], vec![255_u8, 16, 3]).unwrap();
    let exponent = Constant::new(DataType::scalar(0, 8), &[3], vec![2, 2, 0xff]).unwrap();
    for found in all_ways("Pow", &[], &[bytes, exponent]) {
        assert_eq!(found.to_ints().unwrap(), [1, 0, 0]);
    }
}

/// A cube of a narrow float is rounded once.
#[test]
fn cubes_are_rounded_once() {
    let values: Vec<f64> = (0..400).map(|step| 0.5 + f64::from(step) / 128.0).collect();
    let x = known(F16, &[400], &values);
    let cubes: Vec<f64> = x.to_floats().unwrap().iter().map(|value| value * value * value).collect();
    let (exact, three) = (known(F16, &[400], &cubes), known(F16, &[], &[3.0]));
    for found in [
        run("Pow", &[], &[Some(x.clone()), Some(three.clone())]).unwrap().remove(0),
        Program::new("Pow", &[], &[Some((&x, true)), Some((&three, false))], 1).unwrap().run(&[&x]).remove(0),
    ] {
        assert_eq!(found.to_floats().unwrap(), exact.to_floats().unwrap());
    }
}

/// Integers have more digits than floats of the same width.
#[test]
fn ranges_of_integers_are_exact() {
    let of = |values: [i64; 3]| {
        let inputs = values.map(|value| Some(Constant::of_ints(&[value]).reshaped(&[]).unwrap()));
        run("Range", &[], &inputs).map(|results| results[0].to_ints().unwrap())
    };
    let large = (1 << 53) + 1;
    assert_eq!(of([large, large + 3, 1]).unwrap(), [large, large + 1, large + 2]);
    assert_eq!(of([16_777_217, 16_777_212, -2]).unwrap(), [16_777_217, 16_777_215, 16_777_213]);
    assert_eq!(of([i64::MAX - 1, i64::MAX, 5]).unwrap(), [i64::MAX - 1]);
    assert_eq!(of([5, 5, 1]).unwrap(), [0_i64; 0]);
    assert_eq!(of([5, 1, 1]).unwrap(), [0_i64; 0]);
    assert!(of([1, 5, 0]).unwrap_err().contains("the step is 0"));
    assert!(of([i64::MIN, i64::MAX, 1]).unwrap_err().contains("elements are too many"));
    let unsigned = [(1 << 63) + 1, (1 << 63) + 4, 2].map(|value| Some(unsigned(&[value]).reshaped(&[]).unwrap()));
    assert_eq!(words(&run("Range", &[], &unsigned).unwrap()[0]), [(1 << 63) + 1, (1 << 63) + 3]);
}

/// The padding of an image has no elements: if all elements of a window are minimal, the first of
/// them is selected.
#[test]
fn places_of_pools_are_elements() {
    let least = f64::NEG_INFINITY;
    let strides = [[1, 1], [2, 2]];
    for (stride, order) in strides.into_iter().flat_map(|stride| [(stride, 0), (stride, 1)]) {
        let attrs = [
            ("kernel_shape", Attr::Ints(vec![3, 3])),
            ("pads", Attr::Ints(vec![1; 4])),
            ("strides", Attr::Ints(stride.to_vec())),
            ("storage_order", Attr::Int(order)),
        ];
        for fill in [&[][..], &[7], &[0, 13, 24]] {
            let mut values = vec![least; 25];
            for place in fill {
                values[*place] = *place as f64;
            }
            let x = known(F32, &[1, 1, 5, 5], &values);
            let program = Program::new("MaxPool", &attrs, &[Some((&x, true))], 2).unwrap();
            for results in [program.run(&[&x]), run_both(&attrs, &x)] {
                let (largest, places) = (results[0].to_floats().unwrap(), results[1].to_ints().unwrap());
                let columns = results[0].shape()[3];
                for (index, (value, place)) in largest.iter().zip(&places).enumerate() {
                    let (row, column) =
                        (index as i64 / columns * stride[0] - 1, index as i64 % columns * stride[1] - 1);
                    // The first largest element of the window, in the order of the image.
                    let mut best: Option<(i64, i64)> = None;
                    let at = |y: i64, x: i64| values[(y * 5 + x) as usize];
                    for y in row.max(0)..(row + 3).min(5) {
                        for x in column.max(0)..(column + 3).min(5) {
                            if best.is_none_or(|(b, a)| at(y, x) > at(b, a)) {
                                best = Some((y, x));
                            }
                        }
                    }
                    let (y, x) = best.unwrap();
                    assert_eq!(*value, at(y, x), "{attrs:?} {fill:?} {index}");
                    let number = if order == 1 { x * 5 + y } else { y * 5 + x };
                    assert_eq!(*place, number, "{attrs:?} {fill:?}");
                    assert!((0..25).contains(place), "{attrs:?} {fill:?}: {place}");
                }
            }
        }
    }
    // Integers have no infinity: their minimum is one of the elements.
    let bytes = Constant::new(DataType::scalar(0, 8), &[1, 1, 3], vec![0x80; 3]).unwrap();
    let attrs = [("kernel_shape", Attr::Ints(vec![2])), ("pads", Attr::Ints(vec![1, 1]))];
    assert_eq!(run_both(&attrs, &bytes)[1].to_ints().unwrap(), [0, 0, 1, 2]);
}

fn run_both(attrs: &[(&str, Attr)], x: &Constant) -> Vec<Constant> {
    super::run_several("MaxPool", attrs, &[Some(x.clone())], 2).unwrap()
}

/// A cubic curve near the border of an image: the places around it are clamped, not the place
/// itself.
#[test]
fn cubic_curves_at_borders() {
    let values: Vec<f64> = (0..20).map(|place| f64::from(place * 7 % 20)).collect();
    let x = known(F32, &[1, 1, 4, 5], &values);
    let cubic = |t: f64| {
        let a = -0.75;
        let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
        let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
        [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
    };
    for align in [false, true] {
        let place = |at: f64, extent: f64| {
            if align { (at + 1.0) / 2.0 * (extent - 1.0) } else { ((at + 1.0) * extent - 1.0) / 2.0 }
        };
        let coordinates: Vec<f64> = (-26..=26).map(|step| f64::from(step) / 13.0).collect();
        let grid: Vec<f64> = coordinates.iter().flat_map(|at| [*at, -0.9 * at + 0.15]).collect();
        let grid = known(F32, &[1, 1, coordinates.len() as i64, 2], &grid);
        let attrs =
            [("mode", text("cubic")), ("padding_mode", text("border")), ("align_corners", Attr::Int(i64::from(align)))];
        for found in all_ways("GridSample", &attrs, &[x.clone(), grid.clone()]) {
            for (at, found) in coordinates.iter().zip(found.to_floats().unwrap()) {
                let (column, row) = (place(*at, 5.0), place(-0.9 * at + 0.15, 4.0));
                let mut wanted = 0.0;
                for (i, by_row) in cubic(row - row.floor()).into_iter().enumerate() {
                    for (j, by_column) in cubic(column - column.floor()).into_iter().enumerate() {
                        let y = (row.floor() as i64 - 1 + i as i64).clamp(0, 3);
                        let x = (column.floor() as i64 - 1 + j as i64).clamp(0, 4);
                        wanted += values[(y * 5 + x) as usize] * by_row * by_column;
                    }
                }
                assert!((found - wanted).abs() < 2e-4, "{align} at {at}: {found}, not {wanted}");
            }
        }
    }
}

/// A window that is larger than all channels: only existing channels count, and the rest costs
/// nothing.
#[test]
fn windows_larger_than_the_channels() {
    for channels in [1, 3] {
        let values: Vec<f64> = (0..channels * 2).map(|place| f64::from(place) - 1.5).collect();
        let x = known(F32, &[1, i64::from(channels), 2], &values);
        for size in [1, 2, 3, 4, 5, 6, 7, 8, 1 << 20, (1 << 40) - 1, 1 << 40] {
            let (before, behind) = ((size - 1) / 2, size / 2);
            // A factor of 1 for each element.
            let attrs = [("size", Attr::Int(size)), ("alpha", Attr::Float(size as f32)), ("beta", Attr::Float(0.5))];
            let expected: Vec<f64> = (0..i64::from(channels * 2))
                .map(|place| {
                    let (channel, column) = (place / 2, place % 2);
                    let window =
                        (0..i64::from(channels)).filter(|other| (-before..=behind).contains(&(other - channel)));
                    let sum: f64 = window.map(|other| values[(other * 2 + column) as usize].powi(2)).sum();
                    values[place as usize] / (1.0 + sum).sqrt()
                })
                .collect();
            for result in all_ways("LRN", &attrs, core::slice::from_ref(&x)) {
                for (found, expected) in result.to_floats().unwrap().iter().zip(&expected) {
                    assert!((found - expected).abs() < 1e-5, "{channels} {size}: {found} for {expected}");
                }
            }
        }
    }
}

/// The scales of blocks of a tensor with one axis.
#[test]
fn blocks_of_one_axis() {
    let attrs = [("axis", Attr::Int(0)), ("block_size", Attr::Int(2))];
    let scales = known(F32, &[3], &[1.0, 2.0, 0.5]);
    let (floats, bytes) = ([3.0, 4.0, 6.0, 8.0, 5.0], [3, 4, 3, 4, 10]);
    for attrs in [&attrs[..], &attrs[1..]] {
        let quantized = all_ways("QuantizeLinear", attrs, &[known(F32, &[5], &floats), scales.clone()]);
        assert!(quantized.iter().all(|result| result.bytes() == bytes), "{attrs:?}");
        for result in all_ways("DequantizeLinear", attrs, &[quantized[0].clone(), scales.clone()]) {
            assert_eq!(result.to_floats().unwrap(), floats, "{attrs:?}");
        }
    }
}
