//! Graphs of objects as JSON: `ffi.FromJSONGraphString`, `ffi.ToJSONGraphString`, and operations on
//! the decoded objects.

use kernpack::{Any, Array, IntoAny, Map, Str};

use crate::call::{bytes_of, call, must, text};
use crate::node;

/// Types of map keys that are compared by value. Every other key of a map is compared by its
/// address.
const KEYS_BY_VALUE: [&str; 8] = ["None", "bool", "int", "float", "DataType", "Device", "ffi.String", "ffi.Bytes"];

/// Any value that is decoded can be encoded; decoding the result gives an equal value, and so do
/// copies and hashes. The exception is the same as in the stock library: a map with a container or
/// another object as key is equal only to maps with the same key.
pub fn check(input: &[u8]) {
    node::register();
    let Ok(value) = call("ffi.FromJSONGraphString", &[&text(input)]) else { return };
    let none = Any::NONE;
    let encoded = must("ffi.ToJSONGraphString", &[&value, &none]);
    let again = must("ffi.FromJSONGraphString", &[&encoded]);
    let encoded_again = must("ffi.ToJSONGraphString", &[&again, &none]);
    assert!(
        bytes_of(&encoded_again) == bytes_of(&encoded),
        "{}\n{}",
        String::from_utf8_lossy(bytes_of(&encoded)),
        String::from_utf8_lossy(bytes_of(&encoded_again))
    );
    // The other encoding: a value that is then written as JSON. A data type that was read may have
    // the text of a simpler one.
    let graph = must("ffi.ToJSONGraph", &[&value, &none]);
    check_same(&again, &must("ffi.FromJSONGraph", &[&graph]), &encoded);
    check_same(&again, &must("ffi.FromJSONGraphString", &[&encoded_again]), &encoded);
    check_same(&value, &value, &encoded);
    if let Ok(copy) = call("ffi.DeepCopy", &[&value]) {
        check_same(&value, &copy, &encoded);
    }
    // Fields of the wrong type, which are detected only when they are read, are an error.
    let _ = call("ffi.ReprPrint", &[&value]);
    let _ = call("ffi.RecursiveHash", &[&value]);
}

/// Checks that both are structurally equal, and so are their hashes. `encoded` is the graph of
/// both.
fn check_same(one: &Any, other: &Any, encoded: &Any) {
    let (yes, no) = (true.into_any(), false.into_any());
    let Ok(equal) = call("ffi.StructuralEqual", &[one, other, &yes, &no]) else { return };
    if !equal.to::<bool>().expect("a flag") {
        let is_itself = one.as_view().as_raw().bits() == other.as_view().as_raw().bits();
        assert!(!is_itself, "a value is not equal to itself");
        assert!(has_keys_by_address(encoded), "{}", String::from_utf8_lossy(bytes_of(encoded)));
        return;
    }
    let [one, other] = [one, other].map(|value| must("ffi.StructuralHash", &[value, &yes, &no]));
    assert_eq!(one.to::<i64>().expect("a number"), other.to::<i64>().expect("a number"));
}

/// Returns whether a map of the graph has a key that is found by its address.
fn has_keys_by_address(encoded: &Any) -> bool {
    let graph: Map<Str, Any> = must("ffi.json.Parse", &[encoded]).to().expect("a graph is a map");
    let nodes: Array<Map<Str, Any>> = graph.get("nodes").expect("a graph has nodes").to().expect("an array of maps");
    let type_of = |node: &Map<Str, Any>| node.get("type").expect("a node has a type").to::<String>().expect("a text");
    nodes.iter().filter(|node| matches!(type_of(node).as_str(), "ffi.Map" | "ffi.Dict")).any(|node| {
        let entries: Array<i64> = node.get("data").expect("a map has data").to().expect("an array of indices");
        entries.iter().step_by(2).any(|key| {
            let key = nodes.get(key as usize).expect("a key is a node");
            !KEYS_BY_VALUE.contains(&type_of(&key).as_str())
        })
    })
}
