//! Arguments of a call, as the corpus describes them.

use std::ffi::CString;

use kernpack::DataType;
use kernpack::sys::abi::{DLDevice, DLTensor, TVMFFIAny, TVMFFIAnyPayload, type_index};
use serde_json::Value;

/// The guard bytes around each tensor, and their value: writes outside of a tensor change them.
const GUARD: usize = 256;
const PATTERN: u8 = 0xa5;

/// Memory of an argument, aligned to 64 bytes, with guards.
pub(crate) struct Region {
    raw: Vec<u8>,
    start: usize,
    size: usize,
    /// Element type, for comparisons.
    pub(crate) dtype: DataType,
}

impl Region {
    fn new(size: usize, dtype: DataType) -> Self {
        let mut raw = vec![0; size + 2 * GUARD + 64];
        let start = GUARD + (raw.as_ptr() as usize + GUARD).next_multiple_of(64) - (raw.as_ptr() as usize + GUARD);
        raw[start - GUARD..start].fill(PATTERN);
        raw[start + size..start + size + GUARD].fill(PATTERN);
        Self { raw, start, size, dtype }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.raw[self.start..self.start + self.size]
    }

    pub(crate) fn fill(&mut self, bytes: &[u8]) {
        let size = bytes.len().min(self.size);
        self.raw[self.start..self.start + size].copy_from_slice(&bytes[..size]);
    }

    pub(crate) fn address(&self) -> usize {
        self.raw.as_ptr() as usize + self.start
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns whether the guard bytes are unchanged.
    pub(crate) fn is_intact(&self) -> bool {
        let guards = [&self.raw[self.start - GUARD..self.start], &self.raw[self.start + self.size..][..GUARD]];
        guards.iter().all(|guard| guard.iter().all(|byte| *byte == PATTERN))
    }
}

/// Arguments, with the memory that they point to.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) values: Vec<TVMFFIAny>,
    /// The memory of each argument, by the argument's index.
    pub(crate) regions: Vec<(usize, Region)>,
    #[expect(clippy::vec_box, reason = "arguments point to them, so they do not move when the list grows")]
    tensors: Vec<Box<DLTensor>>,
    sizes: Vec<Vec<i64>>,
    texts: Vec<CString>,
}

fn value(type_index: i32, payload: TVMFFIAnyPayload) -> TVMFFIAny {
    TVMFFIAny { type_index, small_len: 0, payload }
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

fn number(value: &Value, default: i64) -> i64 {
    value.as_i64().unwrap_or(default)
}

impl Arguments {
    /// The arguments of a list; `None` if one is of an unsupported kind.
    pub(crate) fn of(list: &[Value]) -> Option<Self> {
        let mut this = Self::default();
        for (index, argument) in list.iter().enumerate() {
            let made = match argument["t"].as_str()? {
                "tensor" => this.tensor(index, argument)?,
                "int" => value(type_index::INT, TVMFFIAnyPayload { v_int64: argument["v"].as_i64()? }),
                "bool" => {
                    let truth =
                        argument["v"].as_bool().map_or_else(|| argument["v"].as_i64(), |truth| Some(truth.into()));
                    value(type_index::BOOL, TVMFFIAnyPayload { v_int64: truth? })
                }
                "float" => value(type_index::FLOAT, TVMFFIAnyPayload { v_float64: argument["v"].as_f64()? }),
                "none" => value(type_index::NONE, TVMFFIAnyPayload { v_int64: 0 }),
                "str" => {
                    this.texts.push(CString::new(argument["v"].as_str()?).ok()?);
                    value(type_index::RAW_STR, TVMFFIAnyPayload { v_c_str: this.texts.last()?.as_ptr() })
                }
                "ptr" => {
                    let dtype = argument["dtype"].as_str().unwrap_or("uint8").parse().ok()?;
                    let region = Region::new(usize::try_from(argument["bytes"].as_u64()?).ok()?, dtype);
                    let address = region.address() as *mut core::ffi::c_void;
                    this.regions.push((index, region));
                    value(type_index::OPAQUE_PTR, TVMFFIAnyPayload { v_ptr: address })
                }
                _ => return None,
            };
            this.values.push(made);
        }
        Some(this)
    }

    fn tensor(&mut self, index: usize, argument: &Value) -> Option<TVMFFIAny> {
        let dtype: DataType = argument["dtype"].as_str()?.parse().ok()?;
        let shape = numbers(&argument["shape"]);
        let strides = argument["strides"].is_array().then(|| numbers(&argument["strides"]));
        let mut count: i64 = shape.iter().map(|extent| (*extent).max(0)).product();
        if let Some(strides) = strides.as_ref().filter(|_| count > 0) {
            count = 1 + shape.iter().zip(strides).map(|(extent, stride)| (extent - 1) * stride.abs()).sum::<i64>();
        }
        let raw = dtype.as_raw();
        let bits = count * i64::from(raw.lanes) * i64::from(raw.bits);
        let offset = number(&argument["offset"], 0);
        let size = (bits + 7) / 8;
        let size = usize::try_from(size.max(number(&argument["bytes"], 0)) + offset).ok()?;
        let region = Region::new(size, DataType::scalar(raw.code, raw.bits));
        let device = numbers(&argument["device"]);
        let ndim = number(&argument["ndim"], shape.len() as i64);
        let mut pointer = |mut list: Vec<i64>| {
            list.push(0);
            self.sizes.push(list);
            self.sizes.last_mut().map_or(core::ptr::null_mut(), |list| list.as_mut_ptr())
        };
        let is_null = argument["data"] == "null";
        let tensor = Box::new(DLTensor {
            data: if is_null { core::ptr::null_mut() } else { region.address() as *mut core::ffi::c_void },
            device: DLDevice {
                device_type: device.first().map_or(1, |kind| *kind as i32),
                device_id: device.get(1).map_or(0, |id| *id as i32),
            },
            ndim: ndim as i32,
            dtype: raw,
            shape: pointer(shape),
            strides: strides.map_or(core::ptr::null_mut(), &mut pointer),
            byte_offset: offset as u64,
        });
        self.regions.push((index, region));
        self.tensors.push(tensor);
        let tensor: *const DLTensor = &**self.tensors.last()?;
        Some(value(type_index::DL_TENSOR_PTR, TVMFFIAnyPayload { v_ptr: tensor.cast_mut().cast() }))
    }
}
