//! The tables of the results, in Markdown.

use super::measure::Measured;
use super::suite::Verdict;
use crate::bench::figures::{duration, two_digits};
use std::fmt::Write as _;

/// The results of a port.
pub(super) struct Row {
    /// Package and version.
    pub(super) port: String,
    /// The outcomes of the tests.
    pub(super) verdict: Verdict,
    /// Lines of the bindings, ours and theirs.
    pub(super) lines: [usize; 2],
    /// Sizes and times.
    pub(super) measured: Measured,
}

/// A table of the packages, and one of the calls.
pub(super) fn tables(rows: &[Row]) -> String {
    let mut text =
        "| package | tests | ours | PyO3 | lines, ours | PyO3 | KB, ours | PyO3 | import ms, ours | PyO3 |\n\
        |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for Row { port, verdict, lines, measured } in rows {
        let [ours, theirs] = measured.sizes.map(|size| size.div_ceil(1000));
        let import = measured.imports.each_ref().map(|samples| format!("{:.2}", samples.median()));
        let [passed, passed_theirs] = verdict.passed;
        let _ = writeln!(
            text,
            "| {port} | {} | {passed} | {passed_theirs} | {} | {} | {ours} | {theirs} | {} | {} |",
            verdict.tests, lines[0], lines[1], import[0], import[1]
        );
    }
    text.push_str("\n| package | call | ours | PyO3 | ours / PyO3 |\n|---|---|---:|---:|---:|\n");
    for row in rows {
        for (call, [ours, theirs]) in &row.measured.calls {
            let times = [ours, theirs].map(|samples| duration(samples.median()));
            let ratio = two_digits(ours.ratio(theirs));
            let _ = writeln!(text, "| {} | {call} | {} | {} | {ratio} |", row.port, times[0], times[1]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::samples::Samples;

    fn samples(numbers: [f64; 3]) -> Samples {
        let mut samples = Samples::default();
        numbers.into_iter().for_each(|number| samples.push(number));
        samples
    }

    #[test]
    fn a_row_for_each_package_and_for_each_call() {
        let verdict = Verdict { passed: [131, 132], tests: 132, problems: Vec::new() };
        let measured = Measured {
            sizes: [412_345, 390_000],
            imports: [samples([0.5, 0.25, 0.75]), samples([1.0, 1.0, 1.0])],
            calls: vec![("`m[k]`".to_owned(), [samples([50.0, 60.0, 70.0]), samples([100.0, 100.0, 100.0])])],
        };
        let row = Row { port: "kit 1.2".to_owned(), verdict, lines: [300, 600], measured };
        let text = tables(&[row]);
        assert!(text.contains("\n| kit 1.2 | 132 | 131 | 132 | 300 | 600 | 413 | 390 | 0.50 | 1.00 |\n"), "{text}");
        assert!(text.ends_with("\n| kit 1.2 | `m[k]` | 60.0 ns | 100 ns | 0.60 |\n"), "{text}");
    }
}
