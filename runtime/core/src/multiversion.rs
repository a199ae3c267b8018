//! Kernels that a library has in several versions, one for each level of x86-64 that build.rs named with `.multiversion(..)`:
//! picks the version for this machine, once, when the library is loaded.
//!
//! The levels, and what a CPU of each has, are those of the x86-64 psABI (<https://gitlab.com/x86-psABIs/x86-64-ABI>), section
//! 3.1.1, table "Micro-Architecture Levels". kernpack-build writes the table that this file reads.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::abi::SafeCall;
use crate::artifact;
use crate::embedded::notice::notice;

/// The highest version that may be picked: `baseline`, or a level. For tests, and for users that look for the version that differs.
const VARIABLE: &str = "KERNPACK_CPU_LEVEL";

/// The kernels of one library in all versions. As many variables follow as there are kernels: where each dispatcher jumps to.
#[repr(C)]
struct Library {
    /// The library that was loaded before, of those that are linked with this runtime.
    next: AtomicPtr<Library>,
    /// Index of the version that runs.
    picked: AtomicUsize,
    kernel_count: usize,
    version_count: usize,
    /// The public entry points of the kernels.
    dispatchers: *const *const c_void,
    /// The baseline first, then by level.
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

/// A function of `.init_array`. glibc passes it what `main` gets; others pass nothing.
type Constructor = unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char);

/// The library whose constructor ran last.
static LAST: AtomicPtr<Library> = AtomicPtr::new(ptr::null_mut());

/// Picks the version of a library's kernels. The library's constructor calls it, before any kernel can be called.
///
/// # Safety
/// `library` is a table that kernpack-build wrote, never moves and is passed once; the others are what constructors get.
unsafe extern "C" fn pick_version(
    argc: c_int,
    argv: *const *const c_char,
    envp: *const *const c_char,
    library: *mut Library,
) {
    // SAFETY: promised by the caller; the table's rows are as long as its numbers say, and the variables of the dispatchers, which
    // are written here only, follow it.
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
                    // The version's own constructors, which the linker would have listed; the CPU has its level.
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

/// The name of the version of a kernel that runs: `baseline` when there is only one.
pub(crate) fn level_of(name: &str, call: SafeCall) -> &'static str {
    let call = artifact::own_entry_point(name, call) as *const c_void;
    let mut next = LAST.load(Ordering::Acquire);
    // SAFETY: tables are part of this artifact, which is never unloaded, and only atomic fields of them change.
    while let Some(library) = unsafe { next.as_ref() } {
        // SAFETY: the row is as long as the table says.
        let dispatchers = unsafe { core::slice::from_raw_parts(library.dispatchers, library.kernel_count) };
        if dispatchers.contains(&call) {
            // SAFETY: what was picked is one of the versions.
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

/// The level of this machine, or the one that the user allows, if that is lower.
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

/// Rust's own runtime may not have begun when constructors run, so libc is asked.
fn variable() -> Option<&'static [u8]> {
    // SAFETY: nothing changes the environment while a library's constructors run, other than the program itself, whose duty that is;
    // the text is read at once.
    unsafe {
        let value = libc::getenv(c"KERNPACK_CPU_LEVEL".as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    }
}

/// The highest level of which this CPU has everything, and the system lets it be used.
#[cfg(target_arch = "x86_64")]
fn machine_level() -> usize {
    use std::arch::is_x86_feature_detected as has;
    // LAHF and SAHF, which Rust does not tell: leaf 8000_0001h, ECX bit 0 (Intel SDM, volume 2A, CPUID; AMD APM, volume 3, appendix
    // E). Asking for a leaf that is not there gives another one's, so the highest is asked first.
    let extended = core::arch::x86_64::__cpuid(0x8000_0000).eax;
    let has_lahf = extended > 0x8000_0000 && core::arch::x86_64::__cpuid(0x8000_0001).ecx & 1 != 0;
    let v2 = has_lahf
        && has!("cmpxchg16b")
        && has!("popcnt")
        && has!("sse3")
        && has!("ssse3")
        && has!("sse4.1")
        && has!("sse4.2");
    // Rust says AVX and what needs its registers only where the system saves them (OSXSAVE, XGETBV).
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

/// Levels are of x86-64; elsewhere kernpack-build makes one version.
#[cfg(not(target_arch = "x86_64"))]
fn machine_level() -> usize {
    0
}
