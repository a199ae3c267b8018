//! Parameter files: names and tensors, in the format of NNVM, Relay and TVM.

use kernpack::{Bytes, DataType, Map, Str, Tensor};
use kernpack_graph::tensors::{bytes_of, tensor_of};
use kernpack_graph::{Result, fail, require};

/// The magic number at the start of a file.
const LIST: u64 = 0xF7E5_8D4F_0504_9CB7;
/// The magic number at the start of each tensor.
const TENSOR: u64 = 0xDD5E_40F0_96B4_A13F;

/// Returns the parameters as the bytes of a file, in the order of the map.
///
/// # Errors
/// Returns an error for a tensor that is not on the CPU, or not dense.
pub fn save(params: &Map<Str, Tensor>) -> Result<Bytes> {
    let mut out = Vec::new();
    let put = |out: &mut Vec<u8>, value: u64| out.extend_from_slice(&value.to_le_bytes());
    let count = u64::try_from(params.len()).unwrap_or(u64::MAX);
    put(&mut out, LIST);
    put(&mut out, 0);
    put(&mut out, count);
    for (name, _) in params.iter() {
        put(&mut out, u64::try_from(name.len()).unwrap_or(u64::MAX));
        out.extend_from_slice(name.as_bytes());
    }
    put(&mut out, count);
    for (name, tensor) in params.iter() {
        let bytes = bytes_of(&tensor).map_err(|error| error.within(&format!("parameter '{name}'")))?;
        put(&mut out, TENSOR);
        put(&mut out, 0);
        // The device is always written as the CPU.
        for value in [1_i32, 0, i32::try_from(tensor.ndim()).unwrap_or(i32::MAX)] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        let raw = tensor.dtype().as_raw();
        out.extend_from_slice(&[raw.code, raw.bits]);
        out.extend_from_slice(&raw.lanes.to_le_bytes());
        for extent in tensor.shape() {
            out.extend_from_slice(&extent.to_le_bytes());
        }
        put(&mut out, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        out.extend_from_slice(&bytes);
    }
    Ok(Bytes::from(out))
}

/// Reads a file.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: u64, what: &str) -> Result<&'a [u8]> {
        let left = self.bytes.len() - self.at;
        match usize::try_from(count) {
            Ok(count) if count <= left => {
                self.at += count;
                Ok(&self.bytes[self.at - count..self.at])
            }
            _ => fail!("the file ends at byte {} in {what}, which has {count} bytes", self.bytes.len()),
        }
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        let bytes = self.take(8, what)?;
        Ok(u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    fn i32(&mut self, what: &str) -> Result<i32> {
        let bytes = self.take(4, what)?;
        Ok(i32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    fn tensor(&mut self) -> Result<Tensor> {
        require!(self.u64("the mark of a tensor")? == TENSOR, "no tensor begins at byte {}", self.at - 8);
        self.u64("a reserved field")?;
        let (device, _number) = (self.i32("a device")?, self.i32("a device")?);
        require!(device == 1, "a tensor is of device kind {device}, and files have tensors of the CPU (1)");
        let ndim = self.i32("the number of axes")?;
        require!((0..=64).contains(&ndim), "a tensor has {ndim} axes");
        let dtype = self.take(4, "an element type")?;
        let lanes = u16::from_le_bytes([dtype[2], dtype[3]]);
        let dtype = known_type(dtype[0], dtype[1], lanes)?;
        let mut shape = Vec::new();
        for _ in 0..ndim {
            shape.push(self.u64("a shape")?.cast_signed());
        }
        let size = self.u64("the size of a tensor")?;
        let bytes = self.take(size, "the elements of a tensor")?;
        tensor_of(dtype, &shape, bytes)
    }
}

/// Checks an element type that tensors of files may have.
fn known_type(code: u8, bits: u8, lanes: u16) -> Result<DataType> {
    let fits = match code {
        0 | 1 => matches!(bits, 8 | 16 | 32 | 64) || code == 1 && bits == 1,
        2 => matches!(bits, 16 | 32 | 64),
        4 => bits == 16,
        6 => bits == 8,
        _ => false,
    };
    require!(fits && lanes == 1, "an element type of code {code}, {bits} bits and {lanes} lanes is not supported");
    // Old files store booleans as unsigned one-bit integers.
    let name = match (code, bits) {
        (1, 1) | (6, _) => "bool".to_owned(),
        (0, _) => format!("int{bits}"),
        (1, _) => format!("uint{bits}"),
        (4, _) => "bfloat16".to_owned(),
        _ => format!("float{bits}"),
    };
    Ok(name.parse::<DataType>()?)
}

/// Loads the parameters of a file.
///
/// # Errors
/// Returns an error if the bytes are not such a file: the position where it ends, and the problem.
pub fn load(bytes: &[u8]) -> Result<Map<Str, Tensor>> {
    let read = || {
        let mut reader = Reader { bytes, at: 0 };
        require!(reader.u64("its first mark")? == LIST, "it does not begin as files with parameters do");
        reader.u64("a reserved field")?;
        let count = reader.u64("the number of names")?;
        let mut names: Vec<Str> = Vec::new();
        for _ in 0..count {
            let size = reader.u64("the size of a name")?;
            let name = reader.take(size, "a name")?;
            match core::str::from_utf8(name) {
                Ok(name) => names.push(name.into()),
                Err(_) => fail!("a name is not UTF-8"),
            }
        }
        let tensors = reader.u64("the number of tensors")?;
        require!(tensors == count, "there are {count} names and {tensors} tensors");
        let mut params = Vec::new();
        for name in names {
            let tensor = reader.tensor().map_err(|error| error.within(&format!("parameter '{name}'")))?;
            params.push((name, tensor));
        }
        require!(reader.at == bytes.len(), "{} bytes are left behind the last tensor", bytes.len() - reader.at);
        Ok(params)
    };
    let params =
        read().map_err(|error: kernpack_graph::GraphError| error.within("the file with parameters cannot be read"))?;
    Ok(params.into_iter().collect())
}
