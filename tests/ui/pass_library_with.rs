#![deny(warnings, missing_docs)]
//! A crate that keeps others, under every spelling.

mod facade {
    pub use ::left as aliased;
}

kernpack::library!(with = [conversions, ::right, facade::aliased,], without = [clash, forgetful, objects], crate = ::kernpack);

fn main() {
    // `left` keeps it.
    assert!(kernpack::Function::get_global("colors.mix").unwrap().is_some());
    assert_eq!(kernpack::load_problems(), Vec::<String>::new());
}
