//! Branches that are not selected, and iterations after the end of a loop: they are not run, so
//! errors in them do not occur.

use kernpack_graph::{Graph, ModelOptions, Threads, import};

use super::checks::Built;
use super::structures::{body, bools, floats, ints, model, with_graph, with_int};
use super::{Message, node, parts};

pub(super) fn choice(condition: &str, outputs: &[&str], yes: Message, no: Message) -> Message {
    let node = node("If", &[condition], outputs).text(3, "choice");
    with_graph(with_graph(node, "then_branch", yes), "else_branch", no)
}

fn constant(name: &str, value: i64) -> Message {
    node("Constant", &[], &[name]).message(5, Message::default().text(1, "value_int").int(3, value).int(20, 2))
}

fn has(graph: &Graph, operator: &str) -> bool {
    graph.nodes.iter().any(|node| node.op.name() == operator)
}

#[test]
fn the_other_branch_may_be_wrong() {
    let yes = || body(vec![node("Div", &["a", "b"], &["q"]).text(3, "divided")], &[], &["q"]);
    let no = || body(vec![node("Gather", &["x", "i"], &["g"]).text(3, "gathered")], &[], &["g"]);
    let inputs = |holds: u8, b: i64, i: i64| {
        vec![
            ("c", bools(&[], &[holds])),
            ("a", ints(&[2], &[12, 6])),
            ("b", ints(&[2], &[3, b])),
            ("x", ints(&[3], &[7, 8, 9])),
            ("i", ints(&[2], &[1, i])),
        ]
    };
    let model = Built::new(vec![choice("c", &["y"], yes(), no())], &inputs(1, 1, 0), &["y"]);
    assert!(has(&model.graph, "If"));
    let of = |holds, b, i| model.results(&inputs(holds, b, i)).map(|mut all| all.remove(0));
    assert_eq!(of(1, 2, 0), Ok(vec![4., 3.]));
    assert_eq!(of(0, 2, -1), Ok(vec![8., 9.]));
    // Not selected.
    assert_eq!(of(1, 2, 3), Ok(vec![4., 3.]));
    assert_eq!(of(0, 0, 2), Ok(vec![8., 9.]));
    // Selected.
    assert!(of(1, 0, 0).unwrap_err().contains("node 'divided' (Div): division by zero"));
    assert!(of(0, 1, 3).unwrap_err().contains("node 'gathered' (Gather): index out of range"));
}

#[test]
fn constants_that_are_wrong_in_a_branch() {
    for (nodes, what) in [
        (vec![constant("k", 0), node("Div", &["a", "k"], &["q"]).text(3, "wrong")], "(Div): division by zero"),
        (vec![constant("k", 5), node("Gather", &["x", "k"], &["q"]).text(3, "wrong")], "(Gather): index out of range"),
        (
            vec![constant("k", 0), constant("n", 3), node("Mod", &["n", "k"], &["q"]).text(3, "wrong")],
            "(Mod): division by zero",
        ),
    ] {
        let no = body(vec![node("Neg", &["a"], &["m"])], &[], &["m"]);
        let inputs =
            |holds: u8| vec![("c", bools(&[], &[holds])), ("a", ints(&[], &[12])), ("x", ints(&[3], &[7, 8, 9]))];
        let model = Built::new(vec![choice("c", &["y"], body(nodes, &[], &["q"]), no)], &inputs(0), &["y"]);
        assert_eq!(model.results(&inputs(0)).unwrap(), [[-12.]]);
        let error = model.results(&inputs(1)).unwrap_err();
        assert!(error.contains(&format!("node 'wrong' {what}")), "{error}");
    }
}

/// Both cheap branches are computed, as before; large ones are not.
#[test]
fn cheap_branches_share_a_kernel() {
    for (count, is_choice) in [(4, false), (100_000, true)] {
        let yes = body(vec![node("Add", &["x", "x"], &["out"])], &[], &["out"]);
        let no = body(vec![node("Neg", &["x"], &["out"])], &[], &["out"]);
        let x: Vec<f32> = (0..count).map(|x| x as f32).collect();
        let inputs = |holds: u8| vec![("c", bools(&[1], &[holds])), ("x", floats(&[i64::from(count)], &x))];
        let model = Built::new(vec![choice("c", &["y"], yes, no)], &inputs(0), &["y"]);
        assert_eq!((has(&model.graph, "If"), has(&model.graph, "Where")), (is_choice, !is_choice));
        for (holds, factor) in [(1, 2.0), (0, -1.0)] {
            let found = model.results(&inputs(holds)).unwrap();
            assert!(found[0].iter().zip(&x).all(|(found, x)| *found == f64::from(*x) * factor));
        }
    }
}

/// Outputs that both branches pass on, that one of them passes on, and constants; an output that is
/// returned twice.
#[test]
fn several_outputs_of_branches() {
    let yes = body(
        vec![constant("k", 7), node("Div", &["a", "b"], &["q"]), node("Identity", &["a"], &["same"])],
        &[],
        &["q", "a", "k", "same", "q"],
    );
    let no = body(vec![node("Neg", &["b"], &["n"])], &[], &["n", "a", "b", "b", "n"]);
    let names = ["p", "q", "r", "s", "t"];
    let inputs = |holds: u8, b: i64| vec![("c", bools(&[], &[holds])), ("a", ints(&[], &[12])), ("b", ints(&[], &[b]))];
    let model = Built::new(vec![choice("c", &names, yes, no)], &inputs(1, 1), &names);
    assert!(has(&model.graph, "If"));
    let of = |holds, b| model.results(&inputs(holds, b)).map(|all| all.concat());
    assert_eq!(of(1, 4), Ok(vec![3., 12., 7., 12., 3.]));
    assert_eq!(of(0, 0), Ok(vec![0., 12., 0., 0., 0.]));
    assert_eq!(of(0, 5), Ok(vec![-5., 12., 5., 5., -5.]));
}

/// A branch in a branch in a loop, which divides by a state: only in iterations in which it is not
/// zero.
#[test]
fn branches_in_branches_in_loops() {
    let inner = choice(
        "is_even",
        &["half"],
        body(vec![node("Div", &["s", "two"], &["h"])], &[], &["h"]),
        body(vec![node("Gather", &["table", "s"], &["g"]).text(3, "looked_up")], &[], &["g"]),
    );
    let safe = body(
        vec![
            node("Mod", &["s", "two"], &["rest"]),
            node("Equal", &["rest", "zero"], &["is_even"]),
            inner,
            node("Div", &["half", "s"], &["quotient"]).text(3, "divided"),
            node("Sub", &["half", "quotient"], &["next"]),
        ],
        &[],
        &["next"],
    );
    let done = body(vec![node("Sub", &["s", "step"], &["t"])], &[], &["t"]);
    let outer = choice("is_positive", &["new"], safe, done);
    let turn = body(
        vec![node("Greater", &["s", "zero"], &["is_positive"]), outer, node("Identity", &["holds"], &["on"])],
        &["round", "holds", "s"],
        &["on", "new"],
    );
    let expected = |mut s: i64, table: &[i64], rounds: i64, step: i64| -> Option<i64> {
        for _ in 0..rounds {
            s = if s > 0 {
                let half = if s % 2 == 0 { s / 2 } else { *table.get(usize::try_from(s).unwrap())? };
                half - half / s
            } else {
                s - step
            };
        }
        Some(s)
    };
    let table = [0, 9, 0, 4, 0, 2, 0, 1];
    for rounds in [4, 70] {
        let nodes = || {
            vec![
                constant("n", rounds),
                constant("two", 2),
                constant("zero", 0),
                with_graph(node("Loop", &["n", "", "first"], &["y"]), "body", turn_of(&turn)),
            ]
        };
        let inputs = |first: i64, step: i64| {
            vec![("first", ints(&[], &[first])), ("step", ints(&[], &[step])), ("table", ints(&[8], &table))]
        };
        let model = Built::new(nodes(), &inputs(1, 1), &["y"]);
        for (first, step) in [(0, 0), (8, 0), (7, 1), (5, 0), (3, -1), (9, 0), (-3, -1), (15, 0)] {
            let found = model.results(&inputs(first, step));
            match expected(first, &table, rounds, step) {
                Some(expected) => assert_eq!(found.unwrap(), [[expected as f64]], "{first} {step} {rounds}"),

                None => {
                    let error = found.unwrap_err();
                    assert!(error.contains("node 'looked_up' (Gather): index out of range"), "{error}");
                }
            }
        }
    }
}

fn turn_of(message: &Message) -> Message {
    Message(message.0.clone())
}

/// The index grows in each iteration; iterations after the end would read beyond the table.
#[test]
fn rounds_behind_the_end_of_a_loop() {
    for (count, condition) in [(6, ""), (6, "c"), (100, "")] {
        let turn = body(
            vec![
                node("Gather", &["table", "s"], &["next"]).text(3, "looked_up"),
                node("Greater", &["next", "zero"], &["on"]),
            ],
            &["round", "holds", "s"],
            &["on", "next"],
        );
        let nodes = vec![
            constant("n", count),
            constant("zero", 0),
            with_graph(node("Loop", &["n", condition, "first"], &["y"]), "body", turn),
        ];
        let inputs = |first: i64, holds: u8| {
            let mut all = vec![("first", ints(&[], &[first])), ("table", ints(&[4], &[-9, 3, 1, 7]))];
            if !condition.is_empty() {
                all.push(("c", bools(&[], &[holds])));
            }
            all
        };
        let model = Built::new(nodes, &inputs(0, 1), &["y"]);
        let of = |first, holds| model.results(&inputs(first, holds)).map(|all| all[0][0]);
        // It ends with -9, which is not a valid index.
        assert_eq!(of(0, 1), Ok(-9.));
        for first in [1, 2, 3] {
            assert!(of(first, 1).unwrap_err().contains("node 'looked_up' (Gather): index out of range"));
        }
        if !condition.is_empty() {
            assert_eq!(of(50, 0), Ok(50.));
        }
    }
}

/// Results of different shapes have no common memory size.
#[test]
fn results_of_other_shapes() {
    let yes = body(vec![node("Div", &["a", "b"], &["q"])], &[], &["q"]);
    let no = body(vec![with_int(node("ReduceSum", &["a"], &["n"]), "keepdims", 0)], &[], &["n"]);
    let inputs = [("c", bools(&[], &[1])), ("a", ints(&[2], &[1, 2])), ("b", ints(&[2], &[1, 2]))];
    let bytes = model(vec![choice("c", &["y"], yes, no)], &inputs, &["y"]);
    let error = import(&bytes, None, &ModelOptions::default()).err().unwrap().to_string();
    assert!(error.contains("node 'choice' (If): the condition depends on what the model is called with"), "{error}");
}

/// A branch is a part of a computation for some rows at a time.
#[test]
fn branches_of_models_with_a_dimension_that_each_call_tells() {
    let yes = body(vec![node("MatMul", &["x", "w"], &["out"])], &[], &["out"]);
    let no = body(vec![node("MatMul", &["x", "v"], &["m"]), node("Relu", &["m"], &["out"])], &[], &["out"]);
    let nodes =
        vec![node("Greater", &["flag", "zero"], &["c"]), choice("c", &["r"], yes, no), node("Neg", &["r"], &["y"])];
    let known = vec![parts::filled("w", &[6, 5]), parts::filled("v", &[6, 5]), super::weights("zero", &[], &[0.0])];
    let bytes = parts::model(nodes, known, &[("x", &["batch", "6"]), ("flag", &[])], &["y"]);
    for threads in [Threads::Kernels, Threads::Region] {
        parts::check(&bytes, 20, &[1, 3, 16, 20], threads);
    }
}
