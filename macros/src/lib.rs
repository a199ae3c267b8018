//! Entry points of the macros.
