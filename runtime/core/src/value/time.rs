//! Durations and times: pairs of seconds and nanoseconds, which are exact; a number of seconds is
//! accepted, too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema, pair, python_number, sequence};
use crate::abi::type_index;

const NANOS: u32 = 1_000_000_000;

/// The sign of a time span, and its length.
fn span(value: &AnyView<'_>) -> Result<(bool, Duration), Mismatch> {
    match value.type_index() {
        type_index::FLOAT => {
            let seconds = f64::from_any(value)?;
            if seconds.is_nan() {
                return Err(Mismatch::value("expected a number of seconds, got NaN".to_owned()));
            }
            let length = Duration::try_from_secs_f64(seconds.abs());
            let length = length.map_err(|_| out_of_range(&format!("{seconds:?} seconds")))?;
            Ok((seconds.is_sign_negative() && !length.is_zero(), length))
        }
        type_index::INT | type_index::BOOL => {
            let seconds = i64::from_any(value)?;
            Ok((seconds < 0, Duration::from_secs(seconds.unsigned_abs())))
        }
        type_index::BIG_INT => Ok((false, Duration::from_secs(u64::from_any(value)?))),
        _ => match python_number::of(value, true) {
            Some(number) => span(number.as_view()),
            None => of_pair(value),
        },
    }
}

/// Converts a pair of seconds, which may be negative, and of nanoseconds, which follow them.
fn of_pair(value: &AnyView<'_>) -> Result<(bool, Duration), Mismatch> {
    let parts = sequence(value)?;
    let [seconds, nanos] = parts.views() else { return Err(Mismatch::TYPE) };
    let nanos = u32::from_any(nanos)?;
    if nanos >= NANOS {
        return Err(Mismatch::value(format!("expected less than {NANOS} nanoseconds after the seconds, got {nanos}")));
    }
    match i64::from_any(seconds) {
        Ok(seconds) if seconds < 0 => {
            // The nanoseconds count forward.
            Ok((true, Duration::from_secs(seconds.unsigned_abs()) - Duration::from_nanos(nanos.into())))
        }
        _ => Ok((false, Duration::new(u64::from_any(seconds)?, nanos))),
    }
}

#[cold]
fn out_of_range(what: &str) -> Mismatch {
    Mismatch::range(format!("{what} do not fit into 64 bits"))
}

fn pair_of(seconds: Any, nanos: u32) -> Any {
    pair([seconds, nanos.into_any()])
}

impl Schema for Duration {
    const TYPE: TypeSchema = TypeSchema::new("datetime.timedelta");
}

impl<'a> FromAny<'a> for Duration {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        match span(value)? {
            (false, length) => Ok(length),
            (true, length) => {
                Err(Mismatch::value(format!("expected a duration that is not negative, got -{length:?}")))
            }
        }
    }
}

impl IntoAny for Duration {
    fn into_any(self) -> Any {
        pair_of(self.as_secs().into_any(), self.subsec_nanos())
    }
}

impl ToArg for Duration {
    fn to_arg(&self) -> Arg<'_> {
        Arg::owned(self.into_any())
    }
}

impl Schema for SystemTime {
    const TYPE: TypeSchema = TypeSchema::new("datetime.datetime");
}

impl<'a> FromAny<'a> for SystemTime {
    fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
        let (is_before, length) = span(value)?;
        let time = if is_before { UNIX_EPOCH.checked_sub(length) } else { UNIX_EPOCH.checked_add(length) };
        time.ok_or_else(|| out_of_range("the seconds since 1970"))
    }
}

impl IntoAny for SystemTime {
    fn into_any(self) -> Any {
        match self.duration_since(UNIX_EPOCH) {
            Ok(after) => after.into_any(),
            Err(before) => {
                let before = before.duration();
                // The nanoseconds count forward.
                let (seconds, nanos) = match before.subsec_nanos() {
                    0 => (before.as_secs(), 0),
                    nanos => (before.as_secs() + 1, NANOS - nanos),
                };
                pair_of(0_i64.wrapping_sub_unsigned(seconds).into_any(), nanos)
            }
        }
    }
}

impl ToArg for SystemTime {
    fn to_arg(&self) -> Arg<'_> {
        Arg::owned(self.into_any())
    }
}
