//! Whole models on several threads: in one region, kernel by kernel, and on one thread, with the
//! same results.

use std::time::Instant;

use kernpack::__private_v0_1::Canceller;
use kernpack::{Any, Device, Module, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::U8;
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};
use kernpack_graph::lower::state_bytes;
use kernpack_graph::{Graph, LowerOptions, Lowered, ModelOptions, Threads, import, lower};

use super::{Message, model, node, value, weights};

const ROWS: i64 = 24;
const COLUMNS: i64 = 40;

/// Seeded numbers between -1 and 1.
fn numbers(seed: u64, count: i64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Products, a softmax, reductions, a sum over both branches, a value that is read twice, and a
/// second output.
fn network() -> Graph {
    let matrix = numbers(1, COLUMNS * COLUMNS);
    let around = Message::default().text(1, "axis").int(3, 1).int(20, 2);
    let graph = Message::default()
        .message(1, node("MatMul", &["x", "w"], &["a"]))
        .message(1, node("Softmax", &["a"], &["b"]).message(5, around))
        .message(1, node("MatMul", &["b", "w"], &["c"]))
        .message(1, node("Add", &["c", "a"], &["d"]))
        .message(1, node("Transpose", &["d"], &["e"]))
        .message(1, node("MatMul", &["e", "d"], &["f"]))
        .message(1, node("ReduceMean", &["f"], &["mean"]))
        .message(1, node("Sub", &["f", "mean"], &["g"]))
        .message(1, node("Relu", &["g"], &["y"]))
        .message(1, node("ReduceSum", &["d"], &["total"]))
        .text(2, "network")
        .message(5, weights("w", &[COLUMNS, COLUMNS], &matrix))
        .message(11, value("x", &[ROWS, COLUMNS]))
        .message(12, value("y", &[COLUMNS, COLUMNS]))
        .message(12, value("total", &[1, 1]));
    import(&model(graph), None, &ModelOptions::default()).unwrap().graph
}

pub(super) fn compile(graph: &Graph, threads: Threads, work: i64, fuse: bool) -> (Module, Lowered) {
    let target = Target::host();
    // Even small loops are split.
    let description = TargetDescription { parallel_work: work, ..TargetDescription::of(&target) };
    let context = PassContext::new(PassOptions::default());
    let options = LowerOptions { threads, fuse, ..LowerOptions::default() };
    let lowered = lower(graph, "network", &description, &context, options).unwrap();
    (kernpack_compiler::build(&lowered.module, &target).unwrap(), lowered)
}

fn outputs() -> (Tensor, Tensor) {
    (Tensor::zeros::<f32>(&[COLUMNS, COLUMNS]).unwrap(), Tensor::zeros::<f32>(&[1, 1]).unwrap())
}

fn results(outputs: &(Tensor, Tensor)) -> Vec<f32> {
    let mut all = outputs.0.view::<f32>().unwrap().to_vec();
    all.extend(outputs.1.view::<f32>().unwrap().to_vec());
    all
}

fn input(seed: u64) -> Tensor {
    Tensor::from_slice(&numbers(seed, ROWS * COLUMNS), &[ROWS, COLUMNS]).unwrap()
}

fn run(module: &Module, seed: u64) -> Vec<f32> {
    let outputs = outputs();
    module.function("network").unwrap().call((&input(seed), &outputs.0, &outputs.1)).unwrap();
    results(&outputs)
}

fn assert_close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= 1e-4 + 1e-4 * expected.abs(), "element {place}: {got} instead of {expected}");
    }
}

#[test]
fn threads_do_not_change_results() {
    let graph = network();
    let (single, lowered) = compile(&graph, Threads::Single, 1, true);
    assert!(!lowered.is_region && lowered.kernels.iter().all(|kernel| !kernel.is_parallel));
    let expected: Vec<Vec<f32>> = (5..8).map(|seed| run(&single, seed)).collect();
    // Everything is split, and then only work above a threshold.
    for (work, fuse) in [(1, true), (1, false), (1500, true), (1500, false)] {
        for threads in [Threads::Region, Threads::Kernels] {
            let (module, lowered) = compile(&graph, threads, work, fuse);
            let parallel = lowered.kernels.iter().filter(|kernel| kernel.is_parallel).count();
            assert!(parallel > 0 && (work == 1 || parallel < lowered.kernels.len()), "{:?}", lowered.kernels);
            assert_eq!(lowered.is_region, threads == Threads::Region);
            for _ in 0..8 {
                for (seed, expected) in (5..8).zip(&expected) {
                    assert_close(&run(&module, seed), expected);
                }
            }
        }
    }
}

#[test]
fn convolutions() {
    let kernel_of = |seed, outputs: i64, inputs: i64| numbers(seed, outputs * inputs * 9);
    let around = || {
        let pads = Message::default().text(1, "pads").int(20, 7);
        (0..4).fold(pads, |attribute, _| attribute.int(8, 1))
    };
    let graph = Message::default()
        .message(1, node("Conv", &["x", "u"], &["a"]).message(5, around()))
        .message(1, node("Relu", &["a"], &["b"]))
        .message(1, node("Conv", &["b", "v"], &["c"]).message(5, around()))
        .message(1, node("Add", &["c", "b"], &["y"]))
        .text(2, "network")
        .message(5, weights("u", &[48, 16, 3, 3], &kernel_of(1, 48, 16)))
        .message(5, weights("v", &[48, 48, 3, 3], &kernel_of(2, 48, 48)))
        .message(11, value("x", &[1, 16, 30, 30]))
        .message(12, value("y", &[1, 48, 30, 30]));
    let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
    let run = |threads| {
        let (module, lowered) = compile(&graph, threads, 1, true);
        assert_eq!(lowered.is_region, threads == Threads::Region);
        let x = Tensor::from_slice(&numbers(9, 16 * 900), &[1, 16, 30, 30]).unwrap();
        let y = Tensor::zeros::<f32>(&[1, 48, 30, 30]).unwrap();
        for _ in 0..5 {
            module.function("network").unwrap().call((&x, &y)).unwrap();
        }
        y.view::<f32>().unwrap().to_vec()
    };
    let expected = run(Threads::Single);
    assert_close(&run(Threads::Region), &expected);
    assert_close(&run(Threads::Kernels), &expected);
}

#[test]
fn calls_of_many_threads_at_once() {
    let graph = network();
    let (module, lowered) = compile(&graph, Threads::Region, 1, true);
    let expected: Vec<Vec<f32>> = (0..6).map(|seed| run(&module, seed + 1)).collect();
    let steps = i64::try_from(lowered.kernels.len()).unwrap();
    let bytes = i64::try_from(state_bytes(lowered.arena)).unwrap();
    std::thread::scope(|scope| {
        for (seed, expected) in (1..).zip(&expected) {
            let module = &module;
            scope.spawn(move || {
                // Separate temporary memory, and that of the thread.
                let state = Tensor::empty(U8, &[bytes], Device::CPU).unwrap();
                let function = module.function("network_steps").unwrap();
                for _ in 0..20 {
                    let outputs = outputs();
                    function.call((&state, 0, steps, &input(seed), &outputs.0, &outputs.1)).unwrap();
                    assert_close(&results(&outputs), expected);
                    assert_close(&run(module, seed), expected);
                }
            });
        }
    });
}

#[test]
fn a_run_is_cancelled_between_kernels() {
    const SIZE: i64 = 512;
    const PRODUCTS: usize = 200;
    let name = |number: usize| if number == PRODUCTS { "y".to_owned() } else { format!("x{number}") };
    let mut graph = Message::default().text(2, "network");
    for number in 0..PRODUCTS {
        graph = graph.message(1, node("MatMul", &[&name(number), "w"], &[&name(number + 1)]));
    }
    let graph = graph
        .message(5, weights("w", &[SIZE, SIZE], &vec![0.001; (SIZE * SIZE) as usize]))
        .message(11, value("x0", &[SIZE, SIZE]))
        .message(12, value("y", &[SIZE, SIZE]));
    let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
    let (module, lowered) = compile(&graph, Threads::Single, 1, true);
    let steps = i64::try_from(lowered.kernels.len()).unwrap();
    let state = Tensor::zeros::<u8>(&[i64::try_from(state_bytes(lowered.arena)).unwrap()]).unwrap();
    let canceller = Canceller::new(&state);
    let (x, y) = (Tensor::zeros::<f32>(&[SIZE, SIZE]).unwrap(), Tensor::zeros::<f32>(&[SIZE, SIZE]).unwrap());
    let function = module.function("network_steps").unwrap();
    // A run before: its time is known, and the run below has begun long before it would end.
    let begin = Instant::now();
    function.call((&state, 0, steps, &x, &y)).unwrap();
    let whole = begin.elapsed();
    let other = canceller.clone();
    let cancelling = std::thread::spawn(move || {
        std::thread::sleep(whole / 4);
        other.cancel();
    });
    let error = function.call((&state, 0, steps, &x, &y)).unwrap_err();
    cancelling.join().unwrap();
    assert_eq!((error.kind(), error.message()), ("CancelledError", "network: the run was cancelled"));
    // Until the state hears of it, also the next one, and none of other states.
    assert_eq!(function.call((&state, 0, 1, &x, &y)).unwrap_err().kind(), "CancelledError");
    module.function("network").unwrap().call((&x, &y)).unwrap();
    assert_eq!(canceller.ended(error).kind(), "CancelledError");
    function.call((&state, 0, 1, &x, &y)).unwrap();
}

#[test]
fn step_by_step() {
    let graph = network();
    let (module, lowered) = compile(&graph, Threads::Region, 1, true);
    let expected = run(&module, 3);
    let steps = i64::try_from(lowered.kernels.len()).unwrap();
    let needed = i64::try_from(state_bytes(lowered.arena)).unwrap();
    let function = module.function("network_steps").unwrap();
    // At any address.
    for offset in [0, 1, 8, 63] {
        let block = Tensor::empty(U8, &[needed + offset], Device::CPU).unwrap();
        let state = block.view_as(&[needed], U8, u64::try_from(offset).unwrap()).unwrap();
        let outputs = outputs();
        for step in 0..steps {
            function.call((&state, step, step + 1, &input(3), &outputs.0, &outputs.1)).unwrap();
        }
        assert_close(&results(&outputs), &expected);
    }
    let outputs = outputs();
    let call = |bytes: i64, first: i64, end: i64| {
        let state = Tensor::empty(U8, &[bytes], Device::CPU).unwrap();
        let arguments: [Any; 6] = [
            state.into(),
            first.into(),
            end.into(),
            input(3).into(),
            outputs.0.clone().into(),
            outputs.1.clone().into(),
        ];
        function.call(&arguments[..]).map(drop).map_err(|error| error.to_string())
    };
    let small = call(needed - 1, 0, steps).unwrap_err();
    assert_eq!(small, format!("ValueError: network_steps: the state has fewer than {needed} bytes"));
    for (first, end) in [(-1, 1), (0, steps + 1), (2, 1)] {
        let text =
            format!("ValueError: network_steps: expected 0 <= first <= end <= {steps}, which is the number of steps");
        assert_eq!(call(needed, first, end).unwrap_err(), text);
    }
    assert_eq!(call(needed, 1, 1), Ok(()));
}

#[test]
fn a_description_for_tools() {
    let graph = network();
    let (_, lowered) = compile(&graph, Threads::Region, 1, true);
    let text = lowered.describe(&graph, "network");
    let start = format!(
        "{{\"schema\":1,\"name\":\"network\",\"graph\":\"network\",\"inputs\":[{{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[{ROWS}, {COLUMNS}]}}]"
    );
    assert!(text.starts_with(&start), "{text}");
    assert!(text.contains(&format!("\"arena\":{},\"state\":{}", lowered.arena, state_bytes(lowered.arena))), "{text}");
    // Two operations for each element and each iteration of the first product, and no operation is
    // left out.
    let product =
        lowered.kernels.iter().find(|kernel| kernel.operators.iter().any(|operator| operator == "MatMul")).unwrap();
    let least = u64::try_from(2 * ROWS * COLUMNS * COLUMNS).unwrap();
    assert!(product.operations >= least && product.operations < 4 * least, "{product:?}");
    // Values with overlapping lifetimes do not overlap in memory.
    let lives: Vec<_> = lowered.values.iter().filter_map(|value| Some((value, value.life?))).collect();
    assert!(lives.len() >= 3, "{:?}", lowered.values);
}

/// Recurrent networks with many weights, in blocks with a remainder, for sequences of several
/// lengths.
#[test]
fn recurrent_networks() {
    let (steps, width) = (5, 3);
    for (kind, gates, hidden) in [("RNN", 1, 372), ("GRU", 3, 372), ("LSTM", 4, 200)] {
        let scaled = |seed, count| numbers(seed, count).into_iter().map(|value| value * 0.1).collect::<Vec<_>>();
        let size = Message::default().text(1, "hidden_size").int(3, hidden).int(20, 2);
        let both = [steps, 1, 2, hidden];
        let bytes: Vec<u8> = [5_i32, 4].iter().flat_map(|length| length.to_le_bytes()).collect();
        let lengths = Message::default().int(1, 2).int(2, 6).text(8, "lengths").bytes(9, &bytes);
        let graph = Message::default()
            .message(1, node(kind, &["x", "w", "r", "b", "lengths"], &["all", "last"]).message(5, size))
            .message(1, node("Add", &["all", "last"], &["y"]))
            .text(2, "network")
            .message(5, weights("w", &[1, gates * hidden, width], &numbers(1, gates * hidden * width)))
            .message(5, weights("r", &[1, gates * hidden, hidden], &scaled(2, gates * hidden * hidden)))
            .message(5, weights("b", &[1, 2 * gates * hidden], &numbers(3, 2 * gates * hidden)))
            .message(5, lengths)
            .message(11, value("x", &[steps, 2, width]))
            .message(12, value("y", &both));
        let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
        let run = |threads| {
            let (module, lowered) = compile(&graph, threads, 1 << 40, true);
            assert_eq!(lowered.is_region, threads == Threads::Region);
            let is_shared = lowered.kernels.iter().any(|kernel| kernel.operators[0] == kind && kernel.is_parallel);
            assert_eq!(is_shared, threads != Threads::Single, "{kind}");
            let x = Tensor::from_slice(&numbers(9, steps * 2 * width), &[steps, 2, width]).unwrap();
            let y = Tensor::zeros::<f32>(&both).unwrap();
            for _ in 0..5 {
                module.function("network").unwrap().call((&x, &y)).unwrap();
            }
            y.view::<f32>().unwrap().to_vec()
        };
        let expected = run(Threads::Single);
        assert!(expected.iter().any(|value| value.abs() > 0.1));
        assert_close(&run(Threads::Region), &expected);
        assert_close(&run(Threads::Kernels), &expected);
    }
}
