//! Models whose dimensions have ranges of extents: one build gives the same results for all extents
//! as a build for each of them.

use kernpack::Tensor;
use kernpack_compiler::codegen::Target;
use kernpack_graph::{Graph, LowerOptions, ModelOptions, Threads, build, import};

use super::parts::{call, filled, graph, inputs, ints, model, scalar};
use super::structures::{with_int, with_ints};
use super::{Message, node, weights};

type Range<'a> = (&'a str, i64, i64);

fn ranged(ranges: &[Range<'_>]) -> ModelOptions {
    let ranges = ranges.iter().map(|(name, least, most)| ((*name).to_owned(), *least, *most));
    ModelOptions { ranges: ranges.collect(), ..ModelOptions::default() }
}

fn fixed(ranges: &[Range<'_>], extents: &[i64]) -> ModelOptions {
    let dims = ranges.iter().zip(extents).map(|((name, ..), extent)| ((*name).to_owned(), *extent));
    ModelOptions { dims: dims.collect(), ..ModelOptions::default() }
}

/// The shapes of inputs and outputs.
fn shapes(graph: &Graph) -> (Vec<Vec<i64>>, Vec<Vec<i64>>) {
    let of = |id: usize| graph.values[id].shape.clone();
    (graph.inputs.iter().map(|id| of(*id)).collect(), graph.outputs.iter().map(|(_, id)| of(*id)).collect())
}

/// Checks that one build gives the results of a build for each of the extents, bit for bit.
fn check(what: &str, bytes: &[u8], ranges: &[Range<'_>], extents: &[&[i64]]) {
    check_within(what, bytes, ranges, extents, 0.0);
}

/// Like [`check`], with a relative difference that is allowed.
fn check_within(what: &str, bytes: &[u8], ranges: &[Range<'_>], extents: &[&[i64]], allowed: f32) {
    let any = import(bytes, None, &ranged(ranges)).unwrap_or_else(|error| panic!("{what}: {error}")).graph;
    let options = LowerOptions::default();
    let (module, lowered) =
        build(&any, "model", &Target::host(), options).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!lowered.is_region);
    for extents in extents {
        let one = graph(bytes, &fixed(ranges, extents));
        let (given_shapes, result_shapes) = shapes(&one);
        assert_eq!(any.output_shapes(&given_shapes).unwrap(), result_shapes, "{what} {extents:?}");
        let given = inputs(&one);
        let found = call(&module, &given, &result_shapes).unwrap_or_else(|error| panic!("{what} {extents:?}: {error}"));
        let (alone, _) = build(&one, "model", &Target::host(), options).unwrap();
        let expected = call(&alone, &given, &result_shapes).unwrap();
        for (number, (found, expected)) in found.iter().flatten().zip(expected.iter().flatten()).enumerate() {
            let is_same = found.to_bits() == expected.to_bits()
                || (found - expected).abs() <= allowed * expected.abs().max(1.0);
            assert!(is_same, "{what} {extents:?}: element {number} is {found}, expected {expected}");
        }
    }
}

const DIMS: [Range<'_>; 2] = [("batch", 1, 16), ("words", 1, 40)];
const EXTENTS: [&[i64]; 8] = [&[1, 1], &[1, 40], &[16, 1], &[2, 3], &[3, 2], &[7, 33], &[16, 40], &[5, 8]];

fn elementwise() -> Vec<u8> {
    let nodes = vec![
        node("Add", &["x", "b"], &["xb"]),
        node("Relu", &["xb"], &["r"]),
        node("Mul", &["r", "z"], &["y"]),
    ];
    model(nodes, vec![filled("b", &[4])], &[("x", &["batch", "words", "4"]), ("z", &["batch", "1", "4"])], &["y"])
}

#[test]
fn an_elementwise_model_of_two_dimensions() {
    check("elementwise", &elementwise(), &DIMS, &EXTENTS);
}
