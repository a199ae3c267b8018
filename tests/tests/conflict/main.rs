//! A program with its own types under the keys of libraries that it loads. It has no other tests:
//! every other load of these libraries would fail, too.

mod enums;
mod types;
