//! Schedules by pattern.
