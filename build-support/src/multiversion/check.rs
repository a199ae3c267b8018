//! Checks that objects of several versions have no code that would run on CPUs that lack its
//! instructions, and no names that would conflict with those of another version.

use std::collections::{BTreeMap, BTreeSet};

use object::{LittleEndian as LE, elf};

use crate::describe::symbols::HostKernel;
use crate::multiversion::Version;
use crate::multiversion::level::list;
use crate::multiversion::link::{VersionObject, is_defined, is_local};
use crate::{Error, Result};

/// Reports every problem of every version, without duplicates. `sets` has the objects by version,
/// the baseline first.
pub(crate) fn check(versions: &[Version], sets: &[Vec<VersionObject>], kernels: &[HostKernel]) -> Result<()> {
    let mut problems: Vec<String> = Vec::new();
    for object in sets.iter().skip(1).flatten() {
        for problem in refusals(object) {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    problems.extend(other_kernels(versions, sets, kernels));
    Error::collect(problems.into_iter().map(|problem| Err::<(), _>(Error::new(problem)))).map(drop)
}

fn refusals(object: &VersionObject) -> BTreeSet<String> {
    let elf = &object.elf;
    let sections = (0..elf.section_count()).filter(|index| elf.section(*index).sh_size.get(LE) > 0);
    let sections = sections.filter_map(|index| refused_section(&String::from_utf8_lossy(elf.section_name(index))));
    let symbols = object.symbols().filter_map(|(symbol, name)| {
        let name = String::from_utf8_lossy(name);
        if !is_defined(symbol) {
            None
        } else if symbol.st_type() == elf::STT_GNU_IFUNC {
            Some(format!(
                "`{name}` is chosen when the library is loaded (target_clones, or ifunc); with .multiversion(..) each version \
                 would choose with its own instructions, on every CPU. Leave one of the two out"
            ))
        } else if !is_local(symbol) && name.contains('@') {
            Some(format!("`{name}` has a symbol version (.symver); with .multiversion(..) there would be several of it"))
        } else {
            None
        }
    });
    sections.chain(symbols).map(|problem| format!("{}: {problem}", object.source)).collect()
}

/// Returns the reason why a version cannot have a section of this name, if there is one.
fn refused_section(name: &str) -> Option<String> {
    // With a priority at the end, or the name of a function.
    let is = |start: &str| name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let would_run = "with .multiversion(..) those of all versions would run, on CPUs that lack their instructions, too";
    Some(if name.starts_with(".gnu.lto_") || name.starts_with(".llvm.lto") {
        "its object is for link time optimization, where the names of one version would meet those of another; with \
         .multiversion(..) take -flto out of the flags"
            .to_owned()
    } else if [".fini_array", ".dtors", ".fini"].into_iter().any(is) {
        format!(
            "has a function that runs when the process ends, __attribute__((destructor)); {would_run}. Let a constructor give \
             it to atexit(..)"
        )
    } else if [".preinit_array", ".ctors", ".init"].into_iter().any(is) {
        format!(
            "has a function in the section {name}, which runs when the library is loaded; {would_run}. Use \
             __attribute__((constructor)) or a C++ variable: of those, only the picked version's run"
        )
    } else if name.starts_with(".gnu.linkonce.") {
        format!(
            "has the section {name}, of which the linker keeps that of any version; with .multiversion(..) use a compiler that \
             makes COMDAT groups"
        )
    } else {
        return None;
    })
}

/// Checks that every version has the same kernels, whatever the preprocessor leaves out: a name
/// dispatches to all of them.
fn other_kernels(versions: &[Version], sets: &[Vec<VersionObject>], kernels: &[HostKernel]) -> Vec<String> {
    let (mut missing, mut extra) = (BTreeMap::new(), BTreeMap::new());
    for (version, set) in versions.iter().zip(sets).skip(1) {
        let named = |object: &VersionObject| {
            let source = object.source.clone();
            object.kernels().map(move |name| (name, source.clone())).collect::<Vec<_>>()
        };
        let here: BTreeMap<String, String> = set.iter().flat_map(named).collect();
        for kernel in kernels.iter().filter(|kernel| !here.contains_key(&kernel.name)) {
            let key = (kernel.source.clone(), kernel.name.clone());
            missing.entry(key).or_insert_with(Vec::new).push(version.to_string());
        }
        for (name, source) in here.into_iter().filter(|(name, _)| kernels.iter().all(|kernel| kernel.name != *name)) {
            extra.entry((source, name)).or_insert_with(Vec::new).push(version.to_string());
        }
    }
    let missing = missing.into_iter().map(|((source, name), versions)| {
        let versions = list(versions, "and");
        format!(
            "{source}: compiled for {versions} it does not define the kernel `{name}`; every version must define it"
        )
    });
    let extra = extra.into_iter().map(|((source, name), versions)| {
        let versions = list(versions, "and");
        format!(
            "{source}: it defines the kernel `{name}` only when compiled for {versions}; every version must, the baseline, too"
        )
    });
    missing.chain(extra).collect()
}
