//! C source: compiled with `cc`, run, and compared with what the program means. Everything runs with undefined behaviour trapped.

mod compile;
mod control;
mod library;
mod operations;
mod packed;
