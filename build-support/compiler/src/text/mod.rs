//! Programs as text that people read in a diff, printed and parsed.
