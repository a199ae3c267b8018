//! Object types, one for each feature of a type: fields of every kind, bases, defaults, shared
//! mutation, methods, enums. `tests/data/objects.json` has the table of types and operations.
//! Python, Rust and C++ load this library and run its rows.

#![allow(missing_docs, reason = "a type's documentation is a part of the table, and some have none")]

pub mod account;
pub mod choices;
pub mod defaults;
pub mod enums;
pub mod families;
pub mod lineage;
pub mod methods;
pub mod nested;
pub mod program;
pub mod shared;
pub mod tracked;
pub mod values;
pub mod weak;

kernpack::library!();
