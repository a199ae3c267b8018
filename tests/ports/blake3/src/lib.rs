//! The package blake3 on Kernpack: the hash function BLAKE3.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use blake3::Hasher;
use kernpack::{Bytes, ObjRef, Object, Result, bail, constant, error, object_methods};
use rayon::{ThreadPool, ThreadPoolBuilder};

kernpack::library!();

/// The version of the package.
#[constant(name = "__version__")]
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The threads that hash an input.
#[derive(Clone)]
enum Threads {
    /// The thread of the call.
    One,
    /// As many as there are cores.
    Auto,
    /// So many.
    Pool(Arc<ThreadPool>),
}

impl Threads {
    fn new(count: i64) -> Result<Self> {
        match usize::try_from(count) {
            Ok(1) => Ok(Self::One),
            Ok(count @ 2..) => {
                let pool = ThreadPoolBuilder::new().num_threads(count).build();
                pool.map(|pool| Self::Pool(Arc::new(pool))).map_err(|problem| error!(RuntimeError, "{problem}"))
            }
            Err(_) if count == Blake3::AUTO => Ok(Self::Auto),
            _ => bail!(ValueError, "max_threads: expected a positive number or blake3.AUTO, got {count}"),
        }
    }
}

/// An incremental hash.
#[derive(Object)]
#[object(key = "blake3.blake3")]
#[repr(C)]
pub struct Blake3 {
    hasher: Mutex<Hasher>,
    threads: Threads,
}

/// Sets up the mode by the key or the context.
fn hasher(key: Option<&[u8]>, context: Option<&str>) -> Result<Hasher> {
    match (key, context) {
        (None, None) => Ok(Hasher::new()),
        (None, Some(context)) => Ok(Hasher::new_derive_key(context)),
        (Some(key), None) => match key.try_into() {
            Ok(key) => Ok(Hasher::new_keyed(key)),
            Err(_) => bail!(ValueError, "key: expected {} bytes, got {}", Blake3::KEY_SIZE, key.len()),
        },
        (Some(_), Some(_)) => bail!(ValueError, "expected key or derive_key_context, got both"),
    }
}

#[object_methods]
impl Blake3 {
    #[constant(name = "name")]
    pub const NAME: &str = "blake3";
    #[constant(name = "digest_size")]
    pub const DIGEST_SIZE: i64 = blake3::OUT_LEN as i64;
    #[constant(name = "block_size")]
    pub const BLOCK_SIZE: i64 = blake3::BLOCK_LEN as i64;
    #[constant(name = "key_size")]
    pub const KEY_SIZE: i64 = blake3::KEY_LEN as i64;
    /// As many threads as there are cores.
    #[constant]
    pub const AUTO: i64 = -1;

    /// A hash of the data, with a key, or with a context for a derived key.
    #[init(
        detach,
        signature = "(data=None, /, *, key=None, derive_key_context=None, max_threads=1, usedforsecurity=True)"
    )]
    pub fn new(
        data: Option<&[u8]>,
        key: Option<&[u8]>,
        derive_key_context: Option<&str>,
        max_threads: i64,
        usedforsecurity: bool,
    ) -> Result<Self> {
        let _ = usedforsecurity;
        let hasher = Mutex::new(hasher(key, derive_key_context)?);
        let hash = Self { hasher, threads: Threads::new(max_threads)? };
        hash.add(data.unwrap_or_default());
        Ok(hash)
    }

    /// Adds bytes.
    #[method(detach, signature = "(data, /)")]
    pub fn update(this: &ObjRef<Self>, data: &[u8]) -> ObjRef<Self> {
        this.add(data);
        this.clone()
    }

    /// Adds the bytes of a file, which is mapped into memory.
    #[method(detach)]
    pub fn update_mmap(this: &ObjRef<Self>, path: &Path) -> Result<ObjRef<Self>> {
        let mut guard = this.hasher();
        let hasher = &mut *guard;
        match &this.threads {
            Threads::One => hasher.update_mmap(path)?,
            Threads::Auto => hasher.update_mmap_rayon(path)?,
            Threads::Pool(pool) => pool.install(|| hasher.update_mmap_rayon(path))?,
        };
        Ok(this.clone())
    }

    /// Returns a hash that continues from the same bytes.
    pub fn copy(&self) -> Self {
        Self { hasher: Mutex::new(self.hasher().clone()), threads: self.threads.clone() }
    }

    /// Forgets all bytes.
    pub fn reset(&self) {
        self.hasher().reset();
    }

    /// Returns bytes of the output.
    #[method(signature = "(length=32, *, seek=0)")]
    pub fn digest(&self, length: usize, seek: u64) -> Result<Bytes> {
        Ok(Bytes::from(self.output(length, seek)?))
    }

    /// Returns bytes of the output in hexadecimal.
    #[method(signature = "(length=32, *, seek=0)")]
    pub fn hexdigest(&self, length: usize, seek: u64) -> Result<String> {
        if length > isize::MAX as usize / 2 {
            bail!(OverflowError, "length: a text of twice {length} characters is too long");
        }
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
        let bytes = self.output(length, seek)?;
        Ok(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
    }
}

impl Blake3 {
    fn hasher(&self) -> MutexGuard<'_, Hasher> {
        self.hasher.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The lock is taken before other threads get work: none of them waits for it.
    fn add(&self, data: &[u8]) {
        let mut guard = self.hasher();
        let hasher = &mut *guard;
        match &self.threads {
            Threads::One => hasher.update(data),
            Threads::Auto => hasher.update_rayon(data),
            Threads::Pool(pool) => pool.install(|| hasher.update_rayon(data)),
        };
    }

    fn output(&self, length: usize, seek: u64) -> Result<Vec<u8>> {
        if length > isize::MAX as usize {
            bail!(OverflowError, "length: {length} bytes are too many");
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(length).is_err() {
            bail!(MemoryError, "length: there is no memory for {length} bytes");
        }
        bytes.resize(length, 0);
        let mut output = self.hasher().finalize_xof();
        output.set_position(seek);
        output.fill(&mut bytes);
        Ok(bytes)
    }
}
