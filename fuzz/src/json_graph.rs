//! Graphs of objects as JSON: `ffi.FromJSONGraphString`, `ffi.ToJSONGraphString`, and what is done with the objects that come out.

use kernpack::{Any, IntoAny};

use crate::call::{bytes_of, call, must, text};
use crate::node;

/// Whatever is decoded can be encoded; what is decoded again is equal, and so are copies, keys and hashes.
pub fn check(input: &[u8]) {
    node::register();
    let Ok(value) = call("ffi.FromJSONGraphString", &[&text(input)]) else { return };
    // A graph that says how it was made: what is encoded next to it.
    let none = Any::NONE;
    let encoded = match call("ffi.ToJSONGraphString", &[&value, &none]) {
        Ok(encoded) => encoded,
        Err(error) => panic!("a decoded graph can not be encoded: {error}"),
    };
    let again = must("ffi.FromJSONGraphString", &[&encoded]);
    let encoded_again = must("ffi.ToJSONGraphString", &[&again, &none]);
    assert!(
        bytes_of(&encoded_again) == bytes_of(&encoded),
        "{}\n{}",
        String::from_utf8_lossy(bytes_of(&encoded)),
        String::from_utf8_lossy(bytes_of(&encoded_again))
    );
    // The other way to write it: a value that is then written as JSON.
    let graph = must("ffi.ToJSONGraph", &[&value, &none]);
    let decoded = must("ffi.FromJSONGraph", &[&graph]);
    let copy = must("ffi.DeepCopy", &[&value]);
    for other in [&again, &decoded, &copy] {
        check_same(&value, other);
    }
}

/// Both are the same in every way that there is.
fn check_same(one: &Any, other: &Any) {
    let (yes, no) = (true.into_any(), false.into_any());
    let flag = |value: Any| value.to::<bool>().expect("a flag");
    let number = |value: Any| value.to::<i64>().expect("a number");
    assert!(flag(must("ffi.StructuralEqual", &[one, other, &yes, &no])));
    let hashes = [one, other].map(|value| number(must("ffi.StructuralHash", &[value, &yes, &no])));
    assert_eq!(hashes[0], hashes[1]);
    let _ = must("ffi.ReprPrint", &[one]);
}
