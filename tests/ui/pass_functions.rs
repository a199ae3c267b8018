//! Functions that `#[packed_func]` accepts.
#![deny(warnings, non_ascii_idents)]
#![forbid(unsafe_code)]

use kernpack::{Any, Error, Function, Result, packed_func};

kernpack::library!();

/// Adds two integers.
///
/// Both are 64 bits wide.
#[packed_func]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[packed_func]
fn longer<'a, 'b: 'a>(a: &'a str, b: &'b str) -> &'a str {
    if a.len() > b.len() { a } else { b }
}

#[packed_func]
fn count(mut x: i64) -> i64 {
    x += 1;
    x
}

#[packed_func]
fn divide(a: i64, b: i64) -> Result<i64> {
    match b {
        0 => Err(Error::value_error("division by zero")),
        b => Ok(a / b),
    }
}

#[packed_func]
fn nothing() {}

#[packed_func]
fn nothing_or_error(fails: bool) -> Result<(), Error> {
    if fails { Err(Error::value_error("asked to")) } else { Ok(()) }
}

#[packed_func]
const fn constant() -> i64 {
    3
}

#[packed_func]
fn r#type(r#in: i64) -> i64 {
    r#in
}

#[packed_func(name = "pass.functions.sizes", global = false)]
fn sizes(bytes: &[u8], wide: usize, signed: isize, list: Vec<Option<String>>, any: Any) -> usize {
    let _ = (signed, any);
    bytes.len() + wide + list.len()
}

#[packed_func]
fn call_back(f: Function, x: i64) -> Result<Any> {
    f.call((x,))
}

#[packed_func]
#[deprecated]
fn old() {}

#[packed_func]
#[cfg(any())]
fn never_compiled(missing: Missing) {}

#[packed_func]
#[doc = concat!("Made ", "by a macro.")]
fn documented_by_a_macro() {}

// Names that generated code could confuse with its own.
#[packed_func]
fn call(args: i64, result: i64, call: i64) -> i64 {
    args + result + call
}

#[packed_func]
fn metadata(info: i64) -> i64 {
    info
}

mod inner {
    pub(super) type Number = i64;

    pub(super) mod deeper {
        use kernpack::packed_func;

        #[packed_func(name = "pass.deeper.twice")]
        pub fn twice(x: super::Number) -> super::Number {
            2 * x
        }
    }
}

fn main() {
    #[packed_func]
    fn local(x: i64) -> i64 {
        x
    }
    assert_eq!(add(1, 2) + local(3) + r#type(4) + constant(), 13);
    assert_eq!(longer("a", "bc"), "bc");
    assert_eq!(inner::deeper::twice(count(1)), 4);
    assert_eq!(call(1, 2, 3) + metadata(4), 10);
    assert_eq!(sizes(b"ab", 1, 2, vec![None], Any::from(1i64)), 4);
    let _ = (divide(1, 2), nothing_or_error(false), nothing(), documented_by_a_macro());
    let _ = call_back;
}
