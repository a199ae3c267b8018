//! The wheel's file: a zip archive whose `RECORD` has the hash of everything else in it.
//!
//! The same content gives the same bytes: files in alphabetical order (the metadata of the wheel
//! last, as the format recommends), one time stamp, fixed permissions, no names of this machine.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};
use time::{OffsetDateTime, PrimitiveDateTime};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::names;
use crate::Result;

/// 1980-01-01 and 2107-12-31, in seconds since 1970: other times do not fit into a zip archive.
const EARLIEST: i64 = 315_532_800;
const LATEST: i64 = 4_354_819_198;

/// The files of a wheel.
#[derive(Default)]
pub(crate) struct Archive {
    files: BTreeMap<String, File>,
}

struct File {
    content: Vec<u8>,
    executable: bool,
}

impl Archive {
    /// Adds a file. `path` has `/` between folders.
    pub(crate) fn add(&mut self, path: impl Into<String>, content: impl Into<Vec<u8>>) {
        self.files.insert(path.into(), File { content: content.into(), executable: false });
    }

    /// Adds a shared library.
    pub(crate) fn add_library(&mut self, path: impl Into<String>, content: Vec<u8>) {
        self.files.insert(path.into(), File { content, executable: true });
    }

    /// Returns the paths, without `RECORD`.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Returns the bytes of the wheel. `dist_info` is the folder of its metadata, and `epoch` the
    /// time of all files in seconds since 1970.
    ///
    /// # Errors
    /// Returns an error for a time out of range, and for a name that a file of a wheel cannot have.
    pub(crate) fn to_vec(&self, dist_info: &str, epoch: i64) -> Result<Vec<u8>> {
        let problem = |error: &dyn std::fmt::Display| format!("cannot write the wheel: {error}");
        names::check(self.paths())?;
        let record_path = format!("{dist_info}/RECORD");
        let mut record = String::new();
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(9))
            .last_modified_time(time(epoch)?);
        let metadata_last = |path: &&String| path.starts_with(dist_info);
        let (last, first): (Vec<&String>, Vec<&String>) = self.files.keys().partition(metadata_last);
        for path in first.into_iter().chain(last) {
            let file = &self.files[path];
            let permissions = if file.executable { 0o755 } else { 0o644 };
            zip.start_file(path.as_str(), options.unix_permissions(permissions)).map_err(|error| problem(&error))?;
            zip.write_all(&file.content).map_err(|error| problem(&error))?;
            let hash = BASE64URL_NOPAD.encode(&Sha256::digest(&file.content));
            record.push_str(&format!("{},sha256={hash},{}\n", quoted(path), file.content.len()));
        }
        record.push_str(&format!("{},,\n", quoted(&record_path)));
        zip.start_file(record_path, options.unix_permissions(0o644)).map_err(|error| problem(&error))?;
        zip.write_all(record.as_bytes()).map_err(|error| problem(&error))?;
        Ok(zip.finish().map_err(|error| problem(&error))?.into_inner())
    }
}

/// Formats a field of a CSV file.
fn quoted(path: &str) -> String {
    match path.contains([',', '"']) {
        true => format!("\"{}\"", path.replace('"', "\"\"")),
        false => path.to_owned(),
    }
}

/// Parses the value of `SOURCE_DATE_EPOCH`
/// (<https://reproducible-builds.org/specs/source-date-epoch/>). The default is 1980, the first
/// time in a zip archive.
pub(crate) fn epoch(variable: Option<&str>) -> Result<i64> {
    match variable {
        None | Some("") => Ok(0),
        Some(text) => text
            .trim()
            .parse()
            .map_err(|_| format!("SOURCE_DATE_EPOCH is '{text}'; expected seconds since 1970, such as 1700000000")),
    }
}

/// Converts a time to the archive's format, which supports the years 1980 to 2107.
fn time(epoch: i64) -> Result<DateTime> {
    let time = OffsetDateTime::from_unix_timestamp(epoch.clamp(EARLIEST, LATEST));
    let time = time.map_err(|error| error.to_string());
    let time = time.and_then(|time| {
        DateTime::try_from(PrimitiveDateTime::new(time.date(), time.time())).map_err(|error| error.to_string())
    });
    time.map_err(|problem| format!("SOURCE_DATE_EPOCH {epoch} does not fit into a wheel: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_record_has_every_file_and_the_bytes_do_not_change() {
        let mut archive = Archive::default();
        archive.add("kit-1.dist-info/METADATA", "m");
        archive.add("kit/z.py", "");
        archive.add_library("kit/libkit.so", b"library".to_vec());
        archive.add("kit/a,b.py", "x");
        let bytes = archive.to_vec("kit-1.dist-info", 1_700_000_001).unwrap();
        assert_eq!(bytes, archive.to_vec("kit-1.dist-info", 1_700_000_001).unwrap());
        let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
        let mut files = Vec::new();
        for index in 0..zip.len() {
            let file = zip.by_index(index).unwrap();
            let time = file.last_modified().unwrap();
            assert_eq!((time.year(), time.month(), time.day(), time.hour()), (2023, 11, 14, 22));
            files.push((file.name().unwrap().into_owned(), file.unix_mode().unwrap() & 0o777));
        }
        let names = ["kit/a,b.py", "kit/libkit.so", "kit/z.py", "kit-1.dist-info/METADATA", "kit-1.dist-info/RECORD"];
        assert_eq!(files, names.map(|name| (name.to_owned(), if name.ends_with(".so") { 0o755 } else { 0o644 })));
        let mut record = String::new();
        zip.by_name("kit-1.dist-info/RECORD").unwrap().read_to_string(&mut record).unwrap();
        assert_eq!(
            record,
            "\"kit/a,b.py\",sha256=LXEWQrcmsEQBYnyp-6wy9chTD7GQPMTbAiWHF5IaSIE,1\n\
             kit/libkit.so,sha256=txjxNU9yRzEuyghtmgJK_l-nF93qWt7d1vErz5RbLow,7\n\
             kit/z.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n\
             kit-1.dist-info/METADATA,sha256=YsZqel3XDDFGYYBjw0TlMebUtZ43mAhEPOlis6vWPFo,1\n\
             kit-1.dist-info/RECORD,,\n"
        );
    }

    #[test]
    fn times() {
        for (seconds, expected) in [
            (0, (1980, 1, 1, 0)),
            (951_782_400, (2000, 2, 29, 0)),
            (1_735_689_599, (2024, 12, 31, 23)),
            (i64::MAX, (2107, 12, 31, 23)),
        ] {
            let time = time(seconds).unwrap();
            assert_eq!((time.year(), time.month(), time.day(), time.hour()), expected, "{seconds}");
        }
        assert_eq!(epoch(None), Ok(0));
        assert_eq!(epoch(Some("17")), Ok(17));
        let problem = "SOURCE_DATE_EPOCH is 'now'; expected seconds since 1970, such as 1700000000";
        assert_eq!(epoch(Some("now")), Err(problem.to_owned()));
    }
}
