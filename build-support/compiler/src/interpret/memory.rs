//! The machine's memory: regions with bounds, a poison bit for each byte, and the accesses to it.
//!
//! An address contains the number of its region in the high bits, so that an address beyond the end
//! of one region is never inside another.

use super::block::read_lane;
use super::race::Races;
use crate::ir::{DataType, DataTypeExt};

const OFFSET_BITS: u32 = 40;
/// The offset of a region's first byte: addresses before it still refer to the region.
const ORIGIN: u64 = 1 << (OFFSET_BITS - 1);

/// A limit that is larger than the number of elements of a region.
const ELEMENT_LIMIT: i64 = 1 << 34;

/// A part of the memory.
pub(super) struct Region {
    pub(super) name: String,
    bytes: Vec<u8>,
    known: Vec<bool>,
    /// The number of bytes between an aligned address and the first byte.
    misalignment: u64,
    writable: bool,
    /// True if only one device thread can access it.
    private: bool,
    freed: bool,
}

/// The problem of an access, without the statement.
pub(super) type Fault = String;

/// All memory of a run.
#[derive(Default)]
pub(super) struct Memory {
    regions: Vec<Region>,
    /// The parallel work in progress.
    pub(super) races: Races,
}

/// The kind of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// A read.
    Read,
    /// A write.
    Write,
}

impl Memory {
    /// Allocates a region of bytes without values, and returns its address.
    pub(super) fn allocate(&mut self, name: &str, bytes: usize, private: bool) -> Result<u64, Fault> {
        self.insert(name, vec![0; bytes], vec![false; bytes], 0, true, private)
    }

    /// Inserts a region with contents, and returns its address.
    pub(super) fn insert(
        &mut self,
        name: &str,
        bytes: Vec<u8>,
        known: Vec<bool>,
        misalignment: usize,
        writable: bool,
        private: bool,
    ) -> Result<u64, Fault> {
        if self.regions.len() >= 1 << (63 - OFFSET_BITS) {
            return Err("too many allocations".to_owned());
        }
        let misalignment = misalignment as u64;
        self.regions.push(Region {
            name: name.to_owned(),
            bytes,
            known,
            misalignment,
            writable,
            private,
            freed: false,
        });
        Ok((self.regions.len() as u64) << OFFSET_BITS | (ORIGIN + misalignment))
    }

    /// The number of regions so far; newer regions have this number or a higher one.
    pub(super) fn count(&self) -> usize {
        self.regions.len()
    }

    /// The region of an address, and the offset in it.
    fn locate(&self, address: u64) -> Result<(usize, i64), Fault> {
        if address == 0 {
            return Err("access through a null pointer".to_owned());
        }
        let number = (address >> OFFSET_BITS) as usize;
        let Some(region) = number.checked_sub(1).and_then(|index| self.regions.get(index)) else {
            return Err(format!("access through {address:#x}, which is not a pointer"));
        };
        let offset = (address & ((1 << OFFSET_BITS) - 1)) as i64 - (ORIGIN + region.misalignment) as i64;
        Ok((number - 1, offset))
    }

    /// The name of the region and the byte offset of an address, for messages.
    pub(super) fn describe(&self, address: u64) -> Option<(&str, i64)> {
        let (index, offset) = self.locate(address).ok()?;
        Some((&self.regions[index].name, offset))
    }

    /// The size in bytes of the region of an address.
    pub(super) fn size_at(&self, address: u64) -> Option<usize> {
        Some(self.regions[self.locate(address).ok()?.0].bytes.len())
    }

    /// Ends the lifetime of the region of an address.
    pub(super) fn free(&mut self, address: u64) -> Result<(), Fault> {
        let (index, _) = self.locate(address)?;
        let region = &mut self.regions[index];
        if region.freed {
            return Err(format!("`{}` is freed twice", region.name));
        }
        region.freed = true;
        region.bytes = Vec::new();
        region.known = Vec::new();
        Ok(())
    }

    /// Takes the contents of a region.
    pub(super) fn take(&mut self, address: u64) -> (Vec<u8>, Vec<bool>) {
        let (index, _) = self.locate(address).expect("an address of a region");
        let region = &mut self.regions[index];
        region.freed = true;
        (core::mem::take(&mut region.bytes), core::mem::take(&mut region.known))
    }

    /// Checks an access of `size` bytes, and returns the location. `aligned` is the required
    /// alignment of the address.
    fn check(
        &mut self,
        address: u64,
        size: usize,
        aligned: usize,
        access: Access,
        stmt: u32,
    ) -> Result<(usize, usize), Fault> {
        let (index, offset) = self.locate(address)?;
        let region = &self.regions[index];
        if region.freed {
            return Err(format!("`{}` is used after the end of its scope", region.name));
        }
        if offset < 0 || offset as usize + size > region.bytes.len() {
            return Err(format!(
                "out of bounds: bytes {offset}..{} of `{}`, which has {}",
                offset + size as i64,
                region.name,
                region.bytes.len()
            ));
        }
        if !address.is_multiple_of(aligned as u64) {
            return Err(format!("address of byte {offset} of `{}` is not a multiple of {aligned}", region.name));
        }
        if access == Access::Write && !region.writable {
            return Err(format!("`{}` is written, but is not an output", region.name));
        }
        if !self.races.is_empty() {
            let (name, private, length) = (&region.name, region.private, region.bytes.len());
            self.races.touch(index, offset as usize..offset as usize + size, length, private, access, stmt).map_err(
                |race| {
                    let element = race.byte / size;
                    format!("race: {} (byte {} of `{name}`, element {element} of this type)", race.text, race.byte)
                },
            )?;
        }
        Ok((index, offset as usize))
    }

    /// The location of an element of `size` bytes, if the access is valid; otherwise the slow path
    /// produces the error.
    #[inline]
    fn place(&mut self, data: u64, index: i64, size: usize, access: Access, stmt: u32) -> Option<(usize, usize)> {
        if !(-ELEMENT_LIMIT..ELEMENT_LIMIT).contains(&index) {
            return None;
        }
        let number = ((data >> OFFSET_BITS) as usize).wrapping_sub(1);
        let region = self.regions.get(number)?;
        let from_origin = (data & ((1 << OFFSET_BITS) - 1)) as i64 - ORIGIN as i64 + index * size as i64;
        let offset = from_origin - region.misalignment as i64;
        let length = region.bytes.len();
        if offset < 0 || offset as usize + size > length || from_origin as usize & (size - 1) != 0 {
            return None;
        }
        let offset = offset as usize;
        if region.freed || access == Access::Write && !region.writable {
            return None;
        }
        if !self.races.is_empty() {
            self.races.touch(number, offset..offset + size, length, region.private, access, stmt).ok()?;
        }
        Some((number, offset))
    }

    /// Reads an element of 1, 2, 4 or 8 bytes without sign extension; `None` if it cannot be read,
    /// or needs the slow path.
    #[inline]
    pub(super) fn quick_read(&mut self, data: u64, index: i64, size: usize, stmt: u32) -> Option<u64> {
        let (number, offset) = self.place(data, index, size, Access::Read, stmt)?;
        let region = &self.regions[number];
        if region.known[offset..offset + size].contains(&false) {
            return None;
        }
        let bytes = &region.bytes[offset..offset + size];
        Some(match *bytes {
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_le_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => return None,
        })
    }

    /// Writes an element of 1, 2, 4 or 8 bytes; `None` if it was not written.
    #[inline]
    pub(super) fn quick_write(&mut self, data: u64, index: i64, size: usize, bits: u64, stmt: u32) -> Option<()> {
        let (number, offset) = self.place(data, index, size, Access::Write, stmt)?;
        let region = &mut self.regions[number];
        region.bytes[offset..offset + size].copy_from_slice(&bits.to_le_bytes()[..size]);
        region.known[offset..offset + size].fill(true);
        Some(())
    }

    /// Reads a lane.
    pub(super) fn read(&mut self, address: u64, dtype: DataType, stmt: u32) -> Result<u64, Fault> {
        let size = dtype.lane_bytes();
        let (index, offset) = self.check(address, size, size, Access::Read, stmt)?;
        let region = &self.regions[index];
        if let Some(byte) = region.known[offset..offset + size].iter().position(|known| !known) {
            let mut text = format!("`{}` is read at byte {}, which has no value yet", region.name, offset + byte);
            if self.races.has_threads() && !region.private {
                text.push_str("; another thread may write it: is there a barrier between?");
            }
            return Err(text);
        }
        let bits = read_lane(dtype, &region.bytes[offset..offset + size]);
        if dtype.is_bool() && bits > 1 {
            return Err(format!("byte {offset} of `{}` is {bits}: no truth value", region.name));
        }
        Ok(bits)
    }

    /// Writes a lane.
    pub(super) fn write(&mut self, address: u64, dtype: DataType, bits: u64, stmt: u32) -> Result<(), Fault> {
        let size = dtype.lane_bytes();
        let (index, offset) = self.check(address, size, size, Access::Write, stmt)?;
        let region = &mut self.regions[index];
        region.bytes[offset..offset + size].copy_from_slice(&bits.to_le_bytes()[..size]);
        region.known[offset..offset + size].fill(true);
        Ok(())
    }
}
