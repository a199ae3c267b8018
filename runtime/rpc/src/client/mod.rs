//! The client: a session with a server, whose functions, modules, tensors and objects are used like
//! local ones.
//!
//! ```no_run
//! use kernpack::{Device, Tensor};
//! use kernpack_rpc as rpc;
//!
//! let session = rpc::connect("pi.local:9090").key("pi").open()?;
//! session.upload("target/aarch64-unknown-linux-gnu/release/libfilters.so")?;
//! let library = session.load_module("libfilters.so")?;
//! let there = session.device("cpu:0")?;
//! let image = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3])?.to(there)?;
//! library.function("blur")?.call((&image,))?;
//! println!("{:?}", image.to(Device::CPU)?.view::<f32>()?.to_vec());
//! # Ok::<(), kernpack::Error>(())
//! ```
//!
//! A value that a call returns lives on the server until the last reference to it here is dropped,
//! on any thread. A session ends when nothing refers to it any more: neither a [`Session`] nor a
//! function, module, tensor or object of it.
//!
//! A session has one request in flight at a time; several threads may use it, and wait for each
//! other. Every wait has a timeout ([`Connect::timeout`]), and Ctrl+C ends it at once if a frontend
//! such as Python handles signals. A session whose connection failed stays closed: every further
//! request fails with an error that gives the reason.

mod address;
mod connect;
mod device;
mod function;
mod handle;
mod line;
mod memory;
mod module;
mod object;
mod packed;
mod raised;
mod session;
mod shared;
mod signals;
mod slots;
mod tensor;
mod time_evaluator;
mod value;

pub(crate) use address::dial_to;
pub(crate) use address::host_and_port;
pub use connect::{Connect, connect};
pub use object::RemoteObject;
pub use packed::SessionObject;
pub use session::Session;
pub(crate) use signals::{already_raised, are_pending};
pub use time_evaluator::{TimeEvaluator, Timing};
