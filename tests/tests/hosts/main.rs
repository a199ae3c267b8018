//! Libraries that are exported, and the programs that load libraries: in C, in Rust, on 64-bit ARM.

mod aarch64;
mod aarch64_machine;
mod c_embed;
mod c_host;
mod context_symbols;
mod export;
mod length;
mod linked_and_loaded;
