//! Kernels that LLVM compiled for minutes, in a separate process with a time limit.

use std::process::Command;
use std::time::{Duration, Instant};

use kernpack::Tensor;
use kernpack_compiler::codegen::Target;
use kernpack_compiler::ir::F32;
use kernpack_compiler::te::{compute, reduce_axis, reduce_max};
use kernpack_compiler::{Kernel, PassContext, TargetDescription, build};

/// Far above the time of the compilation, which is below a second.
const LIMIT: Duration = Duration::from_secs(60);

/// The variable that is set in the process that compiles.
const CHILD: &str = "KERNPACK_TEST_REDUCTION";

/// The maximum of all elements of a tensor.
fn reduction(shape: [i64; 3]) -> Kernel {
    let mut kernel = Kernel::new("most");
    let x = kernel.input("x", shape, F32);
    let axes = [0, 1, 2].map(|axis| reduce_axis(0, shape[axis], ["i", "j", "k"][axis]));
    let most = compute([1], |[_]| reduce_max(x.at([&axes[0], &axes[1], &axes[2]]), &axes)).named("most");
    kernel.output("out", most);
    kernel
}

/// LLVM 22 searches for checksums in loops (HashRecognize), in this one without terminating.
#[test]
fn a_reduction_over_three_short_axes_is_compiled_in_time() {
    if std::env::var_os(CHILD).is_some() {
        return compile();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "time::a_reduction_over_three_short_axes_is_compiled_in_time"]).env(CHILD, "1");
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > LIMIT => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("the kernel was not compiled in {} seconds", LIMIT.as_secs());
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(status.success(), "{status}");
}

fn compile() {
    let shape = [16, 8, 7];
    let host = Target::host();
    let lowered = reduction(shape).lower(&TargetDescription::of(&host), &PassContext::default()).unwrap();
    let module = build(&lowered, &host).unwrap();
    let values: Vec<f32> = (0..16 * 8 * 7).map(|at| ((at * 37) % 101) as f32).collect();
    let (x, out) = (Tensor::from_slice(&values, &shape).unwrap(), Tensor::zeros::<f32>(&[1]).unwrap());
    module.function("most").unwrap().call((&x, &out)).unwrap();
    assert_eq!(out.view::<f32>().unwrap().to_vec(), [100.0]);
}
