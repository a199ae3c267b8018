//! Loops whose body is compiled once: many iterations, iterations that are only known at run time,
//! conditions that end them.

use kernpack_compiler::codegen::Target;
use kernpack_graph::{Constant, Graph, LowerOptions, ModelOptions, Threads, build, diff, import};

use super::structures::{body, bools, call, close, floats, ints, model, run, with_graph, with_int, with_ints};
use super::{Message, node};

fn constant(name: &str, value: i64) -> Message {
    node("Constant", &[], &[name]).message(5, Message::default().text(1, "value_int").int(3, value).int(20, 2))
}

/// A state without a closed form: `s = (31 s + w round) mod 1009`, with the previous state as a
/// row, until it is `end`.
fn turns(count: &str, condition: &str) -> Message {
    let body = body(
        vec![
            constant("factor", 31),
            constant("modulus", 1009),
            node("Mul", &["s", "factor"], &["scaled"]),
            node("Mul", &["w", "round"], &["shift"]),
            node("Add", &["scaled", "shift"], &["sum"]),
            node("Mod", &["sum", "modulus"], &["next"]),
            node("Identity", &["s"], &["row"]),
            node("Equal", &["next", "end"], &["ends"]),
            node("Not", &["ends"], &["goes_on"]),
        ],
        &["round", "holds", "s"],
        &["goes_on", "next", "row"],
    );
    with_graph(node("Loop", &[count, condition, "first"], &["last", "rows"]), "body", body).text(3, "turns")
}

/// Returns the results of `turns`: the last state, and the rows.
fn turned(first: i64, w: i64, end: i64, most: i64) -> (i64, Vec<i64>) {
    let (mut state, mut rows) = (first, Vec::new());
    for round in 0..most {
        rows.push(state);
        state = (31 * state + w * round) % 1009;
        if state == end {
            break;
        }
    }
    (state, rows)
}

fn inputs(first: i64, w: i64, end: i64) -> Vec<(&'static str, Constant)> {
    vec![("first", ints(&[], &[first])), ("w", ints(&[], &[w])), ("end", ints(&[], &[end]))]
}

fn graph_of(bytes: &[u8], options: &ModelOptions) -> Graph {
    import(bytes, None, options).unwrap().graph
}

fn is_native(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| ["Loop", "Scan"].contains(&node.op.name()))
}

#[test]
fn a_condition_ends_many_rounds() {
    let bytes = |count: i64| model(vec![constant("n", count), turns("n", "")], &inputs(0, 0, 0), &["last", "rows"]);
    for count in [65, 300, 5000] {
        let graph = graph_of(&bytes(count), &ModelOptions::default());
        assert!(is_native(&graph));
        for (first, w, end) in [(5, 7, -1), (5, 7, 300), (1008, 3, 64)] {
            let found = call(&graph, &inputs(first, w, end), LowerOptions::default()).unwrap();
            let (last, rows) = turned(first, w, end, count);
            assert_eq!(found[0].to_ints().unwrap(), [last], "{count} rounds of {first}, {w}, {end}");
            assert_eq!(found[1].to_ints().unwrap(), rows, "{count} rounds of {first}, {w}, {end}");
        }
    }
}

#[test]
fn the_call_tells_how_many_rounds() {
    let mut options = ModelOptions::default();
    options.bounds.insert("turns".to_owned(), 40);
    let mut all = inputs(0, 0, 0);
    all.extend([("n", ints(&[], &[0])), ("holds", bools(&[], &[1]))]);
    let graph = graph_of(&model(vec![turns("n", "holds")], &all, &["last", "rows"]), &options);
    let given = |n: i64, holds: u8, end: i64| {
        let mut all = inputs(5, 7, end);
        all.extend([("n", ints(&[], &[n])), ("holds", bools(&[], &[holds]))]);
        call(&graph, &all, LowerOptions::default())
    };
    for (n, holds) in [(0, 1), (1, 1), (2, 1), (39, 1), (40, 1), (7, 0), (-1, 1), (i64::MIN, 1)] {
        let found = given(n, holds, -1).unwrap();
        let (last, rows) = turned(5, 7, -1, if holds == 1 { n } else { 0 });
        assert_eq!((found[0].to_ints().unwrap(), found[1].to_ints().unwrap()), (vec![last], rows), "{n} {holds}");
    }
    // There is memory for 40 rows, and not more are written.
    for n in [41, 1 << 40, i64::MAX] {
        let error = given(n, 1, -1).unwrap_err().to_string();
        let expected = "node 'turns' (Loop): more than 40 rounds, which is the bound that the model was compiled with";
        assert!(error.contains(expected), "{error}");
    }
    // The condition ends it earlier.
    let end = turned(5, 7, -1, 40).1[30];
    let (last, rows) = turned(5, 7, end, 1 << 40);
    let found = given(1 << 40, 1, end).unwrap();
    assert_eq!((found[0].to_ints().unwrap(), found[1].to_ints().unwrap()), (vec![last], rows));
}

#[test]
fn states_alone_need_no_bound() {
    // Without a number of iterations, or with one that is only known at run time.
    for count in ["", "n"] {
        let mut all = inputs(0, 0, 0);
        if !count.is_empty() {
            all.push(("n", ints(&[1], &[0])));
        }
        let bytes = model(vec![turns(count, "")], &all, &["last"]);
        let error = import(&bytes, None, &ModelOptions::default()).err().unwrap().to_string();
        assert_eq!(
            error,
            "node 'turns' (Loop): the number of rounds depends on what the model is called with: there is no bound for the memory of what the rounds give: \
             say how many rounds there are at most, `.bound(\"turns\", rounds)`"
        );
    }
    let halved = || {
        let body = body(
            vec![
                constant("two", 2),
                node("Div", &["x", "two"], &["half"]),
                node("Add", &["sum", "x"], &["more"]),
                node("Greater", &["half", "least"], &["goes_on"]),
            ],
            &["round", "holds", "x", "sum"],
            &["goes_on", "half", "more"],
        );
        with_graph(node("Loop", &["", "", "x", "zero"], &["end", "total"]), "body", body)
    };
    let nodes = || vec![constant("zero", 0), halved()];
    for (x, least) in [(1000, 3), (1 << 60, 0), (5, 100)] {
        let inputs = [("x", ints(&[], &[x])), ("least", ints(&[], &[least]))];
        let found = run(&model(nodes(), &inputs, &["end", "total"]), &inputs, &ModelOptions::default());
        let (mut state, mut total) = (x, 0);
        loop {
            total += state;
            state /= 2;
            if state <= least {
                break;
            }
        }
        assert_eq!((found[0].to_ints().unwrap(), found[1].to_ints().unwrap()), (vec![state], vec![total]));
    }
}

/// `h = tanh(h u + x_t w)` over `steps`, forwards or backwards, in a scan.
fn recurrence(backwards: i64) -> Message {
    let body = body(
        vec![
            node("MatMul", &["h", "u"], &["kept"]),
            node("MatMul", &["part", "w"], &["new"]),
            node("Add", &["kept", "new"], &["both"]),
            node("Tanh", &["both"], &["next"]),
            node("Identity", &["next"], &["out"]),
        ],
        &["h", "part"],
        &["next", "out"],
    );
    let node = with_graph(node("Scan", &["h0", "x"], &["h", "all"]), "body", body);
    let node = with_ints(with_int(node, "num_scan_inputs", 1), "scan_input_axes", &[1]);
    let node = with_ints(with_ints(node, "scan_input_directions", &[backwards]), "scan_output_axes", &[-1]);
    with_ints(node, "scan_output_directions", &[backwards])
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn numbers(shape: &[i64], seed: i64) -> Constant {
    let count: i64 = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|n| ((n * 37 + seed * 11) % 101) as f32 / 101.0 - 0.5).collect();
    floats(shape, &values)
}

#[test]
fn a_recurrence_of_many_steps() {
    let (steps, batch, width, hidden) = (4500_i64, 2_i64, 3_i64, 17_i64);
    for (backwards, known) in [(0, true), (1, true), (1, false)] {
        let inputs = [
            ("x", numbers(&[batch, steps, width], 1)),
            ("h0", numbers(&[batch, hidden], 2)),
            ("u", numbers(&[hidden, hidden], 3)),
            ("w", numbers(&[width, hidden], 4)),
        ];
        let mut options = ModelOptions::default();
        if known {
            options.constants.extend(inputs[2..].iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        }
        let graph = graph_of(&model(vec![recurrence(backwards)], &inputs, &["h", "all"]), &options);
        assert!(is_native(&graph));
        let data: Vec<Vec<f64>> = inputs.iter().map(|(_, value)| value.to_floats().unwrap()).collect();
        let (x, u, w) = (&data[0], &data[2], &data[3]);
        let mut state = data[1].clone();
        let mut all = vec![0.0; usize::try_from(batch * hidden * steps).unwrap()];
        let at = |index: i64| usize::try_from(index).unwrap();
        for step in 0..steps {
            let time = if backwards == 1 { steps - 1 - step } else { step };
            let before = state.clone();
            for row in 0..batch {
                for unit in 0..hidden {
                    let kept: f64 = (0..hidden).map(|k| before[at(row * hidden + k)] * u[at(k * hidden + unit)]).sum();
                    let new: f64 =
                        (0..width).map(|k| x[at((row * steps + time) * width + k)] * w[at(k * hidden + unit)]).sum();
                    state[at(row * hidden + unit)] = (kept + new).tanh();
                    // Rows that are written backwards are read backwards here.
                    all[at((row * hidden + unit) * steps + time)] = state[at(row * hidden + unit)];
                }
            }
        }
        let levels = [LowerOptions::of_level(3), LowerOptions::of_level(0)];
        let threads = [Threads::Region, Threads::Single].map(|threads| LowerOptions { threads, ..levels[0] });
        for options in levels.into_iter().chain(threads) {
            let found = call(&graph, &inputs, options).unwrap();
            assert_eq!(found[1].shape(), [batch, hidden, steps]);
            close(&found[0].to_floats().unwrap(), &state);
            close(&found[1].to_floats().unwrap(), &all);
        }
    }
}

#[test]
fn memory_does_not_grow_with_rounds() {
    let lowered = |count: i64| {
        let nodes = vec![constant("n", count), with_no_rows()];
        let graph = graph_of(&model(nodes, &[("x", numbers(&[64], 1))], &["y"]), &ModelOptions::default());
        let (_, lowered) = build(&graph, "model", &Target::host(), LowerOptions::default()).unwrap();
        (lowered.arena, lowered.kernels.len())
    };
    assert_eq!(lowered(100), lowered(1_000_000_000));
}

/// Repeats `x = sin(x) + x`.
fn with_no_rows() -> Message {
    let body = body(
        vec![node("Sin", &["x_in"], &["s"]), node("Add", &["s", "x_in"], &["x_out"])],
        &["round", "holds", "x_in"],
        &["holds", "x_out"],
    );
    with_graph(node("Loop", &["n", "", "x"], &["y"]), "body", body)
}

#[test]
fn loops_in_loops() {
    // For each of 70 iterations, 80 inner iterations, which read the outer index and change the
    // outer state; and a state that is only passed through.
    let inner = body(
        vec![
            constant("modulus", 10007),
            node("Add", &["t", "outer"], &["a"]),
            node("Mul", &["a", "kept"], &["b"]),
            node("Add", &["b", "inner"], &["c"]),
            node("Mod", &["c", "modulus"], &["t_out"]),
        ],
        &["inner", "inner_holds", "t"],
        &["inner_holds", "t_out"],
    );
    let outer = body(
        vec![
            constant("m", 80),
            with_graph(node("Loop", &["m", "", "s"], &["s_out"]), "body", inner),
            node("Identity", &["kept"], &["kept_out"]),
            node("Identity", &["s_out"], &["row"]),
        ],
        &["outer", "outer_holds", "s", "kept"],
        &["outer_holds", "s_out", "kept_out", "row"],
    );
    let nodes = vec![
        constant("n", 70),
        with_graph(node("Loop", &["n", "", "first", "three"], &["last", "same", "rows"]), "body", outer),
    ];
    let inputs = [("first", ints(&[2], &[1, 2])), ("three", ints(&[2], &[3, 5]))];
    let bytes = model(nodes, &inputs, &["last", "same", "rows"]);
    let graph = graph_of(&bytes, &ModelOptions::default());
    assert!(is_native(&graph));
    let found = call(&graph, &inputs, LowerOptions::default()).unwrap();
    let mut states = [1, 2];
    let mut rows = Vec::new();
    for outer in 0..70 {
        for inner in 0..80 {
            states = [((states[0] + outer) * 3 + inner) % 10007, ((states[1] + outer) * 5 + inner) % 10007];
        }
        rows.extend(states);
    }
    assert_eq!(found[0].to_ints().unwrap(), states);
    assert_eq!(found[1].to_ints().unwrap(), [3, 5]);
    assert_eq!(found[2].to_ints().unwrap(), rows);
    // The loop is a kernel like others: it can be compared with itself, step by step.
    let values = diff::random_inputs(&graph, 3).unwrap();
    let plain = diff::plain_values(&graph, &values, &Target::host()).unwrap();
    let compared = diff::compare(&graph, &values, &plain, &Target::host(), LowerOptions::default(), 1e-6).unwrap();
    assert!(compared.compared >= 2 && compared.first.is_none(), "{compared:?}");
}

#[test]
fn few_rounds_are_written_out() {
    let nodes = |count: i64| vec![constant("n", count), with_no_rows()];
    let x = [("x", numbers(&[3], 1))];
    assert!(!is_native(&graph_of(&model(nodes(64), &x, &["y"]), &ModelOptions::default())));
    // Known values are computed at build time, up to 4096 iterations.
    let options = ModelOptions { constants: [("x".to_owned(), x[0].1.clone())].into(), ..ModelOptions::default() };
    assert!(!is_native(&graph_of(&model(nodes(200), &x, &["y"]), &options)));
    assert!(is_native(&graph_of(&model(nodes(5000), &x, &["y"]), &options)));
    // A state that grows is not supported in a loop that is compiled once.
    let grows = || {
        let body = body(
            vec![with_int(node("Concat", &["s", "x"], &["s_out"]), "axis", 0)],
            &["round", "holds", "s"],
            &["holds", "s_out"],
        );
        with_graph(node("Loop", &["n", "", "x"], &["y"]), "body", body)
    };
    let found = run(&model(vec![constant("n", 100), grows()], &x, &["y"]), &x, &ModelOptions::default());
    assert_eq!(found[0].shape(), [303]);
    let message = |nodes: Vec<Message>, inputs: &[(&str, Constant)]| {
        import(&model(nodes, inputs, &["y"]), None, &ModelOptions::default()).err().unwrap().to_string()
    };
    assert_eq!(
        message(vec![constant("n", 5000), grows()], &x),
        "node 'y' (Loop): more than 4096 rounds are not written out one by one: the state 's' is float32[3], and becomes float32[6]"
    );
    let with_n = [x[0].clone(), ("n", ints(&[], &[3]))];
    assert_eq!(
        message(vec![grows()], &with_n),
        "node 'y' (Loop): the number of rounds depends on what the model is called with: the state 's' is float32[3], and becomes float32[6]"
    );
}

#[test]
fn loops_that_are_refused() {
    let message = |nodes: Vec<Message>, inputs: &[(&str, Constant)], options: &ModelOptions| {
        import(&model(nodes, inputs, &["last"]), None, options).err().unwrap().to_string()
    };
    let plain = ModelOptions::default();
    let all = inputs(0, 0, 0);
    // More rows than memory.
    let text = message(vec![constant("n", 1 << 41), turns("n", "")], &all, &plain);
    assert!(text.ends_with("[2199023255552] has more than 2^40 elements"), "{text}");
    // Conditions and numbers of other types, and NaN.
    let mut nan = all.clone();
    nan.push(("c", floats(&[], &[f32::NAN])));
    let text = message(vec![constant("n", 100), turns("n", "c")], &nan, &plain);
    assert_eq!(text, "node 'turns' (Loop): the condition is float32[], and has to be a bool of one element");
    let text = message(vec![turns("c", "")], &nan, &plain);
    assert_eq!(text, "node 'turns' (Loop): the number of rounds is float32[], and has to be an int64 of one element");
    let mut two = all.clone();
    two.push(("c", bools(&[2], &[1, 1])));
    let text = message(vec![constant("n", 100), turns("n", "c")], &two, &plain);
    assert_eq!(text, "node 'turns' (Loop): the condition is bool[2], and has to be a bool of one element");
    // A negative number means no iteration.
    let graph = graph_of(&model(vec![constant("n", -5), turns_without_rows()], &all, &["last"]), &plain);
    let found = call(&graph, &inputs(9, 1, 2), LowerOptions::default()).unwrap();
    assert_eq!(found[0].to_ints().unwrap(), [9]);
    // It never ends.
    let body = body(vec![node("Add", &["s", "w"], &["next"])], &["round", "holds", "s"], &["holds", "next"]);
    let endless = with_graph(node("Loop", &["", "", "first"], &["last"]), "body", body);
    assert_eq!(
        message(vec![endless], &all, &plain),
        "node 'last' (Loop): more than 4096 rounds are not written out one by one: the loop has no number of rounds, and its condition always holds"
    );
    for (name, bound, expected) in [
        ("turn", 5, "the model has no loop 'turn'; it has: turns"),
        ("turns", 0, "the bound of the loop 'turns' is 0, and has to be positive"),
        ("turns", -1, "the bound of the loop 'turns' is -1, and has to be positive"),
        (
            "turns",
            1 << 41,
            "node 'turns' (Loop): the number of rounds depends on what the model is called with: [2199023255552] has more than 2^40 elements",
        ),
    ] {
        let options = ModelOptions { bounds: [(name.to_owned(), bound)].into(), ..ModelOptions::default() };
        assert_eq!(message(vec![turns("", "")], &all, &options), expected);
    }
}

/// Like `turns`, with only the state.
fn turns_without_rows() -> Message {
    let body = body(
        vec![node("Add", &["s", "w"], &["next"]), node("Less", &["next", "end"], &["goes_on"])],
        &["round", "holds", "s"],
        &["goes_on", "next"],
    );
    with_graph(node("Loop", &["n", "", "first"], &["last"]), "body", body)
}
