//! A library that refers to `shapes` in its code, and to `colors` nowhere but here:

kernpack::library!(with = [colors]);

/// Copies a tensor to the device that `shapes` brings.
#[kernpack::packed_func]
fn onto_canvas(tensor: kernpack::Tensor) -> kernpack::Result<kernpack::Tensor> {
    tensor.to(shapes::canvas::CANVAS)
}

/// How often this library's copy of `shapes` made the device.
#[kernpack::packed_func]
fn canvases() -> i64 {
    shapes::canvas::made()
}

/// Moves a point to the right.
#[kernpack::packed_func]
fn shift(point: kernpack::ObjRef<shapes::point::Point>, by: f64) -> kernpack::ObjRef<shapes::point::Point> {
    shapes::point::point(point.x + by, point.y)
}
