use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// A program that is started by its descriptor, and has no name in a folder.
pub(crate) struct Image {
    descriptor: OwnedFd,
}

/// The location of an image.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// In memory (`memfd_create`, Linux 3.17).
    Memory,
    /// In the folder for temporary files, for systems that cannot start a program from memory.
    File,
}

impl Image {
    pub(crate) fn new(program: &[u8], place: Place) -> io::Result<Self> {
        match place {
            Place::Memory => Self::in_memory(program),
            Place::File => Self::in_file(program),
        }
    }

    fn in_memory(program: &[u8]) -> io::Result<Self> {
        // Without MFD_CLOEXEC: an emulator opens the descriptor by its number, for each session.
        // SAFETY: a plain call.
        let descriptor = unsafe { libc::memfd_create(c"kernpack-rpc-server".as_ptr(), libc::MFD_ALLOW_SEALING) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor, which is this value's alone.
        let mut file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        file.write_all(program)?;
        // Sessions inherit the descriptor, and must not change the program of the next session.
        // Kernels without these seals start it anyway.
        let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
        // SAFETY: a plain call.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        Ok(Self { descriptor: file.into() })
    }

    fn in_file(program: &[u8]) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("kernpack-rpc-server-{}", std::process::id()));
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
        let written = file.write_all(program);
        // A file that is open for writing cannot be executed.
        drop(file);
        let opened = written.and_then(|()| File::open(&path));
        fs::remove_file(&path)?;
        let file = opened?;
        // SAFETY: a plain call: the descriptor stays open in the programs that are started.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { descriptor: file.into() })
    }

    /// The path by which this process and those that it starts can start the program.
    pub(crate) fn path(&self) -> OsString {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()).into()
    }
}
