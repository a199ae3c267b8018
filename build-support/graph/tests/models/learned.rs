//! Operators of the domain ai.onnx.ml. Trees are compared with a walk by the rules of ONNX.

use kernpack_compiler::ir::{F64, I64};
use kernpack_graph::{Constant, Graph, ModelOptions, import};

use super::structures::{call, close, floats, ints, undeclared, with_int, with_ints, with_text};
use super::{Message, node, parts};

fn with_floats(node: Message, name: &str, values: &[f32]) -> Message {
    let attribute = values.iter().fold(Message::default().text(1, name), |mut message, value| {
        message.0.push(7 << 3 | 5);
        message.0.extend_from_slice(&value.to_le_bytes());
        message
    });
    node.message(5, attribute.int(20, 6))
}

fn with_float(node: Message, name: &str, value: f32) -> Message {
    let mut attribute = Message::default().text(1, name);
    attribute.0.push(2 << 3 | 5);
    attribute.0.extend_from_slice(&value.to_le_bytes());
    node.message(5, attribute.int(20, 1))
}

fn with_texts(node: Message, name: &str, values: &[&str]) -> Message {
    let attribute = values.iter().fold(Message::default().text(1, name), |message, value| message.text(9, value));
    node.message(5, attribute.int(20, 8))
}

fn learned(op: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    node(op, inputs, outputs).text(7, "ai.onnx.ml")
}

/// A model with an input of rows, whose number is that of a dimension `batch`.
fn model(nodes: Vec<Message>, known: Vec<Message>, width: &str, outputs: &[&str]) -> Vec<u8> {
    let graph = nodes.into_iter().fold(Message::default(), |graph, node| graph.message(1, node));
    let graph = known.into_iter().fold(graph, |graph, known| graph.message(5, known));
    let graph = graph.message(11, parts::value("x", &["batch", width]));
    let graph = outputs.iter().fold(graph, |graph, name| graph.message(12, undeclared(name)));
    let opset = |domain: &str, version| Message::default().text(1, domain).int(2, version);
    Message::default().int(1, 8).message(7, graph).message(8, opset("", 20)).message(8, opset("ai.onnx.ml", 5)).0
}

fn read(bytes: &[u8], rows: i64) -> Result<Graph, String> {
    let options = ModelOptions { dims: [("batch".to_owned(), rows)].into(), ..ModelOptions::default() };
    import(bytes, None, &options).map(|imported| imported.graph).map_err(|error| error.to_string())
}

/// Returns the results of a compiled model for these rows.
fn compiled(bytes: &[u8], x: &Constant) -> Vec<Constant> {
    let graph = read(bytes, x.shape()[0]).unwrap();
    call(&graph, &[("x", x.clone())], kernpack_graph::LowerOptions::default()).unwrap()
}

/// Returns the results of a model for these rows, compiled and computed at build time.
fn results(bytes: &[u8], x: &Constant) -> Vec<Constant> {
    let compiled = compiled(bytes, x);
    let options = ModelOptions { constants: [("x".to_owned(), x.clone())].into(), ..ModelOptions::default() };
    let graph = import(bytes, None, &options).unwrap().graph;
    let known = call(&graph, &[], kernpack_graph::LowerOptions::default()).unwrap();
    for (one, other) in compiled.iter().zip(&known) {
        assert_eq!((one.dtype(), one.shape()), (other.dtype(), other.shape()));
        close(&one.to_floats().unwrap(), &other.to_floats().unwrap());
    }
    compiled
}

/// A fixed stream of numbers.
struct Stream(u64);

impl Stream {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    /// A multiple of 1/4 from -4 to 4.
    fn quarter(&mut self) -> f32 {
        self.below(33) as f32 / 4.0 - 4.0
    }
}

const MODES: [&str; 6] = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];

/// A node of a tree: its mode, feature and split, its children, and whether NaN leads to the first.
struct Node {
    mode: &'static str,
    feature: usize,
    split: f32,
    children: [usize; 2],
    takes_nan: bool,
    /// Votes of a leaf.
    votes: Vec<(usize, f32)>,
}

/// Adds a node and everything below it.
fn grow(tree: &mut Vec<Node>, stream: &mut Stream, modes: &[&'static str], levels: usize, targets: usize) -> usize {
    let place = tree.len();
    let is_leaf = levels == 0 || stream.below(7) == 0;
    let votes = match (is_leaf, stream.below(3)) {
        (false, _) => Vec::new(),
        (true, 0) => vec![(stream.below(targets), stream.quarter())],
        (true, _) => (0..targets).map(|target| (target, stream.quarter())).collect(),
    };
    let mode = if is_leaf { "LEAF" } else { modes[stream.below(modes.len())] };
    let (feature, split, takes_nan) = (stream.below(3), stream.quarter(), stream.below(2) == 0);
    tree.push(Node { mode, feature, split, children: [0; 2], takes_nan, votes });
    if !is_leaf {
        for child in [1, 0] {
            tree[place].children[child] = grow(tree, stream, modes, levels - 1, targets);
        }
    }
    place
}

/// The votes of the leaf that a row reaches.
fn walk<'t>(tree: &'t [Node], row: &[f32]) -> &'t [(usize, f32)] {
    let mut place = 0;
    while tree[place].mode != "LEAF" {
        let own = &tree[place];
        let value = row[own.feature];
        let holds = match own.mode {
            "BRANCH_LEQ" => value <= own.split,
            "BRANCH_LT" => value < own.split,
            "BRANCH_GTE" => value >= own.split,
            "BRANCH_GT" => value > own.split,
            "BRANCH_EQ" => value == own.split,
            _ => value != own.split,
        };
        place = own.children[usize::from(!(holds || own.takes_nan && value.is_nan()))];
    }
    &tree[place].votes
}

fn int_column(values: impl Iterator<Item = usize>) -> Vec<i64> {
    values.map(|value| value as i64).collect()
}

/// A node of trees with these attributes for votes.
fn ensemble(op: &str, outputs: &[&str], votes: &str, trees: &[Vec<Node>]) -> Message {
    let all =
        || trees.iter().enumerate().flat_map(|(tree, nodes)| nodes.iter().enumerate().map(move |node| (tree, node)));
    let of = |name: &str| format!("nodes_{name}");
    let message = learned(op, &["x"], outputs);
    let message = with_ints(message, &of("treeids"), &int_column(all().map(|(tree, _)| tree)));
    let message = with_ints(message, &of("nodeids"), &int_column(all().map(|(_, (id, _))| id)));
    let message = with_ints(message, &of("featureids"), &int_column(all().map(|(_, (_, node))| node.feature)));
    let message = with_texts(message, &of("modes"), &all().map(|(_, (_, node))| node.mode).collect::<Vec<_>>());
    let message = with_floats(message, &of("values"), &all().map(|(_, (_, node))| node.split).collect::<Vec<_>>());
    let message = with_ints(message, &of("truenodeids"), &int_column(all().map(|(_, (_, node))| node.children[0])));
    let message = with_ints(message, &of("falsenodeids"), &int_column(all().map(|(_, (_, node))| node.children[1])));
    let missing = int_column(all().map(|(_, (_, node))| node.takes_nan.into()));
    let message = with_ints(message, &of("missing_value_tracks_true"), &missing);
    let cast: Vec<(usize, usize, usize, f32)> = all()
        .flat_map(|(tree, (id, node))| node.votes.iter().map(move |(target, weight)| (tree, id, *target, *weight)))
        .collect();
    let of = |name: &str| format!("{votes}_{name}");
    let message = with_ints(message, &of("treeids"), &int_column(cast.iter().map(|vote| vote.0)));
    let message = with_ints(message, &of("nodeids"), &int_column(cast.iter().map(|vote| vote.1)));
    let message = with_ints(message, &of("ids"), &int_column(cast.iter().map(|vote| vote.2)));
    with_floats(message, &of("weights"), &cast.iter().map(|vote| vote.3).collect::<Vec<_>>())
}

fn forest(stream: &mut Stream, modes: &[&'static str], count: usize, targets: usize) -> Vec<Vec<Node>> {
    let tree = |_| {
        let (mut tree, levels) = (Vec::new(), stream.below(7));
        grow(&mut tree, stream, modes, levels, targets);
        tree
    };
    (0..count).map(tree).collect()
}

/// Rows of three features, some of which are NaN, and equal to splits.
fn rows(stream: &mut Stream, count: i64) -> Constant {
    let number = |_| if stream.below(8) == 0 { f32::NAN } else { stream.quarter() };
    floats(&[count, 3], &(0..count * 3).map(number).collect::<Vec<_>>())
}

/// All modes and numbers of targets, fewer and more rows than walks at the same time.
#[test]
fn trees_are_walked_by_the_rules() {
    let mut stream = Stream(1);
    let cases = [(1, 1, 1), (1, 20, 1), (3, 9, 2), (8, 5, 3), (19, 11, 1), (75, 6, 9)];
    let modes: [&[&str]; 6] = [&MODES[..1], &MODES[1..2], &MODES[2..3], &MODES[3..4], &MODES[4..], &MODES];
    for (number, (count, trees, targets)) in cases.into_iter().cycle().take(12).enumerate() {
        let trees = forest(&mut stream, modes[number % modes.len()], trees, targets);
        let aggregate = ["SUM", "AVERAGE", "MIN", "MAX"][number % 4];
        let message = ensemble("TreeEnsembleRegressor", &["y"], "target", &trees);
        let message = with_text(with_int(message, "n_targets", targets as i64), "aggregate_function", aggregate);
        let base: Vec<f32> = (0..targets).map(|target| target as f32 / 2.0).collect();
        let message = if number % 2 == 0 { with_floats(message, "base_values", &base) } else { message };
        let x = rows(&mut stream, count);
        let bytes = model(vec![message], Vec::new(), "3", &["y"]);
        let found = &if number < 4 { results(&bytes, &x) } else { compiled(&bytes, &x) }[0];
        let values: Vec<f32> = x.to_floats().unwrap().iter().map(|value| *value as f32).collect();
        let mut expected = Vec::new();
        for row in values.chunks(3) {
            for (target, base) in base.iter().enumerate() {
                let votes = trees.iter().flat_map(|tree| walk(tree, row)).filter(|vote| vote.0 == target);
                let weights: Vec<f32> = votes.map(|vote| vote.1).collect();
                let sum = weights.iter().sum::<f32>();
                let value = match aggregate {
                    "AVERAGE" => sum / trees.len() as f32,
                    "MIN" => weights.iter().copied().reduce(f32::min).unwrap_or(0.0),
                    "MAX" => weights.iter().copied().reduce(f32::max).unwrap_or(0.0),
                    _ => sum,
                };
                expected.push(f64::from(value + if number % 2 == 0 { *base } else { 0.0 }));
            }
        }
        close(&found.to_floats().unwrap(), &expected);
    }
}

/// A dynamic number of rows gives the same as each number on its own.
#[test]
fn models_for_any_number_of_rows() {
    let mut stream = Stream(2);
    let trees = forest(&mut stream, &MODES[..1], 11, 3);
    let message = ensemble("TreeEnsembleClassifier", &["label", "scores"], "class", &trees);
    let message = with_ints(message, "classlabels_int64s", &[4, 5, 6]);
    let scaled = with_floats(with_floats(learned("Scaler", &["x"], &["s"]), "scale", &[0.5]), "offset", &[1.0]);
    let linear = with_floats(learned("LinearRegressor", &["s"], &["y"]), "coefficients", &[1.0, -1.0, 0.5]);
    let machine = learned("SVMClassifier", &["s"], &["other", "shares"]);
    let machine = with_ints(with_ints(machine, "classlabels_ints", &[0, 1, 2]), "vectors_per_class", &[1, 1, 1]);
    let machine = with_floats(machine, "coefficients", &[1.0, -0.5, 0.3, 0.2, 0.1, 0.4]);
    let machine = with_floats(machine, "support_vectors", &[1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
    let machine = with_floats(with_floats(machine, "rho", &[0.1, 0.2, 0.3]), "kernel_params", &[0.5, 0.1, 3.0]);
    let machine = with_floats(with_floats(machine, "prob_a", &[0.3, 0.2, 0.1]), "prob_b", &[0.1, -0.2, 0.3]);
    let keys: Vec<i64> = (0..20).map(|key| key * 3 % 20).collect();
    let encoder = with_ints(
        with_ints(learned("LabelEncoder", &["label"], &["code"]), "keys_int64s", &keys),
        "values_int64s",
        &keys,
    );
    let nodes = vec![
        with_text(message, "post_transform", "SOFTMAX"),
        scaled,
        linear,
        with_text(machine, "kernel_type", "RBF"),
        encoder,
        with_int(node("Cast", &["code"], &["number"]), "to", 1),
    ];
    let bytes = model(nodes, Vec::new(), "3", &["scores", "y", "shares", "number"]);
    parts::check(&bytes, 70, &[1, 5, 64, 69], kernpack_graph::Threads::Kernels);
}

/// One tree with a branch and two leaves, with these votes: the leaf, the class and the weight.
fn stump(votes: &[(usize, usize, f32)]) -> Vec<Vec<Node>> {
    let of = |leaf: usize| votes.iter().filter(|vote| vote.0 == leaf).map(|vote| (vote.1, vote.2)).collect();
    let leaf = |votes| Node { mode: "LEAF", feature: 0, split: 0.0, children: [0; 2], takes_nan: false, votes };
    let root = Node { mode: "BRANCH_LEQ", children: [1, 2], ..leaf(Vec::new()) };
    vec![vec![root, leaf(of(1)), leaf(of(2))]]
}

fn classified(votes: &[(usize, usize, f32)], labels: &[i64], transform: &str, base: &[f32]) -> (Vec<i64>, Vec<f64>) {
    let message = ensemble("TreeEnsembleClassifier", &["label", "scores"], "class", &stump(votes));
    let message = with_text(with_ints(message, "classlabels_int64s", labels), "post_transform", transform);
    let message = if base.is_empty() { message } else { with_floats(message, "base_values", base) };
    let found = results(&model(vec![message], Vec::new(), "1", &["label", "scores"]), &floats(&[2, 1], &[-1.0, 1.0]));
    assert_eq!(found[0].dtype(), I64);
    (found[0].to_ints().unwrap(), found[1].to_floats().unwrap())
}

/// The numbers are those of onnxruntime 1.32.
#[test]
fn two_classes_with_one_score() {
    let (share, mixed) = ([(1, 0, 0.7), (2, 0, 0.2)], [(1, 0, 0.7), (2, 0, -0.2)]);
    let logistic = [0.331_812_26, 0.668_187_74];
    for (votes, base, transform, labels, scores) in [
        (share, &[][..], "NONE", [20, 10], [0.3, 0.7, 0.8, 0.2]),
        (share, &[0.25], "SOFTMAX", [20, 10], [0.05, 0.95, 0.55, 0.45]),
        (share, &[], "LOGISTIC", [20, 10], [logistic[0], logistic[1], 0.450_166_05, 0.549_833_95]),
        (mixed, &[], "NONE", [20, 10], [-0.7, 0.7, 0.2, -0.2]),
        (mixed, &[0.25], "NONE", [20, 20], [-0.95, 0.95, -0.05, 0.05]),
        (mixed, &[], "LOGISTIC", [20, 10], [logistic[0], logistic[1], 0.549_833_95, 0.450_166_05]),
    ] {
        let found = classified(&votes, &[10, 20], transform, base);
        assert_eq!(found.0, labels, "{transform} {base:?}");
        close(&found.1, &scores);
    }
}

#[test]
fn several_classes() {
    let votes = [(1, 0, 0.7), (1, 1, -0.3), (1, 2, 0.0), (2, 0, 0.0), (2, 1, 0.0), (2, 2, -0.2)];
    for (transform, base, labels, scores) in [
        ("NONE", &[0.1, 0.2, 0.3][..], [10, 20], [0.8, -0.1, 0.3, 0.1, 0.2, 0.1]),
        ("SOFTMAX", &[], [10, 10], [0.536_346_97, 0.197_311_03, 0.266_342_01, 0.354_769_6, 0.354_769_6, 0.290_460_8]),
        ("SOFTMAX_ZERO", &[], [10, 10], [0.731_058_6, 0.268_941_44, 0.0, 0.0, 0.0, 1.0]),
        (
            "PROBIT",
            &[],
            [10, 10],
            [0.524_445_9, f64::NAN, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NAN],
        ),
    ] {
        let found = classified(&votes, &[10, 20, 30], transform, base);
        assert_eq!(found.0, labels, "{transform}");
        close(&found.1, &scores);
    }
    let both = [(1, 0, 0.7), (1, 1, 0.3), (2, 0, 0.2), (2, 1, 0.8)];
    assert_eq!(classified(&both, &[5, 6], "NONE", &[]).0, [5, 6]);
}

#[test]
fn trees_that_are_refused() {
    let of = |votes: &[(usize, usize, f32)], labels: &[i64], base: &[f32], change: &dyn Fn(&mut Vec<Vec<Node>>)| {
        let mut trees = stump(votes);
        change(&mut trees);
        let message = ensemble("TreeEnsembleClassifier", &["label", "scores"], "class", &trees).text(3, "n");
        let message = with_floats(with_ints(message, "classlabels_int64s", labels), "base_values", base);
        read(&model(vec![message], Vec::new(), "1", &["label", "scores"]), 2).err().unwrap_or_default()
    };
    let votes = [(1, 0, 0.7), (2, 2, 0.2)];
    let same = |_: &mut Vec<Vec<Node>>| {};
    for (error, expected) in [
        (of(&votes, &[1, 2], &[], &same), "attribute `class_ids` has 2: expected 0 to 1"),
        (of(&votes, &[1, 2, 3], &[1.0, 2.0], &same), "attribute `base_values` has 2 values for 3 classes"),
        (of(&[(1, 1, 0.5)], &[1, 2], &[1.0], &same), "the votes are for class 1 of two"),
        (of(&votes, &[1, 2, 3], &[], &|trees| trees[0][0].feature = 1), "a node asks for feature 1"),
        (
            of(&votes, &[1, 2, 3], &[], &|trees| trees[0][0].mode = "BRANCH_GE"),
            "attribute `nodes_modes` has `BRANCH_GE`",
        ),
        (of(&votes, &[1, 2, 3], &[], &|trees| trees[0][0].children[0] = 7), "node 0 of tree 0 leads to 7"),
        (of(&votes, &[1, 2, 3], &[], &|trees| trees[0][0].children[0] = 0), "node 0 of tree 0 leads to 0"),
        (of(&[(1, 0, 0.5)], &[7], &[], &same), "a single class label other than 1"),
        (
            of(&votes, &[1, 2, 3], &[], &|trees| (trees[0][1].mode, trees[0][1].children) = (MODES[1], [2, 0])),
            "expected trees without cycles",
        ),
    ] {
        assert!(error.starts_with("node 'n' ("), "{error}");
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
}

/// Base values in doubles are counted like those in floats.
#[test]
fn doubles_as_base_values() {
    let of = |votes: &[(usize, usize, f32)], labels: &[i64]| {
        let message = ensemble("TreeEnsembleClassifier", &["label", "scores"], "class", &stump(votes));
        let zero = Message::default().int(1, 1).int(2, 11).text(9, &"\0".repeat(8));
        let base = Message::default().text(1, "base_values_as_tensor").message(5, zero).int(20, 4);
        let message = with_ints(message, "classlabels_int64s", labels).message(5, base);
        read(&model(vec![message], Vec::new(), "1", &["label", "scores"]), 2).err().unwrap_or_default()
    };
    assert_eq!(of(&[(1, 0, 0.5)], &[1, 2]), "");
    let error = of(&[(1, 1, 0.5)], &[1, 2]);
    assert!(error.contains("`base_values` has 1 values, and the votes are for class 1 of two"), "{error}");
    let error = of(&[(1, 1, 0.5), (2, 2, 0.5)], &[1, 2, 3]);
    assert!(error.contains("attribute `base_values` has 1 values for 3 classes"), "{error}");
}

/// Only the comparison for other numbers holds for a split that is NaN.
#[test]
fn splits_without_a_number() {
    let x = floats(&[3, 1], &[-1.0, 1.0, f32::NAN]);
    for mode in MODES {
        for takes_nan in [false, true] {
            let mut trees = stump(&[(1, 0, 1.0), (2, 0, 2.0)]);
            let root = &mut trees[0][0];
            (root.mode, root.split, root.takes_nan) = (mode, f32::NAN, takes_nan);
            let message = with_int(ensemble("TreeEnsembleRegressor", &["y"], "target", &trees), "n_targets", 1);
            let expected: Vec<f64> =
                [-1.0, 1.0, f32::NAN].iter().map(|value| walk(&trees[0], &[*value])[0].1.into()).collect();
            close(&one(message, &x), &expected);
        }
    }
}

fn one(node: Message, x: &Constant) -> Vec<f64> {
    let width = x.shape()[1].to_string();
    results(&model(vec![node], Vec::new(), &width, &["y"]), x)[0].to_floats().unwrap()
}

#[test]
fn features_are_prepared() {
    let x = floats(&[3, 3], &[1.0, -2.0, 0.0, -3.0, -0.5, -1.0, 0.0, 0.0, 0.0]);
    let of = |op: &str| learned(op, &["x"], &["y"]);
    for (norm, expected) in [
        ("MAX", [1.0, -2.0, 0.0, 6.0, 1.0, 2.0, 0.0, 0.0, 0.0]),
        ("L1", [1.0 / 3.0, -2.0 / 3.0, 0.0, -3.0 / 4.5, -0.5 / 4.5, -1.0 / 4.5, 0.0, 0.0, 0.0]),
        ("L2", [0.447_213_6, -0.894_427_2, 0.0, -0.937_042_6, -0.156_173_77, -0.312_347_53, 0.0, 0.0, 0.0]),
    ] {
        close(&one(with_text(of("Normalizer"), "norm", norm), &x), &expected);
    }
    let scaler = with_floats(with_floats(of("Scaler"), "offset", &[1.0]), "scale", &[1.0, 2.0, 4.0]);
    close(&one(scaler, &x), &[0.0, -6.0, -4.0, -4.0, -3.0, -8.0, -1.0, -2.0, -4.0]);
    let holes = floats(&[2, 2], &[f32::NAN, 1.0, 2.0, f32::NAN]);
    let imputer = |replaced| {
        with_float(with_floats(of("Imputer"), "imputed_value_floats", &[7.0, 8.0]), "replaced_value_float", replaced)
    };
    close(&one(imputer(f32::NAN), &holes), &[7.0, 1.0, 2.0, 8.0]);
    close(&one(imputer(1.0), &holes), &[f64::NAN, 8.0, 2.0, f64::NAN]);
    let hot = with_ints(of("OneHotEncoder"), "cats_int64s", &[3, -1]);
    close(&one(hot, &floats(&[2, 2], &[3.5, -1.0, 0.0, 3.0])), &[1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    let wide = with_ints(learned("FeatureVectorizer", &["x", "x"], &["y"]), "inputdimensions", &[1, 3]);
    close(&one(wide, &floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0])), &[1.0, 1.0, 2.0, 0.0, 3.0, 3.0, 4.0, 0.0]);
}

/// A category that is not in the list is an error of the call, if the model says so.
#[test]
fn unknown_categories_are_refused() {
    let hot = with_int(with_ints(learned("OneHotEncoder", &["x"], &["y"]), "cats_int64s", &[3, -1]), "zeros", 0);
    let graph = read(&model(vec![hot], Vec::new(), "1", &["y"]), 2).unwrap();
    let options = kernpack_graph::LowerOptions::default;
    let run = |values: &[f32; 2]| call(&graph, &[("x", floats(&[2, 1], values))], options());
    close(&run(&[-1.0, 3.0]).unwrap()[0].to_floats().unwrap(), &[0.0, 1.0, 1.0, 0.0]);
    let error = run(&[-1.0, 4.0]).unwrap_err().to_string();
    assert!(error.contains("index out of range"), "{error}");
    // Memory is proportional to the number of categories.
    let categories: Vec<i64> = (0..100_000).collect();
    let hot = with_ints(learned("OneHotEncoder", &["x"], &["y"]), "cats_int64s", &categories);
    let graph = read(&model(vec![with_int(hot, "zeros", 0)], Vec::new(), "1", &["y"]), 2).unwrap();
    assert_eq!(graph.values[graph.outputs[0].1].shape, [2, 1, 100_000]);
}

#[test]
fn attributes_and_inputs_that_an_operator_does_not_have() {
    let error = |node| read(&model(vec![node], Vec::new(), "1", &["y"]), 2).err().unwrap();
    let of_integers = error(with_ints(learned("Scaler", &["x"], &["y"]), "offset", &[1]));
    assert!(of_integers.contains("attribute `offset` is not a list of floats"), "{of_integers}");
    for (name, floats) in [("Scaler", "scale"), ("Imputer", "imputed_value_floats")] {
        let second = error(with_floats(learned(name, &["x", "x"], &["y"]), floats, &[2.0]));
        assert!(second.contains("input 1 is not supported: the operator does not have it"), "{name}: {second}");
    }
}

#[test]
fn labels_are_encoded() {
    for count in [3, 40] {
        let keys: Vec<f32> = (0..count).map(|key| ((key * 7) % count) as f32).collect();
        let values: Vec<i64> = keys.iter().map(|key| 100 - *key as i64).collect();
        let keys = [&keys[..], &[f32::NAN, 0.0]].concat();
        let values = [&values[..], &[5, 6]].concat();
        let encoder = with_floats(learned("LabelEncoder", &["x"], &["y"]), "keys_floats", &keys);
        let encoder = with_int(with_ints(encoder, "values_int64s", &values), "default_int64", -9);
        let x = floats(&[1, 6], &[0.0, -0.0, 2.0, 0.5, f32::NAN, -1.0]);
        close(&one(encoder, &x), &[100.0, 100.0, 98.0, -9.0, 5.0, -9.0]);
    }
    let texts = with_texts(
        with_texts(learned("LabelEncoder", &["x"], &["y"]), "keys_strings", &["a"]),
        "values_strings",
        &["b"],
    );
    let error = read(&model(vec![texts], Vec::new(), "1", &["y"]), 2).err().unwrap();
    assert!(error.contains("export the model with integer labels"), "{error}");
    let tensor = |name: &str| {
        let empty = Message::default().int(1, 0).int(2, 1);
        Message::default().text(1, name).message(5, empty).int(20, 4)
    };
    let none = learned("LabelEncoder", &["x"], &["y"]).message(5, tensor("keys_tensor"));
    let none = none.message(5, tensor("values_tensor"));
    let error = read(&model(vec![none], Vec::new(), "1", &["y"]), 2).err().unwrap();
    assert!(error.contains("the list of keys is empty"), "{error}");
}

/// The numbers are those of onnxruntime 1.32.
#[test]
fn linear_models() {
    let x = floats(&[2, 2], &[1.0, 2.0, -3.0, 0.5]);
    let classifier = |coefficients: &[f32], intercepts: &[f32], transform: &str| {
        let node = with_floats(learned("LinearClassifier", &["x"], &["label", "scores"]), "coefficients", coefficients);
        let node = with_text(with_floats(node, "intercepts", intercepts), "post_transform", transform);
        let node = with_ints(node, "classlabels_ints", &[10, 20]);
        let found = results(&model(vec![node], Vec::new(), "2", &["label", "scores"]), &x);
        (found[0].to_ints().unwrap(), found[1].to_floats().unwrap())
    };
    let (labels, scores) = classifier(&[0.3, 0.1], &[0.1], "NONE");
    assert_eq!(labels, [20, 10]);
    close(&scores, &[0.4, 0.6, 1.75, -0.75]);
    close(&classifier(&[0.3, 0.1], &[0.1], "LOGISTIC").1, &[0.354_343_7, 0.645_656_3, 0.679_178_7, 0.320_821_3]);
    let (labels, scores) = classifier(&[0.3, 0.1, 0.2, -0.4], &[0.1, 0.2], "SOFTMAX");
    assert_eq!(labels, [10, 20]);
    close(&scores, &[0.731_058_6, 0.268_941_4, 0.462_570_2, 0.537_429_8]);
    let regressor = with_floats(learned("LinearRegressor", &["x"], &["y"]), "coefficients", &[0.3, 0.1, 0.2, -0.4]);
    let regressor = with_int(with_floats(regressor, "intercepts", &[0.1, 0.2]), "targets", 2);
    close(&one(regressor.clone(), &x), &[0.6, -0.4, -0.75, -0.6]);
    let single = with_text(
        with_floats(learned("LinearRegressor", &["x"], &["y"]), "coefficients", &[1.0, 1.0]),
        "post_transform",
        "LOGISTIC",
    );
    let error = read(&model(vec![single], Vec::new(), "2", &["y"]), 2).err().unwrap();
    assert!(error.contains("onnxruntime ignores it and ONNX does not"), "{error}");
}

/// The numbers are those of onnxruntime 1.32.
#[test]
fn support_vectors() {
    let x = floats(&[2, 2], &[1.0, 2.0, -3.0, 0.5]);
    let three = |kind: &str, with_shares: bool| {
        let node = with_ints(learned("SVMClassifier", &["x"], &["label", "scores"]), "classlabels_ints", &[10, 20, 30]);
        let node = with_ints(node, "vectors_per_class", &[1, 1, 1]);
        let node = with_floats(node, "coefficients", &[1.0, -0.5, 0.3, 0.2, 0.1, 0.4]);
        let node = with_floats(node, "support_vectors", &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let node = with_floats(with_floats(node, "rho", &[0.1, 0.2, 0.3]), "kernel_params", &[0.5, 0.1, 3.0]);
        let node = if with_shares {
            with_floats(with_floats(node, "prob_a", &[0.3, 0.2, 0.1]), "prob_b", &[0.1, -0.2, 0.3])
        } else {
            node
        };
        let node = with_text(node, "kernel_type", kind);
        let found = results(&model(vec![node], Vec::new(), "2", &["label", "scores"]), &x);
        (found[0].to_ints().unwrap(), found[1].to_floats().unwrap())
    };
    for (kind, labels, scores) in [
        ("LINEAR", [10, 30], [0.1, 1.3, 1.7, -3.15, -1.15, -0.65]),
        ("RBF", [10, 10], [0.051_395_56, 0.409_026_27, 0.579_400_24, 0.095_394_22, 0.200_148_03, 0.301_098_8]),
        ("POLY", [20, 30], [-0.3495, 1.472, 2.0715, -2.665_437_5, -0.805_062_5, -0.304_062_46]),
        ("SIGMOID", [10, 20], [0.236_800_04, 0.583_910_5, 0.748_717_4, -0.953_539_43, -0.222_396_57, 0.006_535_9]),
    ] {
        let found = three(kind, false);
        assert_eq!(found.0, labels, "{kind}");
        close(&found.1, &scores);
    }
    let (labels, scores) = three("LINEAR", true);
    assert_eq!(labels, [10, 30]);
    close(&scores, &[0.314_437_03, 0.292_857_14, 0.392_705_74, 0.480_728_12, 0.218_661_2, 0.300_610_8]);
    let regressor = with_floats(learned("SVMRegressor", &["x"], &["y"]), "coefficients", &[0.3, 0.1]);
    let regressor = with_floats(with_floats(regressor, "support_vectors", &[1.0, 0.0, 0.0, 1.0]), "rho", &[0.1]);
    let regressor = with_int(with_floats(regressor, "kernel_params", &[0.5, 0.1, 3.0]), "n_supports", 2);
    close(&one(with_int(regressor, "one_class", 1), &x), &[1.0, -1.0]);
}

/// The votes of all pairs for all classes are a matrix.
#[test]
fn many_classes_are_refused() {
    let counts: Vec<i64> = (0..4000).map(|class| i64::from(class == 0)).collect();
    let node = with_ints(learned("SVMClassifier", &["x"], &["label", "scores"]), "vectors_per_class", &counts);
    let node = with_ints(node, "classlabels_ints", &(0..4000).collect::<Vec<_>>());
    let node = with_floats(with_floats(node, "coefficients", &[1.0; 3999]), "support_vectors", &[1.0]);
    let error = read(&model(vec![node], Vec::new(), "1", &["label", "scores"]), 2).err().unwrap();
    assert!(error.contains("coefficients of pairs are more than"), "{error}");
}

/// Doubles are compared as doubles, and integers as floats.
#[test]
fn features_of_other_types() {
    let trees = stump(&[(1, 0, 1.0), (2, 0, 2.0)]);
    let message = with_int(ensemble("TreeEnsembleRegressor", &["y"], "target", &trees), "n_targets", 1);
    for (element, x) in [
        (
            11,
            Constant::new(
                F64,
                &[2, 1],
                [1e-300_f64, -1.0].iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>(),
            )
            .unwrap(),
        ),
        (7, ints(&[2, 1], &[1, 0])),
    ] {
        let shape =
            [2, 1].iter().fold(Message::default(), |shape, dim| shape.message(1, Message::default().int(1, *dim)));
        let value = Message::default()
            .text(1, "x")
            .message(2, Message::default().message(1, Message::default().int(1, element).message(2, shape)));
        let graph = Message::default().message(1, message.clone()).message(11, value).message(12, undeclared("y"));
        let opset = |domain: &str, version| Message::default().text(1, domain).int(2, version);
        let bytes = Message::default()
            .int(1, 8)
            .message(7, graph)
            .message(8, opset("", 20))
            .message(8, opset("ai.onnx.ml", 3))
            .0;
        close(&results(&bytes, &x)[0].to_floats().unwrap(), &[2.0, 1.0]);
    }
}

/// Class names are their places in the list of names, and the columns of a map are an output.
#[test]
fn class_names_and_maps() {
    let trees = stump(&[(1, 0, 0.2), (1, 1, 0.7), (1, 2, 0.1), (2, 2, 1.0)]);
    let message = ensemble("TreeEnsembleClassifier", &["label", "scores"], "class", &trees);
    let named = with_texts(message.clone(), "classlabels_strings", &["oak", "elm", "fir"]);
    let map = with_texts(learned("ZipMap", &["scores"], &["map"]), "classlabels_strings", &["oak", "elm", "fir"]);
    let kept = node("Identity", &["label"], &["kept"]);
    let bytes = model(vec![named.clone(), kept, map], Vec::new(), "1", &["kept", "map"]);
    let x = floats(&[2, 1], &[-1.0, 1.0]);
    let graph = read(&bytes, 2).unwrap();
    let names: Vec<&str> = graph.labels.keys().map(String::as_str).collect();
    assert_eq!(
        (names, &graph.labels["kept"][..]),
        (vec!["kept", "map"], &["oak", "elm", "fir"].map(str::to_owned)[..])
    );
    assert_eq!(graph.warnings.iter().filter(|warning| warning.contains("'oak', 'elm', 'fir'")).count(), 2);
    let found = results(&bytes, &x);
    assert_eq!((found.len(), found[0].dtype(), found[0].to_ints().unwrap()), (2, I64, vec![1, 2]));
    // Integers are an output of their own.
    let numbered = with_ints(message, "classlabels_int64s", &[7, 8, 9]);
    let map = with_ints(learned("ZipMap", &["scores"], &["map"]), "classlabels_int64s", &[7, 8, 9]);
    let found = results(&model(vec![numbered, map], Vec::new(), "1", &["label", "map"]), &x);
    assert_eq!((found[0].to_ints().unwrap(), found[2].to_ints().unwrap()), (vec![8, 9], vec![7, 8, 9]));
    close(&found[1].to_floats().unwrap(), &[0.2, 0.7, 0.1, 0.0, 0.0, 1.0]);
    // A table from names to numbers, and nodes that do not accept names.
    let table = with_ints(
        with_texts(learned("LabelEncoder", &["label"], &["y"]), "keys_strings", &["fir", "elm", "fir"]),
        "values_int64s",
        &[50, 60, 70],
    );
    assert_eq!(
        results(&model(vec![named.clone(), table], Vec::new(), "1", &["y"]), &x)[0].to_ints().unwrap(),
        [60, 50]
    );
    let other = with_float(learned("LabelEncoder", &["label"], &["y"]), "default_float", 1.0);
    let error = read(&model(vec![named.clone(), other], Vec::new(), "1", &["y"]), 2).err().unwrap();
    assert!(error.contains("attribute `keys_strings` is missing"), "{error}");
    let wrong = node("Add", &["label", "label"], &["y"]);
    let error = read(&model(vec![named, wrong], Vec::new(), "1", &["y"]), 2).err().unwrap();
    assert!(error.contains("node 'y' (Add): class names are texts"), "{error}");
}

/// A text that is twice in a tensor is once in the list of names.
#[test]
fn class_names_of_a_tensor() {
    let trees = stump(&[(1, 0, 0.2), (1, 1, 0.7), (1, 2, 0.1), (2, 2, 1.0)]);
    let message = ensemble("TreeEnsembleClassifier", &["label", "scores"], "class", &trees);
    let message = with_ints(message, "classlabels_int64s", &[2, 3, 0]);
    let texts = ["oak", "elm", "oak", "fir"];
    let tensor = texts.iter().fold(Message::default().int(1, 4).int(2, 8), |tensor, name| tensor.text(6, name));
    let picked = learned("ArrayFeatureExtractor", &["names", "label"], &["y"]);
    let bytes = model(vec![message, picked], vec![tensor.text(8, "names")], "1", &["y"]);
    let x = floats(&[2, 1], &[-1.0, 1.0]);
    assert_eq!(read(&bytes, 2).unwrap().labels["y"], ["oak", "elm", "fir"]);
    assert_eq!(results(&bytes, &x)[0].to_ints().unwrap(), [2, 0]);
}

#[test]
fn maps_as_inputs_are_refused() {
    for (op, expected) in
        [("CastMap", "zipmap"), ("DictVectorizer", "zipmap"), ("CategoryMapper", "integer categories")]
    {
        let error = read(&model(vec![learned(op, &["x"], &["y"])], Vec::new(), "1", &["y"]), 2).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
}
