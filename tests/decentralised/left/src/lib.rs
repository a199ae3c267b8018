//! A library that refers to `shapes` in its code, and to `colors` nowhere but here:

kernpack::library!(with = [colors]);

/// Moves a point to the right.
#[kernpack::packed_func]
fn shift(point: kernpack::ObjRef<shapes::point::Point>, by: f64) -> kernpack::ObjRef<shapes::point::Point> {
    shapes::point::point(point.x + by, point.y)
}
