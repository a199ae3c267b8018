//! The primitives of TVM's binary streams: little-endian integers, strings and vectors, without
//! alignment.
//!
//! The reader borrows from its input and checks every length against the remaining bytes before
//! using it. Its errors contain the position and the structure.

use std::fmt;

/// The problem in a binary stream and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError(Box<Detail>);

/// The content of an error; boxed, so that results stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Detail {
    format: &'static str,
    structure: String,
    offset: usize,
    problem: String,
}

impl StreamError {
    /// Creates an error about `structure`, which begins `offset` bytes into the stream.
    #[cold]
    pub fn new(format: &'static str, structure: &dyn fmt::Display, offset: usize, problem: fmt::Arguments<'_>) -> Self {
        Self(Box::new(Detail { format, structure: structure.to_string(), offset, problem: problem.to_string() }))
    }

    /// Offset in bytes of the invalid structure in the blob.
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// The invalid structure, such as `import list`.
    pub fn structure(&self) -> &str {
        &self.0.structure
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Detail { format, structure, offset, problem } = &*self.0;
        write!(f, "{format}: {structure} at byte {offset:#x}: {problem}")
    }
}

impl std::error::Error for StreamError {}

/// Reads a stream from its start to its end.
pub struct StreamReader<'a> {
    format: &'static str,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> StreamReader<'a> {
    /// Creates a reader of `bytes`; errors refer to the stream as `format`.
    pub fn new(format: &'static str, bytes: &'a [u8]) -> Self {
        Self { format, bytes, offset: 0 }
    }

    /// Number of bytes read so far.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of bytes that remain.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// Creates an error at the current position.
    #[cold]
    pub fn error(&self, structure: &dyn fmt::Display, problem: fmt::Arguments<'_>) -> StreamError {
        self.error_at(self.offset, structure, problem)
    }

    /// Creates an error about `structure`, which begins at `offset`.
    #[cold]
    pub fn error_at(&self, offset: usize, structure: &dyn fmt::Display, problem: fmt::Arguments<'_>) -> StreamError {
        StreamError::new(self.format, structure, offset, problem)
    }

    /// Reads the next `len` bytes.
    pub fn take(&mut self, len: u64, structure: &dyn fmt::Display) -> Result<&'a [u8], StreamError> {
        let left = &self.bytes[self.offset..];
        let taken = usize::try_from(len).ok().and_then(|len| left.get(..len)).ok_or_else(|| {
            self.error(
                structure,
                format_args!("needs {len} bytes, but only {} are left; the data is cut off", left.len()),
            )
        })?;
        self.offset += taken.len();
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self, structure: &dyn fmt::Display) -> Result<[u8; N], StreamError> {
        let taken = self.take(N as u64, structure)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    /// Reads a byte.
    pub fn u8(&mut self, structure: &dyn fmt::Display) -> Result<u8, StreamError> {
        Ok(self.take_array::<1>(structure)?[0])
    }

    /// Reads a 16-bit number.
    pub fn u16(&mut self, structure: &dyn fmt::Display) -> Result<u16, StreamError> {
        Ok(u16::from_le_bytes(self.take_array(structure)?))
    }

    /// Reads a 32-bit number.
    pub fn i32(&mut self, structure: &dyn fmt::Display) -> Result<i32, StreamError> {
        Ok(i32::from_le_bytes(self.take_array(structure)?))
    }

    /// Reads a 64-bit number.
    pub fn u64(&mut self, structure: &dyn fmt::Display) -> Result<u64, StreamError> {
        Ok(u64::from_le_bytes(self.take_array(structure)?))
    }

    /// Reads a number of items, each of which takes at least `item_size` bytes. Returns an error if
    /// the rest of the input cannot contain that many.
    pub fn count(&mut self, item_size: usize, structure: &dyn fmt::Display) -> Result<usize, StreamError> {
        let start = self.offset;
        let count = self.u64(structure)?;
        let room = self.remaining() / item_size;
        match usize::try_from(count) {
            Ok(count) if count <= room => Ok(count),
            _ => Err(self.error_at(
                start,
                structure,
                format_args!(
                    "claims {count} items of {item_size} bytes or more, but only {} bytes follow",
                    self.remaining()
                ),
            )),
        }
    }

    /// Reads a length and that many bytes.
    pub fn bytes(&mut self, structure: &dyn fmt::Display) -> Result<&'a [u8], StreamError> {
        let start = self.offset;
        let len = self.u64(structure)?;
        if len > self.remaining() as u64 {
            let left = self.remaining();
            return Err(self.error_at(start, structure, format_args!("claims {len} bytes, but only {left} follow")));
        }
        self.take(len, structure)
    }

    /// Reads a length and that many bytes of UTF-8.
    pub fn string(&mut self, structure: &dyn fmt::Display) -> Result<&'a str, StreamError> {
        let start = self.offset;
        let bytes = self.bytes(structure)?;
        std::str::from_utf8(bytes).map_err(|_| self.error_at(start, structure, format_args!("is not UTF-8")))
    }

    /// Reads a number of strings and the strings.
    pub fn strings(&mut self, structure: &dyn fmt::Display) -> Result<Vec<String>, StreamError> {
        // A string takes at least 8 bytes.
        let count = self.count(8, structure)?;
        (0..count).map(|_| self.string(structure).map(str::to_owned)).collect()
    }

    /// Checks that no bytes remain.
    pub fn finish(&self, structure: &dyn fmt::Display) -> Result<(), StreamError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(structure, format_args!("{left} unexpected bytes after the end"))),
        }
    }
}

/// Appends a length and bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a little-endian integer.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends the number of strings and the strings.
pub fn put_strings(out: &mut Vec<u8>, strings: &[String]) {
    put_u64(out, strings.len() as u64);
    for string in strings {
        put_bytes(out, string.as_bytes());
    }
}
