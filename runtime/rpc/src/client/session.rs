use std::fmt;
use std::path::Path;
use std::sync::Arc;

use kernpack::{Bytes, Device, Error, Function, Module, Result, bail, ensure};

use super::shared::Shared;
use super::time_evaluator::TimeEvaluator;
use super::{function, slots, value};

/// A session with a server. Clones are the same session; it ends with the last of them and the last
/// value that came from it.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
    key: Arc<str>,
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, key: String) -> Self {
        Self { shared, key: key.into() }
    }

    /// The server, as it was named to [`connect`](super::connect).
    pub fn peer(&self) -> &str {
        &self.shared.peer
    }

    /// The key that the server has sent.
    pub fn server_key(&self) -> &str {
        &self.key
    }

    /// The number of the session in this process, from 0 to 31. It is a part of its devices
    /// ([`Device::session`]).
    pub fn number(&self) -> usize {
        self.shared.number()
    }

    /// Sends a file to the session's folder, under its own name.
    ///
    /// # Errors
    /// OSError when the file cannot be read; any error that the server reports.
    pub fn upload(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            bail!(ValueError, "{} has no file name that can be sent", path.display());
        };
        let content = std::fs::read(path)
            .map_err(|problem| Error::new("OSError", format!("{} cannot be read: {problem}", path.display())))?;
        self.upload_as(name, &content)
    }

    /// Writes a file of this name and content to the session's folder.
    ///
    /// # Errors
    /// Any error that the server reports.
    pub fn upload_as(&self, name: &str, content: &[u8]) -> Result<()> {
        self.shared.call_own("tvm.rpc.server.upload", (name, content)).map(drop)
    }

    /// The content of a file of the session's folder.
    ///
    /// # Errors
    /// Any error that the server reports.
    pub fn download(&self, name: &str) -> Result<Bytes> {
        self.shared.call_own("tvm.rpc.server.download", (name,))?.to()
    }

    /// The names of the entries of a folder in the session's folder; `.` is the session's folder
    /// itself.
    ///
    /// # Errors
    /// Any error that the server reports; RuntimeError for a server that does not have this
    /// function, such as Apache TVM's in Python.
    pub fn listdir(&self, path: &str) -> Result<Vec<String>> {
        let names: String = self.shared.call_own("tvm.rpc.server.listdir", (path,))?.to()?;
        Ok(names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Removes a file of the session's folder.
    ///
    /// # Errors
    /// Any error that the server reports.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.shared.call_own("tvm.rpc.server.remove", (name,)).map(drop)
    }

    /// Loads a library of the session's folder, usually an uploaded one.
    ///
    /// # Errors
    /// Any error that the server reports: a library for another kind of machine, a missing symbol,
    /// ...
    pub fn load_module(&self, name: &str) -> Result<Module> {
        self.shared.call_own("tvm.rpc.server.load_module", (name,))?.to()
    }

    /// The functions that are linked into the server itself.
    ///
    /// # Errors
    /// Any error that the server reports.
    pub fn system_lib(&self) -> Result<Module> {
        self.shared.call_own("ffi.SystemLib", ())?.to()
    }

    /// A global function of the server.
    ///
    /// # Errors
    /// KeyError if it has no function of this name.
    pub fn global_function(&self, name: &str) -> Result<Function> {
        match self.find_global_function(name)? {
            Some(function) => Ok(function),
            None => bail!(KeyError, "{} has no global function '{name}'", self.peer()),
        }
    }

    /// Returns a global function of the server; `None` if it has no function of this name.
    ///
    /// # Errors
    /// Any error of the connection.
    pub fn find_global_function(&self, name: &str) -> Result<Option<Function>> {
        let handle = self.shared.find(name)?;
        Ok((handle != 0).then(|| function::function(&self.shared, handle)))
    }

    /// Lets a module of the session import another one.
    ///
    /// # Errors
    /// ValueError for a module of another session, TypeError for a module of this process; any
    /// other error that the server reports.
    pub fn import_module(&self, parent: &Module, child: &Module) -> Result<()> {
        let handles = [value::module_handle(&self.shared, parent)?, value::module_handle(&self.shared, child)?];
        let imported = self.shared.call_own_with("tvm.rpc.server.ImportModule", 2, |arguments| {
            arguments.module(handles[0]).module(handles[1]);
        });
        imported.map(drop)
    }

    /// A device of the server as a device of this process: for
    /// [`Tensor::to`](kernpack::Tensor::to), [`Tensor::empty`](kernpack::Tensor::empty),
    /// [`device`](mod@kernpack::device), and the parameters of functions. It is valid as long as
    /// the session is open.
    ///
    /// ```no_run
    /// # let session = kernpack_rpc::connect("pi.local").open()?;
    /// use kernpack::{DataType, Tensor};
    /// let there = session.device("cpu:0")?;
    /// assert_eq!(there.to_string(), "remote[0]-cpu:0");
    /// let result = Tensor::empty(DataType::FLOAT32, &[1024], there)?;
    /// # Ok::<(), kernpack::Error>(())
    /// ```
    ///
    /// # Errors
    /// ValueError for an invalid name. To check that the server has the device, use
    /// [`device::exists`](kernpack::device::exists).
    pub fn device(&self, name: &str) -> Result<Device> {
        let device: Device = name.parse()?;
        ensure!(self.shared.is_open(), RuntimeError, "the session with {} has ended", self.peer());
        let device = self.shared.device(device)?;
        slots::offer(device.device_type())?;
        Ok(device)
    }

    /// Measures a function of a module of the session on the server, without the network: see
    /// [`TimeEvaluator`].
    ///
    /// # Errors
    /// ValueError for a module or a device that is not of this session.
    pub fn time_evaluator(&self, module: &Module, function: &str, device: Device) -> Result<TimeEvaluator> {
        let module = value::module_handle(&self.shared, module)?;
        Ok(TimeEvaluator::new(self.shared.clone(), Some(module), function, self.shared.own_device(device)?))
    }

    /// Measures a global function of the server.
    ///
    /// # Errors
    /// ValueError for a device that is not of this session.
    pub fn time_evaluator_of_global(&self, function: &str, device: Device) -> Result<TimeEvaluator> {
        Ok(TimeEvaluator::new(self.shared.clone(), None, function, self.shared.own_device(device)?))
    }

    /// Ends the session now, although values may still refer to it: every further request is a
    /// ConnectionError. Without this, a session ends when nothing refers to it any more.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Returns true if the session is still open, as far as this side knows: a server that is gone
    /// is noticed at the next request.
    pub fn is_open(&self) -> bool {
        self.shared.is_open()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} with {})", self.number(), self.peer())
    }
}
