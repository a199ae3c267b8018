//! The wheels that the machine with a GPU lacks, downloaded once for each list.

use crate::Result;
use crate::environment::Environment;
use crate::step::{self, Show};
use std::fs;
use std::path::Path;

/// The Python version of that machine.
const PYTHON: &str = "3.12";
/// The platforms whose wheels that machine accepts; pip needs the name of each.
const PLATFORMS: [&str; 4] =
    ["manylinux_2_28_x86_64", "manylinux_2_24_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"];
/// The package, pinned in the list of all of this project's Python packages.
const PACKAGE: &str = "apache-tvm-ffi";
const REQUIREMENTS: &str = include_str!("../../requirements.txt");

/// Downloads the wheels into a folder. Other packages that they need are installed there.
pub(super) fn fetch(environment: &Environment, to: &Path) -> Result {
    let pin = REQUIREMENTS
        .lines()
        .find(|line| line.starts_with(PACKAGE))
        .ok_or("xtask/requirements.txt does not pin apache-tvm-ffi")?;
    let kept = environment.workspace.folder("gpu-kit-wheels")?;
    let stamp = format!("{pin}\n{PYTHON}\n{}\n", PLATFORMS.join("\n"));
    if !fs::read_to_string(kept.join("complete")).is_ok_and(|text| text == stamp) {
        fs::remove_dir_all(&kept)?;
        fs::create_dir_all(&kept)?;
        let mut pip = environment.command(environment.python.interpreter());
        pip.args(["-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps"]);
        pip.args(["--only-binary=:all:", "--implementation", "cp", "--python-version", PYTHON]);
        pip.args(PLATFORMS.iter().flat_map(|platform| ["--platform", platform])).arg("--dest").arg(&kept).arg(pin);
        step::run("download the wheels of the kit", &mut pip, Show::Warnings)?;
        fs::write(kept.join("complete"), stamp)?;
    }
    let mut wheels = 0;
    for entry in fs::read_dir(&kept)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "whl") {
            super::copy(&entry.path(), &to.join(entry.file_name()))?;
            wheels += 1;
        }
    }
    if wheels == 0 {
        return Err(format!("gpu-kit: pip downloaded no wheel of {pin} for Python {PYTHON}").into());
    }
    Ok(())
}
