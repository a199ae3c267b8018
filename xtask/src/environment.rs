//! The environment of every command of a test or a demo.

use crate::Result;
use crate::cuda::{self, Compiler};
use crate::magika;
use crate::opencl::{self, OpenCl};
use crate::python::Python;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns true on CI, where tests may only be skipped for an accepted reason.
pub(crate) fn on_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// The workspace with its Python and its CUDA compiler, prepared.
pub(crate) struct Environment {
    /// The checkout.
    pub(crate) workspace: Workspace,
    /// The Python in `target/venv`.
    pub(crate) python: Python,
    cuda: Compiler,
    opencl: OpenCl,
    magika: std::result::Result<PathBuf, String>,
}

impl Environment {
    /// Finds or installs everything, and prints what was found.
    pub(crate) fn prepare() -> Result<Self> {
        let workspace = Workspace::find()?;
        let python = Python::prepare(&workspace)?;
        let cuda = cuda::prepare(&workspace, &python)?;
        let opencl = opencl::prepare(&workspace)?;
        let magika = magika::prepare(&workspace).map_err(|error| error.to_string());
        println!("Python: {}", python.interpreter().display());
        match &cuda {
            Compiler::Found => println!("CUDA compiler: the one on this machine"),
            Compiler::Home(home) => println!("CUDA compiler: {}", home.display()),
            Compiler::Missing(why) => println!("CUDA compiler: none, images for GPUs are not built ({why})"),
        }
        match &opencl {
            OpenCl::Found => println!("OpenCL: found"),
            OpenCl::Missing(why) => println!("OpenCL: none, its tests are skipped ({why})"),
        }
        if let Err(why) = &magika {
            println!("Magika: none, examples/filetype is built without its model ({why})");
        }
        Ok(Environment { workspace, python, cuda, opencl, magika })
    }

    /// cargo, with the variables that builds and tests read.
    pub(crate) fn cargo(&self, subcommand: &str) -> Command {
        let mut command = self.workspace.cargo(subcommand);
        self.describe(&mut command);
        command
    }

    /// Another program, with the same variables.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = self.workspace.command(program);
        self.describe(&mut command);
        command
    }

    /// The reason why the CUDA compiler is missing, if it is.
    pub(crate) fn cuda_missing(&self) -> Option<&str> {
        match &self.cuda {
            Compiler::Missing(why) => Some(why),
            Compiler::Found | Compiler::Home(_) => None,
        }
    }

    /// The folder of the CUDA toolkit, if a build does not find nvcc by NVCC or PATH.
    pub(crate) fn cuda_home(&self) -> Option<&Path> {
        self.cuda.home().map(PathBuf::as_path)
    }

    /// The reason why OpenCL is missing, if it is.
    pub(crate) fn opencl_missing(&self) -> Option<&str> {
        match &self.opencl {
            OpenCl::Missing(why) => Some(why),
            OpenCl::Found => None,
        }
    }

    /// A Python that has the package `magika`, whose model examples/filetype is built with.
    pub(crate) fn magika(&self) -> Result<&Path> {
        Ok(self.magika.as_ref().map_err(Clone::clone)?)
    }

    fn describe(&self, command: &mut Command) {
        command.env("KERNPACK_PYTHON", self.python.interpreter());
        command.env("KERNPACK_TVM_FFI_INCLUDE", self.python.tvm_ffi_include());
        command.env("KERNPACK_TVM_FFI_LIB", self.python.tvm_ffi_library_folder());
        self.opencl.describe(&self.workspace, command);
        if let Some(home) = self.cuda.home() {
            command.env("CUDA_HOME", home);
        }
    }
}
