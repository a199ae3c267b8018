//! The devices of a kernel besides the CPU, and its schedules for them.

use core::panic::Location;
use std::sync::Arc;

use super::{Kernel, UserSchedule};
use crate::error::{CompileError, ErrorKind, Result, place, report};
use crate::rules::{CPU, DEVICES, TargetDescription};
use crate::schedule::Schedule;

impl Kernel {
    /// Sets the schedule for a kind of device, such as `opencl`, which replaces the rules there. It
    /// binds the loops of each stage to threads. For `cpu`, this is [`Self::schedule`].
    ///
    /// ```
    /// use kernpack_compiler::ir::F32;
    /// use kernpack_compiler::te::{compute, thread_axis};
    ///
    /// let mut k = kernpack_compiler::Kernel::new("double");
    /// let n = k.size("n");
    /// let x = k.input("x", [&n], F32);
    /// let y = compute([&n], |[i]| x.at([&i]) * 2.0).named("y");
    /// k.output("y", y.clone());
    /// k.schedule_for("opencl", move |s, _target| {
    ///     let [i] = s.stage(&y).axes()?;
    ///     let (block, thread) = s.stage(&y).split(&i, 256)?;
    ///     s.stage(&y).bind(&block, &thread_axis(None, "blockIdx.x"))?;
    ///     s.stage(&y).bind(&thread, &thread_axis(None, "threadIdx.x")).map(drop)
    /// });
    /// # k.check().unwrap();
    /// ```
    #[track_caller]
    pub fn schedule_for<F>(&mut self, device: &str, schedule: F)
    where
        F: Fn(&mut Schedule, &TargetDescription) -> Result<()> + Send + Sync + 'static,
    {
        self.known_device("schedule_for", device);
        if device == CPU {
            return self.schedule(schedule);
        }
        self.device_schedules.retain(|(known, _)| known != device);
        self.device_schedules.push((device.to_owned(), Arc::new(schedule)));
    }

    /// Sets the kinds of devices that this kernel is compiled for, in place of those of
    /// `Library::devices`. Every kernel is compiled for CPUs.
    #[track_caller]
    pub fn devices<S: AsRef<str>>(&mut self, kinds: impl IntoIterator<Item = S>) -> &mut Self {
        let kinds: Vec<String> = kinds.into_iter().map(|kind| kind.as_ref().to_owned()).collect();
        for kind in &kinds {
            self.known_device("devices", kind);
        }
        self.devices = Some(kinds);
        self
    }

    /// The kinds of devices of [`Self::devices`], if it was called.
    pub fn own_devices(&self) -> Option<&[String]> {
        self.devices.as_deref()
    }

    /// Reports a kind of device that is not known.
    #[track_caller]
    fn known_device(&self, what: &str, device: &str) {
        if !DEVICES.contains(&device) {
            report(
                CompileError::new(
                    ErrorKind::Target,
                    format!("{what}: kernel `{}`: unknown device `{device}`", self.name),
                )
                .at(place(Location::caller()))
                .note(format!("kernels are compiled for {}", DEVICES.join(", "))),
            );
        }
    }

    /// Returns true if the user set the schedule for a target.
    pub fn is_scheduled_for(&self, target: &TargetDescription) -> bool {
        self.user_schedule(target).is_some()
    }

    /// The user's schedule for a target.
    pub(super) fn user_schedule(&self, target: &TargetDescription) -> Option<&UserSchedule> {
        if target.is_cpu() {
            return self.schedule.as_ref();
        }
        let mut all = self.device_schedules.iter();
        all.find(|(device, _)| *device == target.device.as_str()).map(|(_, schedule)| schedule)
    }
}
