//! The file with the weights of a model, beside the library that has the code of the model.
//!
//! All numbers are little-endian. The weights of each CPU level are one section, because levels
//! pack them differently; levels with the same bytes share a section.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`] |
//! | 8 | 4 | [`VERSION`] |
//! | 12 | 4 | the number of CPU levels |
//! | 16 | 16 | the digest of the code: the kernels that read these weights |
//! | 32 | 16 | the digest of the content: all bytes from offset 48 on |
//! | 48 | 8 | the size of the file |
//! | 56 | 8 | the number of bytes of the model's name |
//! | 64 | 16 each | for each level, the offset and the size of its section |
//! | | | the name of the model |
//! | | | the sections, each at a multiple of [`ALIGNMENT`] |
//!
//! The digest of the content detects damage. It does not authenticate the file.

mod digest;
mod reader;
mod writer;

pub use digest::{Digest, Digester};
pub use reader::{Refusal, read};
pub use writer::{Section, write};

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"KPWEIGHT";
/// The version of the format.
pub const VERSION: u32 = 1;
/// The alignment of sections in the file and in memory.
pub const ALIGNMENT: usize = 64;

/// The number of bytes in front of the table of sections.
const HEADER: usize = 64;
/// The first byte that the digest of the content covers.
const CONTENT: usize = 48;
/// The number of bytes of an entry of the table.
const ENTRY: usize = 16;

/// Returns the next multiple of [`ALIGNMENT`], or `None` if it does not fit.
fn aligned(offset: u64) -> Option<u64> {
    offset.checked_next_multiple_of(ALIGNMENT as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn digest(text: &str) -> Digest {
        let mut digester = Digester::default();
        digester.update(text.as_bytes());
        digester.finish()
    }

    /// A file of two levels with the same section, and a third level.
    fn file() -> Vec<u8> {
        let (first, second) = (vec![7_u8; 100], vec![9_u8; 3]);
        let pieces = [first[..64].to_vec(), first[64..].to_vec()];
        let mut out = Cursor::new(Vec::new());
        let sections = [
            Section { size: 100, same_as: None, pieces: Box::new(pieces.iter().map(Vec::as_slice)) },
            Section { size: 100, same_as: Some(0), pieces: Box::new(std::iter::empty()) },
            Section { size: 3, same_as: None, pieces: Box::new(std::iter::once(second.as_slice())) },
        ];
        let content = write(&mut out, "net", digest("code"), sections).unwrap();
        let bytes = out.into_inner();
        assert_eq!(content.to_bytes(), bytes[32..48]);
        bytes
    }

    fn refused(bytes: &[u8]) -> String {
        read(bytes, "net", digest("code"), &[100, 100, 3]).unwrap_err().to_string()
    }

    #[test]
    fn the_reader_finds_the_sections() {
        let bytes = file();
        let (content, offsets) = read(&bytes, "net", digest("code"), &[100, 100, 3]).unwrap();
        assert_eq!(content.to_bytes(), bytes[32..48]);
        assert_eq!(offsets[0], offsets[1]);
        assert_eq!(bytes[offsets[0]..offsets[0] + 100], [7; 100]);
        assert_eq!(bytes[offsets[2]..offsets[2] + 3], [9; 3]);
        assert!(offsets.iter().all(|offset| offset % ALIGNMENT == 0));
    }

    #[test]
    fn any_changed_byte_is_refused() {
        let bytes = file();
        for place in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[place] ^= change;
                refused(&changed);
            }
        }
    }

    #[test]
    fn any_part_and_any_addition_is_refused() {
        let bytes = file();
        for end in 0..bytes.len() {
            refused(&bytes[..end]);
        }
        refused(&[bytes.as_slice(), &[0]].concat());
        refused(&[bytes.as_slice(), &bytes].concat());
    }

    #[test]
    fn refusals_name_both_digests() {
        let bytes = file();
        let (code, content) = (digest("code"), Digest::from_bytes(bytes[32..48].try_into().unwrap()));
        assert_eq!(
            refused(&[]),
            format!("not a file of weights: it has 0 bytes; 'net' needs the one with the code digest {code}")
        );
        let text = vec![b'a'; 200];
        assert_eq!(
            refused(&text),
            format!(
                "not a file of weights: it does not begin with KPWEIGHT; 'net' needs the one with the code digest {code}"
            )
        );
        let mut other = bytes.clone();
        other[200] ^= 1;
        let text = refused(&other);
        assert!(text.starts_with("damaged: the digest of its content is "), "{text}");
        assert!(text.ends_with(&format!(", and has to be {content}")), "{text}");
        let text = refused(&bytes[..bytes.len() - 1]);
        let size = bytes.len();
        assert!(
            text.starts_with(&format!("truncated: it has {} bytes instead of {size}, the digest of", size - 1)),
            "{text}"
        );
        assert!(text.ends_with(&format!(", and has to be {content}")), "{text}");
        let wrong = read(&bytes, "net", digest("other"), &[100, 100, 3]).unwrap_err().to_string();
        let expected =
            format!("for other code: its code digest is {code}, and 'net' in this library needs {}", digest("other"));
        assert_eq!(wrong, expected);
        let wrong = read(&bytes, "other", digest("other"), &[100, 100, 3]).unwrap_err().to_string();
        let expected = format!(
            "for the model 'net': its code digest is {code}, and 'other' in this library needs {}",
            digest("other")
        );
        assert_eq!(wrong, expected);
        for sizes in [&[100, 100][..], &[100, 100, 4], &[100, 100, 3, 3]] {
            read(&bytes, "net", digest("code"), sizes).unwrap_err();
        }
        let mut newer = bytes;
        newer[8] = 2;
        assert_eq!(refused(&newer), "version 2 of the format, and this library reads version 1");
    }
}
