use kernpack::{Any, Device, Module, Result, Tensor};

/// The radius of the blur in pixels.
const RADIUS: i64 = 3;

/// The filters of a library, on a device of this or another machine.
pub(crate) struct Filters {
    library: Module,
    device: Device,
}

/// The result of a filter.
pub(crate) struct Filtered {
    pub(crate) name: &'static str,
    pub(crate) function: &'static str,
    /// The arguments of the function, for measurements.
    pub(crate) arguments: Vec<Any>,
    /// The gray picture, float32 of shape (height, width), on the device.
    pub(crate) picture: Tensor,
    /// The allowed difference between machines. Some fuse multiplication and addition into one
    /// instruction.
    pub(crate) tolerance: f64,
}

impl Filters {
    pub(crate) fn new(library: &Module, device: Device) -> Result<Self> {
        Ok(Self { library: library.clone(), device })
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    pub(crate) fn library(&self) -> &Module {
        &self.library
    }

    /// Runs gray (Rust), blur (C), edges of the result (LLVM IR), and all of it in one function.
    /// The photograph is copied to the device once, and nothing is copied back in between.
    pub(crate) fn run(&self, photo: &Tensor) -> Result<Vec<Filtered>> {
        let photo = photo.to(self.device)?;
        let gray: Tensor = self.library.function("imagekit.to_gray")?.call_as((&photo,))?;
        let [blurred, strength] = [self.like(&gray)?, self.like(&gray)?];
        self.library.function("blur")?.call((&gray, &blurred, RADIUS))?;
        self.library.function("sobel")?.call((&blurred, &strength))?;
        let edges: Tensor = self.library.function("edges")?.call_as((&photo, RADIUS))?;
        let radius = Any::from(RADIUS);
        let any = |tensor: &Tensor| Any::from(tensor.clone());
        Ok(vec![
            Filtered {
                name: "gray",
                function: "imagekit.to_gray",
                arguments: vec![any(&photo)],
                picture: gray.clone(),
                tolerance: 0.0,
            },
            Filtered {
                name: "blur",
                function: "blur",
                // Measured into a separate picture, because the other one is a result.
                arguments: vec![any(&gray), any(&self.like(&gray)?), radius.clone()],
                picture: blurred.clone(),
                tolerance: 1e-3,
            },
            Filtered {
                name: "sobel",
                function: "sobel",
                arguments: vec![any(&blurred), any(&self.like(&gray)?)],
                picture: strength,
                tolerance: 1e-2,
            },
            Filtered {
                name: "edges",
                function: "edges",
                arguments: vec![any(&photo), radius],
                picture: edges,
                tolerance: 1e-2,
            },
        ])
    }

    /// Creates a picture of the same size on the device.
    fn like(&self, gray: &Tensor) -> Result<Tensor> {
        Tensor::empty(gray.dtype(), gray.shape(), self.device)
    }
}

/// Returns the greatest difference of two pixels, or NaN if the pictures cannot be compared.
pub(crate) fn difference(picture: &Tensor, expected: &Tensor) -> Result<f64> {
    if picture.shape() != expected.shape() {
        return Ok(f64::NAN);
    }
    let (picture, expected) = (picture.view::<f32>()?, expected.view::<f32>()?);
    let pairs = picture.iter().zip(expected.iter());
    // A NaN pixel counts as a difference, too.
    Ok(pairs.fold(0.0, |most: f64, (a, b)| {
        let difference = f64::from((a - b).abs());
        if difference.is_nan() || most.is_nan() { f64::NAN } else { most.max(difference) }
    }))
}
