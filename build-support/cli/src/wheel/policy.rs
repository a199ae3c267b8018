//! The libraries that `auditwheel` 6.8 allows for each manylinux policy: facts from its file
//! `manylinux-policy.json`, the stricter one of x86_64 and aarch64 where they differ.

/// One policy: the newest symbol versions that a library may require.
pub(crate) struct Policy {
    /// N of glibc 2.N.
    pub(crate) glibc: u32,
    gcc: &'static [u32],
    glibcxx: &'static [u32],
    cxxabi: &'static [u32],
    libatomic: &'static [u32],
    zlib: &'static [u32],
}

const fn policy(
    glibc: u32,
    gcc: &'static [u32],
    glibcxx: &'static [u32],
    cxxabi: &'static [u32],
    libatomic: &'static [u32],
    zlib: &'static [u32],
) -> Policy {
    Policy { glibc, gcc, glibcxx, cxxabi, libatomic, zlib }
}

/// From the oldest to the newest glibc. Rust's own standard library needs 2.17.
pub(crate) const POLICIES: &[Policy] = &[
    policy(17, &[4, 7, 0], &[3, 4, 19], &[1, 3, 7], &[0], &[1, 2, 5, 2]),
    policy(24, &[4, 7, 0], &[3, 4, 22], &[1, 3, 10], &[1, 2], &[1, 2, 5, 2]),
    policy(26, &[4, 8, 0], &[3, 4, 22], &[1, 3, 10], &[1, 2], &[1, 2, 5, 2]),
    policy(27, &[7, 0, 0], &[3, 4, 24], &[1, 3, 11], &[1, 2], &[1, 2, 9]),
    policy(28, &[7, 0, 0], &[3, 4, 24], &[1, 3, 11], &[1, 2], &[1, 2, 9]),
    policy(31, &[7, 0, 0], &[3, 4, 28], &[1, 3, 12], &[1, 2], &[1, 2, 9]),
    policy(34, &[7, 0, 0], &[3, 4, 29], &[1, 3, 13], &[1, 2], &[1, 2, 9]),
    policy(35, &[11, 0], &[3, 4, 30], &[1, 3, 13], &[1, 2], &[1, 2, 9]),
    policy(36, &[11, 0], &[3, 4, 30], &[1, 3, 13], &[1, 2], &[1, 2, 9]),
    policy(37, &[11, 0], &[3, 4, 30], &[1, 3, 13], &[1, 2], &[1, 2, 12]),
    policy(38, &[11, 0], &[3, 4, 30], &[1, 3, 13], &[1, 2], &[1, 2, 12]),
    policy(39, &[14, 0, 0], &[3, 4, 33], &[1, 3, 15], &[1, 2], &[1, 2, 12]),
    policy(40, &[14, 0, 0], &[3, 4, 33], &[1, 3, 15], &[1, 2], &[1, 2, 12]),
    policy(41, &[14, 0, 0], &[3, 4, 33], &[1, 3, 15], &[1, 2], &[1, 2, 12]),
];

/// Libraries that every policy allows from 2.17 on.
const ALLOWED: &[&str] = &[
    "libGL.so.1",
    "libICE.so.6",
    "libSM.so.6",
    "libX11.so.6",
    "libXext.so.6",
    "libXrender.so.1",
    "libanl.so.1",
    "libatomic.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libexpat.so.1",
    "libgcc_s.so.1",
    "libglib-2.0.so.0",
    "libgobject-2.0.so.0",
    "libgthread-2.0.so.0",
    "libm.so.6",
    "libnsl.so.1",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
    "libz.so.1",
];

/// Returns true if every manylinux system has the library. The dynamic linker is always present.
pub(crate) fn allows(library: &str) -> bool {
    library.starts_with("ld-linux") || ALLOWED.contains(&library)
}

/// Returns true if every musllinux system has the library.
pub(crate) fn musl_allows(library: &str) -> bool {
    matches!(library, "libc.so" | "libz.so.1") || library.starts_with("libc.musl-") || library.starts_with("ld-musl-")
}

/// Returns the oldest policy that allows a symbol version such as `GLIBC_2.17`. Versions of other
/// families belong to libraries that are checked by name, so they need no policy.
pub(crate) fn least(version: &str) -> Option<&'static Policy> {
    let Some((family, number)) = version.split_once('_') else { return Some(&POLICIES[0]) };
    let floor = |glibc: u32| POLICIES.iter().find(|policy| policy.glibc >= glibc);
    let column: fn(&Policy) -> Vec<u32> = match family {
        "GLIBC" => |policy| vec![2, policy.glibc],
        "GCC" => |policy| policy.gcc.to_vec(),
        "GLIBCXX" => |policy| policy.glibcxx.to_vec(),
        "CXXABI" => |policy| policy.cxxabi.to_vec(),
        "LIBATOMIC" => |policy| policy.libatomic.to_vec(),
        "ZLIB" => |policy| policy.zlib.to_vec(),
        _ => return Some(&POLICIES[0]),
    };
    match (family, number) {
        ("GLIBC", "ABI_DT_RELR") => return floor(36),
        ("CXXABI", "TM_1") => return floor(17),
        ("CXXABI", "FLOAT128") => return floor(24),
        _ => {}
    }
    let asked: Option<Vec<u32>> = number.split('.').map(|part| part.parse().ok()).collect();
    let mut asked = asked?;
    if family == "GLIBC" {
        // 2.3.4 is older than 2.17: only the first two numbers count.
        asked.truncate(2);
    }
    POLICIES.iter().find(|policy| asked <= column(policy))
}

/// Advice for a library that is not allowed.
pub(crate) fn advice(library: &str) -> &'static str {
    let stem = library.split(".so").next().unwrap_or(library);
    match stem {
        "libcuda" | "libnvrtc" => "load it at run time, as the feature `cuda` of kernpack does, and link nothing",
        "libOpenCL" => "load it at run time, as the feature `opencl` of kernpack does, and link nothing",
        "libtvm_ffi" => "link nothing: the library finds it in the process that loads it",
        "libcudart" | "libcublas" | "libcublasLt" | "libcudnn" => {
            "load it at run time (dlopen), and let the wheel's users install NVIDIA's own wheel of it"
        }
        "libgomp" | "libomp" => "use the thread pool of kernpack instead of OpenMP, or link it statically",
        "libgcc_s" => "link it statically: -C link-arg=-static-libgcc",
        _ if stem.starts_with("libLLVM") => {
            "compile the kernels in build.rs, so that LLVM is not needed where they run"
        }
        _ if stem.starts_with("libpython") => "do not link to Python: a wheel for every Python version cannot",
        _ => "link it statically, or load it at run time (dlopen)",
    }
}
