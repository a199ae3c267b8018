//! Layouts: the results of CorrectLayout, and the places where it inserts changes of layout.

use kernpack::{Array, Function, Map, Str};
use kernpack_nnvm::symbol::registry::{self, Arity, Cell};
use kernpack_nnvm::symbol::{self, GraphRef, IndexedGraph, Value};

use crate::support::{graph, named, var};

fn corrected(net: &GraphRef, given: &[(&str, &str)]) -> Result<GraphRef, String> {
    let given: Map<Str, Str> = given.iter().map(|(name, layout)| (Str::from(*name), Str::from(*layout))).collect();
    symbol::apply_passes(&net.with_attr("layout_inputs", given), &["CorrectLayout"]).map_err(|error| error.to_string())
}

/// Formats all nodes in order, with the layout of their first output:
/// `x NCHW, w OIHW, c=conv2d NCHW`.
fn shown(graph: &GraphRef) -> String {
    let layouts: Vec<String> = graph.attr("layout").unwrap();
    let index = IndexedGraph::new(graph).unwrap();
    let nodes = index.nodes.iter().zip(&index.row_ptr).map(|(node, entry)| {
        let (name, layout) = (node.node.name.as_str(), &layouts[*entry]);
        match node.node.is_variable() {
            true => format!("{name} {layout}"),
            false => format!("{name}={} {layout}", node.node.op.as_ref().unwrap().as_str()),
        }
    });
    nodes.collect::<Vec<_>>().join(", ")
}

fn check(outputs: &[&Value], given: &[(&str, &str)], expected: &str) {
    let once = corrected(&graph(outputs), given).unwrap();
    assert_eq!(shown(&once), expected);
    // A correct graph is unchanged.
    assert_eq!(shown(&corrected(&once, given).unwrap()), expected);
}

fn conv(name: &str, x: &Value, layout: &str, kernel: &str) -> Value {
    let attrs = [
        ("channels", "32"),
        ("kernel_size", "(3, 3)"),
        ("use_bias", "False"),
        ("layout", layout),
        ("kernel_layout", kernel),
    ];
    named("conv2d", name, &[x, &var(&format!("{name}_w"))], &attrs)
}

#[test]
fn variables_are_as_they_are_read() {
    let attrs = [("channels", "8"), ("kernel_size", "(3, 3)")];
    let plain = named("conv2d", "c", &[&var("x"), &var("w"), &var("b")], &attrs);
    check(&[&plain], &[], "x NCHW, w OIHW, b C, c=conv2d NCHW");
    check(&[&plain], &[("x", "NCHW")], "x NCHW, w OIHW, b C, c=conv2d NCHW");
    let attrs = [("channels", "8"), ("kernel_size", "(2, 2)"), ("layout", "NHWC"), ("kernel_layout", "HWOI")];
    let back = named("conv2d_transpose", "t", &[&var("x"), &var("w"), &var("b")], &attrs);
    check(&[&back], &[], "x NHWC, w HWOI, b C, t=conv2d_transpose NHWC");
}

#[test]
fn elements_and_windows_keep_layouts() {
    let c = conv("c", &var("x"), "NHWC", "HWIO");
    let relu = named("relu", "r", &[&c], &[]);
    let scaled = named("__mul_scalar__", "s", &[&relu], &[("scalar", "2")]);
    let pooled = named("max_pool2d", "p", &[&scaled], &[("pool_size", "(2, 2)"), ("layout", "NHWC")]);
    let sum = named("elemwise_add", "a", &[&pooled, &var("y")], &[]);
    check(
        &[&sum],
        &[],
        "x NHWC, c_w HWIO, c=conv2d NHWC, r=relu NHWC, s=__mul_scalar__ NHWC, p=max_pool2d NHWC, y NHWC, a=elemwise_add NHWC",
    );
}

#[test]
fn layouts_change_where_an_operator_wants_another_one() {
    let x = var("x");
    let (first, second) = (conv("a", &x, "NCHW16c", "OIHW16i16o"), conv("b", &x, "NCHW16c", "OIHW16i16o"));
    // Two readers share one change.
    check(
        &[&first, &second],
        &[("x", "NCHW")],
        "x NCHW, x_NCHW16c=__layout_transform__ NCHW16c, a_w OIHW16i16o, a=conv2d NCHW16c, b_w OIHW16i16o, b=conv2d NCHW16c",
    );
    // Weights that the caller provides in another layout.
    check(
        &[&first],
        &[("x", "NCHW16c"), ("a_w", "OIHW")],
        "x NCHW16c, a_w OIHW, a_w_OIHW16i16o=__layout_transform__ OIHW16i16o, a=conv2d NCHW16c",
    );
    // An operator that needs whole axes, and two layouts that meet.
    let relu = named("relu", "r", &[&first], &[]);
    let flat = named("flatten", "f", &[&relu], &[]);
    check(
        &[&flat],
        &[],
        "x NCHW16c, a_w OIHW16i16o, a=conv2d NCHW16c, r=relu NCHW16c, r_NCHW=__layout_transform__ NCHW, f=flatten __undef__",
    );
    let soft = named("softmax", "s", &[&relu], &[("axis", "1")]);
    check(
        &[&soft],
        &[],
        "x NCHW16c, a_w OIHW16i16o, a=conv2d NCHW16c, r=relu NCHW16c, r_NCHW=__layout_transform__ NCHW, s=softmax NCHW",
    );
    let sum = named("elemwise_add", "sum", &[&relu, &conv("b", &var("y"), "NCHW", "OIHW")], &[]);
    check(
        &[&sum],
        &[],
        "x NCHW16c, a_w OIHW16i16o, a=conv2d NCHW16c, r=relu NCHW16c, y NCHW, b_w OIHW, b=conv2d NCHW, b_NCHW16c=__layout_transform__ NCHW16c, sum=elemwise_add NCHW16c",
    );
    // Between two that are split differently.
    let other = conv("d", &first, "NCHW8c", "OIHW8i8o");
    check(
        &[&other],
        &[],
        "x NCHW16c, a_w OIHW16i16o, a=conv2d NCHW16c, a_NCHW8c=__layout_transform__ NCHW8c, d_w OIHW8i8o, d=conv2d NCHW8c",
    );
}

#[test]
fn results_in_another_layout() {
    let attrs = [
        ("channels", "32"),
        ("kernel_size", "(1, 1)"),
        ("layout", "NCHW16c"),
        ("kernel_layout", "OIHW16i16o"),
        ("out_layout", "NCHW8c"),
    ];
    let conv = named("_contrib_conv2d_NCHWc", "c", &[&var("x"), &var("w"), &var("b")], &attrs);
    check(&[&conv], &[], "x NCHW16c, w OIHW16i16o, b C8c, c=_contrib_conv2d_NCHWc NCHW8c");
}

#[test]
fn layouts_that_are_none() {
    let c = conv("c", &var("x"), "NCHW", "OIHW");
    let error = |given: &[(&str, &str)]| corrected(&graph(&[&c]), given).err().unwrap_or_default();
    assert_eq!(
        error(&[("x", "NC")]),
        "pass CorrectLayout: node 'c' (conv2d): its input 0 is in layout NC, which cannot become NCHW"
    );
    assert_eq!(error(&[("x", "N7")]), "pass CorrectLayout: node 'c' (conv2d): input 0: `N7` is not a layout");
}

/// An operator in any language requests layouts, from the current ones and those of the previous
/// pass.
#[test]
fn a_function_of_another_language() {
    let op =
        registry::register("tests.swap", "its input, turned", vec!["data".into()], Arity::Fixed(1), Arity::Fixed(1))
            .unwrap();
    let function = Function::from_fn(|_: Map<Str, Str>, inputs: Array<Str>, last: Array<Str>, _: Array<Str>| {
        assert_eq!((inputs.len(), last.len()), (1, 1));
        let wanted: Array<Str> = [Str::from("NHWC")].into_iter().collect();
        (wanted, [Str::from("NCHW")].into_iter().collect::<Array<Str>>())
    });
    op.set_cell("FCorrectLayout", Cell::Value(function.into()), 10, "a test").unwrap();
    let swapped = named("tests.swap", "s", &[&conv("c", &var("x"), "NCHW", "OIHW")], &[]);
    check(
        &[&named("relu", "r", &[&swapped], &[])],
        &[],
        "x NCHW, c_w OIHW, c=conv2d NCHW, c_NHWC=__layout_transform__ NHWC, s=tests.swap NCHW, r=relu NCHW",
    );
}

/// The layouts after a pass with the first layouts, and after another with the second ones.
fn twice(output: &Value, first: &[(&str, &str)], second: &[(&str, &str)]) -> [String; 2] {
    let once = corrected(&graph(&[output]), first).unwrap();
    [shown(&once), shown(&corrected(&once, second).unwrap())]
}

#[test]
fn an_operator_stays_in_the_layout_of_the_pass_before() {
    let dense = named("dense", "d", &[&var("x"), &var("w"), &var("b")], &[("units", "4")]);
    let [first, second] = twice(&dense, &[("x", "HW")], &[("x", "HW8w")]);
    assert_eq!(first, "x HW, w __undef__, b __undef__, d=dense HW");
    assert_eq!(second, "x HW8w, x_HW=__layout_transform__ HW, w __undef__, b __undef__, d=dense HW");
    for (turns, layouts, result) in [
        (["False", "False"], ["HW", "WC"], "HC"),
        (["True", "False"], ["WH", "WC"], "HC"),
        (["False", "True"], ["HW", "CW"], "HC"),
        (["True", "True"], ["WH", "CW"], "HC"),
        // The axis of the result would be there twice.
        (["False", "False"], ["HW", "WH"], "__undef__"),
    ] {
        let attrs = [("transpose_a", turns[0]), ("transpose_b", turns[1])];
        let product = named("matmul", "m", &[&var("a"), &var("b")], &attrs);
        let [first, _] = twice(&product, &[("a", layouts[0]), ("b", layouts[1])], &[]);
        assert_eq!(first, format!("a {}, b {}, m=matmul {result}", layouts[0], layouts[1]));
    }
    let turned = named("transpose", "t", &[&var("x")], &[("axes", "(0, 2, 3, 1)")]);
    let [first, second] = twice(&turned, &[("x", "NCHW")], &[("x", "NCHW4c")]);
    assert_eq!(first, "x NCHW, t=transpose NHWC");
    assert_eq!(second, "x NCHW4c, x_NCHW=__layout_transform__ NCHW, t=transpose NHWC");
}

#[test]
fn joined_axes_stay_where_they_are() {
    let joined = named("concatenate", "c", &[&var("x"), &var("y")], &[("axis", "1")]);
    let both = |layout| [("x", layout), ("y", layout)];
    let [first, second] = twice(&joined, &both("HW"), &both("HW16w"));
    assert_eq!(first, "x HW, y HW, c=concatenate HW");
    assert_eq!(second, "x HW16w, y HW16w, c=concatenate HW16w");
    let [_, second] = twice(&joined, &both("HW"), &both("WH"));
    assert_eq!(second, "x WH, x_HW=__layout_transform__ HW, y WH, y_HW=__layout_transform__ HW, c=concatenate HW");
    // The last axis of HW16w is the part, not the whole axis.
    let joined = named("concatenate", "c", &[&var("x"), &var("y")], &[("axis", "-1")]);
    let [_, second] = twice(&joined, &both("HW"), &both("HW16w"));
    let expected = "x HW16w, x_HW=__layout_transform__ HW, y HW16w, y_HW=__layout_transform__ HW, c=concatenate HW";
    assert_eq!(second, expected);
    // Axes that the layout does not have.
    for axis in ["2", "-3"] {
        let joined = named("concatenate", "c", &[&var("x"), &var("y")], &[("axis", axis)]);
        let error = corrected(&graph(&[&joined]), &both("HW")).unwrap_err();
        let expected = format!("axis {axis} is out of range: the tensor has 2 dimensions");
        assert!(error.contains(&expected) && error.contains("'c' (concatenate)"), "{error}");
    }
}

#[test]
fn channels_of_parameters_follow_the_data() {
    let inputs = ["x", "gamma", "beta", "mean", "var"].map(var);
    let norm = named("batch_norm", "n", &inputs.each_ref(), &[("axis", "1")]);
    let [first, second] = twice(&norm, &[("x", "NCHW")], &[("x", "NCHW8c")]);
    assert_eq!(first, "x NCHW, gamma C, beta C, mean C, var C, n=batch_norm NCHW");
    let parameter = |name: &str| format!("{name} C, {name}_C8c=__layout_transform__ C8c");
    let parameters = ["gamma", "beta", "mean", "var"].map(parameter).join(", ");
    assert_eq!(second, format!("x NCHW8c, {parameters}, n=batch_norm NCHW8c"));
    // A part that is not at the end: the data goes back.
    let [_, second] = twice(&norm, &[("x", "NCHW")], &[("x", "NCH8cW")]);
    let expected = "x NCH8cW, x_NCHW=__layout_transform__ NCHW, gamma C, beta C, mean C, var C, n=batch_norm NCHW";
    assert_eq!(second, expected);
    // Axis 1 of NHWC is not that of the channels.
    let [_, second] = twice(&norm, &[("x", "NCHW")], &[("x", "NHWC")]);
    let expected = "x NHWC, x_NCHW=__layout_transform__ NCHW, gamma C, beta C, mean C, var C, n=batch_norm NCHW";
    assert_eq!(second, expected);
    let pooled = named("max_pool2d", "p", &[&var("x")], &[("pool_size", "(2, 2)")]);
    let [first, second] = twice(&pooled, &[("x", "NCHW16c")], &[("x", "NHWC")]);
    assert_eq!(first, "x NCHW16c, p=max_pool2d NCHW16c");
    assert_eq!(second, "x NHWC, x_NCHW=__layout_transform__ NCHW, p=max_pool2d NCHW");
}

#[test]
fn the_smaller_operand_takes_the_last_axes_of_the_larger() {
    for (layouts, expected) in [
        (["NCHW", "CHW"], "x NCHW, y CHW, s=broadcast_add NCHW"),
        (["NCHW16c", "CHW"], "x NCHW16c, y CHW, y_CHW16c=__layout_transform__ CHW16c, s=broadcast_add NCHW16c"),
        (["HCW8c", "N8nCH8cW"], "x HCW8c, x_CH8cW=__layout_transform__ CH8cW, y N8nCH8cW, s=broadcast_add N8nCH8cW"),
    ] {
        let sum = named("broadcast_add", "s", &[&var("x"), &var("y")], &[]);
        assert_eq!(twice(&sum, &[("x", layouts[0]), ("y", layouts[1])], &[])[0], expected);
    }
}

#[test]
fn layouts_of_variables_that_are_a_list() {
    let list: Array<Str> = [Str::from("NCHW")].into_iter().collect();
    let net = graph(&[&named("relu", "r", &[&var("x")], &[])]).with_attr("layout_inputs", list);
    let error = symbol::apply_passes(&net, &["CorrectLayout"]).unwrap_err().to_string();
    assert!(error.contains("graph attribute `layout_inputs`: expected Map"), "{error}");
}
