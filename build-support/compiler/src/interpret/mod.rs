//! Runs lowered functions one step at a time and reports what compiled code would do wrong in silence.
