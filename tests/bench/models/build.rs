//! Compiles all models of the folder that KERNPACK_BENCH_MODELS names; none without the variable.

use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed=KERNPACK_BENCH_MODELS");
    println!("cargo::rerun-if-env-changed=KERNPACK_BENCH_REPORT");
    let start = Instant::now();
    let mut library = kernpack_build::Library::new().multiversion(["x86-64-v3", "x86-64-v4", "x86-64-v4-vnni"]);
    if let Some(folder) = std::env::var_os("KERNPACK_BENCH_MODELS") {
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            files.push(entry?.path());
        }
        files.retain(|file| file.extension().is_some_and(|extension| extension == "onnx"));
        files.sort();
        for file in files {
            let is = |name: &str| file.file_stem().is_some_and(|stem| stem == name);
            let (is_magika, is_mlp) = (is("magika"), is("mlp"));
            if is_mlp {
                library = library.model_with(&file, |model| model.name("mlp_f16").weights(kernpack_build::te::F16));
            }
            library = library.model_with(file, |model| if is_magika { model.input("bytes", [1, 2048]) } else { model });
        }
    }
    library.build()?;
    if let Some(path) = std::env::var_os("KERNPACK_BENCH_REPORT") {
        std::fs::write(path, report(start)?)?;
    }
    Ok(())
}

/// Seconds of the clock and of all processors, and the peak memory in mebibytes, as Linux reports
/// them.
fn report(start: Instant) -> Result<String, Box<dyn std::error::Error>> {
    let wall = start.elapsed().as_secs_f64();
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    // Fields 14 and 15 of the file: ticks of a hundredth of a second.
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak in /proc/self/status")?;
    let kibibytes: f64 = peak.trim().trim_end_matches(" kB").parse()?;
    Ok(format!("{wall} {} {}\n", ticks / 100.0, kibibytes / 1024.0))
}
