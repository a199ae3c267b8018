//! Signals, filters and spectra: a library of about the size of a package on PyPI, for every
//! language, with a Python package around it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`signal`] | the type [`Signal`](signal::Signal), and what makes signals |
//! | [`effects`] | gain, fades, delays: functions from signals to signals |
//! | [`filter`] | filters as objects that are called, and chains of them: [`Biquad`](filter::Biquad), [`Chain`](filter::Chain) |
//! | [`spectrum`] | windows and [`Spectrum`](spectrum::Spectrum) |
//! | [`peaks`] | the highest places of a signal, in order |
//! | [`files`] | WAV files |
//! | [`recorder`] | a context manager, [`Recorder`](recorder::Recorder) |
//!
//! The kernels are in C (`fir`, and `goertzel`, which is older than the package), LLVM IR
//! (`energy`) and OpenCL C (`amplify`).

#![forbid(unsafe_code)]

kernpack::library!();

pub mod effects;
pub mod files;
pub mod filter;
pub mod peaks;
pub mod recorder;
pub mod signal;
pub mod spectrum;

kernpack::exception! {
    /// Signals with different rates were combined.
    pub RateMismatch: ValueError
}
