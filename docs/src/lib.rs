//! The Rust code of the chapters, as it stands there: `your-own-types.md` in the root, because it says that the crate is a library, the
//! others in modules. Their Python code runs in `tests/python/test_chapters.py`.

#![allow(missing_docs, reason = "a chapter's text documents its code")]

include!(concat!(env!("OUT_DIR"), "/own_types_items.rs"));

pub mod devices {
    include!(concat!(env!("OUT_DIR"), "/devices_items.rs"));

    #[cfg(test)]
    mod tests {
        use super::*;

        include!(concat!(env!("OUT_DIR"), "/devices_tests.rs"));
    }
}

pub mod modules {
    include!(concat!(env!("OUT_DIR"), "/modules_items.rs"));

    #[cfg(test)]
    mod tests {
        use super::*;

        include!(concat!(env!("OUT_DIR"), "/modules_tests.rs"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    include!(concat!(env!("OUT_DIR"), "/own_types_tests.rs"));
}
