//! Operators that ONNX does not have.

use kernpack::{Any, Array, Bytes, Function, Map, Str, Tensor};
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir;
use kernpack_graph::op::{CustomOperator, Pattern, element_tensor};
use kernpack_graph::{LowerOptions, ModelOptions, build, import};

use super::{Message, node, value, weights};

/// `Power` of the domain `com.example`, with the attribute `n`.
fn power(inputs: &[&str], outputs: &[&str], n: i64) -> Message {
    let attribute = Message::default().text(1, "n").int(3, n).int(20, 2);
    node("Power", inputs, outputs).text(3, outputs[0]).text(7, "com.example").message(5, attribute)
}

/// `relu(power(x + b))`, and a power of weights.
fn with_powers() -> Vec<u8> {
    let graph = Message::default()
        .message(1, node("Add", &["x", "b"], &["sum"]))
        .message(1, power(&["sum"], &["cube"], 3))
        .message(1, power(&["w"], &["square"], 2))
        .message(1, node("Add", &["cube", "square"], &["both"]))
        .message(1, node("Relu", &["both"], &["y"]))
        .message(5, weights("b", &[3], &[1., 0., -1.]))
        .message(5, weights("w", &[3], &[1., -2., 3.]))
        .message(11, value("x", &[2, 3]))
        .message(12, value("y", &[2, 3]));
    let opset = |domain: &str, version: i64| Message::default().text(1, domain).int(2, version);
    Message::default().int(1, 8).message(7, graph).message(8, opset("", 17)).message(8, opset("com.example", 1)).0
}

/// `x` to the power of `n`, which is 1 or more.
fn operator() -> CustomOperator {
    CustomOperator::new("com.example", "Power", |call| {
        let (x, n) = (call.input(0)?, call.attrs.needed_int("n")?);
        Ok(vec![element_tensor(&x.shape, |position| {
            (1..n).fold(x.at(position), |product, _| product * x.at(position))
        })])
    })
}

fn options(operators: Vec<CustomOperator>) -> ModelOptions {
    ModelOptions { operators, ..ModelOptions::default() }
}

#[test]
fn an_operator_of_the_users_is_computed_and_shares_kernels() {
    for (pattern, expected) in [
        (Pattern::Opaque, &["Add", "com.example.Power", "Add Relu"][..]),
        (Pattern::Elementwise, &["Add com.example.Power Add Relu"]),
    ] {
        let imported = import(&with_powers(), None, &options(vec![operator().pattern(pattern)])).unwrap();
        // The one of the weights is computed at compile time.
        let (module, lowered) = build(&imported.graph, "powers", &Target::host(), LowerOptions::default()).unwrap();
        let kernels: Vec<_> = lowered.kernels.iter().map(|kernel| kernel.operators.join(" ")).collect();
        assert_eq!(kernels, expected);
        let x = Tensor::from_slice(&[1f32, 2., 3., -1., -2., -3.], &[2, 3]).unwrap();
        let y = Tensor::from_slice(&[0f32; 6], &[2, 3]).unwrap();
        module.function("powers").unwrap().call((&x, &y)).unwrap();
        assert_eq!(y.view::<f32>().unwrap().to_vec(), [9., 12., 17., 1., 0., 0.]);
    }
}

#[test]
fn mistakes_of_operators_name_the_node() {
    let fails = |message: &'static str| {
        let message = message.to_owned();
        CustomOperator::new("com.example", "Power", move |_| Err(kernpack_graph::GraphError::new(message.clone())))
    };
    let of_integers = CustomOperator::new("com.example", "Power", |call| {
        let x = call.input(0)?;
        Ok(vec![element_tensor(&x.shape, |position| x.at(position) + x.at(position).cast(ir::I32))])
    });
    let relu = CustomOperator::new("", "Relu", |_| Ok(Vec::new()));
    let nothing = CustomOperator::new("com.example", "Power", |_| Ok(Vec::new()));
    for (operators, expected) in [
        (
            vec![],
            "operator com.example.Power is not supported, 2 nodes use it ('cube', 'square'): say what it computes, \
             `.operator(CustomOperator::new(\"com.example\", \"Power\", |call| ..))`",
        ),
        (vec![operator(), relu], "operator Relu is one of the compiler's, and is not replaced"),
        (vec![fails("no")], "node 'cube' (com.example.Power): no"),
        (vec![of_integers], "node 'cube' (com.example.Power): "),
        (vec![nothing], "node 'cube' (com.example.Power): output 0 is not supported"),
    ] {
        let error = import(&with_powers(), None, &options(operators)).err().expect(expected).to_string();
        assert!(error.starts_with(expected) && error.matches("node 'cube'").count() <= 1, "{error}");
    }
}

/// As called from Python.
#[test]
fn an_operator_of_another_language() {
    let from_onnx = Function::global("kernpack.graph.from_onnx").unwrap();
    let read = |operators: Map<Str, Any>| {
        let options: Map<Str, Any> = [(Str::from("operators"), Any::from(operators))].into_iter().collect();
        from_onnx.call_as::<kernpack::ObjRef<kernpack_graph::Model>>((Bytes::from(with_powers()), options))
    };
    let power = Function::from_fn(|attrs: Map<Str, Any>, inputs: Array<Any>| -> kernpack::Result<ir::Tensor> {
        let n: i64 = attrs.get(&Str::from("n")).unwrap().to()?;
        let x: ir::Tensor = inputs.get(0).unwrap().to()?;
        let shape: Vec<i64> = x.shape.iter().map(|extent| extent.as_int().unwrap()).collect();
        Ok(element_tensor(&shape, |position| (1..n).fold(x.at(position), |product, _| product * x.at(position))))
    });
    let elementwise: Array<Any> = [Any::from(power.clone()), Any::from(Str::from("elementwise"))].into_iter().collect();
    for (operator, kernels) in [(Any::from(power.clone()), 3), (Any::from(elementwise), 1)] {
        let model = read([(Str::from("com.example.Power"), operator)].into_iter().collect()).unwrap();
        assert_eq!(model.graph().groups(true).len(), kernels);
    }
    let fast: Array<Any> = [Any::from(power), Any::from(Str::from("fast"))].into_iter().collect();
    let broken = Function::from_fn(|_: Map<Str, Any>, _: Array<Any>| -> kernpack::Result<ir::Tensor> {
        Err(kernpack::error!(ValueError, "no"))
    });
    for (operator, expected) in [
        (None, "2 nodes use it ('cube', 'square'): say what it computes, `operators={\"com.example.Power\": compute}`"),
        (Some(Any::from(fast)), "unknown pattern `fast`: the patterns are elementwise, injective,"),
        (Some(Any::from(broken)), "node 'cube' (com.example.Power): no"),
    ] {
        let operators = operator.map(|operator| (Str::from("com.example.Power"), operator)).into_iter().collect();
        let error = read(operators).err().expect(expected);
        assert!(error.message().contains(expected), "{}", error.message());
    }
}
