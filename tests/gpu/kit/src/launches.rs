//! Every way to launch a kernel: typed by the linked crate, from a loaded library, as a packed
//! call, with attributes.

use gpu_kernels::kernels;
use kernpack::module::LaunchConfig;

use crate::numbers::{Numbers, equal, here, there};
use crate::{Result, library};

const COUNT: i64 = 1000;
const GRID: u32 = 4;
const BLOCK: u32 = 256;

pub(crate) fn run() -> Result {
    let mut numbers = Numbers::new(2);
    let (x, y) = (numbers.reals(COUNT), numbers.reals(COUNT));
    let (x_there, alpha) = (there(&x, &[COUNT])?, 1.5f32);
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| alpha.mul_add(*x, *y)).collect();
    let library = library("gpu_kernels.so")?;
    let launcher = library.kernel("saxpy_values")?;
    let packed = library.function("saxpy_values")?;

    let check = |way: &str, launch: &dyn Fn(&kernpack::Tensor) -> kernpack::Result<()>| -> Result {
        let there = there(&y, &[COUNT])?;
        launch(&there).map_err(|error| format!("{way}: {error}"))?;
        equal(way, &here::<f32>(&there)?, &expected)?;
        println!("{way}: right");
        Ok(())
    };
    check("typed, by the linked crate", &|y| kernels::saxpy_values.launch(GRID, BLOCK, (y, &x_there, alpha, COUNT)))?;
    check("typed function of the linked crate", &|y| gpu_kernels::saxpy(y.clone(), x_there.clone(), alpha))?;
    check("kernel of the loaded library", &|y| launcher.launch(GRID, BLOCK, (y, &x_there, alpha, COUNT)))?;
    check("packed call of the loaded library", &|y| {
        packed.call((y, &x_there, alpha, COUNT, GRID, 1, 1, BLOCK, 1, 1)).map(drop)
    })?;
    let function = library.function("saxpy")?;
    check("packed function of the loaded library", &|y| function.call((y, &x_there, alpha)).map(drop))?;
    let plain = LaunchConfig::new(GRID, BLOCK);
    for (way, config) in [
        ("in clusters of 2", LaunchConfig { cluster: Some([2, 1, 1]), ..plain }),
        ("cooperative", LaunchConfig { cooperative: true, ..plain }),
        ("programmatic", LaunchConfig { programmatic: true, ..plain }),
        ("16 KiB of dynamic shared memory", LaunchConfig { dynamic_shared_memory: 16 << 10, ..plain }),
        ("100 KiB of dynamic shared memory", LaunchConfig { dynamic_shared_memory: 100 << 10, ..plain }),
    ] {
        check(way, &|y| kernels::saxpy_values.launch_with(&config, (y, &x_there, alpha, COUNT)))?;
    }
    Ok(())
}
