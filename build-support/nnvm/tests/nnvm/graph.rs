//! Symbols, JSON, and registration of operators and passes.

use kernpack::{Any, Array, Function, Map, Shape, Str};
use kernpack_nnvm::symbol::{self, GraphRef, Value, registry};

use crate::support::{graph, named, op, var};

/// As NNVM 0.5 writes it: up to ten numbers of entries on one line, objects with one member on one
/// line.
const SAVED: &str = "{\n  \"nodes\": [\n    {\n      \"op\": \"null\", \n      \"name\": \"x\", \n      \"inputs\": []\n    }, \n    {\n      \"op\": \"null\", \n      \"name\": \"fc_weight\", \n      \"inputs\": []\n    }, \n    {\n      \"op\": \"null\", \n      \"name\": \"fc_bias\", \n      \"inputs\": []\n    }, \n    {\n      \"op\": \"dense\", \n      \"name\": \"fc\", \n      \"attrs\": {\"units\": \"4\"}, \n      \"inputs\": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]\n    }, \n    {\n      \"op\": \"softmax\", \n      \"name\": \"s\", \n      \"attrs\": {\n        \"__note__\": \"a \\\"b\\\"\\n\", \n        \"axis\": \"1\"\n      }, \n      \"inputs\": [[3, 0, 0]]\n    }\n  ], \n  \"arg_nodes\": [0, 1, 2], \n  \"node_row_ptr\": [0, 1, 2, 3, 4, 5], \n  \"heads\": [[4, 0, 0]]\n}";

fn classifier() -> GraphRef {
    let dense = named("dense", "fc", &[&var("x")], &[("units", "4")]);
    graph(&[&named("softmax", "s", &[&dense], &[("axis", "1"), ("__note__", "a \"b\"\n")])])
}

#[test]
fn json_is_written_as_nnvm_does() {
    let made = classifier();
    assert_eq!(symbol::save_json(&made).unwrap(), SAVED);
    let loaded = symbol::load_json(SAVED).unwrap();
    assert_eq!(symbol::save_json(&loaded).unwrap(), SAVED);
    assert_eq!(symbol::difference(&made, &loaded, true).unwrap(), None);
    assert!(kernpack::structural::equal(&made, &loaded).unwrap());
}

/// As in NNVM, defaults are values, spellings do not matter, and variables have no attributes.
#[test]
fn differences_are_those_of_computations() {
    let pool = |attrs: &[(&str, &str)]| graph(&[&named("max_pool2d", "p", &[&var("x")], attrs)]);
    let plain = pool(&[("pool_size", "(2, 2)")]);
    let spelled = pool(&[("pool_size", "[2,2]"), ("strides", "(1, 1)"), ("ceil_mode", "0"), ("__group__", "a")]);
    assert_eq!(symbol::difference(&plain, &spelled, false).unwrap(), None);
    assert!(symbol::difference(&plain, &spelled, true).unwrap().unwrap().contains("other attributes"));
    let other = pool(&[("pool_size", "(2, 2)"), ("strides", "(2, 2)")]);
    assert!(symbol::difference(&plain, &other, false).unwrap().unwrap().contains("other attributes"));
    // An operator without parameters has no other values than its attributes.
    let relu = |attrs: &[(&str, &str)]| graph(&[&op("relu", &[&var("x")], attrs)]);
    assert!(symbol::difference(&relu(&[]), &relu(&[("__group__", "a")]), false).unwrap().is_some());
    let variable = |shape: &str| -> GraphRef {
        let attrs: Map<Str, Str> = [(Str::from("shape"), Str::from(shape))].into_iter().collect();
        Function::global("kernpack.graph.variable").unwrap().call_as(("x", attrs)).unwrap()
    };
    let (small, large) = (variable("(1, 2)"), variable("(3, 4)"));
    assert_eq!(symbol::difference(&small, &large, false).unwrap(), None);
    assert!(symbol::difference(&small, &large, true).unwrap().unwrap().contains("other attributes"));
}

/// Attributes of a compiled graph, in unsorted order, with the layout of nested lists of dmlc's
/// writer.
#[test]
fn attributes_keep_their_order_and_types() {
    let text = "{\n  \"nodes\": [\n    {\n      \"op\": \"null\", \n      \"name\": \"x\", \n      \"inputs\": []\n    }, \n    {\n      \"op\": \"tvm_op\", \n      \"name\": \"relu0\", \n      \"attrs\": {\n        \"flatten_data\": \"0\", \n        \"func_name\": \"fuse_relu\", \n        \"num_inputs\": \"1\", \n        \"num_outputs\": \"1\"\n      }, \n      \"inputs\": [[0, 0, 0]]\n    }\n  ], \n  \"arg_nodes\": [0], \n  \"node_row_ptr\": [0, 1, 2], \n  \"heads\": [[1, 0, 0]], \n  \"attrs\": {\n    \"storage_id\": [\"list_int\", [0, 1]], \n    \"dtype\": [\"list_int\", [0, 0]], \n    \"dltype\": [\"list_str\", [\n        \"float32\", \n        \"float32\"]], \n    \"shape\": [\"list_shape\", [\n        [1, 3], \n        [1, 3]]], \n    \"layout\": [\"list_layout\", [\n        \"NCHW\", \n        \"NCHW\"]], \n    \"bytes\": [\"size_t\", 12], \n    \"none\": [\"list_int\", []]\n  }\n}";
    let loaded = symbol::load_json(text).unwrap();
    assert_eq!(symbol::save_json(&loaded).unwrap(), text);
    assert_eq!(loaded.attr::<Vec<Shape>>("shape").unwrap()[1].to_vec(), [1, 3]);
    assert_eq!(loaded.attr::<i64>("bytes").unwrap(), 12);
    let error = symbol::save_json(&loaded.with_attr("f", Function::from_fn(|| 1))).unwrap_err().to_string();
    assert!(error.starts_with("graph attribute `f`: JSON cannot hold Function"), "{error}");
}

#[test]
fn old_spellings() {
    for key in ["param", "attr", "attrs"] {
        let text = format!(
            r#"{{"nodes": [{{"op": "null", "name": "x", "inputs": [], "backward_source_id": -1}},
                {{"op": "softmax", "name": "s", "{key}": {{"axis": "1"}}, "inputs": [[0, 0]]}}],
                "arg_nodes": [0], "heads": [[1, 0]]}}"#
        );
        let loaded = symbol::load_json(&text).unwrap();
        assert_eq!(loaded.values()[0].node.attrs.get("axis").unwrap().as_str(), "1");
    }
}

#[test]
fn what_is_wrong_with_json() {
    let message = |text: &str| symbol::load_json(text).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(message("{"), "the graph is not JSON: expected a text at line 1, column 2");
    assert_eq!(message("[]"), "the graph is a list, not an object");
    assert_eq!(message("{}"), "the graph: `nodes` is missing");
    let node = |inputs: &str, heads: &str| {
        format!(
            r#"{{"nodes": [{{"op": "null", "name": "x", "inputs": []}}, {{"op": "relu", "name": "r", "inputs": {inputs}}}], "heads": {heads}}}"#
        )
    };
    let cycle = message(&node("[[1, 0, 0]]", "[[1, 0, 0]]"));
    assert_eq!(cycle, "the graph: node 1: `inputs`: node 1 does not stand before it: the graph has a cycle, or is cut");
    assert_eq!(
        message(&node("[[0, 0, 0]]", "[[1, 1, 0]]")),
        "the graph: node 'r' (relu): output 1 is read, and there are 1"
    );
    assert!(message(&node("[[0, 99999999999, 0]]", "[[1, 0, 0]]")).contains("is not an output of a node"));
    assert!(message(&node("[[0, 0, 0, 0]]", "[[1, 0, 0]]")).contains("has 4 numbers, not 2 or 3"));
    assert!(message(&"[".repeat(100_000)).contains("nested too deeply"));
}

/// An unregistered operator is loaded, saved and printed. Functions that need it report its name.
#[test]
fn unknown_operators() {
    let text = r#"{"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "Quux", "name": "q", "inputs": [[0, 0, 0]]}], "heads": [[1, 2, 0]]}"#;
    let loaded = symbol::load_json(text).unwrap();
    assert!(symbol::print(&loaded).unwrap().contains("Quux(%0)"));
    assert!(symbol::load_json(&symbol::save_json(&loaded).unwrap()).is_ok());
    let error = symbol::apply_passes(&loaded, &["InferShape"]).unwrap_err().to_string();
    assert!(error.starts_with("pass InferShape: node 'q' (Quux): operator `Quux` is not registered"), "{error}");
}

/// Bytes that are changed, removed or added: an error or a graph, never a panic or unbounded
/// memory.
#[test]
fn damaged_json() {
    let good = SAVED.as_bytes();
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut graphs, mut errors) = (0, 0);
    for _ in 0..5000 {
        let mut bytes = good.to_vec();
        for _ in 0..=next(3) {
            let place = next(bytes.len());
            match next(5) {
                0 => bytes.truncate(place + 1),
                1 => bytes.insert(place, b"0123456789[]{}\",:-"[next(18)]),
                2 => _ = bytes.remove(place),
                3 => bytes[place] = b"0123456789[]{}\",:-"[next(18)],
                _ => bytes[place] = u8::try_from(next(256)).unwrap(),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        let Ok(text) = core::str::from_utf8(&bytes) else { continue };
        match symbol::load_json(text) {
            Ok(graph) => {
                graphs += 1;
                let _ = symbol::save_json(&graph).unwrap();
                let _ = symbol::print(&graph).unwrap();
                let _ = symbol::apply_passes(&graph, &["InferShape", "InferType"]);
            }
            Err(error) => {
                errors += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(graphs > 50 && errors > 1000, "{graphs} graphs, {errors} errors");
}

#[test]
fn symbols_are_composed() {
    let net = named("dense", "fc1", &[&var("data")], &[("units", "10")]);
    let net = named("dense", "fc2", &[&net], &[("units", "100")]);
    let whole = graph(&[&net]);
    assert_eq!(symbol::list_inputs(&whole).unwrap(), ["data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"]);
    assert_eq!(symbol::list_outputs(&whole).unwrap(), ["fc2_output"]);
    // A graph in place of a variable.
    let front = op("relu", &[&var("pixels")], &[]);
    let composed = symbol::compose(&whole, &[("data".to_owned(), front)]).unwrap();
    assert_eq!(symbol::list_inputs(&composed).unwrap()[0], "pixels");
    let error = symbol::compose(&whole, &[("nothing".to_owned(), var("y"))]).unwrap_err().to_string();
    assert!(error.starts_with("there is no variable `nothing`; the variables are data"), "{error}");
    let internals = symbol::list_outputs(&symbol::internals(&whole).unwrap()).unwrap();
    assert_eq!(internals, ["data", "fc1_weight", "fc1_bias", "fc1_output", "fc2_weight", "fc2_bias", "fc2_output"]);
    let both = symbol::group(&[whole.clone(), composed]);
    assert_eq!(both.outputs.len(), 2);
    // Variables that nodes write to.
    let norm = graph(&[&named("batch_norm", "bn", &[&var("x")], &[])]);
    assert_eq!(symbol::mutated(&norm).unwrap(), ["bn_moving_mean", "bn_moving_var"]);
    assert_eq!(symbol::fresh_name("Frob"), "frob0");
    assert_eq!(symbol::fresh_name("frob"), "frob1");
}

#[test]
fn what_is_wrong_with_a_node() {
    let message = |op: &str, inputs: &[Value], attrs: &[(&str, &str)]| {
        symbol::apply(op, "n", inputs, attrs).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(message("Quux", &[], &[]).starts_with("operator `Quux` is not registered"));
    assert_eq!(
        message("dense", &[var("x")], &[("unit", "4"), ("use_bias", "maybe")]),
        "node 'n' (dense): attribute `unit` is unknown; known: units, use_bias\n\
         node 'n' (dense): attribute `use_bias`: expected `True` or `False`, got `maybe`\n\
         node 'n' (dense): attribute `units` is missing"
    );
    assert_eq!(message("relu", &[var("x"), var("y")], &[]), "node 'n' (relu): 2 inputs, and it takes 1: data");
    let relu = op("relu", &[&var("x")], &[]);
    assert!(message("_assign", &[relu, var("y")], &[]).contains("input 0 is written to, but is not a variable"));
}

#[test]
fn a_chain_of_many_nodes() {
    let mut value = var("x");
    for number in 0..100_000 {
        value = named("relu", &format!("r{number}"), &[&value], &[]);
    }
    let long = graph(&[&value]);
    drop(value);
    let text = symbol::save_json(&long).unwrap();
    drop(long);
    let loaded = symbol::load_json(&text).unwrap();
    assert_eq!(symbol::list_inputs(&loaded).unwrap(), ["x"]);
}

/// Two writes to a variable with a read between them.
#[test]
fn mutations_are_ordered() {
    let state = var("s");
    let first = named("_assign", "write1", &[&state, &var("a")], &[]);
    let read = named("negative", "read", &[&state], &[]);
    let second = named("_assign", "write2", &[&state, &var("b")], &[]);
    // In an order that is wrong without control dependencies.
    let whole = graph(&[&second, &read, &first]);
    let ordered = symbol::apply_passes(&whole, &["OrderMutation"]).unwrap();
    let names: Vec<String> = symbol::IndexedGraph::new(&ordered)
        .unwrap()
        .nodes
        .iter()
        .filter(|node| !node.node.is_variable())
        .map(|node| node.node.name.as_str().to_owned())
        .collect();
    assert_eq!(names, ["write1", "read", "write2"]);
}

/// Returns the device of each node by name.
fn devices(graph: &GraphRef) -> Vec<(String, i64)> {
    let device: Vec<i64> = graph.attrs.get("device").unwrap().to().unwrap();
    let index = symbol::IndexedGraph::new(graph).unwrap();
    assert_eq!(index.nodes.len(), device.len());
    index.nodes.iter().map(|node| node.node.name.as_str().to_owned()).zip(device).collect()
}

#[test]
fn nodes_are_placed_on_devices() {
    let (a, b) = (var("a"), var("b"));
    let sum = named("elemwise_add", "sum", &[&a, &b], &[("__group__", "one")]);
    let product = named("elemwise_mul", "product", &[&sum, &a], &[("__group__", "two")]);
    let root = named("sqrt", "root", &[&product], &[]);
    let both = named("elemwise_add", "both", &[&root, &sum], &[]);
    let of = |values: &[&Value], groups: &[(&str, i64)]| {
        let groups: Map<Str, i64> = groups.iter().map(|(name, device)| (Str::from(*name), *device)).collect();
        graph(values)
            .with_attr("device_group_attr_key", "__group__")
            .with_attr("device_assign_map", groups)
            .with_attr("device_copy_op", "copy")
    };
    let placed = symbol::apply_passes(&of(&[&both], &[("one", 3), ("two", 5)]), &["PlaceDevice"]).unwrap();
    // `a` is on the device of its last reader. Values that are read on another device are copied,
    // and `sum` only once.
    let expected = [
        ("a", 5),
        ("b", 3),
        ("sum", 3),
        ("sum_0_copy5", 5),
        ("a_0_copy3", 3),
        ("product", 5),
        ("root", 5),
        ("both", 5),
    ];
    let mut got = devices(&placed);
    got.sort();
    let mut sorted = expected.map(|(name, device)| (name.to_owned(), device)).to_vec();
    sorted.sort();
    assert_eq!(got, sorted);
    // The result is the same, and memory is not shared between devices.
    let (x, y) = (crate::support::ramp(&[4]), crate::support::ramp(&[4]));
    let inputs = [("a", &x), ("b", &y)];
    let plain = crate::support::run(&graph(&[&both]), &inputs, 0);
    let moved = crate::support::run(&graph(&placed.values().iter().collect::<Vec<_>>()), &inputs, 0);
    assert_eq!(format!("{:?}", plain[0].view::<f32>().unwrap()), format!("{:?}", moved[0].view::<f32>().unwrap()));
    let shapes =
        placed.with_attr("shape_inputs", [Shape::new(&[4]), Shape::new(&[4])].into_iter().collect::<Array<Shape>>());
    let shapes = shapes.with_attr("dtype_inputs", [0_i64, 0].into_iter().collect::<Array<i64>>());
    let planned = symbol::apply_passes(&shapes, &["InferShape", "InferType", "PlanMemory"]).unwrap();
    let storage: Vec<i64> = planned.attrs.get("storage_id").unwrap().to().unwrap();
    for (block, (_, device)) in storage.iter().zip(devices(&planned)) {
        let others = storage.iter().zip(devices(&planned)).filter(|(other, _)| *other == block);
        assert!(others.into_iter().all(|(_, (_, other))| other == device), "{storage:?} {:?}", devices(&planned));
    }
    // One device: no copies.
    let one = symbol::apply_passes(&of(&[&both], &[("one", 2), ("two", 2)]), &["PlaceDevice"]).unwrap();
    assert!(devices(&one).iter().all(|(_, device)| *device == 2) && devices(&one).len() == 6);
    let none = symbol::apply_passes(&of(&[&named("exp", "e", &[&a], &[])], &[]), &["PlaceDevice"]).unwrap();
    assert_eq!(devices(&none), [("a".to_owned(), 0), ("e".to_owned(), 0)]);
    // Errors.
    let error = |values: &[&Value], groups: &[(&str, i64)]| {
        symbol::apply_passes(&of(values, groups), &["PlaceDevice"])
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let missing = error(&[&both], &[("one", 3)]);
    assert!(missing.contains("product") && missing.contains("no device for group `two`"), "{missing}");
    let written = named("_assign", "write", &[&a, &product], &[("__group__", "two")]);
    let after = named("exp", "after", &[&a], &[("__group__", "one")]);
    let written = error(&[&written, &after], &[("one", 3), ("two", 5)]);
    assert!(written.contains("'write' (_assign) writes to input 0, which is on device 3"), "{written}");
    let bare = symbol::apply_passes(&graph(&[&both]), &["PlaceDevice"]).unwrap_err().to_string();
    assert!(bare.contains("needs graph attribute `device_group_attr_key`"), "{bare}");
}

/// From another language: with packed functions only.
#[test]
fn operators_and_passes_from_outside() {
    let call = |name: &str| Function::global(&format!("kernpack.graph.{name}")).unwrap();
    let none = || Map::<Str, Str>::default();
    call("op_register").call(("tests.double", "twice its input", vec!["data"], 1, 1)).unwrap();
    let infer = Function::from_fn(|_: Map<Str, Str>, ins: Vec<Shape>, _: Vec<Shape>| (ins.clone(), ins));
    call("op_set_attr").call(("tests.double", "FInferShape", infer.clone(), 10)).unwrap();
    let again = call("op_set_attr").call(("tests.double", "FInferShape", infer, 10)).unwrap_err().to_string();
    assert!(
        again.contains("attribute `FInferShape` of operator `tests.double` is set twice with priority 10"),
        "{again}"
    );
    call("op_set_attr").call(("tests.double", "tests.note", "low", 5)).unwrap();
    call("op_set_attr").call(("tests.double", "tests.note", "high", 15)).unwrap();
    call("op_set_attr").call(("tests.double", "tests.note", "middle", 7)).unwrap();
    assert_eq!(call("op_attr").call_as::<String>(("tests.double", "tests.note")).unwrap(), "high");
    assert!(call("op_attr").call(("tests.double", "tests.nothing")).unwrap().is_none());
    assert_eq!(registry::find("tests.double").unwrap().doc(), "twice its input");

    let x: GraphRef = call("variable").call_as(("x", none())).unwrap();
    let y: GraphRef =
        call("apply_op").call_as(("tests.double", "y", vec![x], Map::<Str, GraphRef>::default(), none())).unwrap();
    let shapes: Map<Str, Shape> = [(Str::from("x"), Shape::new(&[2, 3]))].into_iter().collect();
    let y: GraphRef = call("set_attr").call_as((y, "shape_inputs", shapes)).unwrap();
    // Each pass is a packed function, too.
    let inferred: GraphRef = call("pass.InferShape").call_as((&y,)).unwrap();
    assert_eq!(inferred.attr::<Vec<Shape>>("shape").unwrap()[1].to_vec(), [2, 3]);

    let counting = Function::from_fn(|graph: GraphRef| {
        let count = symbol::IndexedGraph::new(&graph).map(|index| index.nodes.len()).unwrap_or(0);
        graph.with_attr("tests.count", i64::try_from(count).unwrap_or(0))
    });
    call("pass_register").call(("tests.Count", counting, vec!["shape"], vec!["tests.count"])).unwrap();
    let missing = call("apply").call((&y, vec!["tests.Count"])).unwrap_err().to_string();
    assert!(
        missing.contains("pass tests.Count needs graph attribute `shape`: apply InferShape before it"),
        "{missing}"
    );
    let passes: Array<Str> = ["InferShape", "tests.Count"].into_iter().map(Str::from).collect();
    let counted: GraphRef = call("apply").call_as((&y, passes)).unwrap();
    let (rest, count): (GraphRef, Any) = call("move_attr").call_as((counted, "tests.count")).unwrap();
    assert_eq!(count.to::<i64>().unwrap(), 2);
    assert!(!call("has_attr").call_as::<bool>((rest, "tests.count")).unwrap());
    let unknown = call("apply").call((&y, "infer_shape")).unwrap_err().to_string();
    assert!(unknown.contains("unknown pass `infer_shape`: is it InferShape?"), "{unknown}");
}

#[test]
fn all_operators_are_registered_once() {
    assert_eq!(registry::problems(), Vec::<String>::new());
}

#[test]
fn nodes_that_compute_the_same_are_joined() {
    let (x, y) = (var("x"), var("y"));
    let root = |value: &Value| op("sqrt", &[value], &[]);
    let leaky = |value: &Value, alpha: &str| op("leaky_relu", &[value], &[("alpha", alpha)]);
    let add = |a: &Value, b: &Value| op("elemwise_add", &[a, b], &[]);
    let twice = add(&add(&x, &root(&y)), &add(&leaky(&root(&y), "0.2"), &leaky(&root(&y), "0.3")));
    let shared = root(&y);
    let once = add(&add(&x, &shared), &add(&leaky(&shared, "0.2"), &leaky(&shared, "0.3")));
    let joined = symbol::apply_passes(&graph(&[&twice]), &["CommonSubExpression"]).unwrap();
    assert_eq!(symbol::difference(&joined, &graph(&[&once]), false).unwrap(), None);
    // Nodes that write to a variable are not joined.
    let assign = |value: &Value| op("_assign", &[&x, value], &[]);
    let written = graph(&[&assign(&y), &assign(&y)]);
    let joined = symbol::apply_passes(&written, &["CommonSubExpression"]).unwrap();
    assert_eq!(symbol::difference(&joined, &written, true).unwrap(), None);
}
