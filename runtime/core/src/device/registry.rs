//! The API that serves each kind of device: one object per kind in the whole process.
//!
//! The kinds of this crate are listed here, those of other crates in a distributed slice. When the
//! artifact is bound to its host, each kind is offered to the process as the global function
//! `kernpack.device_api_v1.<device type>`, unless another artifact already has; the function
//! creates the API when it is first called, and returns its [`DeviceTable`]. The CPU, which every
//! artifact could provide, is offered when it is first used.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "cuda")]
use super::cuda;
#[cfg(feature = "opencl")]
use super::opencl;
use super::table::{DeviceTable, SharedDevice};
use super::{DeviceApi, DeviceAttribute, RawStream, cpu};
use crate::abi::device_type;
use crate::function::{Function, caught};
use crate::value::{Any, Device};
use crate::{Result, provider};

/// A kind of device that an artifact provides, created by `kernpack::device_api!`.
#[doc(hidden)]
pub struct DeviceKindInfo {
    device_type: i32,
    make: fn() -> Box<dyn DeviceApi>,
    /// The function that offers the kind to the process. A field, so that only artifacts with
    /// devices link that code.
    offer: fn(&'static DeviceKindInfo) -> Result<()>,
}

impl DeviceKindInfo {
    /// Creates a kind from its number in DLPack, one of [`device_type`], and the function that
    /// creates its API. The function is called when a device of the kind is first used, and only if
    /// no other artifact has provided the kind before.
    ///
    /// # Safety
    /// The API follows the contract of [`DeviceApi`]: the memory that it allocates exists, has the
    /// requested size, and is not used by other code; copies stay inside; destroying memory,
    /// streams or events is delayed until work that uses them is done.
    pub const unsafe fn new(device_type: i32, make: fn() -> Box<dyn DeviceApi>) -> Self {
        assert!(0 <= device_type && (device_type as usize) < KINDS, "a device type is a number from 0 to 63");
        Self { device_type, make, offer: Self::offer_once }
    }

    /// Offers the kind to the process; an existing one stays.
    pub(crate) fn offer(&'static self) -> Result<()> {
        (self.offer)(self)
    }

    fn offer_once(&'static self) -> Result<()> {
        let name = function_name(self.device_type);
        if Function::find_global(&name)?.is_none() {
            let ours = Function::from_fn(move || {
                own_table(self).map(|table| ptr::from_ref(table).cast_mut().cast::<c_void>())
            });
            // If another artifact registered the kind first, its API is used.
            let _ = Function::register_global(&name, &ours);
        }
        Ok(())
    }
}

/// The kinds of devices that this crate provides.
static OWN_KINDS: &[&[DeviceKindInfo]] = &[
    &cpu::KINDS,
    #[cfg(feature = "cuda")]
    &cuda::KINDS,
    #[cfg(feature = "opencl")]
    &opencl::KINDS,
];

/// Numbers of kinds are below this limit. DLPack has assigned 18.
const KINDS: usize = 64;

/// Kinds of this process, then those of each possible remote session ([`Device::in_session`]).
const ALL_KINDS: usize = KINDS * (1 + Device::MAX_SESSIONS);

/// Pointers that are set once and then read without a lock.
type Known<T, const COUNT: usize> = [AtomicPtr<T>; COUNT];

/// The API of each kind, in the form that this artifact calls; NULL until it is first used.
static APIS: Known<&'static dyn DeviceApi, ALL_KINDS> = [const { AtomicPtr::new(ptr::null_mut()) }; ALL_KINDS];
/// The tables of the APIs that this artifact created.
static TABLES: Known<DeviceTable, KINDS> = [const { AtomicPtr::new(ptr::null_mut()) }; KINDS];
/// Locked while the API of a kind is created. One lock per kind: the creation of an API may use
/// other kinds, for example the CPU.
static MAKING: [Mutex<()>; KINDS] = [const { Mutex::new(()) }; KINDS];

thread_local! {
    /// The kinds whose APIs this thread is creating, one bit each.
    static MAKES: Cell<u64> = const { Cell::new(0) };
}

/// Returns the API of a kind of device, one of [`device_type`]. Lookups after the first do not take
/// a lock.
///
/// ```
/// use kernpack::device::{self, device_type};
/// assert_eq!(device::api(device_type::CPU)?.name(), "cpu");
/// assert_eq!(
///     device::api(device_type::VPI).err().unwrap().message(),
///     "no library in this process provides vpi devices; load a library that brings them (kernpack::device_api!)",
/// );
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// # Errors
/// Returns a RuntimeError if no code in the process provides such devices; it describes what would
/// provide them.
#[inline]
pub fn api(kind: i32) -> Result<&'static dyn DeviceApi> {
    let known = entry(&APIS, kind).map_or(ptr::null_mut(), |known| known.load(Ordering::Acquire));
    if known.is_null() {
        return find(kind);
    }
    // SAFETY: only pointers to references that live forever are stored.
    Ok(unsafe { *known })
}

/// Returns whether the device exists. Also false if no API for its kind is registered in the
/// process.
pub fn exists(device: Device) -> bool {
    let exist = attribute(device, DeviceAttribute::Exist);
    exist.is_ok_and(|exist| exist.get::<i64>().is_ok_and(|exist| exist != 0))
}

/// Returns an attribute of a device; None if devices of its kind do not have it.
///
/// ```
/// use kernpack::{Device, device::{self, DeviceAttribute}};
/// assert!(device::attribute(Device::CPU, DeviceAttribute::TotalGlobalMemory)?.to::<i64>()? > 0);
/// # Ok::<(), kernpack::Error>(())
/// ```
///
/// # Errors
/// Returns a RuntimeError if there is no such device, except for [`DeviceAttribute::Exist`], which
/// is then 0.
pub fn attribute(device: Device, attribute: DeviceAttribute) -> Result<Any> {
    match api(device.device_type()) {
        Ok(api) => api.attribute(device.index(), attribute),
        Err(_) if attribute == DeviceAttribute::Exist => Ok(Any::from(0i64)),
        Err(error) => Err(error),
    }
}

/// Returns the thread's current stream of a device: the one that a framework or
/// [`Stream::scope`](super::Stream::scope) has set, else the device's default stream.
pub fn current_stream(device: Device) -> RawStream {
    // SAFETY: the function accepts any numbers.
    RawStream(unsafe { (provider::api().env_get_stream)(device.device_type(), device.index()) })
}

/// The name of a kind, as in [`Device`]'s names.
pub(super) fn kind_name(kind: i32) -> String {
    let name = Device::new(kind, 0).to_string();
    name.strip_suffix(":0").unwrap_or(&name).to_owned()
}

/// Returns the entry of a kind in an array of [`KINDS`] or [`ALL_KINDS`].
fn entry<T, const COUNT: usize>(known: &'static Known<T, COUNT>, kind: i32) -> Option<&'static AtomicPtr<T>> {
    let kind = usize::try_from(kind).ok()?;
    let (session, own) = (kind / Device::SESSION_STEP, kind % Device::SESSION_STEP);
    if own < KINDS { known.get(session * KINDS + own) } else { None }
}

/// Offers a kind of devices whose number is only known at run time: those of a remote session. A
/// kind that is already offered stays unchanged.
///
/// # Errors
/// Returns a ValueError for a number that is not a valid kind.
///
/// # Safety
/// As for [`DeviceKindInfo::new`]. The artifact that offers the kind first serves it for the rest
/// of the process.
#[doc(hidden)]
pub unsafe fn offer_kind(kind: i32, make: &dyn Fn() -> &'static dyn DeviceApi) -> Result<()> {
    if entry(&APIS, kind).is_none() {
        return Err(crate::error!(ValueError, "a kind of devices cannot have the number {kind}"));
    }
    provider::api();
    let name = function_name(kind);
    if Function::find_global(&name)?.is_none() {
        let table: &'static DeviceTable = Box::leak(Box::new(DeviceTable::new(kind, make())));
        let ours = Function::from_fn(move || ptr::from_ref(table).cast_mut().cast::<c_void>());
        // If another artifact registered the kind first, its API is used.
        let _ = Function::register_global(&name, &ours);
    }
    Ok(())
}

/// The name of the global function that returns a kind's table.
fn function_name(kind: i32) -> String {
    format!("kernpack.device_api_v1.{kind}")
}

/// Offers the kinds of this crate to the process.
#[cfg(any(feature = "cuda", feature = "opencl"))]
pub(crate) fn register_own() -> Result<()> {
    OWN_KINDS.iter().copied().flatten().try_for_each(DeviceKindInfo::offer)
}

/// Returns the table of an API of this artifact, which is created at the first call.
fn own_table(info: &'static DeviceKindInfo) -> Result<&'static DeviceTable> {
    let Some(known) = entry(&TABLES, info.device_type) else { return Err(unknown(info.device_type)) };
    let mut table = known.load(Ordering::Acquire);
    // SAFETY: stored tables live forever.
    if let Some(table) = unsafe { table.as_ref() } {
        return Ok(table);
    }
    let bit = 1u64 << info.device_type;
    if MAKES.get() & bit != 0 {
        let name = kind_name(info.device_type);
        return Err(crate::error!(RuntimeError, "the API of {name} devices uses such devices while it is made"));
    }
    let _one_at_a_time = MAKING[info.device_type as usize].lock().unwrap_or_else(PoisonError::into_inner);
    table = known.load(Ordering::Acquire);
    if table.is_null() {
        MAKES.set(MAKES.get() | bit);
        let api = caught(|| Ok((info.make)()));
        MAKES.set(MAKES.get() & !bit);
        let api = api?;
        table = Box::into_raw(Box::new(DeviceTable::new(info.device_type, Box::leak(api))));
        known.store(table, Ordering::Release);
    }
    // SAFETY: created above or before, and never freed.
    Ok(unsafe { &*table })
}

/// Returns the API of a kind of device that this crate does not provide. For code that is in every
/// library.
pub(crate) fn api_of_another(kind: i32) -> Result<&'static dyn DeviceApi> {
    let known = entry(&APIS, kind).map_or(ptr::null_mut(), |known| known.load(Ordering::Acquire));
    if known.is_null() {
        return find_offered(kind);
    }
    // SAFETY: only pointers to references that live forever are stored.
    Ok(unsafe { *known })
}

/// Offers the kind, if this crate provides it and no artifact has offered it yet, and caches its
/// API.
#[cold]
#[inline(never)]
fn find(kind: i32) -> Result<&'static dyn DeviceApi> {
    provider::api();
    if let Some(info) = OWN_KINDS.iter().copied().flatten().find(|info| info.device_type == kind) {
        info.offer()?;
    }
    find_offered(kind)
}

/// Requests a kind's API from the process and caches it.
#[cold]
#[inline(never)]
fn find_offered(kind: i32) -> Result<&'static dyn DeviceApi> {
    // Binding registers the definitions of this artifact.
    provider::api();
    let Some(known) = entry(&APIS, kind) else { return Err(unknown(kind)) };
    let Some(offered) = Function::find_global(&function_name(kind))? else { return Err(unknown(kind)) };
    let address: *mut c_void = offered.call_as(())?;
    let own = entry(&TABLES, kind).map_or(ptr::null_mut(), |own| own.load(Ordering::Acquire));
    let api: &'static dyn DeviceApi = if !address.is_null() && ptr::eq(address.cast(), own) {
        // SAFETY: this artifact's table, which lives forever.
        unsafe { (*own).own_api() }
    } else {
        // SAFETY: a function of this versioned name returns such a table, which lives forever.
        Box::leak(Box::new(unsafe { SharedDevice::new(address.cast())? }))
    };
    let found = Box::into_raw(Box::new(api));
    match known.compare_exchange(ptr::null_mut(), found, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(api),
        Err(earlier) => {
            // SAFETY: `found` was not published; `earlier` was, and lives forever.
            unsafe {
                drop(Box::from_raw(found));
                Ok(*earlier)
            }
        }
    }
}

#[cold]
fn unknown(kind: i32) -> crate::Error {
    let name = kind_name(kind);
    if let Some(session) = Device::new(kind, 0).session() {
        return crate::error!(RuntimeError, "{name} is a device of the remote session {session}, which is not open");
    }
    let advice = match kind {
        device_type::CUDA | device_type::CUDA_HOST | device_type::CUDA_MANAGED => {
            "build with kernpack's feature `cuda`, or load a library that was built with it"
        }
        device_type::OPENCL => "build with kernpack's feature `opencl`, or load a library that was built with it",
        _ => "load a library that brings them (kernpack::device_api!)",
    };
    crate::error!(RuntimeError, "no library in this process provides {name} devices; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Place;

    #[test]
    fn kinds_that_nobody_brings() {
        let hint = "load a library that brings them (kernpack::device_api!)";
        for (kind, message) in [
            (device_type::METAL, format!("no library in this process provides metal devices; {hint}")),
            (-1, format!("no library in this process provides device_type_-1 devices; {hint}")),
            (i32::MAX, format!("no library in this process provides device_type_2147483647 devices; {hint}")),
        ] {
            let error = api(kind).err().unwrap();
            assert_eq!(error.to_string(), format!("RuntimeError: {message}"));
            assert!(!exists(Device::new(kind, 0)));
            assert!(attribute(Device::new(kind, 0), DeviceAttribute::WarpSize).is_err());
        }
    }

    #[test]
    fn an_api_may_use_other_kinds_while_it_is_made() {
        fn uses(kind: i32) -> Box<dyn DeviceApi> {
            struct Named(String);
            #[rustfmt::skip]
            impl DeviceApi for Named {
                fn name(&self) -> &str { &self.0 }
                fn device_count(&self) -> Result<i32> { Ok(0) }
                fn attribute(&self, _: i32, _: DeviceAttribute) -> Result<Any> { Ok(Any::NONE) }
                fn allocate(&self, _: i32, _: usize, _: usize) -> Result<*mut c_void> { crate::bail!(RuntimeError, "none") }
                unsafe fn free(&self, _: i32, _: *mut c_void) -> Result<()> { Ok(()) }
                unsafe fn copy(&self, _: Place, _: Place, _: usize, _: RawStream) -> Result<()> { Ok(()) }
                fn create_stream(&self, _: i32) -> Result<RawStream> { Ok(RawStream::DEFAULT) }
                unsafe fn free_stream(&self, _: i32, _: RawStream) -> Result<()> { Ok(()) }
                unsafe fn synchronize(&self, _: i32, _: RawStream) -> Result<()> { Ok(()) }
            }
            // Not `api`, which may have cached the kind: this tests the first use.
            let used = find(kind).map(|api| api.name().to_owned()).unwrap_or_else(|error| error.message().to_owned());
            Box::new(Named(used))
        }
        // SAFETY: neither allocates memory.
        static KINDS: [DeviceKindInfo; 2] =
            unsafe { [DeviceKindInfo::new(60, || uses(device_type::CPU)), DeviceKindInfo::new(61, || uses(61))] };
        for (info, name) in
            KINDS.iter().zip(["cpu", "the API of device_type_61 devices uses such devices while it is made"])
        {
            let ours =
                Function::from_fn(|| own_table(info).map(|table| ptr::from_ref(table).cast_mut().cast::<c_void>()));
            Function::register_global(&function_name(info.device_type), &ours).unwrap();
            assert_eq!(api(info.device_type).unwrap().name(), name);
        }
    }

    #[test]
    fn the_object_is_one() {
        let first = api(device_type::CPU).unwrap();
        let others = std::thread::spawn(|| ptr::from_ref(api(device_type::CPU).unwrap()).cast::<u8>() as usize);
        assert_eq!(ptr::from_ref(first).cast::<u8>() as usize, others.join().unwrap());
        let offered: *mut c_void = Function::global("kernpack.device_api_v1.1").unwrap().call_as(()).unwrap();
        assert_eq!(offered.cast(), TABLES[1].load(Ordering::Acquire), "the function gives the same table again");
    }
}
