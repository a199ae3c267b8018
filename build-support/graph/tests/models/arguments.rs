//! Models with as many arguments as decoders with a cache.

use kernpack::{Any, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::FuncKind;
use kernpack_compiler::ir::visit::{for_each_expr_in, for_each_stmt};
use kernpack_compiler::pass::make_packed_api::make_packed_api;
use kernpack_compiler::{PassContext, PassOptions, TargetDescription};
use kernpack_graph::{Constant, LowerOptions, ModelOptions, build, import, lower};

use super::node;
use super::structures::{floats, model, tensor_of};

/// The number of tensors of the past, each with one of the present.
const PAIRS: usize = 100;

/// `present = past + 1` for each of some pairs.
fn cache(pairs: usize) -> (Vec<u8>, Vec<(String, Constant)>) {
    let names: Vec<(String, String)> =
        (0..pairs).map(|pair| (format!("past{pair}"), format!("present{pair}"))).collect();
    let nodes = names.iter().map(|(past, present)| node("Add", &[past, "one"], &[present])).collect();
    let mut inputs: Vec<(String, Constant)> =
        names.iter().enumerate().map(|(pair, (past, _))| (past.clone(), floats(&[1, 2, 3], &given(pair)))).collect();
    inputs.push(("one".to_owned(), floats(&[], &[1.0])));
    let declared: Vec<(&str, Constant)> = inputs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let outputs: Vec<&str> = names.iter().map(|(_, present)| present.as_str()).collect();
    (model(nodes, &declared, &outputs), inputs)
}

fn given(pair: usize) -> Vec<f32> {
    (0..6).map(|place| (place + pair) as f32).collect()
}

#[test]
fn two_hundred_arguments() {
    let (bytes, inputs) = cache(PAIRS);
    let graph = import(&bytes, None, &ModelOptions::default()).unwrap().graph;
    let (module, _) = build(&graph, "cache", &Target::host(), LowerOptions::default()).unwrap();
    let mut tensors: Vec<Tensor> = inputs.iter().map(|(_, value)| tensor_of(value)).collect();
    tensors.extend((0..PAIRS).map(|_| Tensor::zeros::<f32>(&[1, 2, 3]).unwrap()));
    let function = module.function("cache").unwrap();
    let run = |tensors: &[Tensor]| {
        let packed: Vec<Any> = tensors.iter().map(|tensor| tensor.clone().into()).collect();
        function.call(&packed[..]).map(drop)
    };
    run(&tensors).unwrap();
    for (pair, present) in tensors[PAIRS + 1..].iter().enumerate() {
        let expected: Vec<f32> = given(pair).iter().map(|value| value + 1.0).collect();
        assert_eq!(present.view::<f32>().unwrap().to_vec(), expected);
    }
    // Each kind of error, at arguments in the middle.
    let mistakes: [(usize, Tensor, &str); 5] = [
        (57, Tensor::zeros::<f32>(&[1, 2, 4]).unwrap(), "Invalid past57.shape[2] on argument #57"),
        (57, Tensor::zeros::<f32>(&[2, 3]).unwrap(), "Mismatched past57.ndim on argument #57"),
        (57, Tensor::zeros::<i32>(&[1, 2, 3]).unwrap(), "Mismatched past57.dtype on argument #57"),
        (130, tensors[12].clone(), "present29 overlaps another argument on argument #130"),
        (130, tensors[131].clone(), " overlaps another argument on argument #13"),
    ];
    for (at, wrong, expected) in mistakes {
        let mut given = tensors.clone();
        given[at] = wrong;
        let error = run(&given).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(" when calling:\n  `cache(past0: Tensor([1, 2, 3], float32), "), "{error}");
        assert!(error.contains("`,\n  expected "), "{error}");
    }
    run(&tensors).unwrap();
}

/// Returns the number of statements and expressions of the public functions, and the number of
/// lines of assembly.
fn size_of_code(pairs: usize) -> [(&'static str, usize); 3] {
    let (bytes, _) = cache(pairs);
    let graph = import(&bytes, None, &ModelOptions::default()).unwrap().graph;
    let target = Target::host();
    let context = PassContext::new(PassOptions::default());
    let lowered = lower(&graph, "cache", &TargetDescription::of(&target), &context, LowerOptions::default()).unwrap();
    let [mut statements, mut expressions] = [0; 2];
    for function in lowered.module.functions.iter().filter(|function| function.kind == FuncKind::Mixed) {
        let entry = make_packed_api(&function, &context).unwrap();
        for_each_expr_in(&entry.body, |_| expressions += 1);
        for_each_stmt(&entry.body, |_| statements += 1);
    }
    let module = kernpack_compiler::build(&lowered.module, &target).unwrap();
    let object = module.inspect_source("s").unwrap().lines().count();
    [("statements", statements), ("expressions", expressions), ("lines of assembly", object)]
}

/// Checks without a clock that many arguments do not take long to compile. Code for each pair of an
/// output and another argument took three minutes for 200 arguments; its size is quadratic.
#[test]
fn the_code_of_an_entry_grows_as_its_arguments_do() {
    let sizes = [25, 50, 100, 200].map(size_of_code);
    for pair in sizes.windows(2) {
        for ((what, fewer), (_, more)) in pair[0].iter().zip(&pair[1]) {
            assert!(*more * 10 <= *fewer * 21, "twice the arguments: {fewer} became {more} {what}");
        }
    }
}
