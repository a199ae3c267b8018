//! Math functions and integer divisions as plain arithmetic.
