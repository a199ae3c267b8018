//! Weights in fewer bits, and products of bytes: the results are compared with those in double
//! precision.

use kernpack::{DataType, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{BF16, F16, F32, I8, U8};
use kernpack_graph::{Graph, LowerOptions, ModelOptions, build, import};

use super::{Message, model, node, value, weights};

/// A fixed stream of numbers, from -1 to 1.
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    fn floats(&mut self, count: i64) -> Vec<f32> {
        (0..count).map(|_| self.next() as f32).collect()
    }

    /// Bytes. The first ones are the ends of the range.
    fn bytes(&mut self, dtype: DataType, count: i64) -> Vec<i64> {
        let low = if dtype == U8 { 0 } else { -128 };
        let mut bytes: Vec<i64> = (0..count).map(|_| low + ((self.next() + 1.0) * 127.99) as i64).collect();
        for (byte, end) in bytes.iter_mut().zip([low, low + 255, low + 128]) {
            *byte = end;
        }
        bytes
    }
}

/// A tensor of bytes.
pub(super) fn bytes(name: &str, dtype: DataType, dims: &[i64], values: &[i64]) -> Message {
    let raw: Vec<u8> = values.iter().map(|value| *value as u8).collect();
    let tensor = dims.iter().fold(Message::default(), |tensor, dim| tensor.int(1, *dim));
    tensor.int(2, if dtype == U8 { 2 } else { 3 }).text(8, name).bytes(9, &raw)
}

fn typed(name: &str, number: i64, dims: &[i64]) -> Message {
    let shape = dims.iter().fold(Message::default(), |shape, dim| shape.message(1, Message::default().int(1, *dim)));
    let tensor = Message::default().int(1, number).message(2, shape);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}

fn with_int(node: Message, name: &str, value: i64) -> Message {
    node.message(5, Message::default().text(1, name).int(3, value).int(20, 2))
}

pub(super) fn targets() -> Vec<Target> {
    let host = Target::host();
    let mut targets = vec![host.clone()];
    if cfg!(target_arch = "x86_64") && host.vector_bits() >= 256 {
        targets.push(Target::llvm(&host.triple, "x86-64-v3", ""));
    }
    targets
}

fn operators(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

#[test]
fn weights_in_half_precision() {
    let mut stream = Stream(1);
    let (x, w, f) = (stream.floats(3 * 96), stream.floats(96 * 80), stream.floats(8 * 8 * 9));
    let image = stream.floats(8 * 12 * 12);
    let graph = Message::default()
        .message(1, node("MatMul", &["x", "w"], &["y"]))
        .message(1, node("Conv", &["image", "f"], &["z"]))
        .text(2, "narrow")
        .message(5, weights("w", &[96, 80], &w))
        .message(5, weights("f", &[8, 8, 3, 3], &f))
        .message(11, value("x", &[3, 96]))
        .message(11, value("image", &[1, 8, 12, 12]))
        .message(12, value("y", &[3, 80]))
        .message(12, value("z", &[1, 8, 10, 10]));
    let file = model(graph);
    let wide = import(&file, None, &ModelOptions::default()).unwrap().graph;
    let (_, wide) = build(&wide, "wide", &Target::host(), LowerOptions::default()).unwrap();
    for (dtype, unit) in [(F16, 2f64.powi(-11)), (BF16, 2f64.powi(-8))] {
        let options = ModelOptions { weights: Some(dtype), ..ModelOptions::default() };
        let graph = import(&file, None, &options).unwrap().graph;
        for target in targets() {
            let (module, lowered) = build(&graph, "narrow", &target, LowerOptions::default()).unwrap();
            assert!(lowered.weights * 2 <= wide.weights + 64, "{} of {} bytes", lowered.weights, wide.weights);
            let given = Tensor::from_slice(&x, &[3, 96]).unwrap();
            let pixels = Tensor::from_slice(&image, &[1, 8, 12, 12]).unwrap();
            let (y, z) = (Tensor::zeros::<f32>(&[3, 80]).unwrap(), Tensor::zeros::<f32>(&[1, 8, 10, 10]).unwrap());
            module.function("narrow").unwrap().call((&given, &pixels, &y, &z)).unwrap();
            for (at, found) in y.view::<f32>().unwrap().to_vec().into_iter().enumerate() {
                let terms = (0..96).map(|k| (f64::from(x[at / 80 * 96 + k]), f64::from(w[k * 80 + at % 80])));
                let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), (a, b)| (sum + a * b, size + (a * b).abs()));
                assert!((f64::from(found) - exact).abs() <= unit * size, "{dtype}: {found}, not {exact}");
            }
            for (at, found) in z.view::<f32>().unwrap().to_vec().into_iter().enumerate() {
                let (filter, row, column) = (at / 100, at / 10 % 10, at % 10);
                let terms = (0..72).map(|k| {
                    let (c, ky, kx) = (k / 9, k / 3 % 3, k % 3);
                    f64::from(image[(c * 12 + row + ky) * 12 + column + kx]) * f64::from(f[filter * 72 + k])
                });
                let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                assert!((f64::from(found) - exact).abs() <= unit * size, "{dtype}: {found}, not {exact}");
            }
        }
    }
    // Numbers that half precision cannot represent are kept.
    let mut large = w.clone();
    large[5] = 1e6;
    let graph = Message::default()
        .message(1, node("MatMul", &["x", "w"], &["y"]))
        .text(2, "large")
        .message(5, weights("w", &[96, 80], &large))
        .message(11, value("x", &[3, 96]))
        .message(12, value("y", &[3, 80]));
    let options = ModelOptions { weights: Some(F16), ..ModelOptions::default() };
    let graph = import(&model(graph), None, &options).unwrap().graph;
    assert_eq!(graph.values[graph.nodes[0].inputs[1].unwrap()].dtype, F32);
    assert_eq!(graph.warnings, ["weights 'w' have numbers that float16 does not have: they stay float32"]);
    let options = ModelOptions { weights: Some(U8), ..ModelOptions::default() };
    let error = import(&file, None, &options).err().unwrap().to_string();
    assert_eq!(error, "weights are kept as float16, bfloat16 or float32, not as uint8");
}

/// The factors and the zero points.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    a: DataType,
    b: DataType,
    a_zero: i64,
    b_zero: i64,
}

const KINDS: [Kinds; 6] = [
    Kinds { a: U8, b: I8, a_zero: 128, b_zero: 0 },
    Kinds { a: U8, b: U8, a_zero: 0, b_zero: 255 },
    Kinds { a: U8, b: U8, a_zero: 255, b_zero: 128 },
    Kinds { a: I8, b: I8, a_zero: -128, b_zero: 127 },
    Kinds { a: I8, b: I8, a_zero: 0, b_zero: 0 },
    Kinds { a: I8, b: U8, a_zero: 127, b_zero: 3 },
];

#[test]
fn products_of_dequantized_values() {
    let (rows, depth, columns) = (5_usize, 37_usize, 21_usize);
    let (m, k, n) = (rows as i64, depth as i64, columns as i64);
    for (at, kinds) in KINDS.into_iter().enumerate() {
        let mut stream = Stream(at as u64 + 7);
        let is_gemm = at % 2 == 1;
        let per_column = at % 3 != 2;
        let (a, b) = (stream.bytes(kinds.a, m * k), stream.bytes(kinds.b, k * n));
        let bias = stream.floats(n);
        let scales: Vec<f32> = (0..if per_column { n } else { 1 }).map(|j| 0.004 + j as f32 / 8192.0).collect();
        let number = |dtype: DataType| if dtype == U8 { 2 } else { 3 };
        // The matrix of a Gemm is transposed.
        let shape = if is_gemm { [n, k] } else { [k, n] };
        let lying: Vec<i64> =
            if is_gemm { (0..n * k).map(|place| b[(place % k * n + place / k) as usize]).collect() } else { b.clone() };
        let scale_dims: &[i64] = if per_column { &[n] } else { &[] };
        let zeros = vec![kinds.b_zero; scales.len()];
        let matrix = with_int(node("DequantizeLinear", &["b", "bs", "bz"], &["bf"]), "axis", i64::from(!is_gemm));
        let mut graph =
            Message::default().message(1, node("DequantizeLinear", &["a", "as", "az"], &["af"])).message(1, matrix);
        graph = if is_gemm {
            graph.message(1, with_int(node("Gemm", &["af", "bf", "bias"], &["y"]), "transB", 1))
        } else {
            graph.message(1, node("MatMul", &["af", "bf"], &["p"])).message(1, node("Add", &["p", "bias"], &["y"]))
        };
        let graph = graph
            .message(1, node("QuantizeLinear", &["y", "ys", "yz"], &["q"]))
            .text(2, "qdq")
            .message(5, weights("as", &[], &[0.02]))
            .message(5, bytes("az", kinds.a, &[], &[kinds.a_zero]))
            .message(5, bytes("b", kinds.b, &shape, &lying))
            .message(5, weights("bs", scale_dims, &scales))
            .message(5, bytes("bz", kinds.b, scale_dims, &zeros))
            .message(5, weights("bias", &[n], &bias))
            .message(5, weights("ys", &[], &[0.25]))
            .message(5, bytes("yz", U8, &[], &[100]))
            .message(11, typed("a", number(kinds.a), &[m, k]))
            .message(12, typed("y", 1, &[m, n]))
            .message(12, typed("q", 2, &[m, n]));
        let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
        assert!(operators(&graph).contains(&"ByteProduct"), "{kinds:?}: {:?}", operators(&graph));
        for target in targets() {
            let (module, lowered) = build(&graph, "qdq", &target, LowerOptions::default()).unwrap();
            assert!(lowered.weights < 6 * depth * columns, "{kinds:?}: {} bytes", lowered.weights);
            let given = match kinds.a {
                U8 => Tensor::from_slice(&a.iter().map(|byte| *byte as u8).collect::<Vec<_>>(), &[m, k]).unwrap(),
                _ => Tensor::from_slice(&a.iter().map(|byte| *byte as i8).collect::<Vec<_>>(), &[m, k]).unwrap(),
            };
            let (y, q) = (Tensor::zeros::<f32>(&[m, n]).unwrap(), Tensor::zeros::<u8>(&[m, n]).unwrap());
            module.function("qdq").unwrap().call((&given, &y, &q)).unwrap();
            let (y, q) = (y.view::<f32>().unwrap().to_vec(), q.view::<u8>().unwrap().to_vec());
            for place in 0..rows * columns {
                let (i, j) = (place / columns, place % columns);
                let sum: i64 =
                    (0..depth).map(|r| (a[i * depth + r] - kinds.a_zero) * (b[r * columns + j] - kinds.b_zero)).sum();
                let scale = f64::from(0.02_f32) * f64::from(scales[j % scales.len()]);
                let wanted = sum as f64 * scale + f64::from(bias[j]);
                let error = (f64::from(y[place]) - wanted).abs();
                assert!(error <= 1e-6 * wanted.abs().max(1.0), "{kinds:?}: {} for {wanted}", y[place]);
                let rounded = (y[place] / 0.25).round_ties_even() + 100.0;
                assert_eq!(f32::from(q[place]), rounded.clamp(0.0, 255.0), "{kinds:?}: of {}", y[place]);
            }
        }
    }
}

#[test]
fn integer_products_with_known_matrices() {
    let (rows, depth, columns) = (3_usize, 50_usize, 33_usize);
    let (m, k, n) = (rows as i64, depth as i64, columns as i64);
    for (at, kinds) in KINDS.into_iter().enumerate() {
        let mut stream = Stream(at as u64 + 70);
        let (a, b) = (stream.bytes(kinds.a, m * k), stream.bytes(kinds.b, k * n));
        let number = |dtype: DataType| if dtype == U8 { 2 } else { 3 };
        // The zero point of the first factor is only known at run time.
        let graph = Message::default()
            .message(1, node("MatMulInteger", &["a", "b", "az", "bz"], &["sums"]))
            .message(1, node("QLinearMatMul", &["a", "s", "azk", "b", "s", "bz", "s", "yz"], &["q"]))
            .text(2, "integers")
            .message(5, bytes("azk", kinds.a, &[], &[kinds.a_zero]))
            .message(5, bytes("b", kinds.b, &[k, n], &b))
            .message(5, bytes("bz", kinds.b, &[], &[kinds.b_zero]))
            .message(5, weights("s", &[], &[0.0078125]))
            .message(5, bytes("yz", kinds.a, &[], &[5]))
            .message(11, typed("a", number(kinds.a), &[m, k]))
            .message(11, typed("az", number(kinds.a), &[]))
            .message(12, typed("sums", 6, &[m, n]))
            .message(12, typed("q", number(kinds.a), &[m, n]));
        let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
        assert_eq!(operators(&graph), ["ByteProduct", "ByteProduct"], "{kinds:?}");
        for target in targets() {
            let (module, _) = build(&graph, "integers", &target, LowerOptions::default()).unwrap();
            let run = module.function("integers").unwrap();
            let sums = Tensor::zeros::<i32>(&[m, n]).unwrap();
            let found: Vec<i64> = if kinds.a == U8 {
                let given = Tensor::from_slice(&a.iter().map(|byte| *byte as u8).collect::<Vec<_>>(), &[m, k]).unwrap();
                let zero = Tensor::from_slice(&[kinds.a_zero as u8], &[]).unwrap();
                let q = Tensor::zeros::<u8>(&[m, n]).unwrap();
                run.call((&given, &zero, &sums, &q)).unwrap();
                q.view::<u8>().unwrap().to_vec().into_iter().map(i64::from).collect()
            } else {
                let given = Tensor::from_slice(&a.iter().map(|byte| *byte as i8).collect::<Vec<_>>(), &[m, k]).unwrap();
                let zero = Tensor::from_slice(&[kinds.a_zero as i8], &[]).unwrap();
                let q = Tensor::zeros::<i8>(&[m, n]).unwrap();
                run.call((&given, &zero, &sums, &q)).unwrap();
                q.view::<i8>().unwrap().to_vec().into_iter().map(i64::from).collect()
            };
            let sums = sums.view::<i32>().unwrap().to_vec();
            let (low, high) = if kinds.a == U8 { (0.0, 255.0) } else { (-128.0, 127.0) };
            for place in 0..rows * columns {
                let (i, j) = (place / columns, place % columns);
                let sum: i64 =
                    (0..depth).map(|r| (a[i * depth + r] - kinds.a_zero) * (b[r * columns + j] - kinds.b_zero)).sum();
                assert_eq!(i64::from(sums[place]), sum, "{kinds:?} on {}", target.cpu);
                let wanted = ((sum as f64 / 128.0).round_ties_even() + 5.0).clamp(low, high);
                assert_eq!(found[place] as f64, wanted, "{kinds:?} on {}: of {sum}", target.cpu);
            }
        }
    }
}

/// Both factors are only known at run time: several matrices, one for all, vectors.
#[test]
fn integer_products_of_given_matrices() {
    let cases: [(&[i64], &[i64], &[i64]); 5] = [
        (&[2, 3, 10], &[10, 5], &[2, 3, 5]),
        (&[2, 3, 10], &[2, 10, 5], &[2, 3, 5]),
        (&[3, 10], &[2, 10, 5], &[2, 3, 5]),
        (&[1, 3, 10], &[2, 10, 5], &[2, 3, 5]),
        (&[10], &[10, 5], &[5]),
    ];
    for (at, (a_shape, b_shape, y_shape)) in cases.into_iter().enumerate() {
        let mut stream = Stream(at as u64 + 7000);
        let (a, b) = (stream.bytes(U8, a_shape.iter().product()), stream.bytes(I8, b_shape.iter().product()));
        let zeros = [0, -128, 127, 5, -7];
        let graph = Message::default()
            .message(1, node("MatMulInteger", &["a", "b", "az", "bz"], &["y"]))
            .text(2, "given")
            .message(5, bytes("bz", I8, &[5], &zeros))
            .message(5, bytes("az", U8, &[], &[131]))
            .message(11, typed("a", 2, a_shape))
            .message(11, typed("b", 3, b_shape))
            .message(12, typed("y", 6, y_shape));
        let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
        assert_eq!(operators(&graph), ["MatMulInteger"]);
        for target in targets() {
            let (module, _) = build(&graph, "given", &target, LowerOptions::default()).unwrap();
            let x = Tensor::from_slice(&a.iter().map(|byte| *byte as u8).collect::<Vec<_>>(), a_shape).unwrap();
            let w = Tensor::from_slice(&b.iter().map(|byte| *byte as i8).collect::<Vec<_>>(), b_shape).unwrap();
            let y = Tensor::zeros::<i32>(y_shape).unwrap();
            module.function("given").unwrap().call((&x, &w, &y)).unwrap();
            for (place, found) in y.view::<i32>().unwrap().to_vec().into_iter().enumerate() {
                let (matrix, row, column) = (place / 15, place / 5 % 3, place % 5);
                let from = if a_shape.len() == 3 && a_shape[0] == 2 { matrix * 30 } else { 0 };
                let other = if b_shape.len() == 3 { matrix * 50 } else { 0 };
                let row = if a_shape.len() == 1 { 0 } else { row };
                let wanted: i64 =
                    (0..10).map(|k| (a[from + row * 10 + k] - 131) * (b[other + k * 5 + column] - zeros[column])).sum();
                assert_eq!(i64::from(found), wanted, "{a_shape:?} {b_shape:?} at {place} on {}", target.cpu);
            }
        }
    }
}

#[test]
fn convolutions_of_bytes() {
    // Extents of the image, channels, output channels, window, stride, padding, dilation.
    let cases = [(9, 3, 5, 3, 1, 1, 1), (12, 8, 17, 3, 2, 1, 1), (7, 5, 16, 1, 1, 0, 1), (11, 4, 3, 3, 1, 2, 2)];
    for (at, (size, channels, filters, window, stride, pad, dilation)) in cases.into_iter().enumerate() {
        let kinds = [(U8, I8, 7, 0), (I8, I8, -128, 0), (U8, U8, 255, 128), (I8, U8, 3, 128)][at];
        let (x_type, w_type, x_zero, w_zero) = kinds;
        let mut stream = Stream(at as u64 + 700);
        let x = stream.bytes(x_type, channels * size * size);
        let w = stream.bytes(w_type, filters * channels * window * window);
        let scales: Vec<f32> = (0..filters).map(|filter| 0.003 + filter as f32 / 4096.0).collect();
        let added: Vec<i64> = (0..filters).map(|filter| 100 * filter - 300).collect();
        let bias: Vec<f32> = scales.iter().zip(&added).map(|(scale, added)| scale * 0.02 * *added as f32).collect();
        let count = (size + 2 * pad - (window - 1) * dilation - 1) / stride + 1;
        let shape = [1, filters, count, count];
        let number = |dtype: DataType| if dtype == U8 { 2 } else { 3 };
        let ints = |node: Message, name: &str, values: &[i64]| {
            let attribute = values.iter().fold(Message::default().text(1, name), |all, value| all.int(8, *value));
            node.message(5, attribute.int(20, 7))
        };
        let around = |node: Message| {
            let node = ints(ints(node, "strides", &[stride; 2]), "pads", &[pad; 4]);
            ints(node, "dilations", &[dilation; 2])
        };
        let words: Vec<u8> = added.iter().flat_map(|added| (*added as i32).to_le_bytes()).collect();
        let whole = Message::default().int(1, filters).int(2, 6).text(8, "ib").bytes(9, &words);
        let of_weights = with_int(node("DequantizeLinear", &["w", "ws", "wz"], &["wf"]), "axis", 0);
        let graph = Message::default()
            .message(1, node("DequantizeLinear", &["x", "xs", "xz"], &["xf"]))
            .message(1, of_weights)
            .message(1, around(node("Conv", &["xf", "wf", "b"], &["c"])))
            .message(1, node("Relu", &["c"], &["y"]))
            .message(1, around(node("QLinearConv", &["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "ib"], &["q"])))
            .message(1, around(node("ConvInteger", &["x", "w", "xz", "wz1"], &["sums"])))
            .text(2, "convolutions")
            .message(5, weights("xs", &[], &[0.02]))
            .message(5, weights("ws", &[filters], &scales))
            .message(5, weights("ys", &[], &[0.5]))
            .message(5, weights("b", &[filters], &bias))
            .message(5, whole)
            .message(5, bytes("xz", x_type, &[], &[x_zero]))
            .message(5, bytes("wz", w_type, &[filters], &vec![w_zero; filters as usize]))
            .message(5, bytes("wz1", w_type, &[], &[w_zero]))
            .message(5, bytes("yz", U8, &[], &[90]))
            .message(5, bytes("w", w_type, &[filters, channels, window, window], &w))
            .message(11, typed("x", number(x_type), &[1, channels, size, size]))
            .message(12, typed("y", 1, &shape))
            .message(12, typed("q", 2, &shape))
            .message(12, typed("sums", 6, &shape));
        let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
        assert_eq!(operators(&graph).iter().filter(|name| **name == "ByteConv").count(), 3, "{:?}", operators(&graph));
        for target in targets() {
            let (module, _) = build(&graph, "convolutions", &target, LowerOptions::default()).unwrap();
            let extents = [1, channels, size, size];
            let given = match x_type {
                U8 => Tensor::from_slice(&x.iter().map(|byte| *byte as u8).collect::<Vec<_>>(), &extents).unwrap(),
                _ => Tensor::from_slice(&x.iter().map(|byte| *byte as i8).collect::<Vec<_>>(), &extents).unwrap(),
            };
            let (y, q) = (Tensor::zeros::<f32>(&shape).unwrap(), Tensor::zeros::<u8>(&shape).unwrap());
            let sums = Tensor::zeros::<i32>(&shape).unwrap();
            module.function("convolutions").unwrap().call((&given, &y, &q, &sums)).unwrap();
            let (y, q) = (y.view::<f32>().unwrap().to_vec(), q.view::<u8>().unwrap().to_vec());
            for (place, found) in sums.view::<i32>().unwrap().to_vec().into_iter().enumerate() {
                let place = place as i64;
                let (filter, row, column) = (place / (count * count), place / count % count, place % count);
                let mut sum = 0;
                for tap in 0..channels * window * window {
                    let (channel, ky, kx) = (tap / (window * window), tap / window % window, tap % window);
                    let (iy, ix) = (row * stride + ky * dilation - pad, column * stride + kx * dilation - pad);
                    if (0..size).contains(&iy) && (0..size).contains(&ix) {
                        let pixel = x[((channel * size + iy) * size + ix) as usize] - x_zero;
                        sum += pixel * (w[(filter * channels * window * window + tap) as usize] - w_zero);
                    }
                }
                assert_eq!(i64::from(found), sum, "{kinds:?} {cases:?} at {place} on {}", target.cpu);
                let scale = f64::from(scales[filter as usize]) * f64::from(0.02_f32);
                let wanted = (sum as f64 * scale + f64::from(bias[filter as usize])).max(0.0);
                let error = (f64::from(y[place as usize]) - wanted).abs();
                assert!(error <= 1e-5 * wanted.max(1.0), "{kinds:?}: {} for {wanted}", y[place as usize]);
                let exact = (sum + added[filter as usize]) as f64 * scale / 0.5;
                let near = |value: f64| (value.round_ties_even() + 90.0).clamp(0.0, 255.0);
                let byte = f64::from(q[place as usize]);
                assert!(byte == near(exact * (1.0 - 1e-6)) || byte == near(exact * (1.0 + 1e-6)), "{byte} for {exact}");
            }
        }
    }
}

/// At the ends, between two numbers, and for division by zero.
#[test]
fn the_edges_of_quantization() {
    let tiny = f32::from_bits(1);
    let values = [
        0.0,
        -0.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        126.5,
        127.5,
        1e30,
        -1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        tiny,
        -1.0,
        3.0,
    ];
    for (dtype, number, zero) in [(U8, 2, 0), (U8, 2, 255), (I8, 3, -128), (I8, 3, 127), (I8, 3, 0)] {
        for scale in [1.0_f32, tiny, 0.0, 1e-30, f32::MAX] {
            let graph = Message::default()
                .message(1, node("QuantizeLinear", &["x", "s", "z"], &["q"]))
                .text(2, "edges")
                .message(5, weights("s", &[], &[scale]))
                .message(5, bytes("z", dtype, &[], &[zero]))
                .message(11, value("x", &[values.len() as i64]))
                .message(12, typed("q", number, &[values.len() as i64]));
            let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
            let (low, high) = if dtype == U8 { (0.0, 255.0) } else { (-128.0, 127.0) };
            for target in targets() {
                let (module, _) = build(&graph, "edges", &target, LowerOptions::default()).unwrap();
                let run = module.function("edges").unwrap();
                let call = |x: &[f32]| -> Vec<f32> {
                    let x = Tensor::from_slice(x, &[values.len() as i64]).unwrap();
                    if dtype == U8 {
                        let q = Tensor::zeros::<u8>(&[values.len() as i64]).unwrap();
                        run.call((&x, &q)).unwrap();
                        return q.view::<u8>().unwrap().to_vec().into_iter().map(f32::from).collect();
                    }
                    let q = Tensor::zeros::<i8>(&[values.len() as i64]).unwrap();
                    run.call((&x, &q)).unwrap();
                    q.view::<i8>().unwrap().to_vec().into_iter().map(f32::from).collect()
                };
                for (value, found) in values.iter().zip(call(&values)) {
                    let wanted = ((value / scale).round_ties_even() + zero as f32).clamp(low, high);
                    // ONNX does not define 0 / 0: any byte, but always the same.
                    if !wanted.is_nan() {
                        assert_eq!(found, wanted, "{value} / {scale} + {zero} as {dtype}");
                    }
                }
                let nothing = call(&[f32::NAN; 16]);
                assert!(nothing.iter().all(|byte| *byte == nothing[0]), "{nothing:?}");
            }
        }
    }
}
