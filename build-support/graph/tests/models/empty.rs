//! Recurrent networks without steps, and without sequences: the states are unchanged.

use kernpack_graph::{LowerOptions, ModelOptions, import};

use super::node;
use super::structures::{call, floats, model, run, with_int, with_text};

#[test]
fn recurrent_networks_of_nothing() {
    let hidden = 2;
    for (name, gates, outputs) in [("RNN", 1, &["y", "h"][..]), ("GRU", 3, &["y", "h"]), ("LSTM", 4, &["y", "h", "c"])]
    {
        for (steps, batch) in [(0, 3), (3, 0)] {
            for (layout, directions, has_state) in [(0, 1, false), (1, 2, true)] {
                let by_layout = |first: i64, second: i64, others: &[i64]| {
                    let pair = if layout == 0 { [first, second] } else { [second, first] };
                    [&pair[..], others].concat()
                };
                let states = by_layout(directions, batch, &[hidden]);
                let count = states.iter().product::<i64>();
                let state: Vec<f32> = (0..count).map(|place| place as f32 + 0.5).collect();
                let zeros = |shape: &[i64]| floats(shape, &vec![0.25; shape.iter().product::<i64>() as usize]);
                let mut inputs = vec![
                    ("x", zeros(&by_layout(steps, batch, &[2]))),
                    ("w", zeros(&[directions, gates * hidden, 2])),
                    ("r", zeros(&[directions, gates * hidden, hidden])),
                    ("b", zeros(&[directions, 2 * gates * hidden])),
                ];
                let mut read = vec!["x", "w", "r", "b"];
                if has_state {
                    inputs.push(("h0", floats(&states, &state)));
                    read.extend(["", "h0"]);
                    if name == "LSTM" {
                        inputs.push(("c0", floats(&states, &state)));
                        read.push("c0");
                    }
                }
                let direction = if directions == 2 { "bidirectional" } else { "reverse" };
                let network = with_int(node(name, &read, outputs), "layout", layout);
                let network = with_text(with_int(network, "hidden_size", hidden), "direction", direction);
                let bytes = model(vec![network], &inputs, outputs);
                let graph = import(&bytes, None, &ModelOptions::default()).unwrap().graph;
                let mut known = ModelOptions::default();
                known.constants.extend(inputs.iter().map(|(name, constant)| ((*name).to_owned(), constant.clone())));
                let mut ways = vec![call(&graph, &inputs, LowerOptions::default()).unwrap()];
                if has_state && steps == 0 {
                    ways.push(run(&bytes, &inputs, &known));
                }
                for results in ways {
                    let all = if layout == 0 {
                        [steps, directions, batch, hidden]
                    } else {
                        [batch, steps, directions, hidden]
                    };
                    assert_eq!(results[0].shape(), all, "{name} {steps} {batch} {layout}");
                    for last in &results[1..] {
                        assert_eq!(last.shape(), states, "{name} {steps} {batch} {layout}");
                        let found = last.to_floats().unwrap();
                        let expected: Vec<f64> =
                            state.iter().map(|value| if has_state { f64::from(*value) } else { 0.0 }).collect();
                        assert_eq!(found, expected, "{name} {steps} {batch} {layout} {directions}");
                    }
                }
            }
        }
    }
}
