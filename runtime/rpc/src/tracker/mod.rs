//! A tracker: servers offer themselves under a key, clients request a server of a key and wait
//! until one is free.
//!
//! The protocol is that of Apache TVM's tracker, which is JSON over TCP: stock servers and clients
//! work with this [`Tracker`], and [`TrackerClient`] and [`Registration`] work with a stock
//! tracker.
//!
//! ```
//! use kernpack_rpc::tracker::{Tracker, TrackerClient, TrackerOptions};
//!
//! let mut options = TrackerOptions::default();
//! options.listen.port = 0;
//! let tracker = Tracker::start(options)?;
//! let client = TrackerClient::new(tracker.address().to_string());
//! assert!(client.summary()?.servers.is_empty());
//! # Ok::<(), kernpack::Error>(())
//! ```

mod client;
mod host;
mod message;
mod options;
mod packed;
mod queue;
mod registration;
mod server;
mod summary;

pub use client::{Found, TrackerClient};
pub use options::TrackerOptions;
pub use registration::{Claim, Offer, Registration};
pub use server::Tracker;
#[doc(hidden)]
pub use server::answers_to;
pub use summary::{KeyStatus, ServerStatus, Summary};

/// The default port of trackers, as in Apache TVM.
pub const PORT: u16 = 9190;
