//! Tensor expressions: what to compute.
