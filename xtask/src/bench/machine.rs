//! The description of the machine under a table: the processor and its number of threads, the
//! versions of every peer, the date, and the load of the machine. Every table uses it.

use crate::Result;
use crate::python;
use crate::workspace::Workspace;
use std::fmt;
use std::fs;
use std::path::Path;
use std::thread;

/// Extensions of x86-64 that kernels are selected by: the system's names and their usual names.
const EXTENSIONS: [(&str, &str); 4] =
    [("avx2", "AVX2"), ("avx512f", "AVX-512"), ("avx512_vnni", "VNNI"), ("amx_tile", "AMX")];

/// The machine and the versions of the compared programs.
pub(super) struct Machine<'a> {
    workspace: &'a Workspace,
    parts: Vec<String>,
}

impl<'a> Machine<'a> {
    /// Processor, number of threads, date and load.
    pub(super) fn find(workspace: &'a Workspace) -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let plural = if threads == 1 { "" } else { "s" };
        let mut machine = Machine { workspace, parts: vec![processor(workspace), format!("{threads} thread{plural}")] };
        machine.parts.extend(machine.first_line("date", &["-u", "+%Y-%m-%d"]));
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        machine.parts.extend(load.split(' ').next().filter(|load| !load.is_empty()).map(|load| format!("load {load}")));
        machine
    }

    /// Adds what a program prints with `--version`, such as a compiler's.
    pub(super) fn program(mut self, program: &str) -> Self {
        let version = self.first_line(program, &["--version"]);
        self.parts.push(version.unwrap_or_else(|| format!("{program} of an unknown version")));
        self
    }

    /// Adds Python's version and those of installed packages. Missing packages are named, too.
    pub(super) fn packages(mut self, interpreter: &Path, packages: &[&str]) -> Result<Self> {
        let program = format!(
            "
import sys
from importlib.metadata import PackageNotFoundError, version
found = ['Python %d.%d.%d' % sys.version_info[:3]]
for package in '{}'.split():
    try:
        found.append(package + ' ' + version(package))
    except PackageNotFoundError:
        found.append('without ' + package)
print(', '.join(found))",
            packages.join(" ")
        );
        self.parts.push(python::say(self.workspace, interpreter, &program)?);
        Ok(self)
    }

    /// Adds the versions of crates that a package depends on, by its `Cargo.lock`.
    pub(super) fn crates(mut self, lock: &str, package: &str, crates: &[&str]) -> Result<Self> {
        let path = self.workspace.root().join(lock);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let version = |name: &&str| {
            let version = locked(&text, package, name);
            version.map(|version| format!("{name} {version}")).ok_or_else(|| format!("{lock}: no {name} of {package}"))
        };
        let versions = crates.iter().map(version).collect::<std::result::Result<Vec<_>, _>>()?;
        self.parts.push(versions.join(", "));
        Ok(self)
    }

    /// Adds anything else, such as the version of a driver.
    pub(super) fn and(mut self, part: String) -> Self {
        self.parts.push(part);
        self
    }

    fn first_line(&self, program: &str, arguments: &[&str]) -> Option<String> {
        first_line(self.workspace, program, arguments)
    }
}

impl fmt::Display for Machine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("; "))
    }
}

/// The maker of the processor, which distinguishes the tables of one page.
pub(super) fn kind(workspace: &Workspace) -> &'static str {
    kind_of(&processor(workspace))
}

fn kind_of(processor: &str) -> &'static str {
    let makers = ["AMD", "Intel", "Apple"];
    makers.into_iter().find(|maker| processor.contains(maker)).unwrap_or(match std::env::consts::ARCH {
        "aarch64" => "Arm",
        _ => "Another processor",
    })
}

fn first_line(workspace: &Workspace, program: &str, arguments: &[&str]) -> Option<String> {
    let output = workspace.command(program).args(arguments).output().ok()?;
    let line = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}

/// The processor's name: Linux has it in a file for x86-64 and in the output of `lscpu` for others,
/// macOS in the output of `sysctl`.
fn processor(workspace: &Workspace) -> String {
    let listed = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    named(&listed)
        .or_else(|| first_line(workspace, "sh", &["-c", "lscpu | sed -n 's/^Model name: *//p'"]))
        .or_else(|| first_line(workspace, "sysctl", &["-n", "machdep.cpu.brand_string"]))
        .unwrap_or_else(|| format!("a processor of unknown name ({})", std::env::consts::ARCH))
}

/// Name, model and extensions by the first processor of `/proc/cpuinfo`: virtual machines often
/// call theirs "Intel(R) Xeon(R) Processor".
fn named(listed: &str) -> Option<String> {
    let of = |key: &str| {
        listed.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim())
        })
    };
    let name = of("model name").filter(|name| !name.is_empty())?;
    let flags: Vec<&str> = of("flags").unwrap_or_default().split(' ').collect();
    let mut details = Vec::new();
    if let (Some(family), Some(model)) = (of("cpu family"), of("model")) {
        details.push(format!("family {family}, model {model}"));
    }
    details.extend(
        EXTENSIONS.iter().filter(|(flag, _)| flags.contains(flag)).map(|(_, extension)| (*extension).to_owned()),
    );
    Some(if details.is_empty() { name.to_owned() } else { format!("{name} ({})", details.join(", ")) })
}

/// The version of a crate among the dependencies of a package. A lock file has the version after
/// the name if it contains several versions of the crate.
fn locked(lock: &str, package: &str, krate: &str) -> Option<String> {
    let field = |entry: &str, key: &str| -> Option<String> {
        let start = format!("{key} = \"");
        entry.lines().find_map(|line| Some(line.strip_prefix(&start)?.strip_suffix('"')?.to_owned()))
    };
    let entries = || lock.split("[[package]]\n");
    let own = entries().find(|entry| field(entry, "name").as_deref() == Some(package))?;
    let listed = own.split_once("dependencies = [")?.1.lines().find_map(|line| {
        let mut words = line.trim().strip_prefix('"')?.strip_suffix("\",")?.split(' ');
        (words.next()? == krate).then(|| words.next().map(str::to_owned))
    })?;
    listed.or_else(|| field(entries().find(|entry| field(entry, "name").as_deref() == Some(krate))?, "version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_names() {
        let listed = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R) Processor\n\
                      flags\t\t: fpu avx2 avx512f avx512_vnni amx_tile\n\nprocessor\t: 1\nmodel name\t: another\n";
        for (listed, expected) in [
            (listed, Some("Intel(R) Xeon(R) Processor (family 6, model 207, AVX2, AVX-512, VNNI, AMX)")),
            ("model name : AMD EPYC\nflags : fpu avx\n", Some("AMD EPYC")),
            ("processor : 0\nCPU implementer : 0x41\n", None),
            ("", None),
        ] {
            assert_eq!(named(listed).as_deref(), expected);
        }
        for (processor, kind) in
            [("AMD EPYC 9654", "AMD"), ("Intel(R) Xeon(R) Processor", "Intel"), ("Apple M3", "Apple")]
        {
            assert_eq!(kind_of(processor), kind);
        }
    }

    #[test]
    fn the_version_is_that_of_the_packages_own_dependency() {
        let lock = "version = 4\n\n[[package]]\nname = \"gemm\"\nversion = \"0.18.2\"\n\n[[package]]\nname = \"gemm\"\nversion = \"0.19.0\"\n\
                    dependencies = [\n \"rayon\",\n]\n\n[[package]]\nname = \"rayon\"\nversion = \"1.12.0\"\n\n\
                    [[package]]\nname = \"peers\"\nversion = \"0.1.0\"\ndependencies = [\n \"gemm 0.19.0\",\n \"rayon\",\n]\n";
        for (package, krate, expected) in [
            ("peers", "gemm", Some("0.19.0")),
            ("peers", "rayon", Some("1.12.0")),
            ("peers", "faer", None),
            ("strangers", "rayon", None),
        ] {
            assert_eq!(locked(lock, package, krate).as_deref(), expected, "{package} {krate}");
        }
    }

    #[test]
    fn every_table_names_the_machine_and_its_peers() {
        let workspace = Workspace::find().unwrap();
        let bench = "tests/bench/Cargo.lock";
        let text = Machine::find(&workspace)
            .program("rustc")
            .program("no-such-program")
            .crates(bench, "kernpack-bench-gemm-peers", &["gemm", "faer", "ndarray"])
            .unwrap()
            .and("a driver".to_owned())
            .to_string();
        for expected in
            [" thread", "; rustc 1.", "no-such-program of an unknown version", "; gemm 0.", ", faer 0.", ", ndarray 0."]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(text.ends_with("; a driver"), "{text}");
        let strangers = Machine::find(&workspace).crates(bench, "kernpack-bench-parallel", &["no-such-crate"]);
        let error = strangers.map(|machine| machine.to_string()).unwrap_err().to_string();
        assert_eq!(error, "tests/bench/Cargo.lock: no no-such-crate of kernpack-bench-parallel");
    }
}
