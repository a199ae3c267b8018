//! Shapes and types, forwards and backwards.

use kernpack::{Array, DataType, Map, Shape, Str};
use kernpack_nnvm::symbol::{self, GraphRef, IndexedGraph};

use crate::support::{Attrs, graph, named, op, var};

fn inferred(graph: &GraphRef, given: &[(&str, &[i64])]) -> Result<Vec<Vec<i64>>, String> {
    let shapes: Map<Str, Shape> = given.iter().map(|(name, shape)| (Str::from(*name), Shape::new(shape))).collect();
    let graph = symbol::apply_passes(&graph.with_attr("shape_inputs", shapes), &["InferShape"])
        .map_err(|error| error.to_string())?;
    Ok(graph.attr::<Vec<Shape>>("shape").unwrap().iter().map(|shape| shape.to_vec()).collect())
}

/// Returns the shape of the entry of the node with this name.
fn shape_of(graph: &GraphRef, given: &[(&str, &[i64])], name: &str) -> Vec<i64> {
    let shapes = inferred(graph, given).unwrap();
    let index = IndexedGraph::new(graph).unwrap();
    let number = index.nodes.iter().position(|node| node.node.name.as_str() == name).unwrap();
    shapes[index.row_ptr[number]].clone()
}

/// Operator, attributes, shapes of inputs, shape of the first output.
type Case<'a> = (&'a str, Attrs<'a>, &'a [&'a [i64]], &'a [i64]);

#[test]
fn forwards() {
    let conv = &[("channels", "12"), ("kernel_size", "(3, 3)")];
    let cases: &[Case<'_>] = &[
        ("dense", &[("units", "30")], &[&[10, 20]], &[10, 30]),
        ("dense", &[("units", "30"), ("use_bias", "False")], &[&[4, 5, 20]], &[4, 5, 30]),
        ("conv2d", conv, &[&[4, 10, 10, 12]], &[4, 12, 8, 10]),
        (
            "conv2d",
            &[("channels", "12"), ("kernel_size", "(3, 3)"), ("layout", "NHWC")],
            &[&[4, 10, 12, 10]],
            &[4, 8, 10, 12],
        ),
        (
            "conv2d",
            &[
                ("channels", "12"),
                ("kernel_size", "(3, 3)"),
                ("groups", "2"),
                ("dilation", "2"),
                ("padding", "(1, 1)"),
                ("strides", "2"),
            ],
            &[&[1, 4, 10, 12]],
            &[1, 12, 4, 5],
        ),
        (
            "conv2d_transpose",
            &[
                ("channels", "12"),
                ("kernel_size", "(3, 3)"),
                ("padding", "(1, 1)"),
                ("strides", "(2, 2)"),
                ("output_padding", "(1, 1)"),
            ],
            &[&[1, 3, 10, 10]],
            &[1, 12, 20, 20],
        ),
        (
            "max_pool2d",
            &[("pool_size", "(2, 2)"), ("strides", "(2, 2)"), ("ceil_mode", "True")],
            &[&[1, 2, 5, 6]],
            &[1, 2, 3, 3],
        ),
        ("avg_pool2d", &[("pool_size", "3"), ("padding", "(1, 1)")], &[&[1, 2, 5, 6]], &[1, 2, 5, 6]),
        ("global_avg_pool2d", &[], &[&[1, 2, 5, 6]], &[1, 2, 1, 1]),
        ("global_max_pool2d", &[("layout", "NHWC")], &[&[1, 5, 6, 2]], &[1, 1, 1, 2]),
        ("upsampling", &[("scale", "2")], &[&[1, 2, 5, 6]], &[1, 2, 10, 12]),
        ("resize", &[("size", "(7, 8)")], &[&[1, 2, 5, 6]], &[1, 2, 7, 8]),
        ("flatten", &[], &[&[4, 10, 10, 12]], &[4, 1200]),
        ("concatenate", &[("axis", "1")], &[&[2, 3, 4], &[2, 5, 4]], &[2, 8, 4]),
        ("split", &[("indices_or_sections", "2"), ("axis", "1")], &[&[2, 6]], &[2, 3]),
        ("split", &[("indices_or_sections", "(1, 4)"), ("axis", "-1")], &[&[2, 6]], &[2, 1]),
        ("expand_dims", &[("axis", "1"), ("num_newaxis", "2")], &[&[3, 4]], &[3, 1, 1, 4]),
        ("expand_dims", &[("axis", "-1")], &[&[3, 4]], &[3, 4, 1]),
        ("squeeze", &[], &[&[1, 3, 1]], &[3]),
        ("squeeze", &[("axis", "0")], &[&[1, 3, 1]], &[3, 1]),
        ("squeeze", &[], &[&[1, 1]], &[1]),
        ("transpose", &[("axes", "(0, 2, 1)")], &[&[1, 2, 3]], &[1, 3, 2]),
        ("transpose", &[], &[&[1, 2, 3]], &[3, 2, 1]),
        ("reshape", &[("shape", "(0, -1)")], &[&[4, 10, 2]], &[4, 20]),
        ("reshape", &[("shape", "(-2, 1)")], &[&[4, 10, 2]], &[4, 10, 2, 1]),
        ("reshape", &[("shape", "(-3, 0)")], &[&[4, 10, 2]], &[40, 2]),
        ("reshape", &[("shape", "(-4, -1, 2, -2)")], &[&[4, 10, 2]], &[2, 2, 10, 2]),
        ("broadcast_to", &[("shape", "(0, 4)")], &[&[3, 1]], &[3, 4]),
        ("broadcast_add", &[], &[&[4, 1, 3], &[5, 1]], &[4, 5, 3]),
        ("broadcast_max", &[], &[&[3], &[2, 3]], &[2, 3]),
        ("sum", &[("axis", "(1, 2)"), ("keepdims", "True")], &[&[4, 5, 6]], &[4, 1, 1]),
        ("sum", &[("axis", "1"), ("exclude", "True")], &[&[4, 5, 6]], &[5]),
        ("mean", &[], &[&[4, 5]], &[1]),
        ("argmax", &[("axis", "1")], &[&[4, 5]], &[4]),
        ("collapse_sum", &[], &[&[4, 5], &[1, 5]], &[1, 5]),
        ("expand_like", &[("axis", "1")], &[&[4], &[4, 5]], &[4, 5]),
        ("reshape_like", &[], &[&[4, 5], &[20]], &[20]),
        ("slice_like", &[("axis", "(1,)")], &[&[4, 5], &[2, 3]], &[4, 3]),
        ("strided_slice", &[("begin", "(1, -1)"), ("end", "(3, -4)"), ("stride", "(1, -1)")], &[&[4, 5]], &[2, 3]),
        ("take", &[("axis", "1")], &[&[4, 5], &[2, 3]], &[4, 2, 3]),
        ("take", &[], &[&[4, 5], &[2, 3]], &[2, 3]),
        ("gather_nd", &[], &[&[4, 5, 6], &[2, 7]], &[7, 6]),
        ("where", &[], &[&[4], &[4, 5], &[4, 5]], &[4, 5]),
        ("pad", &[("pad_width", "((0, 0), (1, 2))")], &[&[4, 5]], &[4, 8]),
        ("matmul", &[("transpose_b", "True")], &[&[4, 5], &[6, 5]], &[4, 6]),
        ("full", &[("shape", "(2, 3)"), ("fill_value", "1")], &[], &[2, 3]),
        (
            "__layout_transform__",
            &[("src_layout", "NCHW"), ("dst_layout", "NCHW8c")],
            &[&[1, 16, 3, 4]],
            &[1, 2, 3, 4, 8],
        ),
        ("clip", &[("a_min", "0"), ("a_max", "1")], &[&[4, 5]], &[4, 5]),
        ("batch_norm", &[], &[&[4, 10, 3]], &[4, 10, 3]),
    ];
    for (name, attrs, inputs, expected) in cases {
        let variables: Vec<_> = (0..inputs.len()).map(|number| var(&format!("in{number}"))).collect();
        let result = named(name, "result", &variables.iter().collect::<Vec<_>>(), attrs);
        let names: Vec<String> = (0..inputs.len()).map(|number| format!("in{number}")).collect();
        let given: Vec<(&str, &[i64])> = names.iter().map(String::as_str).zip(inputs.iter().copied()).collect();
        assert_eq!(shape_of(&graph(&[&result]), &given, "result"), *expected, "{name} {attrs:?} {inputs:?}");
    }
}

#[test]
fn parameters_and_backwards() {
    let conv = named("conv2d", "c", &[&var("x")], &[("channels", "12"), ("kernel_size", "(3, 5)"), ("groups", "2")]);
    let net = graph(&[&conv]);
    assert_eq!(shape_of(&net, &[("x", &[1, 4, 9, 9])], "c_weight"), [12, 2, 3, 5]);
    assert_eq!(shape_of(&net, &[("x", &[1, 4, 9, 9])], "c_bias"), [12]);
    // The data is inferred from its weights and from the tensor that is added to the result.
    let sum = named("elemwise_add", "sum", &[&conv, &var("other")], &[]);
    let net = graph(&[&sum]);
    assert_eq!(shape_of(&net, &[("c_weight", &[12, 2, 3, 5]), ("other", &[1, 12, 7, 5])], "x"), [1, 4, 9, 9]);
    let turned = graph(&[&op(
        "elemwise_mul",
        &[&named("transpose", "t", &[&var("x")], &[("axes", "(1, 2, 0)")]), &var("y")],
        &[],
    )]);
    assert_eq!(shape_of(&turned, &[("y", &[2, 3, 4])], "x"), [4, 2, 3]);
    let dense = named("dense", "fc", &[&var("x")], &[("units", "7")]);
    let net = graph(&[&op("elemwise_add", &[&dense, &var("y")], &[])]);
    assert_eq!(shape_of(&net, &[("y", &[2, 7]), ("fc_weight", &[7, 5])], "x"), [2, 5]);
    let norm = graph(&[&named("batch_norm", "bn", &[&var("x")], &[("axis", "2")])]);
    assert_eq!(shape_of(&norm, &[("x", &[1, 2, 3])], "bn_gamma"), [3]);
}

#[test]
fn contradictions() {
    let sum = graph(&[&named("elemwise_add", "sum", &[&var("a"), &var("b")], &[])]);
    assert_eq!(
        inferred(&sum, &[("a", &[2]), ("b", &[3])]).unwrap_err(),
        "pass InferShape: node 'sum' (elemwise_add): shapes [2] and [3] do not fit"
    );
    let dense = graph(&[&named("dense", "fc", &[&var("x")], &[("units", "7")])]);
    let error = inferred(&dense, &[("x", &[2, 5]), ("fc_weight", &[7, 4])]).unwrap_err();
    assert!(error.starts_with("pass InferShape: node 'fc' (dense): "), "{error}");
    let small = graph(&[&op("conv2d", &[&var("x")], &[("channels", "1"), ("kernel_size", "(3, 3)")])]);
    assert!(
        inferred(&small, &[("x", &[1, 1, 2, 2])]).unwrap_err().contains("a window of 3 is larger than an axis of 2")
    );
    let wrong = inferred(&small, &[("x", &[1, -1, 2, 2])]).unwrap_err();
    assert!(wrong.contains("the extent -1 of [1, -1, 2, 2] is negative"), "{wrong}");
}

#[test]
fn types() {
    let x = var("x");
    let wide = named("cast", "wide", &[&x], &[("dtype", "float64")]);
    let place = named("argmax", "place", &[&wide], &[("axis", "1")]);
    let filled = named("full", "filled", &[], &[("shape", "(2,)"), ("fill_value", "1"), ("dtype", "int8")]);
    let net = graph(&[&place, &filled]);
    let types: Map<Str, DataType> = [(Str::from("x"), DataType::FLOAT32)].into_iter().collect();
    let net = symbol::apply_passes(&net.with_attr("dtype_inputs", types), &["InferType"]).unwrap();
    // NNVM's numbers: float32 is 0, float64 1, int32 4, int8 5.
    assert_eq!(net.attr::<Vec<i64>>("dtype").unwrap(), [0, 1, 4, 5]);
    assert_eq!(net.attr::<i64>("dtype_num_unknown_nodes").unwrap(), 0);
    // A variable declares its own type and shape.
    let own = symbol::load_json(
        r#"{"nodes": [{"op": "null", "name": "x", "attrs": {"__shape__": "(2, 3)", "__dtype__": "5"}, "inputs": []}], "heads": [[0, 0, 0]]}"#,
    )
    .unwrap();
    let plain = symbol::apply_passes(&own, &["InferShape", "InferType"]).unwrap();
    assert_eq!(plain.attr::<Vec<i64>>("dtype").unwrap(), [5]);
    assert_eq!(plain.attr::<Vec<Shape>>("shape").unwrap()[0].to_vec(), [2, 3]);
    // An unknown shape or type of a caller leaves it; a known one takes its place.
    for (shape, dtype, expected) in [(&[][..], -1, (vec![2, 3], 5)), (&[4, 3], 0, (vec![4, 3], 0))] {
        let shapes: Array<Shape> = [Shape::new(shape)].into_iter().collect();
        let types: Array<i64> = [dtype].into_iter().collect();
        let given = own.with_attr("shape_inputs", shapes).with_attr("dtype_inputs", types);
        let given = symbol::apply_passes(&given, &["InferShape", "InferType"]).unwrap();
        let shape = given.attr::<Vec<Shape>>("shape").unwrap()[0].to_vec();
        assert_eq!((shape, given.attr::<Vec<i64>>("dtype").unwrap()[0]), expected);
    }
}
