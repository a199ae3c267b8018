//! Kernels that a library contains in several versions, one for each level of x86-64 that build.rs
//! selected with `.multiversion(..)`. Selects the version for this machine once, when the library
//! is loaded.
//!
//! The levels, and their CPU features, are those of the x86-64 psABI
//! (<https://gitlab.com/x86-psABIs/x86-64-ABI>), section 3.1.1, table "Micro-Architecture Levels".
//! kernpack-build writes the table that this file reads.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::abi::SafeCall;
use crate::artifact;
use crate::embedded::notice::notice;

/// Environment variable with the highest version that may be selected: `baseline`, or a level. For
/// tests, and for finding the version with a different result.
const VARIABLE: &str = "KERNPACK_CPU_LEVEL";

/// The kernels of one library in all versions. The struct is followed by one variable per kernel:
/// the jump target of its dispatcher.
#[repr(C)]
struct Library {
    /// The previously loaded library among those that are linked with this runtime.
    next: AtomicPtr<Library>,
    /// Index of the version that runs.
    picked: AtomicUsize,
    kernel_count: usize,
    version_count: usize,
    /// The public entry points of the kernels.
    dispatchers: *const *const c_void,
    /// The versions, starting with the baseline, sorted by level.
    versions: *const Version,
}

#[repr(C)]
struct Version {
    /// 0 for the baseline, else the level's number.
    level: usize,
    /// The kernels.
    functions: *const *mut c_void,
    /// Constructors that run before one of the functions is called.
    constructors: *const ConstructorList,
    constructor_count: usize,
}

#[repr(C)]
struct ConstructorList {
    first: *const Constructor,
    count: usize,
}

/// A function of `.init_array`. glibc passes it the arguments of `main`; other C libraries pass
/// nothing.
type Constructor = unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char);

/// The library whose constructor ran last.
static LAST: AtomicPtr<Library> = AtomicPtr::new(ptr::null_mut());

/// Selects the version of a library's kernels. The library's constructor calls it, before any
/// kernel can be called.
///
/// # Safety
/// `library` is a table that kernpack-build wrote, never moves and is passed once; the others are a
/// constructor's arguments.
unsafe extern "C" fn pick_version(
    argc: c_int,
    argv: *const *const c_char,
    envp: *const *const c_char,
    library: *mut Library,
) {
    // SAFETY: promised by the caller; the table's rows have the lengths that it contains, and it is
    // followed by the variables of the dispatchers, which are only written here.
    unsafe {
        let table = &*library;
        let versions = core::slice::from_raw_parts(table.versions, table.version_count);
        let highest = highest_level();
        let Some(picked) = versions.iter().rposition(|version| version.level <= highest) else { return };
        let version = &versions[picked];
        if version.constructor_count > 0 {
            let lists = core::slice::from_raw_parts(version.constructors, version.constructor_count);
            for list in lists {
                for index in 0..list.count {
                    // The version's own constructors, which the linker would have listed; the CPU
                    // supports their level.
                    (*list.first.add(index))(argc, argv, envp);
                }
            }
        }
        let variables = library.add(1).cast::<AtomicPtr<c_void>>();
        for index in 0..table.kernel_count {
            (*variables.add(index)).store(*version.functions.add(index), Ordering::Release);
        }
        table.picked.store(picked, Ordering::Release);
        table.next.store(LAST.load(Ordering::Acquire), Ordering::Release);
        LAST.store(library, Ordering::Release);
    }
}

crate::__linker_symbol!("__kernpack_pick_version_v1", pick_version);

/// Returns the name of the version of a kernel that runs: `baseline` if there is only one.
pub(crate) fn level_of(name: &str, call: SafeCall) -> &'static str {
    let call = artifact::own_entry_point(name, call) as *const c_void;
    let mut next = LAST.load(Ordering::Acquire);
    // SAFETY: tables are part of this artifact, which is never unloaded, and only atomic fields of
    // them change.
    while let Some(library) = unsafe { next.as_ref() } {
        // SAFETY: the row has the length that the table contains.
        let dispatchers = unsafe { core::slice::from_raw_parts(library.dispatchers, library.kernel_count) };
        if dispatchers.contains(&call) {
            // SAFETY: the selected version is one of the library's versions.
            let version = unsafe { &*library.versions.add(library.picked.load(Ordering::Acquire)) };
            return level_name(version.level);
        }
        next = library.next.load(Ordering::Acquire);
    }
    level_name(0)
}

/// Name of the baseline version, which is the only one if a kernel was not compiled for several
/// levels.
pub(crate) const BASELINE: &str = "baseline";

fn level_name(level: usize) -> &'static str {
    match level {
        2 => "x86-64-v2",
        3 => "x86-64-v3",
        4 => "x86-64-v4",
        5 => "x86-64-v4-vnni",
        _ => BASELINE,
    }
}

/// Returns the level of this machine, or the one that the user allows if that is lower.
fn highest_level() -> usize {
    let machine = machine_level();
    let Some(allowed) = variable() else { return machine };
    match allowed {
        b"baseline" | b"x86-64" => 0,
        b"x86-64-v2" => machine.min(2),
        b"x86-64-v3" => machine.min(3),
        b"x86-64-v4" => machine.min(4),
        b"x86-64-v4-vnni" => machine.min(5),
        b"" => machine,
        other => {
            notice(format_args!(
                "kernpack: {VARIABLE} is \"{}\"; it may be baseline, x86-64-v2, x86-64-v3, x86-64-v4 or x86-64-v4-vnni. It is not considered: the \
                 highest level of this machine is picked",
                String::from_utf8_lossy(other)
            ));
            machine
        }
    }
}

/// Reads the variable with libc, because Rust's own runtime may not have been initialized when
/// constructors run.
fn variable() -> Option<&'static [u8]> {
    // SAFETY: only the program itself could change the environment while a library's constructors
    // run, and it must not; the text is read immediately.
    unsafe {
        let value = libc::getenv(c"KERNPACK_CPU_LEVEL".as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    }
}

/// Returns the highest level whose features this CPU has and the system has enabled.
#[cfg(target_arch = "x86_64")]
fn machine_level() -> usize {
    use std::arch::is_x86_feature_detected as has;
    // LAHF and SAHF, which Rust does not detect: leaf 8000_0001h, ECX bit 0 (Intel SDM, volume 2A,
    // CPUID; AMD APM, volume 3, appendix E). Querying a leaf that does not exist returns another
    // leaf's data, so the highest leaf is queried first.
    let extended = core::arch::x86_64::__cpuid(0x8000_0000).eax;
    let has_lahf = extended > 0x8000_0000 && core::arch::x86_64::__cpuid(0x8000_0001).ecx & 1 != 0;
    let v2 = has_lahf
        && has!("cmpxchg16b")
        && has!("popcnt")
        && has!("sse3")
        && has!("ssse3")
        && has!("sse4.1")
        && has!("sse4.2");
    // Rust reports AVX, and the features that need its registers, only if the system saves them
    // (OSXSAVE, XGETBV).
    let v3 = v2
        && has!("avx")
        && has!("avx2")
        && has!("bmi1")
        && has!("bmi2")
        && has!("f16c")
        && has!("fma")
        && has!("lzcnt")
        && has!("movbe");
    let v4 = v3 && has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl");
    match (v2, v3, v4) {
        (_, _, true) => 4 + usize::from(has!("avx512vnni")),
        (_, true, _) => 3,
        (true, ..) => 2,
        _ => 1,
    }
}

/// The levels belong to x86-64; on other architectures kernpack-build creates one version.
#[cfg(not(target_arch = "x86_64"))]
fn machine_level() -> usize {
    0
}
