//! The payload of modules with device code.

use kernpack::module::device_image::DeviceImage;

/// An image that can be read is written with the same bytes, for any kind.
pub fn check(input: &[u8]) {
    for kind in ["cuda", "metal", "webgpu"] {
        match DeviceImage::parse_as(kind, input) {
            Ok(image) => {
                assert!(image.to_vec() == input);
                for kernel in image.kernels() {
                    assert!(image.kernel(kernel.name) == Some(kernel));
                }
            }
            Err(error) => {
                assert!(error.offset() <= input.len() && error.to_string().starts_with("device image: "), "{error}");
            }
        }
    }
}
