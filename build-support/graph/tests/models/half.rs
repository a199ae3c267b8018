//! Models whose inputs, weights and outputs are in half precision: sums are kept in single
//! precision, and rounded once.

use kernpack::Tensor;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::F16;
use kernpack_graph::{LowerOptions, ModelOptions, build, import};

use super::structures::{with_int, with_ints};
use super::{Message, model, node};

/// Returns the bits of a number that half precision can represent.
fn bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value == 0.0 {
        return 0;
    }
    let exponent = (bits >> 23 & 0xff) + 15 - 127;
    assert!((1..31).contains(&exponent) && bits & 0x1fff == 0, "{value}");
    (bits >> 16 & 0x8000 | exponent << 10 | bits >> 13 & 0x3ff) as u16
}

fn number(bits: u16) -> f64 {
    let (sign, exponent, mantissa) = (bits >> 15, i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 => f64::INFINITY,
        _ => (1024.0 + mantissa) * 2f64.powi(exponent - 25),
    };
    if sign == 1 { -size } else { size }
}

/// Returns numbers of a few bits.
fn numbers(count: i64, scale: f32, seed: i64) -> Vec<f32> {
    (0..count).map(|place| ((place * 7 + place / 5 + seed) % 23 - 9) as f32 * scale).collect()
}

fn tensor(shape: &[i64], values: &[f32]) -> Tensor {
    let bits: Vec<u16> = values.iter().map(|value| bits(*value)).collect();
    Tensor::from_slice(&bits, &[values.len() as i64]).unwrap().view_as(shape, F16, 0).unwrap()
}

fn typed(name: &str, dims: &[i64]) -> Message {
    let shape = dims.iter().fold(Message::default(), |shape, dim| shape.message(1, Message::default().int(1, *dim)));
    Message::default()
        .text(1, name)
        .message(2, Message::default().message(1, Message::default().int(1, 10).message(2, shape)))
}

fn weights(name: &str, dims: &[i64], values: &[f32]) -> Message {
    let raw: Vec<u8> = values.iter().flat_map(|value| bits(*value).to_le_bytes()).collect();
    dims.iter().fold(Message::default(), |tensor, dim| tensor.int(1, *dim)).int(2, 10).text(8, name).bytes(9, &raw)
}

/// Checks the results of one operator on any CPU of the architecture, where half precision has no
/// instructions, and on this one.
fn check(nodes: Vec<Message>, known: Vec<Message>, x: (&[i64], &[f32]), y: &[i64], expected: &[f64]) {
    let graph = nodes.into_iter().fold(Message::default(), |graph, node| graph.message(1, node));
    let graph = known.into_iter().fold(graph, |graph, known| graph.message(5, known));
    let file = model(graph.message(11, typed("x", x.0)).message(12, typed("y", y)));
    let graph = import(&file, None, &ModelOptions::default()).unwrap().graph;
    let host = Target::host();
    let mut targets = vec![host.clone()];
    if cfg!(target_arch = "x86_64") {
        targets.push(Target::llvm(&host.triple, "x86-64", ""));
    }
    for target in targets {
        for level in [0, 3] {
            let (module, _) = build(&graph, "half", &target, LowerOptions::of_level(level)).unwrap();
            let given = tensor(x.0, x.1);
            let found = Tensor::zeros::<u16>(&[y.iter().product()]).unwrap();
            module.function("half").unwrap().call((&given, found.view_as(y, F16, 0).unwrap())).unwrap();
            let found = found.view::<u16>().unwrap().to_vec();
            assert_eq!(found.len(), expected.len());
            for (place, (bits, expected)) in found.into_iter().zip(expected).enumerate() {
                let error = (number(bits) - expected).abs();
                let most = expected.abs() * 2f64.powi(-11) * 1.1 + 1e-5;
                assert!(
                    error <= most,
                    "{} level {level}, element {place}: {}, expected {expected}",
                    target.cpu,
                    number(bits)
                );
            }
        }
    }
}

#[test]
fn products() {
    let (depth, columns) = (3000, 20);
    let (x, w) = (numbers(2 * depth, 0.125, 0), numbers(depth * columns, 0.0625, 3));
    let expected = (0..2 * columns).map(|place| {
        let (row, column) = (place / columns, place % columns);
        (0..depth)
            .map(|k| f64::from(x[(row * depth + k) as usize]) * f64::from(w[(k * columns + column) as usize]))
            .sum::<f64>()
    });
    let nodes = vec![node("MatMul", &["x", "w"], &["y"])];
    let expected: Vec<f64> = expected.collect();
    check(nodes, vec![weights("w", &[depth, columns], &w)], (&[2, depth], &x), &[2, columns], &expected);
}

#[test]
fn convolutions() {
    let (x, w) = (numbers(64 * 6 * 6, 0.25, 1), numbers(4 * 64 * 9, 0.125, 5));
    let expected = (0..4 * 4 * 4).map(|place| {
        let (filter, row, column) = (place / 16, place / 4 % 4, place % 4);
        let terms = (0..64 * 9).map(|k| {
            let (channel, down, along) = (k / 9, k / 3 % 3, k % 3);
            f64::from(x[(channel * 6 + row + down) * 6 + column + along]) * f64::from(w[filter * 576 + k])
        });
        terms.sum::<f64>()
    });
    let expected: Vec<f64> = expected.collect();
    let nodes = vec![node("Conv", &["x", "w"], &["y"])];
    check(nodes, vec![weights("w", &[4, 64, 3, 3], &w)], (&[1, 64, 6, 6], &x), &[1, 4, 4, 4], &expected);
}

/// An intermediate sum that half precision cannot represent, for a result that it can.
#[test]
fn means_and_norms() {
    let x: Vec<f32> = (0..8192).map(|place| if place % 2 == 0 { 128.0 } else { 64.0 }).collect();
    let mean = |name: &str| with_ints(node(name, &["x"], &["y"]), "axes", &[1]);
    check(vec![mean("ReduceMean")], Vec::new(), (&[2, 4096], &x), &[2, 1], &[96.0, 96.0]);
    check(
        vec![node("GlobalAveragePool", &["x"], &["y"])],
        Vec::new(),
        (&[1, 2, 64, 64], &x),
        &[1, 2, 1, 1],
        &[96.0; 2],
    );
    let ones = weights("one", &[4096], &[1.0; 4096]);
    let expected: Vec<f64> = x.iter().map(|x| f64::from(*x - 96.0) / 32.0).collect();
    check(vec![node("LayerNormalization", &["x", "one"], &["y"])], vec![ones], (&[2, 4096], &x), &[2, 4096], &expected);
    let flat = vec![0.5; 4096];
    let soft = with_int(node("Softmax", &["x"], &["y"]), "axis", 1);
    check(vec![soft], Vec::new(), (&[1, 4096], &flat), &[1, 4096], &[1.0 / 4096.0; 4096]);
}
