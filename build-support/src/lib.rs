//! Build helper.
