//! The CPU as a device: memory of the process. All operations are complete when a function returns,
//! so streams and events never wait.
//!
//! Blocks are aligned to at least 64 bytes. Large ones can request huge pages from the system,
//! which avoids TLB misses in kernels that access a lot of memory: [`set_huge_pages`], or the
//! environment variable `KERNPACK_HUGE_PAGES=1`.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::{DeviceApi, DeviceAttribute, DeviceKindInfo, Place, RawEvent, RawStream, api};
use crate::abi::device_type;
use crate::value::Any;
use crate::{Result, ensure};

/// The process's own memory and processor.
struct Cpu;

/// The device kind of this module.
pub(super) static KINDS: [DeviceKindInfo; 1] =
    // SAFETY: memory comes from the system, which knows its size; copies stay inside, and are
    // complete when they return.
    unsafe { [DeviceKindInfo::new(device_type::CPU, || Box::new(Cpu))] };

/// Size of a cache line and of the widest vector register.
const ALIGNMENT: usize = 64;

/// Size of a huge page on all supported systems with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// Minimum size of blocks that use huge pages: the alignment wastes at most half of it.
const HUGE_BLOCK: usize = 2 * HUGE_PAGE;

/// State of huge pages for large blocks: `ON` or `OFF`; 0 before it is decided.
static HUGE_PAGES: AtomicU8 = AtomicU8::new(0);
const OFF: u8 = 1;
const ON: u8 = 2;

/// Sets whether blocks of 4 MiB and more that are allocated from now on request huge pages
/// (`madvise(MADV_HUGEPAGE)`).
///
/// This is a hint: if the system does not provide huge pages, the blocks work the same. Off by
/// default, unless the environment variable `KERNPACK_HUGE_PAGES` is `1` when the first large block
/// is allocated. Applies to the whole process.
///
/// ```
/// use kernpack::{DataType, Device, Tensor, device};
/// device::set_huge_pages(true);
/// let large = Tensor::empty(DataType::FLOAT32, &[2 << 20], Device::CPU)?;
/// assert_eq!(large.dl_tensor().data as usize % (2 << 20), 0, "it begins with a huge page");
/// # Ok::<(), kernpack::Error>(())
/// ```
pub fn set_huge_pages(on: bool) {
    let serving = api(device_type::CPU).and_then(|cpu| cpu.native_handle(0, SETTING)).unwrap_or(ptr::null_mut());
    // SAFETY: NULL or the setting that `Cpu` returns below, possibly of another artifact, which is
    // never unloaded.
    let setting = unsafe { serving.cast::<AtomicU8>().as_ref() }.unwrap_or(&HUGE_PAGES);
    setting.store(if on { ON } else { OFF }, Ordering::Relaxed);
}

/// Name of the CPU's native handle that is the address of its [`HUGE_PAGES`].
const SETTING: &str = "huge_pages";

fn huge_pages() -> bool {
    match HUGE_PAGES.load(Ordering::Relaxed) {
        0 => {
            let on = std::env::var_os("KERNPACK_HUGE_PAGES").is_some_and(|value| value == "1");
            // A concurrent `set_huge_pages` takes precedence.
            let _ = HUGE_PAGES.compare_exchange(0, if on { ON } else { OFF }, Ordering::Relaxed, Ordering::Relaxed);
            HUGE_PAGES.load(Ordering::Relaxed) == ON
        }
        known => known == ON,
    }
}

/// The time when an event was recorded.
type Recorded = Mutex<Option<Instant>>;

/// # Safety
/// `event` is alive and belongs to [`Cpu`].
unsafe fn recorded(event: RawEvent) -> Option<Instant> {
    // SAFETY: promised by the caller; `create_event` created it.
    *unsafe { &*event.0.cast::<Recorded>() }.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_index(index: i32) -> Result<()> {
    ensure!(index == 0, RuntimeError, "there is no cpu:{index}; there is one cpu device, cpu:0");
    Ok(())
}

impl DeviceApi for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn device_count(&self) -> Result<i32> {
        Ok(1)
    }

    fn attribute(&self, index: i32, attribute: DeviceAttribute) -> Result<Any> {
        if attribute == DeviceAttribute::Exist {
            return Ok(Any::from(i64::from(index == 0)));
        }
        check_index(index)?;
        let int = |value: Option<i64>| value.map(Any::from);
        let value = match attribute {
            DeviceAttribute::DeviceName => processor_name().map(|name| Any::from(name.as_str())),
            DeviceAttribute::MaxClockRate => int(max_clock_rate()),
            DeviceAttribute::MultiProcessorCount => {
                int(std::thread::available_parallelism().ok().and_then(|count| i64::try_from(count.get()).ok()))
            }
            DeviceAttribute::L2CacheSize => int(second_level_cache()),
            #[cfg(target_os = "linux")]
            DeviceAttribute::TotalGlobalMemory => int(pages(libc::_SC_PHYS_PAGES)),
            #[cfg(target_os = "linux")]
            DeviceAttribute::AvailableGlobalMemory => int(available_memory().or_else(|| pages(libc::_SC_AVPHYS_PAGES))),
            _ => None,
        };
        Ok(value.unwrap_or_default())
    }

    fn allocate(&self, index: i32, size: usize, alignment: usize) -> Result<*mut c_void> {
        check_index(index)?;
        ensure!(alignment.is_power_of_two(), ValueError, "an alignment is a power of two, got {alignment}");
        let huge = size >= HUGE_BLOCK && huge_pages();
        let alignment = alignment.max(if huge { HUGE_PAGE } else { ALIGNMENT });
        let data = crate::embedded::memory::aligned(size.max(1), alignment);
        ensure!(!data.is_null(), MemoryError, "out of memory: there are no {size} bytes left on cpu:0");
        #[cfg(target_os = "linux")]
        if huge {
            // SAFETY: advice about whole huge pages of a block that we own; its content does not
            // change. The system may refuse it.
            unsafe { libc::madvise(data, size - size % HUGE_PAGE, libc::MADV_HUGEPAGE) };
        }
        Ok(data)
    }

    unsafe fn free(&self, index: i32, data: *mut c_void) -> Result<()> {
        check_index(index)?;
        // SAFETY: the caller promises that it came from `allocate`.
        unsafe { crate::embedded::memory::free_aligned(data) };
        Ok(())
    }

    unsafe fn copy(&self, source: Place, target: Place, size: usize, _: RawStream) -> Result<()> {
        if size > 0 {
            // SAFETY: the caller promises `size` bytes that do not overlap in both places, which
            // are CPU memory.
            unsafe { ptr::copy_nonoverlapping(source.address().cast::<u8>(), target.address().cast(), size) };
        }
        Ok(())
    }

    fn create_stream(&self, index: i32) -> Result<RawStream> {
        check_index(index)?;
        Ok(RawStream::DEFAULT)
    }

    unsafe fn free_stream(&self, index: i32, _: RawStream) -> Result<()> {
        check_index(index)
    }

    unsafe fn synchronize(&self, index: i32, _: RawStream) -> Result<()> {
        check_index(index)
    }

    fn create_event(&self, index: i32) -> Result<RawEvent> {
        check_index(index)?;
        Ok(RawEvent(Box::into_raw(Box::new(Recorded::new(None))).cast()))
    }

    unsafe fn free_event(&self, _: i32, event: RawEvent) -> Result<()> {
        // SAFETY: the caller promises that it came from `create_event` and is not used any more.
        drop(unsafe { Box::from_raw(event.0.cast::<Recorded>()) });
        Ok(())
    }

    unsafe fn record_event(&self, _: i32, event: RawEvent, _: RawStream) -> Result<()> {
        // SAFETY: the caller promises that it is live.
        let recorded = unsafe { &*event.0.cast::<Recorded>() };
        *recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
    }

    unsafe fn wait_for_event(&self, index: i32, _: RawEvent, _: RawStream) -> Result<()> {
        check_index(index)
    }

    unsafe fn synchronize_event(&self, index: i32, _: RawEvent) -> Result<()> {
        check_index(index)
    }

    unsafe fn elapsed(&self, index: i32, start: RawEvent, end: RawEvent) -> Result<f64> {
        check_index(index)?;
        // SAFETY: the caller promises that both are live.
        match unsafe { (recorded(start), recorded(end)) } {
            (Some(start), Some(end)) => Ok(match end.checked_duration_since(start) {
                Some(time) => time.as_secs_f64(),
                None => -start.duration_since(end).as_secs_f64(),
            }),
            _ => Err(crate::error!(RuntimeError, "there is no time between events that were not recorded")),
        }
    }

    fn native_handle(&self, index: i32, what: &str) -> Result<*mut c_void> {
        check_index(index)?;
        Ok(if what == SETTING { HUGE_PAGES.as_ptr().cast() } else { ptr::null_mut() })
    }
}

/// Returns a number from the system; None if it is unknown or 0.
#[cfg(target_os = "linux")]
fn system_number(name: i32) -> Option<i64> {
    // SAFETY: any name is valid.
    Some(unsafe { libc::sysconf(name) }).filter(|&number| number > 0)
}

/// Size in bytes of the second-level cache of one processor.
#[cfg(all(target_os = "linux", not(target_env = "musl")))]
fn second_level_cache() -> Option<i64> {
    system_number(libc::_SC_LEVEL2_CACHE_SIZE)
}

/// The same for C libraries without this query: the kernel writes the size as `512K`.
#[cfg(target_env = "musl")]
fn second_level_cache() -> Option<i64> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size").ok()?;
    text.trim().strip_suffix('K')?.parse::<i64>().ok()?.checked_mul(1024)
}

/// The same for systems without a query.
#[cfg(not(target_os = "linux"))]
fn second_level_cache() -> Option<i64> {
    None
}

/// Returns the size in bytes of a number of pages that the system reports.
#[cfg(target_os = "linux")]
fn pages(name: i32) -> Option<i64> {
    system_number(name)?.checked_mul(system_number(libc::_SC_PAGESIZE)?)
}

/// Linux's estimate of the memory that can be allocated without swapping, in bytes: more than the
/// free memory, because caches shrink.
fn available_memory() -> Option<i64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()?.checked_mul(1024)
}

fn processor_name() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Returns the maximum clock rate in kHz.
fn max_clock_rate() -> Option<i64> {
    std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn blocks_are_aligned_and_too_large_ones_are_an_error() {
        for (size, alignment) in [(0, 1), (1, 1), (100, 256), (5 << 20, 64), (HUGE_BLOCK, 4096)] {
            let data = Cpu.allocate(0, size, alignment).unwrap();
            assert_eq!(data as usize % alignment.max(ALIGNMENT), 0, "{size} bytes");
            // SAFETY: the block has `size` bytes, comes from `allocate`, and is not used any more.
            unsafe {
                data.cast::<u8>().write_bytes(1, size);
                Cpu.free(0, data).unwrap();
            }
        }
        for size in [usize::MAX, isize::MAX as usize, 1 << 62] {
            let error = Cpu.allocate(0, size, 64).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("MemoryError: out of memory: there are no {size} bytes left on cpu:0")
            );
        }
        let error = Cpu.allocate(0, 8, 24).unwrap_err();
        assert_eq!(error.to_string(), "ValueError: an alignment is a power of two, got 24");
        let error = Cpu.allocate(1, 8, 8).unwrap_err();
        assert_eq!(error.to_string(), "RuntimeError: there is no cpu:1; there is one cpu device, cpu:0");
    }

    #[test]
    fn what_is_known_about_the_processor() {
        let attribute = |attribute| super::super::attribute(Device::CPU, attribute).unwrap();
        let total = attribute(DeviceAttribute::TotalGlobalMemory).to::<i64>().unwrap();
        let available = attribute(DeviceAttribute::AvailableGlobalMemory).to::<i64>().unwrap();
        assert!(0 < available && available <= total);
        assert!(attribute(DeviceAttribute::MultiProcessorCount).to::<i64>().unwrap() > 0);
        assert!(attribute(DeviceAttribute::WarpSize).to::<Option<i64>>().unwrap().is_none());
        assert!(!super::super::exists(Device::new(device_type::CPU, 1)));
    }
}
