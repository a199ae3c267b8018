//! The Rust code of `your-own-types.md`, as it stands there. Its Python code runs in `tests/python/test_chapters.py`.

#![allow(missing_docs, reason = "a chapter's text documents its code")]

include!(concat!(env!("OUT_DIR"), "/items.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    include!(concat!(env!("OUT_DIR"), "/tests.rs"));
}
