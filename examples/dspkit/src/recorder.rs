//! A recorder: a context manager in Python.

use kernpack::{Any, Field, ObjRef, Object, Result, bail, object_methods};

use crate::files::write_wav;
use crate::signal::{Signal, mixed};

/// Collects signals, and writes them as one file when it is closed.
#[derive(Object)]
#[object(key = "dspkit.Recorder")]
#[repr(C)]
pub struct Recorder {
    /// The path of the file.
    pub path: String,
    #[field(skip, default_factory = || Field::new(Some(Vec::new())))]
    parts: Field<Option<Vec<ObjRef<Signal>>>>,
}

#[object_methods]
impl Recorder {
    /// Appends a signal.
    pub fn write(&self, signal: &ObjRef<Signal>) -> Result<()> {
        let Some(mut parts) = self.parts.get() else { bail!(ValueError, "the recorder is closed") };
        parts.push(signal.clone());
        self.parts.set(Some(parts));
        Ok(())
    }

    /// Writes the file, once.
    pub fn close(&self) -> Result<()> {
        let Some(parts) = self.parts.get() else { return Ok(()) };
        self.parts.set(None);
        let Some(first) = parts.first() else { return Ok(()) };
        let mut samples = Vec::new();
        for part in &parts {
            first.check_rate(part)?;
            samples.extend(mixed(&[part])?.view()?.iter());
        }
        write_wav(&self.path, &Signal::of(samples, first.rate)?)
    }

    /// True if the file was written.
    #[getter]
    pub fn closed(&self) -> bool {
        self.parts.get().is_none()
    }

    #[method(name = "__enter__")]
    fn enter(this: &ObjRef<Self>) -> ObjRef<Self> {
        this.clone()
    }

    #[method(name = "__exit__")]
    fn exit(&self, _kind: Any, _error: Any, _traceback: Any) -> Result<()> {
        self.close()
    }
}
