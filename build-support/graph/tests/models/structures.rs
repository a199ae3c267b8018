//! Operators that are not tensor expressions: each is run as code, and once more by the evaluator
//! at build time, with the same results.

use kernpack::{Device, Module, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{BOOLEAN, F32, I8, I16, I32, I64, U8, U16, U32, U64};
use kernpack_graph::{Constant, Graph, LowerOptions, ModelOptions, build, element_bytes, import, num_elements};

use super::{Message, node};

/// The number of an element type in ONNX.
fn number_of(constant: &Constant) -> i64 {
    let integers = [(U8, 2), (I8, 3), (U16, 4), (I16, 5), (I32, 6), (I64, 7), (U32, 12), (U64, 13)];
    let mut types = [(F32, 1), (BOOLEAN, 9)].into_iter().chain(integers);
    types.find(|(dtype, _)| *dtype == constant.dtype()).map(|(_, number)| number).expect("a type of the tests")
}

fn declared(name: &str, constant: &Constant) -> Message {
    let dims = constant.shape().iter();
    let shape = dims.fold(Message::default(), |shape, dim| shape.message(1, Message::default().int(1, *dim)));
    let tensor = Message::default().int(1, number_of(constant)).message(2, shape);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}

pub(super) fn undeclared(name: &str) -> Message {
    Message::default().text(1, name)
}

pub(super) fn with_int(node: Message, name: &str, value: i64) -> Message {
    node.message(5, Message::default().text(1, name).int(3, value).int(20, 2))
}

pub(super) fn with_ints(node: Message, name: &str, values: &[i64]) -> Message {
    let attribute = values.iter().fold(Message::default().text(1, name), |message, value| message.int(8, *value));
    node.message(5, attribute.int(20, 7))
}

pub(super) fn with_text(node: Message, name: &str, value: &str) -> Message {
    node.message(5, Message::default().text(1, name).text(4, value).int(20, 3))
}

fn with_float(node: Message, name: &str, value: f32) -> Message {
    let mut attribute = Message::default().text(1, name);
    attribute.0.push(2 << 3 | 5);
    attribute.0.extend_from_slice(&value.to_le_bytes());
    node.message(5, attribute.int(20, 1))
}

pub(super) fn with_graph(node: Message, name: &str, graph: Message) -> Message {
    node.message(5, Message::default().text(1, name).message(6, graph).int(20, 5))
}

pub(super) fn model(nodes: Vec<Message>, inputs: &[(&str, Constant)], outputs: &[&str]) -> Vec<u8> {
    let mut graph = nodes.into_iter().fold(Message::default(), |graph, node| graph.message(1, node));
    for (name, constant) in inputs {
        graph = graph.message(11, declared(name, constant));
    }
    let graph = outputs.iter().fold(graph, |graph, name| graph.message(12, undeclared(name)));
    Message::default().int(1, 8).message(7, graph).message(8, Message::default().text(1, "").int(2, 20)).0
}

pub(super) fn tensor_of(constant: &Constant) -> Tensor {
    if constant.is_empty() {
        return Tensor::empty(constant.dtype(), constant.shape(), Device::CPU).unwrap();
    }
    let bytes = Tensor::from_slice(constant.bytes(), &[i64::try_from(constant.bytes().len()).unwrap()]).unwrap();
    bytes.view_as(constant.shape(), constant.dtype(), 0).unwrap()
}

pub(super) fn constant_of(tensor: &Tensor) -> Constant {
    let shape = tensor.shape().to_vec();
    let count = num_elements(&shape).unwrap() * element_bytes(tensor.dtype());
    let bytes = if count == 0 {
        Vec::new()
    } else {
        let bytes = tensor.view_as(&[i64::try_from(count).unwrap()], U8, 0).unwrap();
        bytes.view::<u8>().unwrap().to_vec()
    };
    Constant::new(tensor.dtype(), &shape, bytes).unwrap()
}

/// Compiles a model, runs it, and returns its results with their actual extents.
pub(super) fn run(bytes: &[u8], inputs: &[(&str, Constant)], options: &ModelOptions) -> Vec<Constant> {
    let graph = import(bytes, None, options).unwrap().graph;
    call(&graph, inputs, LowerOptions::default()).unwrap()
}

/// Returns the results of a graph with its extents.
pub(super) fn call(
    graph: &Graph,
    inputs: &[(&str, Constant)],
    options: LowerOptions,
) -> kernpack::Result<Vec<Constant>> {
    let (module, _) = build(graph, "model", &Target::host(), options).unwrap();
    call_built(&module, graph, inputs)
}

/// Like [`call`], for a model that is already built.
pub(super) fn call_built(
    module: &Module,
    graph: &Graph,
    inputs: &[(&str, Constant)],
) -> kernpack::Result<Vec<Constant>> {
    let mut arguments: Vec<Tensor> = Vec::new();
    for id in &graph.inputs {
        let (_, given) = inputs.iter().find(|(name, _)| *name == graph.values[*id].name).unwrap();
        arguments.push(tensor_of(given));
    }
    for (_, id) in &graph.outputs {
        arguments.push(Tensor::empty(graph.values[*id].dtype, &graph.values[*id].shape, Device::CPU).unwrap());
    }
    let packed: Vec<kernpack::Any> = arguments.iter().map(|tensor| tensor.clone().into()).collect();
    module.function("model").unwrap().call(&packed[..])?;
    let mut results = graph.outputs.iter().zip(&arguments[graph.inputs.len()..]);
    let mut found = Vec::new();
    while let Some(((name, id), result)) = results.next() {
        let mut constant = constant_of(result);
        if graph.extents.contains_key(id) {
            let ((own, _), extents) = results.next().unwrap();
            assert_eq!(*own, format!("{name}_extents"));
            constant = constant.corner(&constant_of(extents).to_ints().unwrap()).unwrap();
        }
        found.push(constant);
    }
    Ok(found)
}

/// Returns the results of nodes: of code, which must agree with the evaluator at build time.
pub(super) fn results(
    nodes: impl Fn() -> Vec<Message>,
    inputs: &[(&str, Constant)],
    outputs: &[&str],
) -> Vec<Constant> {
    let bytes = model(nodes(), inputs, outputs);
    let by_code = run(&bytes, inputs, &ModelOptions::default());
    let mut options = ModelOptions::default();
    options.constants.extend(inputs.iter().map(|(name, constant)| ((*name).to_owned(), constant.clone())));
    let at_build_time = run(&bytes, inputs, &options);
    assert_eq!(by_code.len(), at_build_time.len());
    for (one, other) in by_code.iter().zip(&at_build_time) {
        assert_eq!((one.dtype(), one.shape()), (other.dtype(), other.shape()));
        close(&one.to_floats().unwrap(), &other.to_floats().unwrap());
    }
    by_code
}

pub(super) fn close(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        let is_equal = got == expected || (got - expected).abs() < 1e-5 || got.is_nan() && expected.is_nan();
        assert!(is_equal, "got {got}, expected {expected}");
    }
}

pub(super) fn ints(shape: &[i64], values: &[i64]) -> Constant {
    Constant::of_ints(values).reshaped(shape).unwrap()
}

pub(super) fn floats(shape: &[i64], values: &[f32]) -> Constant {
    Constant::of_floats(values).reshaped(shape).unwrap()
}

pub(super) fn bools(shape: &[i64], values: &[u8]) -> Constant {
    Constant::new(BOOLEAN, shape, values).unwrap()
}

/// A fixed stream of numbers.
struct Stream(u64);

impl Stream {
    fn below(&mut self, below: u64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.0 >> 33) % below).unwrap()
    }

    /// Between -1 and 1.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn floats(&mut self, shape: &[i64]) -> Constant {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| self.below(2001) as f32 / 1000.0 - 1.0).collect();
        floats(shape, &values)
    }
}

#[test]
fn scattering() {
    // Duplicates in their order, and negative indices.
    for (reduction, expected) in [
        ("none", [1.0, 50.0, 3.0, 20.0]),
        ("add", [1.0, 82.0, 3.0, 24.0]),
        ("mul", [1.0, 3000.0, 3.0, 80.0]),
        ("min", [1.0, 2.0, 3.0, 4.0]),
        ("max", [1.0, 50.0, 3.0, 20.0]),
    ] {
        let inputs = [
            ("x", floats(&[4], &[1., 2., 3., 4.])),
            ("i", ints(&[3], &[1, -1, 1])),
            ("u", floats(&[3], &[30., 20., 50.])),
        ];
        let nodes = || vec![with_text(node("ScatterElements", &["x", "i", "u"], &["y"]), "reduction", reduction)];
        close(&results(nodes, &inputs, &["y"])[0].to_floats().unwrap(), &expected);
    }
    let inputs = [
        ("x", ints(&[2, 3], &[1, 2, 3, 4, 5, 6])),
        ("i", ints(&[2, 1], &[-1, 0])),
        ("u", ints(&[2, 3], &[10, 20, 30, 40, 50, 60])),
    ];
    let nodes = || vec![with_text(node("ScatterND", &["x", "i", "u"], &["y"]), "reduction", "add")];
    assert_eq!(results(nodes, &inputs, &["y"])[0].to_ints().unwrap(), [41, 52, 63, 14, 25, 36]);
}

#[test]
fn the_first_of_many() {
    let mut stream = Stream(5);
    let rows: Vec<i64> = (0..2 * 90 * 3).map(|_| stream.below(40)).collect();
    // By insertion, and by sorting; ties keep the lower index.
    for (k, largest) in [(1, 1), (7, 0), (60, 1), (90, 0)] {
        let nodes = || {
            let node = with_int(node("TopK", &["x", "k"], &["values", "indices"]), "axis", 1);
            vec![with_int(node, "largest", largest)]
        };
        let inputs = [("x", ints(&[2, 90, 3], &rows)), ("k", ints(&[1], &[k]))];
        let mut options = ModelOptions::default();
        options.constants.insert("k".to_owned(), inputs[1].1.clone());
        let found = run(&model(nodes(), &inputs, &["values", "indices"]), &inputs, &options);
        let at_build_time = results(
            || {
                let k = Message::default().text(1, "value_ints").int(8, k).int(20, 7);
                let mut all = vec![node("Constant", &[], &["k"]).message(5, k)];
                all.extend(nodes());
                all
            },
            &inputs[..1],
            &["values", "indices"],
        );
        assert!(found == at_build_time);
        let (values, indices) = (found[0].to_ints().unwrap(), found[1].to_ints().unwrap());
        for outer in 0..2 {
            for inner in 0..3 {
                let at = |index: i64| rows[usize::try_from((outer * 90 + index) * 3 + inner).unwrap()];
                let mut order: Vec<i64> = (0..90).collect();
                order.sort_by_key(|index| if largest == 1 { -at(*index) } else { at(*index) });
                for place in 0..k {
                    let slot = usize::try_from((outer * k + place) * 3 + inner).unwrap();
                    let expected = order[usize::try_from(place).unwrap()];
                    assert_eq!((indices[slot], values[slot]), (expected, at(expected)));
                }
            }
        }
    }
    // A single output.
    let inputs = [("x", floats(&[4], &[3., f32::NAN, 5., 1.]))];
    let k = || Message::default().text(1, "value_ints").int(8, 2).int(20, 7);
    let nodes = || vec![node("Constant", &[], &["k"]).message(5, k()), node("TopK", &["x", "k"], &["", "indices"])];
    assert_eq!(results(nodes, &inputs, &["indices"])[0].to_ints().unwrap(), [1, 2]);
}

#[test]
fn results_of_the_extents_that_the_data_asks_for() {
    let x = || ("x", ints(&[2, 4], &[3, 1, 3, 2, 3, 1, 3, 2]));
    let unique = |sorted: i64, axis: Option<i64>| {
        let node = with_int(node("Unique", &["x"], &["y", "first", "which", "count"]), "sorted", sorted);
        match axis {
            Some(axis) => with_int(node, "axis", axis),
            None => node,
        }
    };
    for (sorted, axis, shape, expected) in [
        (1, None, vec![3], [vec![1, 2, 3], vec![1, 3, 0], vec![2, 0, 2, 1, 2, 0, 2, 1], vec![2, 2, 4]]),
        (0, None, vec![3], [vec![3, 1, 2], vec![0, 1, 3], vec![0, 1, 0, 2, 0, 1, 0, 2], vec![4, 2, 2]]),
        (1, Some(0), vec![1, 4], [vec![3, 1, 3, 2], vec![0], vec![0, 0], vec![2]]),
        (1, Some(-1), vec![2, 3], [vec![1, 2, 3, 1, 2, 3], vec![1, 3, 0], vec![2, 0, 2, 1], vec![1, 1, 2]]),
    ] {
        let found = results(|| vec![unique(sorted, axis)], &[x()], &["y", "first", "which", "count"]);
        assert_eq!(found[0].shape(), shape);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.to_ints().unwrap(), *expected, "sorted {sorted}, axis {axis:?}");
        }
    }
    for (values, expected, shape) in [(&[0, 7, 0, 0, 0, -2][..], &[0, 1, 1, 2][..], [2, 2]), (&[0; 6], &[], [2, 0])] {
        let found = results(|| vec![node("NonZero", &["x"], &["y"])], &[("x", ints(&[2, 3], values))], &["y"]);
        assert_eq!((found[0].shape(), &found[0].to_ints().unwrap()[..]), (&shape[..], expected));
    }
    // Elementwise results have the extents of their input.
    let inputs = [x(), ("c", bools(&[3], &[1, 0, 1]))];
    let nodes = || {
        let k = Message::default().text(1, "value_int").int(3, 10).int(20, 2);
        vec![
            node("Constant", &[], &["ten"]).message(5, k),
            with_int(node("Compress", &["x", "c"], &["part"]), "axis", 1),
            node("Mul", &["part", "ten"], &["y"]),
        ]
    };
    let found = results(nodes, &inputs, &["y"]);
    assert_eq!((found[0].shape(), found[0].to_ints().unwrap()), (&[2, 2][..], vec![30, 30, 30, 30]));
    // A scalar of the same rank is broadcast; one of higher rank would increase the number of
    // extents.
    let shifted = || vec![node("NonZero", &["x"], &["part"]), node("Add", &["part", "c"], &["y"])];
    let inputs = |shape: &[i64]| [x(), ("c", ints(shape, &[10]))];
    for shape in [&[][..], &[1], &[1, 1]] {
        let found = results(shifted, &inputs(shape), &["y"]).swap_remove(0);
        assert_eq!(found.shape().len(), 2, "{shape:?}");
        assert!(found.to_ints().unwrap().iter().all(|place| (10..14).contains(place)), "{shape:?}");
    }
    let bytes = model(shifted(), &inputs(&[1, 1, 1]), &["y"]);
    let error = import(&bytes, None, &ModelOptions::default()).err().unwrap().to_string();
    assert!(error.starts_with("node 'y' (Add): the extents of input 0 depend on what"), "{error}");
    let nodes = vec![node("NonZero", &["x"], &["part"]), node("Transpose", &["part"], &["y"])];
    let error = import(&model(nodes, &[x()], &["y"]), None, &ModelOptions::default()).err().unwrap().to_string();
    assert_eq!(
        error,
        "node 'y' (Transpose): the extents of input 0 depend on what the model is called with; supported are operators that compute each element by itself. \
         Make 'part' an output of the model, and compute the rest outside"
    );
}

/// A recurrent network, in a plain loop over units.
struct Network<'n> {
    kind: &'n str,
    w: &'n [f64],
    r: &'n [f64],
    b: &'n [f64],
    p: &'n [f64],
    inputs: usize,
    hidden: usize,
    clip: f64,
    resets_after: bool,
}

impl Network<'_> {
    /// Returns the state and the cells after a step, from those before.
    fn step(&self, x: &[f64], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.hidden;
        let gates = self.w.len() / n / self.inputs;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let clip = |x: f64| x.clamp(-self.clip, self.clip);
        let dot = |m: &[f64], row: usize, v: &[f64]| -> f64 {
            v.iter().enumerate().map(|(column, value)| m[row * v.len() + column] * value).sum()
        };
        let given = |gate: usize, unit: usize| dot(self.w, gate * n + unit, x) + self.b[gate * n + unit];
        let late = |gate: usize, unit: usize| self.b[(gates + gate) * n + unit];
        let both = |gate: usize, unit: usize| given(gate, unit) + late(gate, unit) + dot(self.r, gate * n + unit, h);
        let all = |f: &dyn Fn(usize) -> f64| -> Vec<f64> { (0..n).map(f).collect() };
        match self.kind {
            "RNN" => (all(&|unit| clip(both(0, unit)).tanh()), Vec::new()),
            "GRU" => {
                let (z, r) = (all(&|unit| sigmoid(clip(both(0, unit)))), all(&|unit| sigmoid(clip(both(1, unit)))));
                let reset: Vec<f64> = r.iter().zip(h).map(|(r, h)| r * h).collect();
                let candidate = |unit: usize| {
                    let row = 2 * n + unit;
                    clip(if self.resets_after {
                        given(2, unit) + r[unit] * (dot(self.r, row, h) + late(2, unit))
                    } else {
                        given(2, unit) + late(2, unit) + dot(self.r, row, &reset)
                    })
                    .tanh()
                };
                (all(&|unit| (1.0 - z[unit]) * candidate(unit) + z[unit] * h[unit]), Vec::new())
            }
            _ => {
                let peep = |gate: usize, unit: usize, c: &[f64]| self.p[gate * n + unit] * c[unit];
                let i = all(&|unit| sigmoid(clip(both(0, unit) + peep(0, unit, c))));
                let f = all(&|unit| sigmoid(clip(both(2, unit) + peep(2, unit, c))));
                let new = all(&|unit| f[unit] * c[unit] + i[unit] * clip(both(3, unit)).tanh());
                let h = all(&|unit| sigmoid(clip(both(1, unit) + peep(1, unit, &new))) * new[unit].tanh());
                (h, new)
            }
        }
    }
}

#[test]
fn recurrent_networks() {
    let (steps, batch, width, hidden) = (5_usize, 3_usize, 4_usize, 18_usize);
    let lengths = [5_usize, 0, 3];
    let mut stream = Stream(11);
    for (kind, gates, layout, resets_after) in
        [("RNN", 1, 0, false), ("GRU", 3, 1, false), ("GRU", 3, 0, true), ("LSTM", 4, 0, false), ("LSTM", 4, 1, false)]
    {
        let (t, b, i, h, g) = (steps as i64, batch as i64, width as i64, hidden as i64, gates as i64);
        let (x_shape, h_shape) = if layout == 1 { ([b, t, i], [b, 2, h]) } else { ([t, b, i], [2, b, h]) };
        let mut inputs = vec![
            ("x", stream.floats(&x_shape)),
            ("w", stream.floats(&[2, g * h, i])),
            ("r", stream.floats(&[2, g * h, h])),
            ("b", stream.floats(&[2, 2 * g * h])),
            (
                "lengths",
                Constant::new(I32, &[3], lengths.iter().flat_map(|n| (*n as i32).to_le_bytes()).collect::<Vec<_>>())
                    .unwrap(),
            ),
            ("h0", stream.floats(&h_shape)),
        ];
        let mut names = vec!["x", "w", "r", "b", "lengths", "h0"];
        let mut outputs = vec!["y", "last"];
        if kind == "LSTM" {
            inputs.extend([("c0", stream.floats(&h_shape)), ("p", stream.floats(&[2, 3 * h]))]);
            names.extend(["c0", "p"]);
            outputs.push("cells");
        }
        let nodes = || {
            let node = with_text(node(kind, &names, &outputs), "direction", "bidirectional");
            let node = with_int(with_int(node, "hidden_size", h), "layout", layout);
            let node = with_float(node, "clip", 0.8);
            let is_gru = kind == "GRU";
            vec![if is_gru { with_int(node, "linear_before_reset", resets_after.into()) } else { node }]
        };
        let found = results(nodes, &inputs, &outputs);
        let data: Vec<Vec<f64>> = inputs.iter().map(|(_, constant)| constant.to_floats().unwrap()).collect();
        let mut y = vec![0.0; steps * 2 * batch * hidden];
        let (mut last, mut cells) = (vec![0.0; 2 * batch * hidden], vec![0.0; 2 * batch * hidden]);
        let part = |values: &[f64], direction: usize| -> Vec<f64> {
            let size = values.len() / 2;
            values[direction * size..(direction + 1) * size].to_vec()
        };
        for direction in 0..2 {
            let (w, r, bias) = (part(&data[1], direction), part(&data[2], direction), part(&data[3], direction));
            let p = data.get(7).map(|values| part(values, direction)).unwrap_or_default();
            let network = Network {
                kind,
                w: &w,
                r: &r,
                b: &bias,
                p: &p,
                inputs: width,
                hidden,
                clip: f64::from(0.8_f32),
                resets_after,
            };
            for (row, length) in lengths.iter().enumerate() {
                let place = if layout == 1 { row * 2 + direction } else { direction * batch + row };
                let of = |values: &[f64]| values[place * hidden..(place + 1) * hidden].to_vec();
                let (mut state, mut cell) = (of(&data[5]), data.get(6).map(|values| of(values)).unwrap_or_default());
                for step in 0..*length {
                    let time = if direction == 1 { length - 1 - step } else { step };
                    let at = if layout == 1 { row * steps + time } else { time * batch + row };
                    (state, cell) = network.step(&data[0][at * width..(at + 1) * width], &state, &cell);
                    let at = if layout == 1 {
                        (row * steps + time) * 2 + direction
                    } else {
                        (time * 2 + direction) * batch + row
                    };
                    y[at * hidden..(at + 1) * hidden].copy_from_slice(&state);
                }
                last[place * hidden..(place + 1) * hidden].copy_from_slice(&state);
                if kind == "LSTM" {
                    cells[place * hidden..(place + 1) * hidden].copy_from_slice(&cell);
                }
            }
        }
        close(&found[0].to_floats().unwrap(), &y);
        close(&found[1].to_floats().unwrap(), &last);
        if kind == "LSTM" {
            close(&found[2].to_floats().unwrap(), &cells);
        }
    }
}

#[test]
fn sums_of_products_by_a_formula() {
    let a = || ("a", floats(&[2, 3], &[1., 2., 3., 4., 5., 6.]));
    let b = || ("b", floats(&[3, 2], &[1., 0., 2., 1., 0., 3.]));
    let c = || ("c", floats(&[2], &[10., 1.]));
    let vector = || ("v", floats(&[1, 3], &[1., 10., 100.]));
    for (equation, inputs, shape, expected) in [
        ("ij,jk,k->i", vec![a(), b(), c()], vec![2], vec![61., 163.]),
        // Without a result term: letters that occur once, sorted.
        ("ba,ac", vec![a(), b()], vec![2, 2], vec![5., 11., 14., 23.]),
        ("ij->", vec![a()], vec![], vec![21.]),
        ("...j,...j->...", vec![a(), vector()], vec![2], vec![321., 654.]),
        (" i j , j k -> k i", vec![a(), b()], vec![2, 2], vec![5., 14., 11., 23.]),
    ] {
        let names: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
        let nodes = || vec![with_text(node("Einsum", &names, &["y"]), "equation", equation)];
        let found = results(nodes, &inputs, &["y"]);
        assert_eq!(found[0].shape(), shape, "{equation}");
        close(&found[0].to_floats().unwrap(), &expected);
    }
    for (equation, message) in [
        ("ij,jk->il", "node 'y' (Einsum): an axis of the result of 'ij,jk->il' is in no input"),
        ("ij->i", "node 'y' (Einsum): the equation 'ij->i' has 1 terms for 2 inputs"),
        ("ijk,jk->i", "node 'y' (Einsum): 'ijk' names 3 axes of a tensor of 2"),
        ("ij,ik->jk", "node 'y' (Einsum): an axis of the equation 'ij,ik->jk' has the extents 2 and 3"),
    ] {
        let nodes = vec![with_text(node("Einsum", &["a", "b"], &["y"]), "equation", equation)];
        let error = import(&model(nodes, &[a(), b()], &["y"]), None, &ModelOptions::default()).err().unwrap();
        assert_eq!(error.to_string(), message);
    }
}

/// A graph inside a node.
pub(super) fn body(nodes: Vec<Message>, inputs: &[&str], outputs: &[&str]) -> Message {
    let graph = nodes.into_iter().fold(Message::default(), |graph, node| graph.message(1, node));
    let graph = inputs.iter().fold(graph, |graph, name| graph.message(11, undeclared(name)));
    outputs.iter().fold(graph, |graph, name| graph.message(12, undeclared(name)))
}

#[test]
fn branches_and_loops() {
    // Doubles x while it is below 20, at most three times: the condition is only known at run time.
    let doubled = || {
        let body = body(
            vec![node("Add", &["in", "in"], &["out"]), node("Less", &["out", "limit"], &["goes_on"])],
            &["round", "condition", "in"],
            &["goes_on", "out"],
        );
        let rounds = Message::default().text(1, "value_int").int(3, 3).int(20, 2);
        vec![
            node("Constant", &[], &["rounds"]).message(5, rounds),
            with_graph(node("Loop", &["rounds", "", "x"], &["y"]), "body", body),
        ]
    };
    for (x, expected) in [(1, 8), (5, 20), (30, 60)] {
        let inputs = [("x", ints(&[], &[x])), ("limit", ints(&[], &[20]))];
        assert_eq!(results(doubled, &inputs, &["y"])[0].to_ints().unwrap(), [expected]);
    }
    // From the end, column by column; the rows of the result are reversed, and become columns.
    let scan = || {
        let body = body(
            vec![node("Add", &["state", "row"], &["sum"]), node("Identity", &["sum"], &["out"])],
            &["state", "row"],
            &["sum", "out"],
        );
        let node = with_graph(node("Scan", &["first", "x"], &["last", "all"]), "body", body);
        let node = with_ints(with_int(node, "num_scan_inputs", 1), "scan_input_axes", &[1]);
        let node = with_ints(with_ints(node, "scan_input_directions", &[1]), "scan_output_axes", &[1]);
        vec![with_ints(node, "scan_output_directions", &[1])]
    };
    let inputs = [("first", ints(&[2], &[100, 200])), ("x", ints(&[2, 3], &[1, 2, 3, 4, 5, 6]))];
    let found = results(scan, &inputs, &["last", "all"]);
    assert_eq!(found[0].to_ints().unwrap(), [106, 215]);
    assert_eq!((found[1].shape(), found[1].to_ints().unwrap()), (&[2, 3][..], vec![106, 105, 103, 215, 211, 206]));
    // Branches see the names of the enclosing graph.
    let branch = || {
        let yes = body(vec![node("Add", &["x", "x"], &["out"])], &[], &["out"]);
        let no = body(vec![node("Neg", &["x"], &["out"])], &[], &["out"]);
        vec![with_graph(with_graph(node("If", &["c"], &["y"]), "then_branch", yes), "else_branch", no)]
    };
    for (holds, expected) in [(1, [2, 4]), (0, [-1, -2])] {
        let inputs = [("c", bools(&[], &[holds])), ("x", ints(&[2], &[1, 2]))];
        assert_eq!(results(branch, &inputs, &["y"])[0].to_ints().unwrap(), expected);
    }
}

#[test]
fn sequences() {
    // The last tensor of a sequence is removed, and inserted at the front.
    let nodes = || {
        let number = |value: i64| Message::default().text(1, "value_int").int(3, value).int(20, 2);
        vec![
            node("Constant", &[], &["first"]).message(5, number(0)),
            node("Constant", &[], &["last"]).message(5, number(-1)),
            with_int(node("SplitToSequence", &["x"], &["parts"]), "axis", 1),
            node("SequenceAt", &["parts", "last"], &["part"]),
            node("SequenceErase", &["parts"], &["shorter"]),
            node("SequenceInsert", &["shorter", "part", "first"], &["turned"]),
            node("SequenceLength", &["turned"], &["length"]),
            with_int(node("ConcatFromSequence", &["turned"], &["y"]), "axis", 1),
        ]
    };
    let inputs = [("x", ints(&[2, 3], &[1, 2, 3, 4, 5, 6]))];
    let found = results(nodes, &inputs, &["y", "length", "shorter"]);
    assert_eq!(found[0].to_ints().unwrap(), [3, 1, 2, 6, 4, 5]);
    assert_eq!(found[1].to_ints().unwrap(), [3]);
    // Each tensor of a sequence is an output.
    assert_eq!(found.len(), 4);
    assert_eq!((found[3].shape(), found[3].to_ints().unwrap()), (&[2, 1][..], vec![2, 5]));
    let out_of_range = || {
        let number = Message::default().text(1, "value_int").int(3, 3).int(20, 2);
        vec![
            node("Constant", &[], &["at"]).message(5, number),
            node("SplitToSequence", &["x"], &["parts"]),
            node("SequenceAt", &["parts", "at"], &["y"]),
        ]
    };
    let message = |nodes: Vec<Message>| {
        import(&model(nodes, &inputs, &["y"]), None, &ModelOptions::default()).err().unwrap().to_string()
    };
    assert_eq!(message(out_of_range()), "node 'y' (SequenceAt): there is no position 3 among 2");
    assert_eq!(
        message(vec![node("SplitToSequence", &["x"], &["parts"]), node("Neg", &["parts"], &["y"])]),
        "node 'y' (Neg): input 0 is a sequence, not a tensor"
    );
    assert_eq!(
        message(vec![node("SequenceAt", &["x", "x"], &["y"])]),
        "node 'y' (SequenceAt): input 0 is a tensor, not a sequence"
    );
}
