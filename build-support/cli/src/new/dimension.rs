//! The extents of a dimension that the command line sets: `--dim batch=2`, `--dim-up-to batch=64`,
//! `--dim-range height=32..=2048:32`.

use crate::Result;

/// The largest extent, which is that of kernpack-graph.
const MOST: i64 = (1 << 31) - 1;

/// The extents of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extents {
    One(i64),
    /// From 1 to a bound, for rows that do not depend on each other.
    UpTo(i64),
    /// From `least` to `most`, which are multiples of `step`.
    Range {
        least: i64,
        most: i64,
        step: i64,
    },
}

impl Extents {
    /// Extents of a test: the smallest one, then a larger one if there are several.
    pub(super) fn tried(self) -> [i64; 2] {
        match self {
            Self::One(extent) => [extent; 2],
            Self::UpTo(most) => [1, most.min(3)],
            // Three: each extent that is more than one is open.
            Self::Range { least, most, step } => [least, most.min(least.saturating_add(step.saturating_mul(2)))],
        }
    }

    /// Formats the call that sets the extents in a build script.
    pub(super) fn option(self, name: &str) -> String {
        match self {
            Self::One(extent) => format!(".dim({name:?}, {extent})"),
            Self::UpTo(most) => format!(".dim_up_to({name:?}, {most})"),
            Self::Range { least, most, step: 1 } => format!(".dim_range({name:?}, {least}..={most})"),
            Self::Range { least, most, step } => format!(".dim_range({name:?}, ({least}..={most}).step_by({step}))"),
        }
    }

    /// Formats the extents for people: `2`, `1 to 64`, `a multiple of 32 from 32 to 2048`.
    pub(super) fn shown(self) -> String {
        match self {
            Self::One(extent) => extent.to_string(),
            Self::UpTo(most) => format!("1 to {most}"),
            Self::Range { least, most, step: 1 } => format!("{least} to {most}"),
            Self::Range { least, most, step } => format!("a multiple of {step} from {least} to {most}"),
        }
    }
}

/// Parses `batch=1`, the value of `--dim`.
///
/// # Errors
/// Returns an error for text of another form, and for an extent that is not allowed.
pub(super) fn parse_one(text: &str) -> Result<(String, Extents)> {
    let (name, extent) = named(text).ok_or_else(|| {
        let range = if text.contains("..") { "; --dim-range takes a range" } else { "" };
        format!("--dim {text}: expected NAME=EXTENT with an extent of 1 or more, such as batch=1{range}")
    })?;
    Ok((name, Extents::One(extent)))
}

/// Parses `batch=64`, the value of `--dim-up-to`.
///
/// # Errors
/// As for [`parse_one`].
pub(super) fn parse_bound(text: &str) -> Result<(String, Extents)> {
    let (name, most) = named(text).ok_or_else(|| {
        format!("--dim-up-to {text}: expected NAME=LARGEST with a largest extent of 1 or more, such as batch=64")
    })?;
    Ok((name, Extents::UpTo(most)))
}

/// Parses a name and an extent.
fn named(text: &str) -> Option<(String, i64)> {
    let (name, extent) = text.split_once('=').filter(|(name, _)| !name.is_empty())?;
    Some((name.to_owned(), number(extent).ok()?))
}

/// Parses `batch=1..=64` or `height=32..=2048:32`, the value of `--dim-range`.
///
/// # Errors
/// Returns an error for text of another form, and for a range that is empty or too large, or whose
/// ends are not multiples of its step. It names the part, and a range that is right.
pub(super) fn parse_range(text: &str) -> Result<(String, Extents)> {
    let wrong = |problem: String| format!("--dim-range {text}: {problem}");
    let form = "expected NAME=LOW..=HIGH or NAME=LOW..=HIGH:STEP, such as batch=1..=64 or height=32..=2048:32";
    let (start, end) = text.rsplit_once("..=").ok_or_else(|| wrong(form.to_owned()))?;
    let (name, least) = start.rsplit_once('=').ok_or_else(|| wrong(form.to_owned()))?;
    if name.is_empty() {
        return Err(wrong(format!("the name of the dimension is missing; {form}")));
    }
    let (most, step) = end.split_once(':').map_or((end, None), |(most, step)| (most, Some(step)));
    let part = |part: &str, text: &str| number(text).map_err(|problem| wrong(format!("{part} is '{text}', {problem}")));
    let (least, most) = (part("LOW", least)?, part("HIGH", most)?);
    let step = step.map_or(Ok(1), |step| part("STEP", step))?;
    if least > most {
        return Err(wrong(format!("the range is empty, because {least} is more than {most}; {form}")));
    }
    if let Some(extent) = [least, most].into_iter().find(|extent| extent % step != 0) {
        // The range of the multiples between the ends, unless there are none.
        let (low, high) = ((least - 1) / step * step + step, most / step * step);
        let right = if low <= high { format!("write {name}={low}..={high}:{step}") } else { form.to_owned() };
        return Err(wrong(format!("{extent} is not a multiple of {step}, and LOW and HIGH have to be; {right}")));
    }
    Ok((name.to_owned(), Extents::Range { least, most, step }))
}

/// Parses an extent, or returns what is expected.
fn number(text: &str) -> std::result::Result<i64, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("and has to be a whole number from 1 to {MOST}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let range = |least, most, step| Extents::Range { least, most, step };
        for (text, name, extents, option, shown, tried) in [
            ("batch=1..=64", "batch", range(1, 64, 1), ".dim_range(\"batch\", 1..=64)", "1 to 64", [1, 3]),
            ("X.0=2..=2", "X.0", range(2, 2, 1), ".dim_range(\"X.0\", 2..=2)", "2 to 2", [2, 2]),
            (
                "h=w=32..=2048:32",
                "h=w",
                range(32, 2048, 32),
                ".dim_range(\"h=w\", (32..=2048).step_by(32))",
                "a multiple of 32 from 32 to 2048",
                [32, 96],
            ),
        ] {
            assert_eq!(parse_range(text), Ok((name.to_owned(), extents)), "{text}");
            assert_eq!((extents.option(name).as_str(), extents.shown().as_str()), (option, shown));
            assert_eq!(extents.tried(), tried, "{text}");
        }
    }

    #[test]
    fn ranges_that_are_not_right() {
        let form = "expected NAME=LOW..=HIGH or NAME=LOW..=HIGH:STEP, such as batch=1..=64 or height=32..=2048:32";
        let allowed = "and has to be a whole number from 1 to 2147483647";
        for (text, problem) in [
            ("batch", form.to_owned()),
            ("batch=1..64", form.to_owned()),
            ("1..=64", form.to_owned()),
            ("=1..=64", format!("the name of the dimension is missing; {form}")),
            ("n=0..=64", format!("LOW is '0', {allowed}")),
            ("n=1..=x", format!("HIGH is 'x', {allowed}")),
            ("n=1..=2147483648", format!("HIGH is '2147483648', {allowed}")),
            ("n=1..=64:-1", format!("STEP is '-1', {allowed}")),
            ("n=64..=1", format!("the range is empty, because 64 is more than 1; {form}")),
            ("n=1..=70:32", "1 is not a multiple of 32, and LOW and HIGH have to be; write n=32..=64:32".to_owned()),
            ("n=32..=70:32", "70 is not a multiple of 32, and LOW and HIGH have to be; write n=32..=64:32".to_owned()),
            ("n=33..=40:32", format!("33 is not a multiple of 32, and LOW and HIGH have to be; {form}")),
        ] {
            assert_eq!(parse_range(text), Err(format!("--dim-range {text}: {problem}")));
        }
        let bound = parse_bound("X.0=1024").unwrap();
        assert_eq!(bound, ("X.0".to_owned(), Extents::UpTo(1024)));
        assert_eq!((bound.1.option("X.0").as_str(), bound.1.tried()), (".dim_up_to(\"X.0\", 1024)", [1, 3]));
        assert_eq!(
            parse_bound("n=0").unwrap_err(),
            "--dim-up-to n=0: expected NAME=LARGEST with a largest extent of 1 or more, such as batch=64"
        );
        assert_eq!(
            parse_one("n=1..=64").unwrap_err(),
            "--dim n=1..=64: expected NAME=EXTENT with an extent of 1 or more, such as batch=1; --dim-range takes a range"
        );
    }
}
