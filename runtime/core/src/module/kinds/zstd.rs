//! Compressed modules: a separate module kind, so that a reader that does not know it reports the
//! missing loader.
//!
//! A module of kind `kernpack.zstd` exists only in files: its loader decompresses the payload and
//! passes it to the loader of the inner kind, so that the loaded tree equals the exported tree. The
//! Cargo feature `zstd` enables both directions.
//!
//! ```
//! use kernpack::module::zstd;
//!
//! let image = vec![7; 100_000];
//! let compressed = zstd::compress("my.image", &image);
//! assert!(compressed.len() < 1000);
//! let inside = zstd::decompress(&compressed)?;
//! assert_eq!((inside.kind, inside.payload), ("my.image", image));
//! # Ok::<(), kernpack::Error>(())
//! ```

use kernpack_formats::zstd as format;
pub use kernpack_formats::zstd::{Inside, KIND, compress};

use super::KindInfo;
use crate::Result;
use crate::function::Function;
use crate::module::Module;
use crate::module::load::loader;
use crate::value::Bytes;

/// The kind and the loader of its modules.
pub(in crate::module) const KIND_INFO: KindInfo = KindInfo {
    kind: KIND,
    loader: || {
        Function::from_fn(|payload: Bytes| -> Result<Module> {
            let inside = decompress(&payload)?;
            loader::Loaders::default().restore(inside.kind, Bytes::from(inside.payload))
        })
    },
};

/// Returns kind and payload of a module in stored form: compressed if that is smaller.
#[inline]
pub(in crate::module) fn compressed(kind: &str, payload: Bytes) -> (String, Bytes) {
    let frame = compress(kind, &payload);
    // Compressing a compressed module is useless.
    if kind == KIND || frame.len() >= payload.len() {
        return (kind.to_owned(), payload);
    }
    (KIND.to_owned(), Bytes::from(frame))
}

/// Decompresses a compressed module. Memory use grows with the real content of the frame, never
/// with the size that the frame claims.
///
/// # Errors
/// Returns a RuntimeError if the payload is truncated, is not a valid frame, or has a different
/// size than it declares.
#[inline]
pub fn decompress(payload: &[u8]) -> Result<Inside<'_>> {
    format::decompress(payload).map_err(|error| crate::error!(RuntimeError, "corrupt {KIND} module: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_become_smaller_stays_as_it_is() {
        let (kind, payload) = compressed("k", Bytes::new(b"short"));
        assert_eq!((kind.as_str(), payload.to_vec()), ("k", b"short".to_vec()));
        let (kind, payload) = compressed("k", Bytes::from(vec![1; 5000]));
        assert_eq!((kind.as_str(), payload.len() < 100), (KIND, true));
    }

    #[test]
    fn a_corrupt_module_is_an_error() {
        assert_eq!(
            decompress(&[1]).unwrap_err().to_string(),
            "RuntimeError: corrupt kernpack.zstd module: kernpack.zstd: kind of the module inside at byte 0x0: needs 8 bytes, but \
             only 1 are left; the data is cut off"
        );
    }
}
