//! A library that refers to `shapes` under another name.

kernpack::library!();

/// Copies a tensor from the device that `shapes` brings.
#[kernpack::packed_func]
fn off_canvas(tensor: kernpack::Tensor) -> kernpack::Result<kernpack::Tensor> {
    tensor.to(kernpack::Device::CPU)
}

/// The number of times that this library's copy of `shapes` made the device.
#[kernpack::packed_func]
fn canvases_made() -> i64 {
    forms::canvas::made()
}

/// Gives the distance from the origin.
#[kernpack::packed_func]
fn norm(point: kernpack::ObjRef<forms::point::Point>) -> f64 {
    point.x.hypot(point.y)
}
