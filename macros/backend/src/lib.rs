//! Macro backend.
