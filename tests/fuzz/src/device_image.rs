//! The payload of modules with device code.

use kernpack::module::device_image::DeviceImage;

/// What can be read is written as it was, whatever the kind.
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
