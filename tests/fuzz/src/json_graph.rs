//! Graphs of objects as JSON: `ffi.FromJSONGraphString`, `ffi.ToJSONGraphString`, and what is done with the objects that come out.

use kernpack::{Any, IntoAny};

use crate::call::{bytes_of, call, must, text};
use crate::node;

/// Whatever is decoded can be encoded; what is decoded again is equal, and so are copies, keys and hashes.
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
    // The other way to write it: a value that is then written as JSON. A data type that was read may have a simpler one's text.
    let graph = must("ffi.ToJSONGraph", &[&value, &none]);
    check_same(&again, &must("ffi.FromJSONGraph", &[&graph]));
    check_same(&again, &must("ffi.FromJSONGraphString", &[&encoded_again]));
    if let Ok(copy) = call("ffi.DeepCopy", &[&value]) {
        check_same(&value, &copy);
    }
    // Fields of the wrong type, which only the reader of a field notices, are an error.
    let _ = call("ffi.ReprPrint", &[&value]);
    let _ = call("ffi.RecursiveHash", &[&value]);
}

/// Both are structurally equal, and so are their hashes.
fn check_same(one: &Any, other: &Any) {
    let (yes, no) = (true.into_any(), false.into_any());
    match call("ffi.StructuralEqual", &[one, other, &yes, &no]) {
        Ok(equal) => assert!(equal.to::<bool>().expect("a flag")),
        Err(_) => return,
    }
    let [one, other] = [one, other].map(|value| must("ffi.StructuralHash", &[value, &yes, &no]));
    assert_eq!(one.to::<i64>().expect("a number"), other.to::<i64>().expect("a number"));
}
