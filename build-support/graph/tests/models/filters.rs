//! Weights of convolutions that are packed, or transformed, at compile time.

use kernpack::Tensor;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};
use kernpack_graph::{Graph, LowerOptions, ModelOptions, import, lower};

use super::{Message, model, node, value, weights};

#[derive(Clone, Copy)]
struct Case {
    channels: usize,
    depth: usize,
    side: usize,
    window: usize,
    stride: usize,
    /// The extents of the packed weights.
    form: &'static [i64],
    /// The rule that uses them.
    rule: &'static str,
}

impl Case {
    fn pad(self) -> usize {
        self.window / 2
    }

    fn out(self) -> usize {
        (self.side + 2 * self.pad() - self.window) / self.stride + 1
    }

    /// Small integers, so that plain sums are exact.
    fn numbers(self) -> [Vec<f32>; 3] {
        let numbers = |count: usize, by: usize, of: usize| -> Vec<f32> {
            (0..count).map(|place| ((place * by + place / 17) % of) as f32 - (of / 2) as f32).collect()
        };
        let Self { channels, depth, side, window, .. } = self;
        [
            numbers(depth * side * side, 7, 11),
            numbers(channels * depth * window * window, 5, 7),
            numbers(channels, 3, 5),
        ]
    }

    /// `relu(conv(x, w) + b)`.
    fn graph(self, options: &ModelOptions) -> Graph {
        let ints = |name: &str, values: &[usize]| {
            let attribute = Message::default().text(1, name).int(20, 7);
            values.iter().fold(attribute, |attribute, value| attribute.int(8, *value as i64))
        };
        let convolution = node("Conv", &["x", "w", "b"], &["c"])
            .message(5, ints("strides", &[self.stride; 2]))
            .message(5, ints("pads", &[self.pad(); 4]))
            .message(5, ints("kernel_shape", &[self.window; 2]));
        let [_, w, b] = self.numbers();
        let Self { channels, depth, side, window, .. } = self;
        let [many, deep, side, wide, out] = [channels, depth, side, window, self.out()].map(|extent| extent as i64);
        let graph = Message::default()
            .message(1, convolution)
            .message(1, node("Relu", &["c"], &["y"]))
            .text(2, "filters")
            .message(5, weights("w", &[many, deep, wide, wide], &w))
            .message(5, weights("b", &[many], &b))
            .message(11, value("x", &[1, deep, side, side]))
            .message(12, value("y", &[1, many, out, out]));
        import(&model(graph), None, options).unwrap().graph
    }

    fn wanted(self) -> Vec<f32> {
        let [x, w, b] = self.numbers();
        let (out, Self { channels, depth, side, window, stride, .. }) = (self.out(), self);
        let mut all = Vec::new();
        for (o, row, column) in (0..channels * out * out).map(|at| (at / (out * out), at / out % out, at % out)) {
            let mut sum = b[o];
            for (c, i, j) in
                (0..depth * window * window).map(|at| (at / (window * window), at / window % window, at % window))
            {
                let (y, x_) = (row * stride + i, column * stride + j);
                if (self.pad()..side + self.pad()).contains(&y) && (self.pad()..side + self.pad()).contains(&x_) {
                    let pixel = x[(c * side + y - self.pad()) * side + x_ - self.pad()];
                    sum += pixel * w[((o * depth + c) * window + i) * window + j];
                }
            }
            all.push(sum.max(0.0));
        }
        all
    }

    /// Runs a model that is lowered for a CPU, and returns the rules that were used.
    fn run(self, graph: &Graph, description: &TargetDescription, options: LowerOptions) -> (Vec<f32>, Vec<String>) {
        let context = PassContext::new(PassOptions::default());
        let lowered = lower(graph, "filters", description, &context, options).unwrap();
        let module = kernpack_compiler::build(&lowered.module, &Target::host()).unwrap();
        let [x, ..] = self.numbers();
        let x = Tensor::from_slice(&x, &[1, self.depth as i64, self.side as i64, self.side as i64]).unwrap();
        let y = Tensor::zeros::<f32>(&[1, self.channels as i64, self.out() as i64, self.out() as i64]).unwrap();
        module.function("filters").unwrap().call((&x, &y)).unwrap();
        (y.view::<f32>().unwrap().to_vec(), context.take_notes())
    }
}

const ALL: [Case; 6] = [
    Case { channels: 32, depth: 32, side: 15, window: 3, stride: 1, form: &[1, 36, 32, 32], rule: "winograd" },
    Case { channels: 48, depth: 32, side: 13, window: 3, stride: 1, form: &[3, 36, 32, 16], rule: "winograd" },
    Case { channels: 128, depth: 128, side: 7, window: 3, stride: 1, form: &[4, 16, 128, 32], rule: "winograd" },
    Case { channels: 32, depth: 16, side: 7, window: 3, stride: 1, form: &[2, 16, 3, 3, 16], rule: "convolution" },
    Case { channels: 48, depth: 80, side: 14, window: 1, stride: 2, form: &[3, 80, 1, 1, 16], rule: "convolution" },
    Case { channels: 32, depth: 72, side: 7, window: 1, stride: 1, form: &[2, 72, 1, 1, 16], rule: "convolution" },
];

#[test]
fn known_filters_are_laid_out_for_all_cpus() {
    for case in ALL {
        let graph = case.graph(&ModelOptions::default());
        let shapes: Vec<&[i64]> =
            graph.values.iter().filter(|value| value.known.is_some()).map(|value| &*value.shape).collect();
        assert!(shapes.contains(&case.form), "{shapes:?}");
        // The original weights are not kept.
        assert_eq!(shapes.len(), 2, "{shapes:?}");
        let wanted = case.wanted();
        let largest = wanted.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        let close = |got: &[f32], what: &str| {
            for (got, wanted) in got.iter().zip(&wanted) {
                assert!((got - wanted).abs() <= 1e-5 * largest, "{what}, {:?}: {got} {wanted}", case.form);
            }
        };
        let mut targets = vec![TargetDescription { parallel_work: 0, ..TargetDescription::x86_64_v4() }];
        if case.depth < 100 {
            targets.extend([TargetDescription::x86_64(), TargetDescription::x86_64_v3()]);
        }
        for target in targets {
            let (got, notes) = case.run(&graph, &target, LowerOptions::default());
            let rule = format!("rule `{}`", case.rule);
            assert!(notes.iter().any(|note| note.ends_with(&rule)), "{}: {notes:#?}", target.name);
            close(&got, &target.name);
        }
        // Without rules the weights are computed from the transformed ones.
        close(&case.run(&graph, &TargetDescription::x86_64_v3(), LowerOptions::of_level(0)).0, "level 0");
    }
}

#[test]
fn filters_of_a_plain_model_stay() {
    let case = ALL[0];
    let graph = case.graph(&ModelOptions { plain: true, ..ModelOptions::default() });
    assert!(graph.values.iter().any(|value| value.known.is_some() && value.shape == [32, 32, 3, 3]));
    let (got, _) = case.run(&graph, &TargetDescription::x86_64_v3(), LowerOptions::of_level(0));
    assert_eq!(got, case.wanted());
}
