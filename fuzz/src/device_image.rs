//! The payload of modules with device code.

use kernpack::module::device_image::DeviceImage;

/// What can be read is written as it was.
pub fn check(input: &[u8]) {
    match DeviceImage::parse(input) {
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
