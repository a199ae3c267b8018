//! Types that are classes of Python's standard library, as parameters, results and fields.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kernpack::{Complex, Field, Function, Object, Result, object_methods, packed_func};

/// A file in a listing.
#[derive(Object)]
#[object(key = "extmod.Entry")]
#[repr(C)]
pub struct Entry {
    /// The path of the file.
    pub path: PathBuf,
    /// The words that it is found by.
    pub tags: BTreeSet<String>,
    /// The time since the last change.
    #[field(writable)]
    pub age: Field<Duration>,
    /// The number of copies.
    #[field(default = NonZero::<u8>::MIN)]
    pub copies: NonZero<u8>,
    /// The size in bytes.
    #[field(default = 0)]
    pub size: u64,
}

#[object_methods]
impl Entry {
    /// The path in a folder.
    pub fn within(&self, folder: &Path) -> PathBuf {
        folder.join(&self.path)
    }

    /// The first character of the name.
    #[getter]
    pub fn initial(&self) -> Option<char> {
        self.path.file_name()?.to_str()?.chars().next()
    }

    /// The last part of the path.
    #[getter]
    pub fn name(&self) -> Cow<'_, str> {
        self.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default()
    }
}

/// The nanoseconds of a time span that are less than a second.
#[packed_func]
pub fn nanoseconds(span: Duration) -> u32 {
    span.subsec_nanos()
}

/// A later time.
#[packed_func]
pub fn later(time: SystemTime, #[default(Duration::from_secs(60))] by: Duration) -> SystemTime {
    time + by
}

/// The elements that are in both sets.
#[packed_func]
pub fn common(first: HashSet<i64>, second: HashSet<i64>) -> HashSet<i64> {
    first.intersection(&second).copied().collect()
}

/// The parts of a time span: a tuple of objects of Python's classes.
#[packed_func]
pub fn halves(span: Duration, start: SystemTime) -> (Duration, Option<SystemTime>, Vec<PathBuf>) {
    (span / 2, Some(start + span / 2), vec![PathBuf::from("half")])
}

/// The product of two complex numbers.
#[packed_func]
pub fn product(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
    a * b
}

/// Calls `f` with values of these types, which it gets as plain values.
#[packed_func]
pub fn call_with_standard(f: Function) -> Result<(PathBuf, Duration)> {
    f.call_as((PathBuf::from("a/b"), Duration::from_millis(1500)))
}
