//! The package rpds-py on Kernpack: persistent containers of Python objects.

mod key;
mod list;
mod map;
mod queue;
mod sequence;
mod set;
mod set_like;
mod stack;
mod views;

kernpack::library!();
