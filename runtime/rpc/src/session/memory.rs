use std::collections::BTreeMap;
use std::sync::Arc;

use kernpack::device::{DeviceMemory, Place, device_type};
use kernpack::{Device, Result, Tensor, bail, ensure, error};

use crate::wire::TensorHeader;

/// The memory that a client can refer to: blocks that it allocated, and those of tensors that
/// functions returned.
///
/// A client sees addresses of the session's own address space, which are never reused and reveal
/// nothing about the process; a client may add offsets to them. Each access is checked against the
/// bounds of the block that it begins in.
pub(super) struct Memory {
    next: u64,
    blocks: BTreeMap<u64, Block>,
}

/// A block of memory, and its owner.
#[derive(Clone)]
pub(super) struct Block {
    place: Place,
    size: u64,
    owner: Owner,
}

/// The owner of a block.
#[derive(Clone)]
#[expect(dead_code, reason = "they are only kept")]
pub(super) enum Owner {
    Allocated(Arc<DeviceMemory>),
    Tensor(Tensor),
}

// SAFETY: the place is the owner's, which may go to other threads.
unsafe impl Send for Block {}
// SAFETY: as above; shared access reads the place only.
unsafe impl Sync for Block {}

/// Blocks begin at multiples of this, with unused addresses between them.
const STEP: u64 = 1 << 16;

impl Memory {
    pub(super) fn new() -> Self {
        Self { next: 1 << 32, blocks: BTreeMap::new() }
    }

    /// The number of blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Allocates memory of a device.
    pub(super) fn allocate(&mut self, device: Device, size: u64, alignment: u64) -> Result<u64> {
        let too_large = || error!(MemoryError, "{size} bytes are more than {device} has");
        let bytes = usize::try_from(size).map_err(|_| too_large())?;
        ensure!(bytes <= isize::MAX as usize, MemoryError, "{size} bytes are more than {device} has");
        ensure!(
            alignment.is_power_of_two() && alignment <= 1 << 20,
            ValueError,
            "an alignment is a power of two up to 1 MiB, got {alignment}"
        );
        let memory = DeviceMemory::new(device, bytes, alignment as usize)?;
        Ok(self.add(Block { place: memory.place(), size, owner: Owner::Allocated(Arc::new(memory)) }))
    }

    /// Registers the memory of a tensor that a function returned.
    pub(super) fn adopt(&mut self, tensor: &Tensor) -> Result<u64> {
        ensure!(
            tensor.is_contiguous(),
            ValueError,
            "the function returned a tensor with gaps between its elements, which cannot be sent; return a contiguous one"
        );
        let raw = tensor.dl_tensor();
        let place = Place { device: tensor.device(), data: raw.data, byte_offset: raw.byte_offset };
        let header = TensorHeader {
            data: 0,
            device: tensor.device(),
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
            byte_offset: 0,
        };
        Ok(self.add(Block { place, size: header.size()?, owner: Owner::Tensor(tensor.clone()) }))
    }

    fn add(&mut self, block: Block) -> u64 {
        let address = self.next;
        // 2^63 addresses cannot be used up: each block takes time, and its size of the machine's
        // memory.
        self.next += block.size.next_multiple_of(STEP) + STEP;
        self.blocks.insert(address, block);
        address
    }

    /// Frees memory that the client allocated.
    pub(super) fn free(&mut self, device: Device, address: u64) -> Result<()> {
        match self.blocks.get(&address) {
            Some(block) if block.place.device != device => {
                bail!(ValueError, "the memory at {address:#x} is on {}, not on {device}", block.place.device)
            }
            Some(Block { owner: Owner::Allocated(_), .. }) => {
                self.blocks.remove(&address);
                Ok(())
            }
            Some(_) => bail!(ValueError, "the memory at {address:#x} belongs to a tensor; free the tensor"),
            None => bail!(ValueError, "no memory was allocated at {address:#x}, or it was freed"),
        }
    }

    /// Removes the memory of a tensor.
    pub(super) fn forget(&mut self, address: u64) {
        self.blocks.remove(&address);
    }

    /// Returns the location of `size` bytes from an address on, and the block that contains them.
    pub(super) fn resolve(&self, device: Device, address: u64, offset: u64, size: u64) -> Result<(Place, &Block)> {
        let found = self.blocks.range(..=address).next_back();
        let Some((start, block)) = found.filter(|(start, block)| address - *start <= block.size) else {
            bail!(ValueError, "no memory was allocated at {address:#x}, or it was freed");
        };
        let into = address - start;
        let end = into.checked_add(offset).and_then(|begin| begin.checked_add(size));
        ensure!(
            end.is_some_and(|end| end <= block.size),
            ValueError,
            "{size} bytes at {address:#x} + {offset} are not inside the {} bytes that begin at {start:#x}",
            block.size
        );
        ensure!(
            device == block.place.device,
            ValueError,
            "the memory at {address:#x} is on {}, not on {device}",
            block.place.device
        );
        let mut place = block.place;
        if has_addresses(device) {
            place.data = place.data.wrapping_byte_add(into as usize);
            place.byte_offset += offset;
        } else {
            place.byte_offset += into + offset;
        }
        Ok((place, block))
    }

    /// Returns the location of an address, on any device.
    pub(super) fn find(&self, address: u64) -> Result<Place> {
        let found = self.blocks.range(..=address).next_back();
        let device = found.map_or(Device::CPU, |(_, block)| block.place.device);
        self.resolve(device, address, 0, 0).map(|(place, _)| place)
    }

    /// Returns the location of a tensor that a client describes, and the block that contains it.
    pub(super) fn resolve_tensor(&self, header: &TensorHeader) -> Result<(Place, &Block)> {
        self.resolve(header.device, header.data, header.byte_offset, header.size()?)
    }
}

/// Returns true if DLPack's `data` is an address on such devices, to which offsets may be added.
fn has_addresses(device: Device) -> bool {
    !matches!(
        device.device_type(),
        device_type::OPENCL | device_type::VULKAN | device_type::METAL | device_type::WEBGPU
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_stay_inside_of_blocks() {
        let mut memory = Memory::new();
        let first = memory.allocate(Device::CPU, 100, 64).unwrap();
        let second = memory.allocate(Device::CPU, 0, 1).unwrap();
        let resolve = |address, offset, size| {
            memory.resolve(Device::CPU, address, offset, size).map(|(place, _)| place.address() as usize)
        };
        let base = resolve(first, 0, 100).unwrap();
        assert_eq!(resolve(first + 10, 20, 70).unwrap(), base + 30);
        resolve(second, 0, 0).unwrap();
        for (address, offset, size) in [
            (0, 0, 0),
            (first - 1, 0, 1),
            (first, 0, 101),
            (first + 1, 0, 100),
            (first, 1, 100),
            (first, u64::MAX, 2),
            (first, 2, u64::MAX),
            (second, 0, 1),
            (u64::MAX, 0, 0),
            (base as u64, 0, 1),
        ] {
            assert!(resolve(address, offset, size).is_err(), "{address:#x} {offset} {size}");
        }
        let error = memory.resolve(Device::cuda(0), first, 0, 1).err().unwrap();
        assert!(error.message().contains("is on cpu:0, not on cuda:0"), "{error}");
        assert!(memory.free(Device::cuda(0), first).is_err());
        assert!(memory.free(Device::CPU, first + 1).is_err());
        memory.free(Device::CPU, first).unwrap();
        assert!(memory.free(Device::CPU, first).is_err());
        assert!(memory.resolve(Device::CPU, first, 0, 1).is_err());
        assert_eq!(memory.len(), 1);
    }

    #[test]
    fn addresses_are_not_used_again() {
        let mut memory = Memory::new();
        let first = memory.allocate(Device::CPU, 8, 8).unwrap();
        memory.free(Device::CPU, first).unwrap();
        assert_ne!(memory.allocate(Device::CPU, 8, 8).unwrap(), first);
        for (size, alignment) in [(u64::MAX, 64), (1 << 62, 64), (8, 0), (8, 3), (8, 1 << 40)] {
            assert!(memory.allocate(Device::CPU, size, alignment).is_err(), "{size} {alignment}");
        }
        assert!(memory.allocate(Device::new(99, 0), 8, 8).is_err());
    }

    #[test]
    fn tensors_of_functions() {
        let mut memory = Memory::new();
        let tensor = Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap();
        let address = memory.adopt(&tensor).unwrap();
        let (place, _) = memory.resolve(Device::CPU, address, 4, 4).unwrap();
        assert_eq!(place.address(), tensor.dl_tensor().data.wrapping_byte_add(4));
        assert!(memory.free(Device::CPU, address).unwrap_err().message().contains("belongs to a tensor"));
        memory.forget(address);
        assert_eq!(memory.len(), 0);
    }
}
