//! How to compute it: loops, where stages are computed, and the way from both to statements.
