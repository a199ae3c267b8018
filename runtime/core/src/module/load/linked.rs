//! Import trees of the crates that an artifact links: a program can only reach its kernels this
//! way, and a library finds its own by name, but not those of crates below it.

use core::ffi::c_void;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::loader;
use super::symbols::{Symbols, packed_tree};
use crate::function::Function;
use crate::module::Module;
use crate::module::kinds::CarriedKind;
use crate::module::library_bin::LIBRARY_BIN_SYMBOL;
use crate::{Error, Result, artifact};

/// The tree of one crate, and its module, which is created at the first call of a kernel.
struct Carried {
    library_bin: *const u8,
    module: Option<Module>,
}

// SAFETY: a tree is constant and never freed.
unsafe impl Send for Carried {}

/// One entry per crate with modules, in the order of registration.
static CARRIED: Mutex<Vec<Carried>> = Mutex::new(Vec::new());

/// Records that this artifact contains modules of a crate.
#[inline]
pub fn note_carried(kind: &'static CarriedKind) {
    let library_bin = (kind.library_bin)();
    let mut carried = CARRIED.lock().unwrap_or_else(PoisonError::into_inner);
    // All kinds of a crate are in one tree.
    if carried.iter().all(|known| known.library_bin != library_bin) {
        carried.push(Carried { library_bin, module: None });
    }
}

/// Returns the function `name` from the trees of this artifact. If the artifact is a library, its
/// own tree was searched before, and `otherwise` is the error of that search.
#[cold]
#[inline]
pub(super) fn find(name: &str, otherwise: Option<Error>) -> Result<Function> {
    let own = match otherwise {
        Some(_) => artifact::own_symbol(LIBRARY_BIN_SYMBOL).map_or(core::ptr::null(), |own| own.cast::<u8>()),
        None => core::ptr::null(),
    };
    let trees: Vec<*const u8> = CARRIED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .map(|carried| carried.library_bin)
        .filter(|tree| *tree != own)
        .collect();
    for &tree in &trees {
        if let Some(function) = module(tree)?.find_import(name)? {
            return Ok(function);
        }
    }
    Err(otherwise.unwrap_or_else(|| match trees.len() {
        0 => crate::error!(RuntimeError, "'{name}' is in a device image, which this program lacks"),
        _ => crate::error!(RuntimeError, "the device images of this program have no kernel '{name}'"),
    }))
}

/// Returns the module of a tree. No lock is held while it is created, because loaders may look up
/// functions, too.
#[inline]
fn module(library_bin: *const u8) -> Result<Module> {
    let of_tree = |carried: &mut Carried| carried.library_bin == library_bin;
    let known = |made: Option<Module>| {
        let mut all = CARRIED.lock().unwrap_or_else(PoisonError::into_inner);
        let carried = all.iter_mut().find_map(|carried| of_tree(carried).then_some(&mut carried.module))?;
        // Another thread may have been faster.
        if carried.is_none() {
            carried.clone_from(&made);
        }
        carried.clone()
    };
    if let Some(module) = known(None) {
        return Ok(module);
    }
    let made = loader::load_symbols(Arc::new(Linked { library_bin }))?;
    Ok(known(Some(made.clone())).unwrap_or(made))
}

/// A linked crate: its only symbol that can be looked up is its import tree.
struct Linked {
    library_bin: *const u8,
}

// SAFETY: the tree is constant and never freed.
unsafe impl Send for Linked {}
// SAFETY: as above.
unsafe impl Sync for Linked {}

impl Symbols for Linked {
    #[inline]
    fn symbol(&self, name: &str) -> *mut c_void {
        if name == LIBRARY_BIN_SYMBOL { self.library_bin.cast_mut().cast() } else { core::ptr::null_mut() }
    }

    #[inline]
    fn name(&self) -> String {
        "this program".to_owned()
    }

    #[inline]
    fn path(&self) -> Option<&Path> {
        None
    }

    #[inline]
    fn is_code(&self, _address: *const c_void) -> bool {
        false
    }

    #[inline]
    fn library_bin(&self, address: *const u8) -> Option<&'static [u8]> {
        // SAFETY: the symbol is the tree that a build script packed; linked code stays loaded.
        Some(unsafe { packed_tree(address) })
    }
}
