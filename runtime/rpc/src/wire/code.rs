/// The kind of a packet: the first four bytes of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Code {
    /// Never sent.
    None = 0,
    /// Ends the session; without a body and without a reply.
    Shutdown = 1,
    /// The first packet: the version, and the constructor of the server's session.
    InitServer = 2,
    /// Calls a function by its handle.
    CallFunc = 3,
    /// The reply to all requests except copies from the server.
    Return = 4,
    /// The reply when a request failed: one text.
    Exception = 5,
    /// Requests bytes of a tensor.
    CopyFromRemote = 6,
    /// Sends bytes of a tensor.
    CopyToRemote = 7,
    /// The reply to [`Code::CopyFromRemote`]: the bytes.
    CopyAck = 8,
    /// Requests the handle of a global function; 0 if there is none.
    GetGlobalFunc = 9,
    /// Frees a handle.
    FreeHandle = 10,
    /// Makes a device the current one of the server's thread.
    DevSetDevice = 11,
    /// Requests an attribute of a device.
    DevGetAttr = 12,
    /// Allocates memory of a device.
    DevAllocData = 13,
    /// Frees memory of a device.
    DevFreeData = 14,
    /// Waits for the work in a stream.
    DevStreamSync = 15,
    /// Copies between two tensors of the server.
    CopyAmongRemote = 16,
    /// Allocates memory for a tensor, in a named memory scope.
    DevAllocDataWithScope = 17,
    /// Creates a stream.
    DevCreateStream = 18,
    /// Destroys a stream.
    DevFreeStream = 19,
    /// Makes a stream the current one of a device.
    DevSetStream = 20,
    /// Requests the current stream of a device.
    DevGetCurrentStream = 21,
}

impl Code {
    /// The code of this number.
    pub const fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Shutdown,
            2 => Self::InitServer,
            3 => Self::CallFunc,
            4 => Self::Return,
            5 => Self::Exception,
            6 => Self::CopyFromRemote,
            7 => Self::CopyToRemote,
            8 => Self::CopyAck,
            9 => Self::GetGlobalFunc,
            10 => Self::FreeHandle,
            11 => Self::DevSetDevice,
            12 => Self::DevGetAttr,
            13 => Self::DevAllocData,
            14 => Self::DevFreeData,
            15 => Self::DevStreamSync,
            16 => Self::CopyAmongRemote,
            17 => Self::DevAllocDataWithScope,
            18 => Self::DevCreateStream,
            19 => Self::DevFreeStream,
            20 => Self::DevSetStream,
            21 => Self::DevGetCurrentStream,
            _ => return None,
        })
    }

    /// The number on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways() {
        let known: Vec<i32> = (-2..40).filter(|&number| Code::from_number(number).is_some()).collect();
        assert_eq!(known, (0..=21).collect::<Vec<_>>());
        for number in known {
            assert_eq!(Code::from_number(number).map(Code::number), Some(number));
        }
    }
}
