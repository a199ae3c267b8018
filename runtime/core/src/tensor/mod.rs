//! Tensors: [`Tensor`] owns a reference, [`TensorView`] and [`TensorViewMut`] give typed access to
//! the elements.
//!
//! Memory is shared with NumPy, PyTorch and other frameworks through DLPack, without copying in
//! either direction.
//!
//! ```
//! use kernpack::Tensor;
//! let tensor = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
//! let view = tensor.view::<f32>().unwrap();
//! assert_eq!(view.get(&[1, 2]), Some(6.0));
//! assert_eq!(view.as_slice().unwrap().len(), 6);
//! assert!(tensor.view::<u8>().is_err(), "the element type is checked");
//! ```
//!
//! Tensors can be on any device that [`device`](crate::device) supports: [`Tensor::empty`]
//! allocates there, [`Tensor::to`] copies between any two devices, and [`Tensor::view_as`] and
//! similar methods share the data.

mod allocation;
mod borrow;
#[cfg(any(feature = "cuda", feature = "opencl"))]
mod device_functions;
mod elements;
mod handle;
mod part;
mod transfer;
mod view;

#[cfg(any(feature = "cuda", feature = "opencl"))]
pub(crate) use device_functions::register as register_device_functions;
pub use handle::Tensor;
pub use view::{TensorView, TensorViewMut};
