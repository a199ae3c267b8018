//! Image filters in five languages, in one shared library that every host loads.
//!
//! Images are tensors: color as `uint8[height, width, 3]`, gray as `float32[height, width]` with
//! values from 0 (black) to 255 (white). Functions that return an image allocate it; the kernels in
//! `kernels/` write into a tensor of the caller.
//!
//! | function | language | what it does |
//! |---|---|---|
//! | [`to_gray`](gray::to_gray) | Rust | color to gray |
//! | [`histogram`](histogram::histogram), [`otsu_threshold`](histogram::otsu_threshold), [`contrast`](histogram::contrast) | Rust | an object with fields, and functions that take it |
//! | [`crop`](crop::crop) | Rust | a rectangle, from a tensor with any strides |
//! | [`gamma`](tone::gamma), [`stretch_rows`](tone::stretch_rows) | Rust | functions for one pixel and one row, run on all CPUs |
//! | [`map_rows`](rows::map_rows), [`make_scaler`](rows::make_scaler) | Rust | take and return functions |
//! | [`describe`](describe::describe), [`to_pgm`](describe::to_pgm), [`ascii_art`](describe::ascii_art) | Rust | return a dictionary, bytes and text |
//! | [`kernels::blur`] | C | box blur |
//! | [`kernels::sobel`] | LLVM IR | edge strength |
//! | [`edges`](edges::edges) | Rust | gray, blurred, edge strength: the kernels called from Rust |
//! | [`sobel_on_cuda`](edges::sobel_on_cuda) | CUDA | edge strength on a device |
//! | [`sobel_on_opencl`](edges::sobel_on_opencl) | OpenCL C | edge strength on a device, to which it brings the image |

kernpack::library!();

pub mod crop;
pub mod describe;
pub mod edges;
pub mod gray;
pub mod histogram;
mod image;
pub mod rows;
pub mod tone;
