//! Fingerprints of contents: 128 bits of XXH3. They detect accidental differences. They are not
//! proof against forgery, and the cache that uses them belongs to the user.

use std::fmt;
use std::fs;
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

/// A fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest(u128);

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(bytes))
    }

    /// Returns the fingerprint of a file's contents, or `None` if the file cannot be read.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        fs::read(path).ok().map(|bytes| Self::of(&bytes))
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Computes one fingerprint of several fields. The length of each field is included, so that
/// different lists of fields do not collide.
#[derive(Clone)]
pub(crate) struct Digester(Box<Xxh3>);

impl Digester {
    /// `kind` separates fingerprints of different kinds of data.
    pub(crate) fn new(kind: &str) -> Self {
        let mut digester = Self(Box::default());
        digester.field(kind);
        digester
    }

    pub(crate) fn field(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Adds a list of fields, with its length.
    pub(crate) fn list<T: AsRef<[u8]>>(&mut self, fields: impl IntoIterator<Item = T>) -> &mut Self {
        let fields: Vec<T> = fields.into_iter().collect();
        self.0.update(&(fields.len() as u64).to_le_bytes());
        for field in fields {
            self.field(field);
        }
        self
    }

    pub(crate) fn finish(&self) -> Digest {
        Digest(self.0.digest128())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_together() {
        let digest = |fields: &[&str]| {
            let mut digester = Digester::new("test");
            for field in fields {
                digester.field(field);
            }
            digester.finish()
        };
        assert_eq!(digest(&["a", "bc"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["a", "bc"]), digest(&["ab", "c"]));
        assert_ne!(digest(&["a"]), digest(&["a", ""]));
        let lists = |first: &[&str], second: &[&str]| Digester::new("test").list(first).list(second).finish();
        assert_ne!(lists(&["a"], &["b"]), lists(&["a", "b"], &[]));
        assert_eq!(Digest::of(b"").to_string().len(), 32);
    }
}
