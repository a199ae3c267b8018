//! Compiles OpenCL C sources for the devices of the build machine, if there are any, so that errors
//! show in the build.
//!
//! The library still contains only the source, and nothing specific to the devices. The build
//! script starts itself again for each question (`worker.rs` explains why).

mod device;
mod library;
pub(crate) mod worker;

use std::borrow::Cow;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use kernpack_formats::device_image::opencl_options;

use crate::cache::step::{Ran, Step};
use crate::opencl::{OpenClImage, required};
use crate::outputs::progress;
use crate::session::Session;
use crate::tool::policy::Policy;
use crate::{Error, Result, tool};
use device::Device;
use worker::MARK;

const TIME_TO_LIST: Duration = Duration::from_secs(30);
const TIME_TO_BUILD: Duration = Duration::from_secs(120);

/// Compiles all sources for all devices. Returns the warnings. A source that no device's compiler
/// accepts is an error.
pub(crate) fn check(session: &Session, images: &[OpenClImage]) -> Result<String> {
    let policy = Policy::of(&session.environment, "KERNPACK_OPENCL")?;
    if images.is_empty() || policy == Policy::Off {
        return Ok(String::new());
    }
    match devices(session)? {
        Ok((checker, devices)) => compile(session, policy, images, &checker, &devices),
        Err(reason) if policy == Policy::Require => Err(Error::new(required(images, &reason))),
        Err(reason) => {
            progress::line(&format!("OpenCL C is not checked: {reason}"));
            Ok(String::new())
        }
    }
}

/// Returns the checker and the devices to compile for, or the reason why there are none.
fn devices(session: &Session) -> Result<Result<(Checker, Vec<Device>), String>> {
    let Some(library) = library::library(session)? else {
        return Ok(Err(
            "there is no OpenCL library (libOpenCL.so.1) on this machine; install the loader (Debian and Ubuntu: \
                       ocl-icd-libopencl1) and the driver of a device (for the CPU: pocl-opencl-icd)"
                .to_owned(),
        ));
    };
    let checker = Checker::new(library)?;
    let answer = match run(session, checker.command(session, &["list"]), TIME_TO_LIST)? {
        Ok(answer) => answer,
        Err(end) => {
            return Ok(Err(format!("the OpenCL drivers of this machine cannot be asked for their devices: {end}")));
        }
    };
    let devices = Device::all(&answer, session.environment.user("KERNPACK_OPENCL_DEVICES")?.as_deref());
    Ok(match devices {
        Ok(devices) if devices.is_empty() => {
            Err("no OpenCL platform of this machine has a device with a compiler".to_owned())
        }
        Ok(devices) => Ok((checker, devices)),
        Err(reason) => Err(reason),
    })
}

/// This program, which queries the drivers in separate processes, and the library to load.
struct Checker {
    program: PathBuf,
    library: PathBuf,
}

impl Checker {
    fn new(library: PathBuf) -> Result<Self> {
        let program = std::env::current_exe().map_err(|e| Error::new(format!("the build script's own file: {e}")))?;
        // A use of the static, so that no linker leaves it out.
        std::hint::black_box(worker::AT_START);
        Ok(Self { program, library })
    }

    /// The command that runs the program with a question and its further words.
    fn command(&self, session: &Session, words: &[&str]) -> Command {
        let mut all: Vec<Cow<'_, str>> = words.iter().map(|word| Cow::Borrowed(*word)).collect();
        all.insert(1, self.library.to_string_lossy());
        let mut command = Command::new(&self.program);
        command.env(worker::VARIABLE, json!(all).to_string()).current_dir(&session.package_dir);
        // PoCL caches its output. By default it must not be in the home folder.
        if session.environment.cargo_optional("POCL_CACHE_DIR").is_none() {
            command.env("POCL_CACHE_DIR", session.out_dir.join("kernpack-opencl").join("pocl"));
        }
        command
    }
}

/// The result of compiling one source with the compiler of one device.
enum Outcome {
    /// The source compiled, with these warnings.
    Built(String),
    /// The source is invalid.
    Refused(String),
    /// The driver failed.
    Failed(String),
}

fn compile(
    session: &Session,
    policy: Policy,
    images: &[OpenClImage],
    checker: &Checker,
    devices: &[Device],
) -> Result<String> {
    let jobs: Vec<(usize, &OpenClImage)> = images.iter().enumerate().collect();
    let checked = tool::in_parallel(session.jobs, jobs, |(index, image)| {
        let (mut warnings, mut refused, mut built) = (String::new(), Vec::new(), 0);
        for device in devices {
            match one(session, checker, index, image, device)? {
                Outcome::Built(text) => {
                    built += 1;
                    warnings.push_str(&text);
                }
                Outcome::Refused(text) => refused.push((device, text)),
                Outcome::Failed(end) => {
                    let problem = format!(
                        "{}: the OpenCL driver of {device} did not compile it: {end}. KERNPACK_OPENCL=off leaves this check out",
                        image.source
                    );
                    if policy == Policy::Require {
                        return Err(Error::new(problem));
                    }
                    warnings.push_str(&problem);
                    warnings.push('\n');
                }
            }
        }
        if built == 0 && !refused.is_empty() {
            return Error::collect(refused.into_iter().map(|(device, text)| Err(failure(image, device, &text))));
        }
        // A source may be for only some of the devices.
        for (device, text) in refused {
            warnings.push_str(&format!("{}\n", failure(image, device, &text)));
        }
        Ok(vec![warnings])
    });
    Ok(Error::collect(checked)?.concat().concat())
}

fn failure(image: &OpenClImage, device: &Device, text: &str) -> Error {
    let text = text.trim_end();
    let (status, log) = text.split_once('\n').unwrap_or((text, "(its compiler says nothing)"));
    let log = tool::indented(&with_source(log, &image.files));
    let options = if status.ends_with(INVALID_BUILD_OPTIONS) {
        format!(
            "; its compiler does not know all of the options `{}` (.opencl_option(..))",
            opencl_options(&image.code)
        )
    } else {
        String::new()
    };
    Error::new(format!("{}: OpenCL C for {device}: {status}{options}\n{log}", image.source))
}

/// The error code of a driver for an unknown option, as the worker shows it.
const INVALID_BUILD_OPTIONS: &str = "(-43)";

/// Compiles one source for one device, unless the result is cached.
fn one(session: &Session, checker: &Checker, index: usize, image: &OpenClImage, device: &Device) -> Result<Outcome> {
    let mut recipe = session.recipe("opencl", &[]);
    recipe.field(&image.source).field(device.identity()).field(&image.code);
    let prefix = if image.generated.is_some() { "te_opencl" } else { "opencl" };
    let log = session.work_dir.join(format!("{prefix}{index}_{}_{}.log", device.platform, device.number));
    let tool = format!("OpenCL on {device}");
    let products = [log.clone()];
    let step = Step { recipe: recipe.finish(), source: &image.source, tool: &tool, products: &products };
    let mut bad = None;
    let made = step.make(session, || {
        let (platform, number) = (device.platform.to_string(), device.number.to_string());
        let file = session.product(prefix, index, &image.path, &format!("{platform}_{number}.cl"));
        std::fs::write(&file, &image.code)
            .map_err(|e| Error::new(format!("{}: {}: {e}", image.source, file.display())))?;
        let file = file.to_str().ok_or_else(|| Error::new(format!("{}: its path is not UTF-8", file.display())))?;
        let command = checker.command(session, &["build", &platform, &number, file]);
        let stop = || Error::new("");
        match run(session, command, TIME_TO_BUILD)? {
            Err(end) => {
                bad = Some(Outcome::Failed(end));
                Err(stop())
            }
            Ok(answer) => match answer.strip_prefix("ok\n") {
                None => {
                    bad = Some(Outcome::Refused(answer));
                    Err(stop())
                }
                Some(said) => {
                    let printed = with_source(said, &image.files);
                    std::fs::write(&log, &printed)
                        .map_err(|e| Error::new(format!("{}: {}: {e}", image.source, log.display())))?;
                    // Generated source is a part of the recipe, and not a file of the user.
                    let is_file = image.generated.is_none();
                    let input = is_file.then(|| crate::cache::Input { path: image.path.clone(), exists: true });
                    Ok(Ran { printed, inputs: input.into_iter().collect() })
                }
            },
        }
    });
    match (made, bad) {
        (_, Some(outcome)) => Ok(outcome),
        (made, None) => made.map(Outcome::Built),
    }
}

/// Runs the process. Returns its answer, or the way it ended without one.
fn run(session: &Session, mut command: Command, limit: Duration) -> Result<Result<String, String>> {
    let file = |what: &str| {
        let name = format!("opencl-{:?}.{what}", std::thread::current().id());
        session.work_dir.join(name.replace(['(', ')'], ""))
    };
    let (answer, noise) = (file("answer"), file("noise"));
    let create = |path: &PathBuf| {
        std::fs::File::create(path).map_err(|e| Error::new(format!("{}: cannot be written: {e}", path.display())))
    };
    command.stdin(Stdio::null()).stdout(create(&answer)?).stderr(create(&noise)?);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Err(format!("its process cannot be started: {error}"))),
    };
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(Err(format!("it took more than {} seconds, and was ended", limit.as_secs())));
            }
        }
    };
    let text = std::fs::read(&answer).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let answer = text.rsplit_once(MARK).map(|(_, answer)| answer.to_owned());
    Ok(match (answer, status.success()) {
        (Some(answer), true) => Ok(answer),
        (Some(problem), false) => Err(problem.trim_end().to_owned()),
        (None, _) => {
            let noise = std::fs::read(&noise).unwrap_or_default();
            let noise = String::from_utf8_lossy(&noise);
            let last = noise.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            let said = if last.is_empty() { String::new() } else { format!("; it said last: {last}") };
            Err(format!("the driver ended its process ({status}){said}"))
        }
    })
}

/// Returns a compiler's log with the name of the source, the first of `files`, in place of the name
/// of the code: drivers compile copies with names of their own. If the code consists of several
/// files, it names them itself.
fn with_source(log: &str, files: &[String]) -> String {
    let source = files.first().map_or("", String::as_str);
    let mut out = String::new();
    for line in log.lines() {
        match place(line) {
            Some((start, end)) if files.iter().all(|file| *file != line[start..end]) => {
                out.push_str(&format!("{}{source}{}", &line[..start], &line[end..]));
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// Returns the position of a file name before a line and a column: `error: /tmp/x.cl:2:10: ...`,
/// `<kernel>:2:10: ...`.
fn place(line: &str) -> Option<(usize, usize)> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    for (colon, _) in line.match_indices(':') {
        let rest = &line[colon + 1..];
        let row = digits(rest);
        let Some(column) = rest[row..].strip_prefix(':').filter(|_| row > 0) else { continue };
        let width = digits(column);
        if width == 0 || !column[width..].starts_with(':') {
            continue;
        }
        let before = &line[..colon];
        let start = before.rfind(": ").map_or(0, |end| end + 2);
        return Some((start, colon));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_the_name_of_the_source() {
        #[rustfmt::skip]
        let rows = [
            ("error: /tmp/a b/tempfile_01.cl:2:10: use of 'b'", "error: k.cl:2:10: use of 'b'"),
            ("<kernel>:2:10: error: use", "k.cl:2:10: error: use"), ("1:2:3: error: x", "k.cl:2:3: error: x"),
            ("/tmp/comgr-1/input/CompileSource:14:3: warning: y", "k.cl:14:3: warning: y"),
            ("  a[0] = b;", "  a[0] = b;"), ("1 error generated.", "1 error generated."), ("a ? b : c", "a ? b : c"), ("x:1:", "x:1:"),
            ("error: include/h.h:2:10: use", "error: include/h.h:2:10: use"),
        ];
        let files = ["k.cl".to_owned(), "include/h.h".to_owned()];
        for (line, expected) in rows {
            assert_eq!(with_source(line, &files), format!("{expected}\n"));
        }
    }
}
