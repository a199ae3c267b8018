use crate::Map;
use crate::value::{Any, DataType, Device, IntoAny};
use crate::walker::test_graphs::{array, call, chain, circle, dag, empty, hooked, list, nested, problem, tree};

fn to_text(value: &Any, metadata: &Any) -> String {
    call("ffi.ToJSONGraphString", &[value, metadata]).unwrap().to().unwrap()
}

fn from_text(text: &str) -> crate::Result<Any> {
    call("ffi.FromJSONGraphString", &[&text.into_any()])
}

/// Asserts the text of a value, and that parsing it returns an equal value; the conversion without
/// text gives the same nodes.
#[track_caller]
fn check(value: &Any, expected: &str) {
    assert_eq!(to_text(value, &Any::NONE), expected);
    let graph = call("ffi.ToJSONGraph", &[value, &Any::NONE]).unwrap();
    let written: String = call("ffi.json.Stringify", &[&graph, &Any::NONE]).unwrap().to().unwrap();
    assert_eq!(written, expected);
    for back in [from_text(expected).unwrap(), call("ffi.FromJSONGraph", &[&graph]).unwrap()] {
        assert_eq!(to_text(&back, &Any::NONE), expected);
    }
}

#[test]
fn there_and_back() {
    let shared = dag(1, "x", 2);
    let map: Map<String, Any> = [("k".to_owned(), shared.clone())].into_iter().collect();
    let int = |value: i64| format!(r#"{{"type":"int","data":{value}}}"#);
    let one = |node: &str| format!(r#"{{"root_index":0,"nodes":[{node}]}}"#);
    check(&Any::NONE, &one(r#"{"type":"None"}"#));
    check(&true.into_any(), &one(r#"{"type":"bool","data":true}"#));
    check(&(-3).into_any(), &one(&int(-3)));
    check(&0.1.into_any(), &one(r#"{"type":"float","data":0.10000000000000001}"#));
    check(&"a\"b".into_any(), &one(r#"{"type":"ffi.String","data":"a\"b"}"#));
    check(&"float32x4".parse::<DataType>().unwrap().into_any(), &one(r#"{"type":"DataType","data":"float32x4"}"#));
    check(&"cuda:1".parse::<Device>().unwrap().into_any(), &one(r#"{"type":"Device","data":[2,1]}"#));
    check(
        &array([1.into_any(), "x".into_any(), 1.into_any()]),
        &format!(
            r#"{{"root_index":2,"nodes":[{},{{"type":"ffi.String","data":"x"}},{{"type":"ffi.Array","data":[0,1,0]}}]}}"#,
            int(1)
        ),
    );
    check(
        &list([shared.clone(), map.into_any(), shared]),
        &[
            r#"{"root_index":5,"nodes":["#,
            &int(1),
            r#",{"type":"ffi.String","data":"x"},{"type":"tests.graphs.Dag","data":{"a":0,"b":1,"number":2}},"#,
            r#"{"type":"ffi.String","data":"k"},{"type":"ffi.Map","data":[3,2]},{"type":"ffi.List","data":[2,4,2]}]}"#,
        ]
        .concat(),
    );
    check(&hooked("data", 0, 0), &one(r#"{"type":"tests.graphs.Hooked","data":"data"}"#));
    assert_eq!(
        to_text(&1.into_any(), &"note".into_any()),
        r#"{"root_index":0,"nodes":[{"type":"int","data":1}],"metadata":"note"}"#
    );
}

#[test]
fn sharing_survives() {
    let shared = tree(1, 2, 3);
    let back = from_text(&to_text(&array([shared.clone(), shared]), &Any::NONE)).unwrap();
    let parts: crate::Array<Any> = back.to().unwrap();
    let addresses: Vec<_> = parts.iter().map(|part| part.as_view().as_raw().bits()).collect();
    assert_eq!(addresses[0], addresses[1]);
}

#[test]
fn depth_is_no_limit_but_a_circle_is_an_error() {
    for (make, depth) in [(chain as fn(usize) -> Any, 300_000), (nested, 300_000)] {
        let deep = make(depth);
        let text = to_text(&deep, &Any::NONE);
        let back = from_text(&text).unwrap();
        let options = false.into_any();
        let equal: bool = call("ffi.StructuralEqual", &[&deep, &back, &options, &options]).unwrap().to().unwrap();
        assert!(equal);
    }
    let circle = circle(1);
    assert_eq!(
        problem(call("ffi.ToJSONGraph", &[&circle, &Any::NONE])),
        "ValueError: Cycle detected during serialization: a List contains itself"
    );
    empty(&circle);
}

#[test]
fn hostile_texts() {
    let nodes = |nodes: &str| format!(r#"{{"root_index":0,"nodes":[{nodes}]}}"#);
    let node = |text: &str| nodes(&format!(r#"{{"type":{text}}}"#));
    for (text, message) in [
        ("[]".to_owned(), "ValueError: Invalid JSON Object Graph, expected an object"),
        ("{}".to_owned(), "ValueError: Invalid JSON Object Graph, expected `root_index` integer field"),
        (r#"{"root_index":0}"#.to_owned(), "ValueError: Invalid JSON Object Graph, expected `nodes` array field"),
        (nodes(""), "ValueError: Invalid JSON Object Graph: invalid node index 0"),
        (r#"{"root_index":-1,"nodes":[]}"#.to_owned(), "ValueError: Invalid JSON Object Graph: invalid node index -1"),
        (nodes("7"), "TypeError: Cannot convert from type `int` to `Map<Any, Any>`"),
        (nodes("{}"), "KeyError: key is not in Map"),
        (node("1"), "TypeError: Cannot convert from type `int` to `str`"),
        (node(r#""no.such.type","data":0"#), "InternalError: Check failed: (it != type_key2index_.end()) is false: "),
        (node(r#""int""#), "KeyError: key is not in Map"),
        (node(r#""int","data":1.5"#), "TypeError: Cannot convert from type `float` to `int`"),
        (node(r#""float","data":"x""#), "TypeError: Cannot convert from type `ffi.SmallStr` to `float`"),
        (node(r#""Device","data":[1]"#), "ValueError: Invalid JSON Object Graph: Device data must be an array of "),
        (
            node(r#""ffi.Shape","data":[1,null]"#),
            "TypeError: Cannot convert from type `Array[index 1: None]` to `Array<",
        ),
        (
            node(r#""ffi.Bytes","data":"abc""#),
            "InternalError: Check failed: (bytes.size % 4 == 0) is false: invalid bas",
        ),
        (
            node(r#""ffi.Map","data":[0]"#),
            "ValueError: Invalid JSON Object Graph: Map/Dict data must contain an even num",
        ),
        (node(r#""ffi.Array","data":[0]"#), "ValueError: Invalid JSON Object Graph: node 0 is a part of itself"),
        (
            node(r#""ffi.Array","data":[9223372036854775807]"#),
            "ValueError: Invalid JSON Object Graph: invalid node ind",
        ),
        (node(r#""ffi.Tensor","data":0"#), "RuntimeError: Type `ffi.Tensor` does not support reflection creation"),
        (node(r#""tests.graphs.Tree","data":{}"#), "TypeError: Required field `a` not set in type `tests.graphs.Tree`"),
        (
            node(r#""tests.graphs.Tree","data":{"a":0}"#),
            "ValueError: Invalid JSON Object Graph: node 0 is a part of its",
        ),
        (node(r#""ffi.Enum","data":"x""#), "ValueError: Enum `ffi.Enum` has no instance with index x"),
    ] {
        // Ensures that the types of the test are registered.
        drop(tree(0, 0, 0));
        let error = from_text(&text).map(|value| value.type_name()).unwrap_err().to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
    // Nodes may be in any order, and unreferenced ones are not visited.
    let value = from_text(&nodes(r#"{"type":"ffi.Array","data":[2]},7,{"type":"int","data":5}"#)).unwrap();
    assert_eq!(value.to::<crate::Array<i64>>().unwrap().to_vec(), [5]);
}
