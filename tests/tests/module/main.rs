//! Modules: loading, lookup, import trees, modules of C++, libraries of several crates.

mod cpp;
mod decentralised;
mod launch;
mod loading;
mod lookup;
mod serialize;
