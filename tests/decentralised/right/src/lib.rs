//! A library that refers to `shapes` under another name.

kernpack::library!();

/// Gives the distance from the origin.
#[kernpack::packed_func]
fn norm(point: kernpack::ObjRef<forms::point::Point>) -> f64 {
    point.x.hypot(point.y)
}
