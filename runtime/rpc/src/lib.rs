//! Libraries of packed functions on another machine.
//!
//! The protocol is that of Apache TVM's RPC ("0.8.0", TVM 0.27): its clients work with the server here, and its servers with the client.
//! [`wire`] is the protocol as bytes, [`client`] a session with a server, [`Server`] what serves sessions, a [`tracker`] gives servers
//! to clients, and a [`Proxy`] brings clients to servers that none can reach.

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
