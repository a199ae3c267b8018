//! Facts about integer expressions: intervals, divisibility, canonical forms, proofs, sets for bound inference.
