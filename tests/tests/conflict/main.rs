//! A program of its own types under the keys of libraries that it loads. Nothing else may be in it:
//! every other load of these libraries would fail, too.

mod enums;
mod types;
