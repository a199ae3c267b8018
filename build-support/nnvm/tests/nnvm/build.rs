//! Graphs that are compiled and run.

use kernpack::{Any, Array, Bytes, Function, Map, Module, Shape, Str, Tensor};
use kernpack_compiler::ir;
use kernpack_nnvm as nnvm;
use kernpack_nnvm::symbol::registry::{self, Cell};
use kernpack_nnvm::symbol::{self, GraphRef, IndexedGraph};
use kernpack_nnvm::{BuildOptions, GraphExecutor};

use crate::support::{assert_near, built, elements, execute, floats, graph, named, op, ramp, run, var};

/// Returns the functions that a compiled graph calls.
fn functions(graph: &GraphRef) -> Vec<String> {
    let index = IndexedGraph::new(graph).unwrap();
    let calls = index.nodes.iter().filter_map(|node| node.node.attrs.get("func_name"));
    calls.map(|name| name.as_str().to_owned()).collect()
}

#[test]
fn elementwise_chains_are_one_kernel() {
    let x = var("x");
    let y = op("exp", &[&op("elemwise_add", &[&op("__add_scalar__", &[&x], &[("scalar", "1")]), &var("y")], &[])], &[]);
    let net = graph(&[&y]);
    let (a, b) = (floats(&[2, 2], &[0.0, 1.0, 2.0, -3.0]), floats(&[2, 2], &[-1.0, 0.0, 1.0, 2.0]));
    let inputs = [("x", &a), ("y", &b)];
    let one = built(&net, &inputs, 2);
    assert_eq!(functions(&one.graph), ["fuse___add_scalar___elemwise_add_exp"]);
    let expected: Vec<f32> = [0.0f32, 2.0, 4.0, 0.0].iter().map(|value| value.exp()).collect();
    assert_near(&elements(&execute(&one, &inputs)[0]), &expected);
    let apart = built(&net, &inputs, 0);
    assert_eq!(functions(&apart.graph), ["fuse___add_scalar__", "fuse_elemwise_add", "fuse_exp"]);
    assert_near(&elements(&execute(&apart, &inputs)[0]), &expected);
}

#[test]
fn a_convolution_takes_what_follows() {
    let conv = op(
        "conv2d",
        &[&var("x"), &var("w"), &var("b")],
        &[("channels", "2"), ("kernel_size", "(3, 3)"), ("padding", "(1, 1)")],
    );
    // An ELU: the convolution has two readers in one group.
    let below = op(
        "__mul_scalar__",
        &[&op("relu", &[&op("__rsub_scalar__", &[&op("exp", &[&conv], &[])], &[("scalar", "1")])], &[])],
        &[("scalar", "-0.5")],
    );
    let elu = op("elemwise_add", &[&below, &op("relu", &[&conv], &[])], &[]);
    let net = graph(&[&elu]);
    let (x, w, b) = (ramp(&[1, 3, 5, 4]), ramp(&[2, 3, 3, 3]), floats(&[2], &[0.25, -0.5]));
    let inputs = [("x", &x), ("w", &w), ("b", &b)];
    let one = built(&net, &inputs, 2);
    assert_eq!(functions(&one.graph).len(), 1, "{:?}", functions(&one.graph));
    let apart = run(&net, &inputs, 0);
    assert_near(&elements(&execute(&one, &inputs)[0]), &elements(&apart[0]));
    // By hand at one place: row 2, column 1 of channel 1.
    let (xs, ws) = (elements(&x), elements(&w));
    let mut sum = -0.5_f32;
    for c in 0..3 {
        for (r, s) in (0..3).flat_map(|r| (0..3).map(move |s| (r, s))) {
            sum += xs[(c * 5 + 1 + r) * 4 + s] * ws[((3 + c) * 3 + r) * 3 + s];
        }
    }
    let expected = if sum > 0.0 { sum } else { 0.5 * (sum.exp() - 1.0) };
    let got = elements(&apart[0])[(5 + 2) * 4 + 1];
    assert!((got - expected).abs() < 1e-4, "{got} {expected}");
}

/// With each of the rules for convolutions, with one image and with two.
#[test]
fn a_convolution_takes_factors_of_channels() {
    for (images, depth, channels, side, window, padding) in [
        (1, 3, 8, 6, 3, 1),
        (2, 3, 8, 6, 3, 0),
        (1, 3, 8, 6, 1, 0),
        (2, 3, 8, 6, 1, 0),
        (1, 32, 32, 16, 3, 1),
        (1, 3, 8, 1, 1, 0),
        (1, 8, 8, 3, 3, 0),
    ] {
        let attrs = [
            ("channels", channels.to_string()),
            ("kernel_size", format!("({window}, {window})")),
            ("padding", format!("({padding}, {padding})")),
            ("use_bias", "False".to_owned()),
        ];
        let attrs: Vec<(&str, &str)> = attrs.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let conv = op("conv2d", &[&var("x"), &var("w")], &attrs);
        let scaled = op("broadcast_add", &[&op("broadcast_mul", &[&conv, &var("s")], &[]), &var("t")], &[]);
        let net = graph(&[&op("relu", &[&scaled], &[])]);
        let (x, w) = (ramp(&[images, depth, side, side]), ramp(&[channels, depth, window, window]));
        let (s, t) = (ramp(&[channels, 1, 1]), ramp(&[channels, 1, 1]));
        let inputs = [("x", &x), ("w", &w), ("s", &s), ("t", &t)];
        let one = built(&net, &inputs, 2);
        assert_eq!(functions(&one.graph).len(), 1, "{:?}", functions(&one.graph));
        assert_near(&elements(&execute(&one, &inputs)[0]), &elements(&run(&net, &inputs, 0)[0]));
    }
}

#[test]
fn what_moves_elements_stays_before_a_product() {
    let turned = op("transpose", &[&var("x")], &[("axes", "(1, 0)")]);
    let dense = op("dense", &[&turned, &var("w")], &[("units", "3"), ("use_bias", "False")]);
    let net = graph(&[&op("elemwise_add", &[&dense, &op("transpose", &[&var("z")], &[])], &[])]);
    let (x, w, z) = (ramp(&[4, 2]), ramp(&[3, 4]), ramp(&[3, 2]));
    let inputs = [("x", &x), ("w", &w), ("z", &z)];
    let net = built(&net, &inputs, 2);
    assert_eq!(functions(&net.graph), ["fuse_transpose", "fuse_dense", "fuse_transpose_elemwise_add"]);
}

#[test]
fn norms_are_folded_at_build_time() {
    let conv =
        named("conv2d", "c", &[&var("x")], &[("channels", "4"), ("kernel_size", "(1, 1)"), ("use_bias", "False")]);
    let norm = named("batch_norm", "bn", &[&conv], &[("epsilon", "0.001")]);
    let net = graph(&[&op("dropout", &[&op("relu", &[&norm], &[])], &[])]);
    let (x, w) = (ramp(&[1, 3, 4, 4]), ramp(&[4, 3, 1, 1]));
    let per_channel = |values: [f32; 4]| floats(&[4], &values);
    let params = [
        ("c_weight", w),
        ("bn_gamma", per_channel([1.0, 2.0, 0.5, -1.0])),
        ("bn_beta", per_channel([0.0, 0.5, 0.25, 0.125])),
        ("bn_moving_mean", per_channel([0.1, -0.2, 0.3, 0.0])),
        ("bn_moving_var", per_channel([1.0, 0.5, 2.0, 4.0])),
    ];
    let mut results = Vec::new();
    for level in 0..=3 {
        let mut options = BuildOptions {
            opt_level: Some(level),
            dtype: Some(kernpack::DataType::FLOAT32),
            ..BuildOptions::default()
        };
        options.shapes.insert("x".into(), vec![1, 3, 4, 4]);
        options.params = params.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        let done = nnvm::build(&net, "llvm", &options).unwrap_or_else(|error| panic!("level {level}: {error}"));
        if level >= 2 {
            // Values that depend only on parameters are parameters now.
            assert!(!done.params.contains_key("bn_gamma"), "{:?}", done.params.keys());
        }
        results.push(elements(&execute(&done, &[("x", &x)])[0]));
    }
    for result in &results[1..] {
        assert_near(result, &results[0]);
    }
}

#[test]
fn from_another_language() {
    let call = |name: &str| Function::global(&format!("kernpack.graph.{name}")).unwrap();
    let net = graph(&[&named("relu", "r", &[&named("dense", "fc", &[&var("x")], &[("units", "2")])], &[])]);
    let shapes: Map<Str, Shape> = [(Str::from("x"), Shape::new(&[1, 3]))].into_iter().collect();
    let params: Map<Str, Tensor> =
        [("fc_weight", floats(&[2, 3], &[1., 2., 3., -1., 0., 1.])), ("fc_bias", floats(&[2], &[0.5, -9.0]))]
            .into_iter()
            .map(|(name, tensor)| (Str::from(name), tensor))
            .collect();
    let (compiled, module, params): (GraphRef, Module, Map<Str, Tensor>) =
        call("build").call_as((net, "llvm", shapes, "float32", params)).unwrap();
    let json: String = call("save_json").call_as((&compiled,)).unwrap();
    let bytes: Bytes = call("save_param_dict").call_as((params,)).unwrap();
    // From here on as in another process: the text, the module, the bytes.
    let executor: Module = call("executor.create").call_as((json, module)).unwrap();
    let function = |name: &str| executor.function(name).unwrap();
    function("load_params").call((bytes,)).unwrap();
    function("set_input").call(("x", floats(&[1, 3], &[1., 2., 3.]))).unwrap();
    function("run").call(()).unwrap();
    let output: Tensor = function("get_output").call_as((0,)).unwrap();
    assert_eq!(elements(&output), [14.5, 0.0]);
    let target = floats(&[1, 2], &[0.0; 2]);
    function("get_output").call((0, &target)).unwrap();
    assert_eq!(elements(&target), [14.5, 0.0]);
    assert_eq!(function("get_num_outputs").call_as::<i64>(()).unwrap(), 1);
    let times: Map<Str, f64> = function("node_times").call_as((3,)).unwrap();
    assert!(times.len() == 1 && times.iter().all(|(_, time)| time > 0.0 && time < 1.0));
    let wrong = function("set_input").call(("y", floats(&[1], &[0.]))).unwrap_err().to_string();
    assert!(wrong.contains("there is no input 'y'; the inputs are x, fc_weight, fc_bias"), "{wrong}");
    let wrong = function("set_input").call(("x", floats(&[3], &[0.; 3]))).unwrap_err().to_string();
    assert!(wrong.contains("input 'x' is float32[1, 3], got float32[3]"), "{wrong}");
}

#[test]
fn what_is_missing_for_a_build() {
    let net = graph(&[&named("dense", "fc", &[&var("x")], &[("units", "2")])]);
    let message = |options: &BuildOptions| {
        nnvm::build(&net, "llvm", options).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let mut options = BuildOptions::default();
    let error = message(&options);
    assert!(
        error.starts_with("the shapes of variable 'x', variable 'fc_weight', node 'fc' (dense) are not known"),
        "{error}"
    );
    options.shapes.insert("x".into(), vec![1, 2]);
    assert!(message(&options).contains("the element types of variable 'x'"), "{}", message(&options));
    options.shapes.insert("z".into(), vec![1, 2]);
    assert!(message(&options).starts_with("shapes are given for z; the variables are x, fc_weight, fc_bias"));
    let twice = graph(&[&op("elemwise_add", &[&var("a"), &var("a")], &[])]);
    assert!(
        nnvm::build(&twice, "llvm", &BuildOptions::default())
            .err()
            .unwrap()
            .to_string()
            .contains("two variables are called 'a'")
    );
}

#[test]
fn parameters_both_ways() {
    let params: Map<Str, Tensor> = [("a", ramp(&[2, 3])), ("empty", floats(&[0, 4], &[])), ("b", ramp(&[1]))]
        .into_iter()
        .map(|(name, tensor)| (Str::from(name), tensor))
        .collect();
    let bytes = nnvm::save_params(&params).unwrap();
    // The magic numbers of a list and of a tensor, as NNVM 0.2 and later write them.
    assert_eq!(bytes[..8], 0xF7E5_8D4F_0504_9CB7_u64.to_le_bytes());
    let loaded = nnvm::load_params(&bytes).unwrap();
    assert_eq!(loaded.iter().map(|(name, _)| name.as_str().to_owned()).collect::<Vec<_>>(), ["a", "empty", "b"]);
    assert_eq!(elements(&loaded.get("a").unwrap()), elements(&ramp(&[2, 3])));
    assert_eq!(nnvm::save_params(&loaded).unwrap(), bytes);
    let message = |bytes: &[u8]| nnvm::load_params(bytes).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(
        message(b"no such"),
        "the file with parameters cannot be read: the file ends at byte 7 in its first mark, which has 8 bytes"
    );
    for cut in 0..bytes.len() {
        assert!(message(&bytes[..cut]).starts_with("the file with parameters cannot be read: "), "{cut}");
    }
    let mut state = 3_u64;
    for _ in 0..3000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut damaged = bytes.to_vec();
        let place = usize::try_from(state >> 33).unwrap() % damaged.len();
        damaged[place] ^= u8::try_from(state >> 20 & 0xff).unwrap() | 1;
        let _ = nnvm::load_params(&damaged);
    }
}

#[test]
fn equal_groups_are_compiled_once() {
    let layer = |x: &symbol::Value| op("tanh", &[&op("__mul_scalar__", &[x], &[("scalar", "0.125")])], &[]);
    let net = graph(&[&op("softmax", &[&layer(&op("softmax", &[&layer(&var("x"))], &[]))], &[])]);
    let x = ramp(&[3, 5]);
    let done = built(&net, &[("x", &x)], 2);
    let names = functions(&done.graph);
    assert_eq!(names, ["fuse___mul_scalar___tanh", "fuse_softmax", "fuse___mul_scalar___tanh", "fuse_softmax"]);
    let uses = |_: ()| {
        nnvm::cached()
            .into_iter()
            .filter(|(key, _)| key.contains("__mul_scalar__") && key.contains("0.125"))
            .map(|(_, uses)| uses)
            .sum::<i64>()
    };
    let before = uses(());
    let _ = built(&net, &[("x", &x)], 2);
    assert!(uses(()) > before);
}

#[test]
fn several_outputs_and_variables_as_outputs() {
    let parts = symbol::apply("split", "s", &[var("x")], &[("indices_or_sections", "(1, 3)"), ("axis", "1")]).unwrap();
    let sum = op("elemwise_add", &[&parts[0], &parts[2]], &[]);
    let x = var("y");
    let net = graph(&[&sum, &parts[1], &x]);
    let (a, y) = (floats(&[2, 4], &[1., 2., 3., 4., 5., 6., 7., 8.]), floats(&[1], &[9.0]));
    let outputs = run(&net, &[("x", &a), ("y", &y)], 2);
    assert_eq!(elements(&outputs[0]), [5., 13.]);
    assert_eq!(elements(&outputs[1]), [2., 3., 6., 7.]);
    assert_eq!(elements(&outputs[2]), [9.0]);
}

#[test]
fn assignments_stay() {
    let state = var("w");
    let next = op("_assign", &[&state, &op("__add_scalar__", &[&state], &[("scalar", "1")])], &[]);
    let net = graph(&[&next]);
    let w = floats(&[2], &[1.0, 5.0]);
    let done = built(&net, &[("w", &w)], 2);
    let executor = GraphExecutor::new(&done.graph, &done.module).unwrap();
    executor.set_input(0, &w, true).unwrap();
    for _ in 0..3 {
        executor.run().unwrap();
    }
    assert_eq!(elements(&executor.input(0).unwrap()), [4.0, 8.0]);
    assert_eq!(elements(&w), [1.0, 5.0]);
}

/// A function for `conv2d` that requests split channels if there are 48; the layouts around it
/// follow, weights are converted at build time, and the result is the same.
#[test]
fn a_registered_function_alters_layouts() {
    let alter = Function::from_fn(|attrs: Map<Str, Str>, inputs: Array<GraphRef>, tensors: Array<ir::Tensor>| {
        if attrs.get("channels").is_none_or(|channels| channels.as_str() != "48") {
            return Ok(Any::NONE);
        }
        // Represents the data, the weights and the result.
        let extents: Vec<i64> =
            tensors.iter().map(|tensor| tensor.shape.get(1).and_then(|it| it.as_int()).unwrap()).collect();
        assert_eq!(extents, [32, 32, 48]);
        let split = [("layout", "NCHW16c"), ("out_layout", "NCHW16c"), ("kernel_layout", "OIHW16i16o")];
        let kept = attrs.iter().filter(|(key, _)| split.iter().all(|(name, _)| key.as_str() != *name));
        let attrs: Map<Str, Str> = kept.chain(split.map(|(key, value)| (Str::from(key), Str::from(value)))).collect();
        let apply = Function::global("kernpack.graph.apply_op")?;
        let none: Map<Str, GraphRef> = std::iter::empty().collect();
        apply.call(("_contrib_conv2d_NCHWc", "altered", inputs, none, attrs))
    });
    registry::find("conv2d").unwrap().set_cell("FTVMAlterOpLayout", Cell::Value(alter.into()), 10, "a test").unwrap();
    let conv = |x: &symbol::Value, name: &str, channels: &str| {
        let attrs = [("channels", channels), ("kernel_size", "(3, 3)"), ("padding", "(1, 1)"), ("use_bias", "False")];
        named("conv2d", name, &[x], &attrs)
    };
    let net = op("relu", &[&conv(&op("relu", &[&conv(&var("x"), "first", "32")], &[]), "second", "48")], &[]);
    let net = graph(&[&op("global_avg_pool2d", &[&net], &[])]);
    let (x, first, second) = (ramp(&[1, 3, 8, 8]), ramp(&[32, 3, 3, 3]), ramp(&[48, 32, 3, 3]));
    let mut results = Vec::new();
    for level in [0, 3] {
        let mut options = BuildOptions { opt_level: Some(level), ..BuildOptions::default() };
        options.dtype = Some(kernpack::DataType::FLOAT32);
        options.shapes.insert("x".into(), vec![1, 3, 8, 8]);
        let weights = [("first_weight", first.clone()), ("second_weight", second.clone())];
        options.params = weights.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
        let done = nnvm::build(&net, "llvm", &options).unwrap_or_else(|error| panic!("level {level}: {error}"));
        let names = functions(&done.graph).join(" ");
        assert_eq!(names.contains("_contrib_conv2d_NCHWc"), level == 3, "{names}");
        // The weights that are read have six dimensions, and were converted before.
        let turned = done.params.values().any(|tensor| tensor.shape() == [3, 2, 3, 3, 16, 16]);
        assert_eq!(turned, level == 3, "{:?}", done.params.keys());
        results.push(elements(&execute(&done, &[("x", &x)])[0]));
    }
    assert_near(&results[1], &results[0]);
}

#[test]
fn graph_attributes_of_a_wrong_type_are_errors() {
    let net = graph(&[&op("exp", &[&var("x")], &[])]);
    let shapes: Map<Str, Shape> = [(Str::from("x"), Shape::new(&[4]))].into_iter().collect();
    let types: Map<Str, Any> = [(Str::from("x"), Any::from("float32"))].into_iter().collect();
    let net = net.with_attr("shape_inputs", shapes).with_attr("dtype_inputs", types);
    let passes = ["InferShape", "InferType", "GraphFindFusibleGroups", "GraphFuse", "GraphCompile"];
    for (name, value, first) in [
        ("opt_level", Any::from("two"), "InferShape"),
        ("target", Any::from(1i64), "InferShape"),
        ("layout", Any::from(1i64), "CorrectLayout"),
    ] {
        let all: Vec<&str> = [first].into_iter().chain(passes).collect();
        let error = symbol::apply_passes(&net.with_attr(name, value), &all).unwrap_err().to_string();
        assert!(error.contains(&format!("graph attribute `{name}`")), "{error}");
    }
    let net = net.with_attr("opt_level", 0i64).with_attr("target", "llvm");
    symbol::apply_passes(&net, &passes).unwrap();
}

/// The pass names of NNVM's first compiler.
#[test]
fn older_names_of_passes() {
    let net = graph(&[&op("exp", &[&op("__add_scalar__", &[&var("x")], &[("scalar", "1")])], &[])]);
    let shapes: Map<Str, Shape> = [(Str::from("x"), Shape::new(&[4]))].into_iter().collect();
    let types: Map<Str, Any> = [(Str::from("x"), Any::from("float32"))].into_iter().collect();
    let net = net.with_attr("shape_inputs", shapes).with_attr("dtype_inputs", types).with_attr("target", "llvm");
    let done =
        symbol::apply_passes(&net, &["InferShape", "InferType", "GraphFusePartition", "GraphFuseCompile"]).unwrap();
    let module: Module = done.attr("module").unwrap();
    let executor = GraphExecutor::new(&done, &module).unwrap();
    executor.set_input(0, &floats(&[4], &[-1.0; 4]), true).unwrap();
    executor.run().unwrap();
    assert_eq!(elements(&executor.output(0).unwrap()), [1.0; 4]);
}
