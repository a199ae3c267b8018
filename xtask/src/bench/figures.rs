//! The format of numbers and verdicts in reports.

/// The word for a goal that was met or missed.
pub(super) fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

/// Three significant digits, with a unit.
pub(crate) fn duration(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        ns if ns < 1_000.0 => (ns, "ns"),
        ns if ns < 1_000_000.0 => (ns / 1_000.0, "us"),
        ns => (ns / 1_000_000.0, "ms"),
    };
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

/// A ratio with two significant digits.
pub(crate) fn two_digits(ratio: f64) -> String {
    let decimals = if ratio > 0.0 && ratio < 0.1 { (-ratio.log10()).ceil() as usize + 1 } else { 2 };
    format!("{ratio:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        for (nanoseconds, expected) in
            [(1.234, "1.23 ns"), (12.34, "12.3 ns"), (123.4, "123 ns"), (1234.0, "1.23 us"), (12_340_000.0, "12.3 ms")]
        {
            assert_eq!(duration(nanoseconds), expected);
        }
    }

    #[test]
    fn small_ratios_keep_two_digits() {
        for (ratio, expected) in [(1.5, "1.50"), (0.1, "0.10"), (0.012, "0.012"), (0.000_31, "0.00031"), (0.0, "0.00")]
        {
            assert_eq!(two_digits(ratio), expected);
        }
    }
}
