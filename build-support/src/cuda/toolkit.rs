//! The installed parts of a CUDA toolkit. No program needs all of them.

use std::env;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::session::Session;
use crate::tool::program::{self, Program};

/// The parts of the CUDA toolkit that were found.
pub(crate) struct Toolkit {
    pub(crate) nvcc: Option<Program>,
    /// Folders of toolkits: `CUDA_HOME`, `CUDA_PATH`, and the folder of nvcc.
    #[cfg_attr(not(any(feature = "llvm", feature = "nvrtc")), expect(dead_code))]
    homes: Vec<PathBuf>,
}

impl Toolkit {
    /// Finds nvcc in `NVCC`, `CUDA_HOME`, `CUDA_PATH`, `PATH`. A wrong `NVCC` is an error.
    pub(crate) fn find(session: &Session) -> Result<Self> {
        let mut homes = Vec::new();
        for variable in ["CUDA_HOME", "CUDA_PATH"] {
            homes.extend(session.environment.user(variable)?.map(PathBuf::from));
        }
        let nvcc = find_nvcc(session, &homes)?;
        if let Some(bin) = nvcc.as_ref().and_then(|nvcc| nvcc.path.canonicalize().ok()?.parent().map(Path::to_owned)) {
            homes.extend(bin.parent().map(Path::to_owned));
        }
        // A folder with several names, such as `/usr/local/cuda`, counts once.
        let mut seen = Vec::new();
        homes.retain(|home| {
            let real = home.canonicalize().unwrap_or_else(|_| home.clone());
            let is_new = !seen.contains(&real);
            seen.push(real);
            is_new
        });
        Ok(Self { nvcc, homes })
    }
}

#[cfg(any(feature = "llvm", feature = "nvrtc"))]
impl Toolkit {
    /// Finds a tool of the toolkit, such as ptxas.
    pub(crate) fn program(&self, session: &Session, name: &str) -> Result<Option<Program>> {
        let name = format!("{name}{}", env::consts::EXE_SUFFIX);
        let places = self.homes.iter().map(|home| home.join("bin").join(&name)).collect();
        match Program::first(session, places) {
            Some(program) => Ok(Some(program)),
            None => Program::find(session, &name),
        }
    }

    /// Finds a file of the toolkit under one of these paths, in the order of the folders.
    pub(crate) fn file(&self, session: &Session, paths: &[&str]) -> Option<PathBuf> {
        let places = self.homes.iter().flat_map(|home| paths.iter().map(|path| home.join(path))).collect();
        Program::first(session, places).map(|found| found.path)
    }

    pub(crate) fn homes(&self) -> &[PathBuf] {
        &self.homes
    }
}

fn find_nvcc(session: &Session, homes: &[PathBuf]) -> Result<Option<Program>> {
    let program = format!("nvcc{}", env::consts::EXE_SUFFIX);
    if let Some(nvcc) = session.environment.user("NVCC")? {
        return match Program::find(session, &nvcc)? {
            Some(found) => Ok(Some(found)),
            None => Err(program::no_such_file("NVCC", &nvcc)),
        };
    }
    let mut places: Vec<PathBuf> = homes.iter().map(|home| home.join("bin").join(&program)).collect();
    let path = session.environment.user("PATH")?.unwrap_or_default();
    places.extend(env::split_paths(&path).map(|folder| folder.join(&program)));
    Ok(Program::first(session, places))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cargo::environment::Environment;

    #[test]
    fn nvcc_is_looked_for_in_order() {
        let folder = env::temp_dir().join(format!("kernpack-nvcc-{}", std::process::id()));
        let program = format!("nvcc{}", env::consts::EXE_SUFFIX);
        for name in ["home", "path"] {
            fs::create_dir_all(folder.join(name).join("bin")).unwrap();
            fs::write(folder.join(name).join("bin").join(&program), "").unwrap();
        }
        let (home, path) = (folder.join("home"), folder.join("path/bin"));
        let (in_home, in_path) = (home.join("bin").join(&program), path.join(&program));
        let [home, path, nvcc] = [&home, &path, &in_path].map(|path| path.to_str().unwrap());
        let out = folder.to_str().unwrap();
        let found = |variables: &[(&str, &str)]| {
            let fixed = [
                ("CARGO_MANIFEST_DIR", out),
                ("OUT_DIR", out),
                ("CARGO_PKG_NAME", "p"),
                ("TARGET", "x86_64-unknown-linux-gnu"),
                ("HOST", "x86_64-unknown-linux-gnu"),
                ("CARGO_CFG_TARGET_ARCH", "x86_64"),
                ("CARGO_CFG_TARGET_OS", "linux"),
            ];
            let session = Session::new(Environment::fake(&[&fixed[..], variables].concat()), None).unwrap();
            Toolkit::find(&session).map(|toolkit| toolkit.nvcc.map(|nvcc| nvcc.path))
        };
        type Row<'a> = (&'a [(&'a str, &'a str)], Option<&'a Path>);
        let rows: &[Row<'_>] = &[
            (&[], None),
            (&[("PATH", path)], Some(&in_path)),
            (&[("PATH", path), ("CUDA_HOME", home)], Some(&in_home)),
            (&[("PATH", path), ("CUDA_PATH", home)], Some(&in_home)),
            (&[("PATH", path), ("CUDA_HOME", "/no/such")], Some(&in_path)),
            (&[("NVCC", nvcc), ("CUDA_HOME", home)], Some(&in_path)),
            (&[("NVCC", &program), ("CUDA_HOME", home), ("PATH", path)], Some(&in_path)),
        ];
        for (variables, expected) in rows {
            assert_eq!(found(variables).unwrap().as_deref(), *expected, "{variables:?}");
        }
        let error = found(&[("NVCC", "/no/such/nvcc")]).unwrap_err();
        assert_eq!(error.to_string(), "NVCC is \"/no/such/nvcc\", but there is no such file");
        fs::remove_dir_all(&folder).unwrap();
    }
}
