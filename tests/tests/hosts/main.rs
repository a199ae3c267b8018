//! Programs that load our libraries and those of others: in C and in Rust.

mod c_embed;
mod c_host;
mod context_symbols;
mod linked_and_loaded;
