//! Libraries of packed functions on another machine.
//!
//! The protocol is that of Apache TVM's RPC ("0.8.0", TVM 0.27): its clients work with the server here, and its servers with the client.
//! [`wire`] is the protocol as bytes, [`client`] a session with a server.

pub mod client;
pub mod wire;

pub use client::{Connect, RemoteObject, Session, TimeEvaluator, Timing, connect};

kernpack::library!();
