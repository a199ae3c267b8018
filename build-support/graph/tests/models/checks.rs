//! Indices out of range and zero divisors: errors of the call that name the node, and errors of the
//! build if they are known.

use kernpack::{Any, DataType, Module, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::{I8, I16, I32, I64, U8, U16, U32, U64};
use kernpack_graph::{Constant, Graph, LowerOptions, ModelOptions, Threads, build, import};

use super::structures::{call, call_built, floats, ints, model, tensor_of, with_int, with_ints};
use super::{Message, node, regions};

/// Integers of a type.
fn of_type(dtype: DataType, shape: &[i64], values: &[i64]) -> Constant {
    let width = usize::from(dtype.bits() / 8);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()[..width].to_vec()).collect();
    Constant::new(dtype, shape, bytes).unwrap()
}

type Inputs<'a> = Vec<(&'a str, Constant)>;

/// A model that is built for several uses of threads, and once without schedules.
pub(super) struct Built {
    bytes: Vec<u8>,
    pub(super) graph: Graph,
    modules: Vec<Module>,
}

impl Built {
    pub(super) fn new(nodes: Vec<Message>, inputs: &Inputs, outputs: &[&str]) -> Self {
        Self::in_ways(3, nodes, inputs, outputs)
    }

    /// Like [`Self::new`], for this number of uses.
    pub(super) fn in_ways(count: usize, nodes: Vec<Message>, inputs: &Inputs, outputs: &[&str]) -> Self {
        let bytes = model(nodes, inputs, outputs);
        let graph = import(&bytes, None, &ModelOptions::default()).unwrap().graph;
        let plain = LowerOptions { fuse: false, schedule: false, threads: Threads::Single };
        let region = LowerOptions { threads: Threads::Region, ..LowerOptions::default() };
        let all = [LowerOptions::default(), region, plain];
        let ways = all.into_iter().take(count);
        let modules: Vec<_> = ways.map(|options| build(&graph, "model", &Target::host(), options).unwrap().0).collect();
        Self { bytes, graph, modules }
    }

    /// Returns the results of a call, or its error.
    pub(super) fn results(&self, inputs: &Inputs) -> Result<Vec<Vec<f64>>, String> {
        let results = self.modules.iter().map(|module| {
            let results = call_built(module, &self.graph, inputs).map_err(|error| error.to_string())?;
            Ok::<Vec<_>, String>(results.iter().map(|result| result.to_floats().unwrap()).collect())
        });
        let mut results: Vec<_> = results.collect();
        assert!(results.iter().all(|other| *other == results[0]), "{results:?}");
        results.remove(0)
    }

    /// Returns the error of the build if an input is a constant.
    fn built(&self, inputs: &Inputs, known: &str) -> Result<(), String> {
        let mut options = ModelOptions::default();
        let constants = inputs.iter().filter(|(name, _)| *name == known);
        options.constants.extend(constants.map(|(name, constant)| ((*name).to_owned(), constant.clone())));
        import(&self.bytes, None, &options).map(|_| ()).map_err(|error| error.to_string())
    }

    fn said(&self, inputs: &Inputs, known: &str) -> [Result<(), String>; 2] {
        [self.results(inputs).map(|_| ()), self.built(inputs, known)]
    }
}

/// Returns the attribute of a constant.
fn value_floats(values: &[f32]) -> Message {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Message::default().text(1, "value_floats").bytes(7, &bytes).int(20, 6)
}

fn named(op: &str, inputs: &[&str]) -> Message {
    node(op, inputs, &["y"]).text(3, "culprit")
}

/// An operator with indices `i`: the node, the other inputs, the shape of the indices, valid ones,
/// and the range of the last one.
struct Indexing {
    node: fn() -> Message,
    others: Inputs<'static>,
    shape: &'static [i64],
    good: &'static [i64],
    range: [i64; 2],
    dtype: DataType,
    noun: &'static str,
}

fn data() -> Constant {
    floats(&[3, 4], &[0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11.])
}

fn operators() -> Vec<Indexing> {
    let new =
        |node, others, shape, good, range| Indexing { node, others, shape, good, range, dtype: I64, noun: "index" };
    let x = || vec![("x", data())];
    let with = |name, constant| vec![("x", data()), (name, constant)];
    let image = || vec![("x", floats(&[1, 1, 2, 2], &[1., 2., 3., 4.]))];
    let regions =
        || vec![("x", floats(&[2, 1, 2, 2], &[1.; 8])), ("r", floats(&[2, 4], &[0., 0., 1., 1., 0., 0., 1., 1.]))];
    let heads = || vec![("h", floats(&[1, 1, 2, 2], &[1.; 4])), ("t", floats(&[3, 1], &[1.; 3]))];
    let sequences = || vec![("s", floats(&[3, 2, 1], &[1.; 6])), ("w", floats(&[1, 1, 1], &[1.]))];
    vec![
        new(|| named("Gather", &["x", "i"]), x(), &[2], &[0, -3], [-3, 2]),
        new(|| with_int(named("Gather", &["x", "i"]), "axis", 1), x(), &[2], &[0, -4], [-4, 3]),
        Indexing { dtype: I32, ..new(|| named("Gather", &["x", "i"]), x(), &[70], &[1; 70], [-3, 2]) },
        new(|| named("GatherElements", &["x", "i"]), x(), &[1, 4], &[0, 2, -3, 1], [-3, 2]),
        new(|| named("GatherND", &["x", "i"]), x(), &[2, 2], &[0, 3, -3, 1], [-4, 3]),
        new(|| with_int(named("GatherND", &["x", "i"]), "batch_dims", 1), x(), &[3, 1], &[0, 3, -3], [-4, 3]),
        new(
            || named("ScatterElements", &["x", "i", "u"]),
            with("u", floats(&[1, 2], &[7., 8.])),
            &[1, 2],
            &[0, -3],
            [-3, 2],
        ),
        new(
            || named("ScatterND", &["x", "i", "u"]),
            with("u", floats(&[2], &[7., 8.])),
            &[2, 2],
            &[0, 3, -3, 1],
            [-4, 3],
        ),
        new(
            || named("ScatterND", &["x", "i", "u"]),
            with("u", floats(&[1, 4], &[7., 8., 9., 10.])),
            &[1, 1],
            &[0],
            [-3, 2],
        ),
        Indexing {
            noun: "length",
            ..new(
                || with_int(with_int(named("ReverseSequence", &["x", "i"]), "time_axis", 1), "batch_axis", 0),
                x(),
                &[3],
                &[1, 2, 4],
                [0, 4],
            )
        },
        new(
            || with_ints(named("MaxUnpool", &["x", "i"]), "kernel_shape", &[2, 2]),
            image(),
            &[1, 1, 2, 2],
            &[0, 3, 5, 8],
            [0, 8],
        ),
        Indexing {
            noun: "number of an image",
            ..new(|| named("RoiAlign", &["x", "r", "i"]), regions(), &[2], &[0, 1], [0, 1])
        },
        new(|| named("ArrayFeatureExtractor", &["x", "i"]).text(7, "ai.onnx.ml"), x(), &[2], &[0, 3], [0, 3]),
        Indexing {
            noun: "place",
            ..new(|| named("RotaryEmbedding", &["h", "t", "t", "i"]), heads(), &[1, 2], &[0, 2], [0, 2])
        },
        Indexing {
            noun: "length",
            dtype: I32,
            ..new(
                || with_int(named("RNN", &["s", "w", "w", "", "i"]), "hidden_size", 1),
                sequences(),
                &[2],
                &[1, 2],
                [0, 3],
            )
        },
        Indexing {
            noun: "class",
            ..new(|| named("SoftmaxCrossEntropyLoss", &["x", "i"]), x(), &[3], &[0, 3, 1], [0, 3])
        },
        Indexing {
            noun: "class",
            ..new(|| named("NegativeLogLikelihoodLoss", &["x", "i"]), x(), &[3], &[0, 3, 1], [0, 3])
        },
    ]
}

#[test]
fn indices_out_of_range_are_errors() {
    for (number, indexing) in operators().into_iter().enumerate() {
        let Indexing { node, others, shape, good, range: [low, high], dtype, noun } = indexing;
        let inputs_with = |last: i64| {
            let mut values = good.to_vec();
            *values.last_mut().unwrap() = last;
            let mut inputs = others.clone();
            inputs.push(("i", of_type(dtype, shape, &values)));
            inputs
        };
        let model = Built::in_ways(if number % 4 == 0 { 3 } else { 1 }, vec![node()], &inputs_with(low), &["y"]);
        let with_last = |last: i64| model.said(&inputs_with(last), "i");
        for last in [low, high] {
            let [called, built] = with_last(last);
            assert_eq!((called, built), (Ok(()), Ok(())), "{last} of {:?}", node().0);
        }
        for last in [low - 1, high + 1, 1 << 30, -(1 << 30)] {
            let [called, built] = with_last(last);
            let (called, built) = (called.unwrap_err(), built.unwrap_err());
            assert!(called.contains("node 'culprit' (") && built.contains("node 'culprit' ("), "{called} | {built}");
            let rest = format!("('i') is not in the range {low} to {high}");
            assert!(called.contains(&rest) && built.contains(&rest), "{called} | {built}");
            assert!(called.contains(&format!("{noun} out of range: an element")), "{called}");
            assert!(built.contains(&format!("{noun} out of range: {last}")), "{built}");
            assert!(called.contains("IndexError"), "{called}");
        }
    }
}

#[test]
fn integers_are_not_divided_by_zero() {
    for (number, dtype) in [I8, I16, I32, I64, U8, U16, U32, U64].into_iter().enumerate() {
        let op = ["Div", "Mod"][number % 2];
        for (shape, count) in [(&[3, 5][..], 15), (&[], 1)] {
            let inputs_with = |place: Option<usize>| {
                let mut divisors = vec![3; count];
                if let Some(place) = place {
                    divisors[place] = 0;
                }
                vec![("a", of_type(dtype, &[3, 5], &[7; 15])), ("b", of_type(dtype, shape, &divisors))]
            };
            let model = Built::in_ways(1 + number % 3, vec![named(op, &["a", "b"])], &inputs_with(None), &["y"]);
            assert_eq!(model.said(&inputs_with(None), "b"), [Ok(()), Ok(())]);
            for place in [0, count - 1] {
                for error in model.said(&inputs_with(Some(place)), "b").map(Result::unwrap_err) {
                    let what = format!("node 'culprit' ({op}): division by zero: input 1 ('b')");
                    assert!(error.contains(&what), "{error}");
                }
            }
        }
    }
}

#[test]
fn floats_are_divided_by_zero() {
    let inputs = vec![("a", floats(&[2], &[1., -1.])), ("b", floats(&[2], &[0., 0.]))];
    let bytes = model(vec![named("Div", &["a", "b"])], &inputs, &["y"]);
    let graph = import(&bytes, None, &ModelOptions::default()).unwrap().graph;
    let found = call(&graph, &inputs, LowerOptions::default()).unwrap();
    assert_eq!(found[0].to_floats().unwrap(), [f64::INFINITY, f64::NEG_INFINITY]);
}

/// Checks apply to values that are computed by nodes of the same kernel. The results of later nodes
/// are not returned.
#[test]
fn computed_divisors_and_indices() {
    let nodes = || {
        vec![
            node("Sub", &["b", "c"], &["d"]),
            node("Div", &["a", "d"], &["e"]).text(3, "first"),
            node("Gather", &["x", "e"], &["f"]).text(3, "second"),
            node("Mul", &["f", "f"], &["y"]),
        ]
    };
    let inputs_with = |a: i64, b: i64| {
        vec![
            ("a", ints(&[2], &[a, 4])),
            ("b", ints(&[2], &[2, b])),
            ("c", ints(&[2], &[1, 1])),
            ("x", floats(&[5], &[1., 2., 3., 4., 5.])),
        ]
    };
    let model = Built::new(nodes(), &inputs_with(4, 2), &["y"]);
    let with = |a: i64, b: i64| model.results(&inputs_with(a, b)).map(|_| ());
    assert_eq!(with(4, 2), Ok(()));
    assert!(with(5, 2).unwrap_err().contains("node 'second' (Gather): index out of range"));
    assert!(with(5, 1).unwrap_err().contains("node 'first' (Div): division by zero"));
}

/// Results that do not depend on the checked values.
#[test]
fn one_element_and_zero() {
    let nodes = || {
        vec![
            node("Constant", &[], &["one"]).message(5, value_floats(&[7.5])),
            node("Gather", &["one", "i"], &["f"]).text(3, "gathered"),
            node("Constant", &[], &["zero"]).message(5, Message::default().text(1, "value_int").int(3, 0).int(20, 2)),
            node("Neg", &["j"], &["k"]),
            node("Div", &["zero", "k"], &["g"]).text(3, "divided"),
        ]
    };
    let inputs_with = |i: i64, j: i64| vec![("i", ints(&[2], &[0, i])), ("j", ints(&[1], &[j]))];
    let model = Built::new(nodes(), &inputs_with(0, 1), &["f", "g"]);
    assert_eq!(model.results(&inputs_with(-1, 3)).unwrap(), [vec![7.5, 7.5], vec![0.0]]);
    assert!(model.results(&inputs_with(1, 3)).unwrap_err().contains("node 'gathered' (Gather): index out of range"));
    assert!(model.results(&inputs_with(0, 0)).unwrap_err().contains("node 'divided' (Div): division by zero"));
}

/// After the extents of a result there are zeros, which are not used as divisors.
#[test]
fn divisors_with_extents() {
    let nodes = || vec![node("NonZero", &["x"], &["n"]), node("Div", &["a", "n"], &["y"]).text(3, "culprit")];
    let with = |x: [f32; 5]| {
        let inputs = vec![("x", floats(&[5], &x)), ("a", ints(&[1, 1], &[12]))];
        let graph = import(&model(nodes(), &inputs, &["y"]), None, &ModelOptions::default()).unwrap().graph;
        call(&graph, &inputs, LowerOptions::default())
    };
    assert_eq!(with([0., 1., 1., 0., 1.]).unwrap()[0].to_ints().unwrap(), [12, 6, 3]);
    assert_eq!(with([0.; 5]).unwrap()[0].to_ints().unwrap(), []);
    assert!(with([1., 0., 0., 0., 0.]).unwrap_err().to_string().contains("node 'culprit' (Div): division by zero"));
}

/// All tasks of a region end if a check fails, and none waits for the others.
#[test]
fn checks_in_a_region() {
    let x: Vec<f32> = (0..64 * 32).map(|x| x as f32).collect();
    let matrix: Vec<f32> = (0..32 * 32).map(|place| if place % 33 == 0 { 2.0 } else { 0.0 }).collect();
    let inputs = |index: i64| {
        let mut indices: Vec<i64> = (0..48).collect();
        indices[17] = index;
        vec![("x", floats(&[64, 32], &x)), ("w", floats(&[32, 32], &matrix)), ("i", ints(&[48], &indices))]
    };
    let nodes = vec![
        node("MatMul", &["x", "w"], &["m"]),
        node("Gather", &["m", "i"], &["g"]).text(3, "gathered"),
        node("MatMul", &["g", "w"], &["y"]),
    ];
    let graph = import(&model(nodes, &inputs(0), &["y"]), None, &ModelOptions::default()).unwrap().graph;
    for fuse in [true, false] {
        let (module, lowered) = regions::compile(&graph, Threads::Region, 1, fuse);
        assert!(lowered.is_region);
        let call = |index: i64| {
            let y = Tensor::zeros::<f32>(&[48, 32]).unwrap();
            let arguments = inputs(index).into_iter().map(|(_, constant)| tensor_of(&constant)).chain([y.clone()]);
            let arguments: Vec<Any> = arguments.map(Any::from).collect();
            module.function("network").unwrap().call(&arguments[..]).map(|_| y.view::<f32>().unwrap().to_vec())
        };
        for index in [0, 63, -64, 5, 64, -65, 5] {
            let found = call(index);
            if (-64..64).contains(&index) {
                let row = if index < 0 { index + 64 } else { index };
                assert_eq!(found.unwrap()[17 * 32], 4.0 * (row * 32) as f32);
            } else {
                let error = found.unwrap_err().to_string();
                assert!(error.contains("node 'gathered' (Gather): index out of range"), "{error}");
            }
        }
    }
}

/// An ignored class is not an error.
#[test]
fn an_ignored_class() {
    let nodes = || vec![with_int(named("SoftmaxCrossEntropyLoss", &["x", "i"]), "ignore_index", -100)];
    let inputs_with = |class: i64| vec![("x", data()), ("i", ints(&[3], &[0, class, 3]))];
    let model = Built::new(nodes(), &inputs_with(0), &["y"]);
    let with = |class: i64| model.said(&inputs_with(class), "i");
    assert_eq!(with(-100), [Ok(()), Ok(())]);
    for error in with(4).map(Result::unwrap_err) {
        assert!(error.contains("is not in the range 0 to 3, or -100"), "{error}");
    }
}
