//! Versions of kernels for devices: the source of the device's kernels, and the object of the
//! function that checks the arguments and launches them. The version for CPUs calls that function.

use std::path::{Path, PathBuf};

use kernpack_compiler::codegen::Target;
use kernpack_compiler::codegen::source::Kernel as SourceKernel;
use kernpack_compiler::pass::pipeline;
use kernpack_compiler::rules::DEVICES;
use kernpack_compiler::{
    CompileError, DeviceVersion, Kernel, PassContext, PassOptions, TargetDescription, device_version,
};

use super::{Code, Of, TeOutcome, keep, keep_output_of, target_of};
use crate::cuda::ptx::PtxKernel;
use crate::llvm::Machine;
use crate::opencl::{self, Generated, OpenClImage};
use crate::outputs::Output;
use crate::session::Session;
use crate::{Error, Result, tool};

/// The kind of device that every kernel has a version for.
const CPU: &str = DEVICES[0];

/// Checks the argument of `.devices()`; `is_unused` if there are no kernels.
pub(super) fn check(devices: Option<&[String]>, is_unused: bool) -> Result<()> {
    let Some(devices) = devices else { return Ok(()) };
    let unknown = devices.iter().filter(|device| !DEVICES.contains(&device.as_str()));
    let unknown = unknown.map(|device| {
        let known = DEVICES.join(" or ");
        Err::<(), _>(Error::new(format!(".devices(..): unknown device `{device}`; it may be {known}")))
    });
    Error::collect(unknown)?;
    if is_unused {
        return Err(Error::new(
            ".devices(..): the library has no kernels of `.te(..)`, and no others are compiled for devices",
        ));
    }
    Ok(())
}

/// The kinds of devices that a kernel has versions for, the CPU first. `devices` is the argument of
/// `.devices()`.
pub(super) fn of_kernel(kernel: &Kernel, devices: Option<&[String]>) -> Vec<String> {
    let chosen = kernel.own_devices().or(devices).unwrap_or_default();
    let is_chosen = |device: &&&str| **device == CPU || chosen.iter().any(|one| one == **device);
    DEVICES.iter().filter(is_chosen).map(|device| (*device).to_owned()).collect()
}

/// The build of all versions for devices.
pub(super) struct Build<'a> {
    pub(super) session: &'a Session,
    /// The CPU that launches the kernels: the baseline.
    pub(super) machine: &'a Machine,
    /// The argument of `.devices()`.
    pub(super) devices: Option<&'a [String]>,
    pub(super) dump: bool,
}

/// A version of a kernel to build.
struct Job<'a> {
    index: usize,
    kernel: &'a Kernel,
    source: &'a str,
    device: String,
}

impl Build<'_> {
    /// Compiles the versions of all kernels. Problems that are among those of the versions for CPUs
    /// are not repeated.
    pub(super) fn compile(
        &self,
        kernels: &[Result<Kernel, CompileError>],
        sources: &[String],
        of_cpus: Option<&Error>,
    ) -> Result<TeOutcome> {
        let good = kernels.iter().zip(sources).enumerate();
        let good = good.filter_map(|(index, (kernel, source))| Some((index, kernel.as_ref().ok()?, source)));
        let jobs = good.flat_map(|(index, kernel, source)| {
            let others = of_kernel(kernel, self.devices).into_iter().filter(|device| device != CPU);
            others.map(move |device| Job { index, kernel, source, device })
        });
        let jobs: Vec<Job<'_>> = jobs.collect();
        let known = of_cpus.map(Error::problems).unwrap_or_default();
        let done = tool::in_parallel(self.session.jobs, jobs, |job: Job<'_>| self.one(&job));
        let done = done.into_iter().map(|done| match done {
            Err(error) => {
                let is_known = |problem: &str| known.iter().any(|known| known.lines().next() == problem.lines().next());
                let new = error.problems().iter().filter(|problem| !is_known(problem));
                let new: Vec<String> = new.cloned().collect();
                if new.is_empty() { Ok(TeOutcome::default()) } else { Err(Error::of_problems(new)) }
            }
            done => done,
        });
        let mut outcome = TeOutcome::default();
        Error::collect(done)?.into_iter().for_each(|one| outcome.extend(one));
        if of_cpus.is_none() {
            let warnings = opencl::check(self.session, &outcome.opencl)?;
            outcome.warnings.push_str(&warnings);
        }
        Ok(outcome)
    }

    fn one(&self, job: &Job<'_>) -> Result<TeOutcome> {
        let Job { index, kernel, source, device } = job;
        let target = TargetDescription::of(&Target { kind: device.clone(), ..Target::llvm("", "", "") });
        // OpenCL C has no warps.
        let options = PassOptions { warp_size: 1, verify: self.dump, dump: self.dump, ..PassOptions::default() };
        let context = PassContext::new(options);
        context.pipeline.set(pipeline::device(!kernel.is_scheduled_for(&target)));
        let calls = calls(self.session);
        let version = kernel.lower_program(&target, &context).and_then(|program| {
            let versions = of_kernel(kernel, self.devices);
            device_version(&program.module(), device, &versions, &calls)
                .map_err(|error| error.note(format!("in the version of kernel `{}` for {device}", kernel.name())))
        });
        let shown = format!("{source} ({device})");
        let mut outcome = TeOutcome::default();
        let of = Of { session: self.session, kernel, source, shown: &shown, label: device.clone() };
        let version = keep_output_of(version, &context, &of, &mut outcome)?;
        outcome.opencl.extend(self.image(job, &version, calls)?);
        let host = target_of(self.session, self.machine);
        let object = self.session.product(&format!("te_{device}"), *index, Path::new(kernel.name()), "o");
        let code = Code {
            session: self.session,
            machine: self.machine,
            target: &host,
            source,
            shown: &shown,
            name: kernel.name(),
        };
        outcome.outputs.extend(code.compile(version.host, &object)?);
        outcome.outputs.push(Output::of("object", &object, source, [kernel.name()]));
        outcome.shared.push(object);
        Ok(outcome)
    }

    /// The image of the kernels, and a file of its source for people.
    fn image(&self, job: &Job<'_>, version: &DeviceVersion, calls: String) -> Result<Option<OpenClImage>> {
        if version.kernels.is_empty() {
            return Ok(None);
        }
        let name = Path::new(job.kernel.name());
        let path: PathBuf = self.session.product(&format!("te_{}", job.device), job.index, name, version.format);
        keep(&path, &version.code)?;
        let kernels = version.kernels.iter().map(|kernel| PtxKernel {
            name: kernel.name.clone(),
            arg_types: kernel.arg_types.clone(),
            dynamic_shared_memory: false,
        });
        let tags = version.kernels.iter().map(|kernel: &SourceKernel| kernel.tags.clone()).collect();
        let generated = Generated { calls, tags };
        Ok(Some(OpenClImage::of_generated(job.source, path, version.code.clone(), kernels.collect(), generated)))
    }
}

/// The prefix of the C symbols that launch kernels. A program may link several crates.
fn calls(session: &Session) -> String {
    let version = session.environment.cargo_optional("CARGO_PKG_VERSION").unwrap_or_default();
    let name = format!("{}_{version}", session.package_name);
    format!("__kernpack_te_{}_", name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
}
