//! The protocol as bytes: handshake, packets, packed sequences. Both sides use it, over any
//! [`Transport`].
//!
//! Input from a peer is untrusted: each length, count and code is checked against a bound before
//! memory is allocated for it, and no packet is kept whole. This module does not create values of
//! the runtime and does not call anything.
//!
//! ```
//! use std::io::Cursor;
//! use kernpack_rpc::wire::{Bounds, Encoder, Value, decode};
//!
//! let mut bytes = Vec::new();
//! Encoder::begin(&mut bytes, 2).int(7).text("seven");
//! let values = decode(&mut &bytes[..], &Bounds::default()).unwrap();
//! assert_eq!(values, [Value::Int(7), Value::Str("seven".into())]);
//! ```

mod clock;
mod code;
mod connection;
mod decode;
mod encode;
mod error;
mod handshake;
mod key;
mod output;
pub(crate) mod proof;
mod transport;
mod value;

pub use code::Code;
pub use connection::{Connection, Packet, Patience};
pub use decode::{Bounds, Source, TakeBytes, decode, decode_tensor, decode_with};
pub use encode::Encoder;
pub use error::WireError;
pub(crate) use handshake::challenge;
pub use handshake::{Hello, MAGIC, answer, greet, greet_through_proxy, hear, offer, taken};
pub use key::{Key, MAX_KEY};
pub(crate) use output::Output;
pub use transport::Transport;
pub(crate) use transport::{is_hung_up, notice_when_gone};
pub use value::{TensorHeader, Value};

/// The version that both sides must name in [`Code::InitServer`].
pub const VERSION: &str = "0.8.0";
