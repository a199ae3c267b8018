//! The operations on values and graphs of objects. Each engine defines its global functions; the
//! typed operations of `structural` and `reflect` call the engines directly.

pub(crate) mod access_path;
pub(crate) mod deep_copy;
pub(crate) mod json_graph;
pub(crate) mod recursive;
pub(crate) mod repr;
pub(crate) mod structural;
pub(crate) mod visit;

#[cfg(test)]
mod made_parts;
#[cfg(test)]
mod shapes;
