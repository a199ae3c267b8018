/// Attributes of a device. The numbers are those of Apache TVM's `DeviceAttrKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum DeviceAttribute {
    /// 1 if the device exists, else 0: int.
    Exist = 0,
    /// Maximum number of threads in a block: int.
    MaxThreadsPerBlock = 1,
    /// Number of threads that run in lockstep: int.
    WarpSize = 2,
    /// Shared memory of a block in bytes: int.
    MaxSharedMemoryPerBlock = 3,
    /// Version of the device's instruction set: str, such as `9.0`.
    ComputeVersion = 4,
    /// The device's name: str.
    DeviceName = 5,
    /// Highest clock rate in kHz: int.
    MaxClockRate = 6,
    /// Number of multiprocessors: int.
    MultiProcessorCount = 7,
    /// Maximum number of threads of a block in each dimension: str, a JSON list of three ints.
    MaxThreadDimensions = 8,
    /// Maximum number of registers of a block: int.
    MaxRegistersPerBlock = 9,
    /// Architecture of an AMD device: str.
    GcnArch = 10,
    /// Version of the API that the device's driver supports: int.
    ApiVersion = 11,
    /// Version of the driver: str or int.
    DriverVersion = 12,
    /// Size of the second-level cache in bytes: int.
    L2CacheSize = 13,
    /// Total memory of the device in bytes: int.
    TotalGlobalMemory = 14,
    /// Free memory of the device in bytes: int.
    AvailableGlobalMemory = 15,
    /// Alignment of rows of images in bytes: int.
    ImagePitchAlignment = 16,
}

impl DeviceAttribute {
    /// All attributes, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::Exist,
        Self::MaxThreadsPerBlock,
        Self::WarpSize,
        Self::MaxSharedMemoryPerBlock,
        Self::ComputeVersion,
        Self::DeviceName,
        Self::MaxClockRate,
        Self::MultiProcessorCount,
        Self::MaxThreadDimensions,
        Self::MaxRegistersPerBlock,
        Self::GcnArch,
        Self::ApiVersion,
        Self::DriverVersion,
        Self::L2CacheSize,
        Self::TotalGlobalMemory,
        Self::AvailableGlobalMemory,
        Self::ImagePitchAlignment,
    ];

    /// Returns the attribute with this number.
    pub fn from_number(number: i32) -> Option<Self> {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number)).copied()
    }
}
