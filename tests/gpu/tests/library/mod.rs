//! The library of this package, loaded as a host loads it.

use std::sync::OnceLock;

use kernpack::Module;

/// `libgpu_kernels.so`, which cargo built beside the test.
pub(crate) fn load() -> &'static Module {
    static LIBRARY: OnceLock<Module> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let folder = test.parent().unwrap();
        let name = format!("{}gpu_kernels{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        Module::load(folder.join(name)).unwrap()
    })
}
