//! Finds the first node of a model whose result differs.

use kernpack_compiler::codegen::Target;
use kernpack_graph::diff::{Values, compare, plain_values, random_inputs};
use kernpack_graph::{Constant, Graph, LowerOptions, ModelOptions, import};

use super::{Message, model, node, value, weights};

fn network(options: &ModelOptions) -> Graph {
    let matrix = |seed: u8| -> Vec<f32> {
        (0..64_u16).map(|place| f32::from((place * 7 + u16::from(seed)) % 11) / 10.0 - 0.5).collect()
    };
    let graph = Message::default()
        .message(1, node("MatMul", &["x", "u"], &["a"]).text(3, "first"))
        .message(1, node("Relu", &["a"], &["b"]).text(3, "bend"))
        .message(1, node("MatMul", &["b", "v"], &["c"]).text(3, "second"))
        .message(1, node("Tanh", &["c"], &["d"]).text(3, "limit"))
        .message(1, node("MatMul", &["d", "w"], &["y"]).text(3, "third"))
        .text(2, "g")
        .message(5, weights("u", &[8, 8], &matrix(1)))
        .message(5, weights("v", &[8, 8], &matrix(2)))
        .message(5, weights("w", &[8, 8], &matrix(3)))
        .message(11, value("x", &[4, 8]))
        .message(12, value("y", &[4, 8]));
    import(&model(graph), None, options).unwrap().graph
}

#[test]
fn the_first_node_that_differs() {
    let plain = network(&ModelOptions { plain: true, ..ModelOptions::default() });
    let inputs = random_inputs(&plain, 1).unwrap();
    assert_eq!(inputs, random_inputs(&plain, 1).unwrap());
    assert_ne!(inputs, random_inputs(&plain, 2).unwrap());
    let target = Target::host();
    let expected = plain_values(&plain, &inputs, &target).unwrap();
    let names: Vec<&str> = expected.keys().map(String::as_str).collect();
    assert_eq!(names, ["a", "b", "c", "d", "y"]);
    for level in 1..=3 {
        let graph = network(&ModelOptions { plain: level < 3, ..ModelOptions::default() });
        let found = compare(&graph, &inputs, &expected, &target, LowerOptions::of_level(level), 1e-5).unwrap();
        assert_eq!(found.first, None);
        assert_eq!(found.compared, if level == 1 { 5 } else { 3 });
        assert!(found.largest.is_none_or(|largest| largest.relative < 1e-5));
    }
    // A matrix with another number at one place: values before it are the same, and all later ones
    // are not.
    let mut graph = network(&ModelOptions::default());
    let matrix = graph.values.iter_mut().find(|value| value.name == "v").unwrap();
    let mut numbers: Vec<f32> =
        matrix.known.as_ref().unwrap().to_floats().unwrap().iter().map(|number| *number as f32).collect();
    numbers[8 * 3 + 5] += 2.0;
    matrix.known = Some(Constant::of_floats(&numbers).reshaped(&[8, 8]).unwrap());
    let found = compare(&graph, &inputs, &expected, &target, LowerOptions::default(), 1e-5).unwrap();
    let first = found.first.unwrap();
    assert_eq!((first.value.as_str(), first.kernel.0), ("d", 1));
    assert_eq!(first.kernel.1, "node 'second' (MatMul) + node 'limit' (Tanh)");
    assert_eq!(first.position[1], 5);
    assert!((first.got - first.expected).abs() > 1e-3 && first.relative > 1e-3, "{first:?}");
    let found = compare(&graph, &inputs, &expected, &target, LowerOptions::of_level(1), 1e-5).unwrap();
    assert_eq!(found.first.unwrap().kernel.1, "node 'second' (MatMul)");
    // Values from another source.
    let mut reference = Values::new();
    reference.insert("b".to_owned(), expected["b"].clone());
    reference.insert("y".to_owned(), Constant::of_floats(&[f32::NAN; 32]).reshaped(&[4, 8]).unwrap());
    let found = compare(&plain, &inputs, &reference, &target, LowerOptions::of_level(0), 1e-5).unwrap();
    assert_eq!((found.compared, found.first.unwrap().value.as_str()), (2, "y"));
}

#[test]
fn values_that_do_not_fit() {
    let graph = network(&ModelOptions::default());
    let target = Target::host();
    let error = |inputs: &Values, expected: &Values| {
        compare(&graph, inputs, expected, &target, LowerOptions::default(), 1e-5).unwrap_err().to_string()
    };
    let none = Values::new();
    assert_eq!(error(&none, &none), "there is no value for the input 'x'");
    let wrong: Values = [("x".to_owned(), Constant::of_floats(&[0.0; 4]))].into_iter().collect();
    assert_eq!(error(&wrong, &none), "the value for the input 'x' is float32[4], and the model takes float32[4, 8]");
    let inputs = random_inputs(&graph, 1).unwrap();
    let wrong: Values = [("y".to_owned(), Constant::of_floats(&[0.0; 4]))].into_iter().collect();
    assert_eq!(
        error(&inputs, &wrong),
        "node 'third' (MatMul): the value 'y' is float32[4, 8], and float32[4] is expected"
    );
}
