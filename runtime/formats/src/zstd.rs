//! Compressed modules: a separate module kind, so that a reader that does not know it reports the
//! missing loader.
//!
//! ```text
//! kind of the module inside: string
//! u64 size of its payload
//! the payload as one Zstandard frame (RFC 8878), to the end
//! ```
//!
//! A module of kind `kernpack.zstd` exists only in files: its loader decompresses the payload and
//! passes it to the loader of the inner kind, so that the loaded tree equals the exported tree. The
//! Cargo feature `zstd` enables both directions.
//!
//! ```
//! use kernpack_formats::zstd;
//!
//! let image = vec![7; 100_000];
//! let compressed = zstd::compress("my.image", &image);
//! assert!(compressed.len() < 1000);
//! let inside = zstd::decompress(&compressed)?;
//! assert_eq!((inside.kind, inside.payload), ("my.image", image));
//! # Ok::<(), kernpack_formats::stream::StreamError>(())
//! ```

use std::io::Read as _;

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::stream::{StreamError, StreamReader, put_bytes, put_u64};

/// The kind of compressed modules.
pub const KIND: &str = "kernpack.zstd";

/// Maximum number of bytes that one byte of a frame can decompress to: a 4-byte block repeats one
/// byte 128 KiB times.
const LARGEST_EXPANSION: u64 = 32 * 1024;

/// The window size that any frame may have: RFC 8878 requires every decoder to support it.
const SMALL_WINDOW: u64 = 8 << 20;

/// The largest window size that is accepted at all.
const LARGE_WINDOW: u64 = 128 << 20;

/// Number of bytes that are decompressed at a time.
const CHUNK: u64 = 1 << 20;

/// The module inside a compressed module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside<'a> {
    /// Kind of the inner module.
    pub kind: &'a str,
    /// Payload of the inner module.
    pub payload: Vec<u8>,
}

/// Compresses a module of this kind and payload; returns the payload of the compressed module.
pub fn compress(kind: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, kind.as_bytes());
    put_u64(&mut out, payload.len() as u64);
    out.extend(compress_to_vec(payload, CompressionLevel::Fastest));
    out
}

/// Decompresses a compressed module. Memory use grows with the real content of the frame, never
/// with the size that the frame claims.
///
/// # Errors
/// Describes the problem and its offset if the payload is truncated, is not a valid frame, or has a
/// different size than it declares.
pub fn decompress(payload: &[u8]) -> Result<Inside<'_>, StreamError> {
    let mut reader = StreamReader::new(KIND, payload);
    let start = reader.offset();
    let kind = reader.string(&"kind of the module inside")?;
    if kind.is_empty() || kind == KIND {
        return Err(reader.error_at(
            start,
            &"kind of the module inside",
            format_args!("is \"{kind}\", which cannot be inside"),
        ));
    }
    let size_at = reader.offset();
    let size = reader.u64(&"size")?;
    let frame_at = reader.offset();
    let frame = reader.take(reader.remaining() as u64, &"frame")?;
    let most = (frame.len() as u64).saturating_mul(LARGEST_EXPANSION);
    if size > most {
        return Err(reader.error_at(
            size_at,
            &"size",
            format_args!("claims {size} bytes, but {} bytes of a frame cannot become that", frame.len()),
        ));
    }
    let broken = |what: &dyn core::fmt::Display| {
        reader.error_at(frame_at, &format_args!("frame of a module of kind \"{kind}\""), format_args!("{what}"))
    };
    let window = size.clamp(SMALL_WINDOW, LARGE_WINDOW);
    let mut decoder = StreamingDecoder::new_with_max_window_size(frame, window).map_err(|error| broken(&error))?;
    let mut out = Vec::new();
    // One byte more than the declared size is enough to detect an overrun.
    while out.len() as u64 <= size {
        let wanted = (size + 1 - out.len() as u64).min(CHUNK);
        let got = decoder.by_ref().take(wanted).read_to_end(&mut out).map_err(|error| broken(&error))?;
        if got == 0 {
            break;
        }
    }
    if out.len() as u64 != size {
        let more = if out.len() as u64 > size { "more" } else { "fewer" };
        return Err(broken(&format_args!("holds {more} bytes than the {size} that the module says")));
    }
    let rest = decoder.get_ref().len();
    if rest > 0 {
        return Err(broken(&format_args!("is followed by {rest} unexpected bytes")));
    }
    Ok(Inside { kind, payload: out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_payloads_come_back() {
        let noise =
            |len: u64| (0..len).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect::<Vec<u8>>();
        for payload in [vec![], vec![1], b"hello".to_vec(), vec![0; 3_000_000], noise(1_500_000)] {
            let compressed = compress("k", &payload);
            assert_eq!(decompress(&compressed).unwrap(), Inside { kind: "k", payload });
        }
    }

    fn message(kind: &str, size: u64, frame: &[u8]) -> String {
        let mut payload = Vec::new();
        put_bytes(&mut payload, kind.as_bytes());
        put_u64(&mut payload, size);
        payload.extend_from_slice(frame);
        decompress(&payload).unwrap_err().to_string()
    }

    #[test]
    fn hostile_payloads_are_errors() {
        let frame = compress_to_vec(&[5_u8; 1000][..], CompressionLevel::Fastest);
        let rows = [
            ("k", 999, frame.clone(), "holds more bytes than the 999 that the module says"),
            ("k", 1001, frame.clone(), "holds fewer bytes than the 1001 that the module says"),
            ("k", u64::MAX, frame.clone(), "claims 18446744073709551615 bytes, but"),
            ("k", 1 << 40, frame.clone(), "bytes of a frame cannot become that"),
            ("", 1000, frame.clone(), "is \"\", which cannot be inside"),
            (KIND, 1000, frame.clone(), "is \"kernpack.zstd\", which cannot be inside"),
            ("k", 0, Vec::new(), "frame of a module of kind \"k\""),
            ("k", 1000, b"no frame at all".to_vec(), "frame of a module of kind \"k\""),
            ("k", 1000, [frame.clone(), b"rest".to_vec()].concat(), "is followed by 4 unexpected bytes"),
        ];
        for (kind, size, frame, expected) in rows {
            let error = message(kind, size, &frame);
            assert!(error.starts_with("kernpack.zstd: "), "{error}");
            assert!(error.contains(expected), "{error}");
        }
        // Every truncation and every flipped byte leads to an error or to another payload of that
        // size, never to more memory or a panic.
        let payload = compress("k", &(0..5000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
        for at in 0..payload.len() {
            assert!(decompress(&payload[..at]).is_err(), "{at}");
            let mut flipped = payload.clone();
            flipped[at] ^= 0x55;
            if let Ok(inside) = decompress(&flipped) {
                assert!(inside.payload.len() <= 20_000);
            }
        }
    }
}
