//! JSON text: `ffi.json.Parse` and `ffi.json.Stringify`.

use kernpack::{Any, IntoAny};

use crate::call::{bytes_of, call, must, text};

/// Any text that parses can be written, and is read back unchanged.
pub fn check(input: &[u8]) {
    let value = match call("ffi.json.Parse", &[&text(input)]) {
        Ok(value) => value,
        Err(error) => {
            assert_eq!(error.kind(), "ValueError", "{error}");
            let place = error.message().rsplit_once(" (char ").and_then(|(_, place)| place.strip_suffix(')'));
            let place: usize = place.and_then(|place| place.parse().ok()).expect("an error says where");
            assert!(place <= input.len(), "{error}");
            return;
        }
    };
    // A float without a fraction may be written as an integer, as the stock library does; from then
    // on the text is stable.
    let written = must("ffi.json.Stringify", &[&value, &Any::NONE]);
    let again = must("ffi.json.Parse", &[&written]);
    let written_again = must("ffi.json.Stringify", &[&again, &Any::NONE]);
    assert!(bytes_of(&written_again) == bytes_of(&written), "{}", String::from_utf8_lossy(bytes_of(&written)));
    let (no, third) = (false.into_any(), must("ffi.json.Parse", &[&written_again]));
    let equal = must("ffi.StructuralEqual", &[&again, &third, &no, &no]);
    assert!(equal.to::<bool>().expect("a flag"), "{}", String::from_utf8_lossy(bytes_of(&written)));

    // Indented text has the same value. Its length is quadratic in the depth of a value.
    if input.len() < 1000 {
        let lines = must("ffi.json.Stringify", &[&value, &2_i64.into_any()]);
        let again = must("ffi.json.Parse", &[&lines]);
        assert!(bytes_of(&must("ffi.json.Stringify", &[&again, &Any::NONE])) == bytes_of(&written));
    }
}
