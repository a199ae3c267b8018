//! Registration of a kind of devices by a crate.

/// Registers a kind of device: its number in DLPack (one of
/// [`device_type`](crate::device::device_type)) and a function that creates its
/// [`DeviceApi`](crate::device::DeviceApi).
///
/// Every library and the program itself may register kinds; of two APIs for one kind, the first one
/// in the process serves all. The function is called when a device of the kind is first used; it
/// may use devices of other kinds, for example the CPU.
///
/// `unsafe` is the promise that the API conforms to [`DeviceApi`](crate::device::DeviceApi): safe
/// code relies on it that memory which the API allocates exists, has the requested size, and is not
/// shared.
///
/// ```
/// use kernpack::device::{DeviceApi, DeviceAttribute, Place, RawStream, device_type};
/// use kernpack::{Any, Result, bail};
///
/// /// A kind of device of which there is none yet.
/// struct Future;
///
/// impl DeviceApi for Future {
///     fn name(&self) -> &str { "maia" }
///     fn device_count(&self) -> Result<i32> { bail!(RuntimeError, "maia devices are not sold yet") }
///     fn attribute(&self, _: i32, attribute: DeviceAttribute) -> Result<Any> {
///         match attribute {
///             DeviceAttribute::Exist => Ok(Any::from(0i64)),
///             _ => bail!(RuntimeError, "there is no maia device"),
///         }
///     }
///     fn allocate(&self, _: i32, _: usize, _: usize) -> Result<*mut core::ffi::c_void> { bail!(RuntimeError, "none") }
///     unsafe fn free(&self, _: i32, _: *mut core::ffi::c_void) -> Result<()> { bail!(RuntimeError, "none") }
///     unsafe fn copy(&self, _: Place, _: Place, _: usize, _: RawStream) -> Result<()> { bail!(RuntimeError, "none") }
///     fn create_stream(&self, _: i32) -> Result<RawStream> { bail!(RuntimeError, "none") }
///     unsafe fn free_stream(&self, _: i32, _: RawStream) -> Result<()> { bail!(RuntimeError, "none") }
///     unsafe fn synchronize(&self, _: i32, _: RawStream) -> Result<()> { bail!(RuntimeError, "none") }
/// }
///
/// // SAFETY: it gives no memory.
/// kernpack::device_api!(unsafe device_type::MAIA, || Future);
///
/// assert_eq!(kernpack::device::api(device_type::MAIA).unwrap().name(), "maia");
/// ```
#[macro_export]
macro_rules! device_api {
    (unsafe $device_type:expr, $make:expr) => {
        const _: () = {
            const DEVICE_TYPE: i32 = $device_type;
            fn make() -> ::std::boxed::Box<dyn $crate::device::DeviceApi> {
                ::std::boxed::Box::new(($make)())
            }
            #[$crate::__private_v0_1::linkme::distributed_slice($crate::__private_v0_1::KERNPACK_DEVICES_V1)]
            #[linkme(crate = $crate::__private_v0_1::linkme)]
            static INFO: $crate::device::DeviceKindInfo =
                // SAFETY: promised by the author of the `unsafe` block.
                unsafe { $crate::device::DeviceKindInfo::new(DEVICE_TYPE, make) };
        };
    };
}
