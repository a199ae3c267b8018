#![deny(warnings, missing_docs)]
//! A crate that keeps others, in every spelling.

mod facade {
    pub use ::left as aliased;
}

kernpack::library!(
    with = [conversions, ::right, facade::aliased,],
    without = [clash, forgetful, objects],
    crate = ::kernpack
);

fn main() {
    // `left` keeps it.
    assert!(kernpack::Function::find_global("colors.mix").unwrap().is_some());
    // The test ignores the problems of other dependencies.
    let problems = kernpack::load_problems().join("\n");
    for name in ["clash", "colors", "conversions", "forgetful", "left", "right", "shapes"] {
        assert!(!problems.contains(&format!("crate {name} ")), "{problems}");
    }
}
