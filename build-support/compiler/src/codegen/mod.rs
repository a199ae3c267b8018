//! From lowered functions to machine code and C.

pub mod c;
