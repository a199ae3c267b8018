//! The wire format of protocol buffers: the fields of a message in sequence.
//!
//! Source: the encoding page of the protocol buffers documentation. A key is a varint,
//! `number << 3 | type`; types are 0 varint, 1 eight bytes, 2 bytes with a length before them, 5
//! four bytes; 3 and 4 are groups, which ONNX has never had.

use crate::error::{Result, fail, require};

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    /// A varint: an integer, a bool or an enum.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64(u64),
    /// A message, text, bytes, or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes, little-endian.
    Fixed32(u32),
}

/// Reads the fields of a message in order.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Reads the fields of these bytes.
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for (index, &byte) in self.rest.iter().enumerate().take(10) {
            require!(index < 9 || byte <= 1, "a varint does not fit into 64 bits");
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        fail!("the data ends within a varint")
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let taken = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let Some((taken, rest)) = taken else {
            fail!("a field of {length} bytes, but only {} bytes are left", self.rest.len())
        };
        self.rest = rest;
        Ok(taken)
    }

    /// Returns the next field, its number and value, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes"))),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes"))),
            other => fail!("a field of wire type {other}: this is not an ONNX model"),
        };
        require!(key >> 3 != 0, "a field of number 0: this is not an ONNX model");
        Ok(Some((key >> 3, value)))
    }
}

impl<'a> Wire<'a> {
    /// A message, text or bytes.
    pub(super) fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => fail!("expected a message or bytes, got {other:?}"),
        }
    }

    /// Text.
    pub(super) fn text(self) -> Result<String> {
        match core::str::from_utf8(self.bytes()?) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => fail!("a name is not UTF-8: {error}"),
        }
    }

    /// An integer.
    pub(super) fn int(self) -> Result<i64> {
        match self {
            #[expect(clippy::cast_possible_wrap, reason = "int64 and int32 are written as two's complement")]
            Self::Varint(value) => Ok(value as i64),
            other => fail!("expected an integer, got {other:?}"),
        }
    }

    /// A float.
    pub(super) fn float(self) -> Result<f32> {
        match self {
            Self::Fixed32(bits) => Ok(f32::from_bits(bits)),
            other => fail!("expected a float, got {other:?}"),
        }
    }

    /// Adds one integer, or several packed ones.
    pub(super) fn push_ints(self, ints: &mut Vec<i64>) -> Result<()> {
        let Self::Bytes(bytes) = self else {
            ints.push(self.int()?);
            return Ok(());
        };
        let mut fields = Fields::new(bytes);
        while !fields.rest.is_empty() {
            #[expect(clippy::cast_possible_wrap, reason = "int64 and int32 are written as two's complement")]
            ints.push(fields.varint()? as i64);
        }
        Ok(())
    }

    /// Adds the bytes of one number of four or eight bytes, or of several packed ones.
    pub(super) fn push_fixed(self, width: usize, bytes: &mut Vec<u8>) -> Result<()> {
        match (self, width) {
            (Self::Fixed32(value), 4) => bytes.extend(value.to_le_bytes()),
            (Self::Fixed64(value), 8) => bytes.extend(value.to_le_bytes()),
            (Self::Bytes(packed), _) => {
                require!(packed.len() % width == 0, "{} bytes of numbers of {width} bytes", packed.len());
                bytes.extend(packed);
            }
            (other, _) => fail!("expected numbers of {width} bytes, got {other:?}"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u64, Wire<'_>)>> {
        let mut fields = Fields::new(bytes);
        core::iter::from_fn(|| fields.next().transpose()).collect()
    }

    #[test]
    fn fields_in_order() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 0, 0, 0x80, 0x3f, 0x21, 1, 0, 0, 0, 0, 0, 0, 0];
        let expected =
            [(1, Wire::Varint(150)), (2, Wire::Bytes(b"hi")), (3, Wire::Fixed32(0x3f80_0000)), (4, Wire::Fixed64(1))];
        assert_eq!(all(&bytes).unwrap(), expected);
        assert_eq!(all(&[]).unwrap(), []);
    }

    #[test]
    fn damaged_data() {
        for (bytes, expected) in [
            (&[0x08][..], "the data ends within a varint"),
            (&[0x12, 0x05, 1], "a field of 5 bytes, but only 1 bytes are left"),
            (
                &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
                "a field of 18446744073709551615 bytes, but only 0 bytes are left",
            ),
            (&[0x0b], "a field of wire type 3: this is not an ONNX model"),
            (&[0x00, 0x00], "a field of number 0: this is not an ONNX model"),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], "a varint does not fit into 64 bits"),
            (&[0x1d, 1, 2], "a field of 4 bytes, but only 2 bytes are left"),
        ] {
            assert_eq!(all(bytes).unwrap_err().to_string(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn packed_numbers_and_single_ones() {
        let mut ints = Vec::new();
        Wire::Bytes(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).push_ints(&mut ints).unwrap();
        Wire::Varint(7).push_ints(&mut ints).unwrap();
        assert_eq!(ints, [1, -1, 7]);
        let mut bytes = Vec::new();
        Wire::Bytes(&[1, 2, 3, 4]).push_fixed(4, &mut bytes).unwrap();
        Wire::Fixed32(5).push_fixed(4, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, 4, 5, 0, 0, 0]);
        let error = Wire::Bytes(&[1, 2, 3]).push_fixed(4, &mut bytes).unwrap_err();
        assert_eq!(error.to_string(), "3 bytes of numbers of 4 bytes");
    }
}
