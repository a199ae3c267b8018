//! Libraries of packed functions on another machine.
//!
//! The protocol is that of Apache TVM's RPC ("0.8.0", TVM 0.27): its clients work with this server,
//! and its servers with this client. [`wire`] is the protocol as bytes, [`client`] a session with a
//! server, [`Server`] serves sessions, a [`tracker`] assigns servers to clients, and a [`Proxy`]
//! connects clients to servers that they cannot reach directly.

pub mod client;
mod guests;
mod limits;
mod line;
mod listen;
mod log;
#[cfg(target_os = "linux")]
mod nearby;
mod place;
mod position;
mod process;
#[doc(hidden)]
pub mod program;
mod proxy;
mod server;
mod session;
#[cfg(feature = "tls")]
pub mod tls;
mod token;
pub mod tracker;
pub mod wire;

pub use client::{Connect, RemoteObject, Session, TimeEvaluator, Timing, connect};
pub use limits::Limits;
pub use listen::Listen;
pub use place::Place;
pub use process::run_session_if_asked;
pub use proxy::{Proxy, ProxyOptions};
pub use server::{Server, ServerOptions};

kernpack::library!();
