//! Packed functions and parallel loops, with a host of a few lines.

use kernpack_compiler::ir::{Expr, F32, ForKind, I32, I64, LoweredFunc, Stmt, Var};
use kernpack_compiler::pass::{PassContext, make_packed_api::make_packed_api};

use crate::compile::{WAYS, buffer, function, memory, returning, run, value};

/// The parts of a host that generated code calls: three tasks one after the other, and errors that are printed.
const HOST: &str = "#include <inttypes.h>\n#include <kernpack/kernel.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
    typedef struct { void* sync_handle; int32_t num_task; } group_t;\n\
    int TVMBackendParallelLaunch(int (*task)(int, group_t*, void*), void* data, int count) {\n  \
    group_t group = {0, 3};\n  for (int i = 2; i >= 0; --i) if (task(i, &group, data) != 0) return -1;\n  return 0;\n}\n\
    int kernpack_raise(const char* kind, const char* message) { printf(\"%s: %s\\n\", kind, message); return -1; }\n";

#[test]
fn parallel_loops_do_each_iteration_once() {
    let n = Var::size("n", I64);
    let (a, out) = (buffer("a", F32, 100), buffer("out", F32, 100));
    let scale = Var::new("scale", F32);
    let factor = Var::new("factor", F32);
    let (i, j) = (Var::index("i"), Var::index("j"));
    let place = i.expr() * 4 + &j;
    let one = Stmt::store(out.clone(), &place, Expr::load(&out, &place) + Expr::load(&a, &place) * &factor);
    let inner = Stmt::for_loop(j, 0, 4, ForKind::Parallel, one);
    let outer = Stmt::for_loop(i, 0, &n, ForKind::Parallel, inner);
    let body = Stmt::seq([Stmt::bind(factor, &scale * 2.0), outer]);
    let f = returning("f", [memory(&a), memory(&out), value(&n), value(&scale)], I32, body);
    let main = format!(
        "{HOST}int32_t f(float*, float*, int64_t, float);\nint main(void) {{\n  static float a[100], out[100];\n  \
         for (int i = 0; i < 100; ++i) a[i] = (float)i;\n  for (int n = 0; n <= 25; ++n) {{\n    \
         for (int i = 0; i < 100; ++i) out[i] = 0;\n    if (f(a, out, n, 1.5f) != 0) return 1;\n    \
         for (int i = 0; i < 100; ++i) if (out[i] != (i < 4 * n ? 3.0f * (float)i : 0)) {{ printf(\"n=%d i=%d %g\", n, i, out[i]); return 2; }}\n  }}\n  \
         printf(\"right\");\n  return 0;\n}}\n"
    );
    for way in WAYS {
        assert_eq!(run("parallel", *way, std::slice::from_ref(&f), &main), "right", "{}", way.0);
    }
}

/// `out[i] = a[i] * scale` for all i, in parallel.
fn scaled() -> LoweredFunc {
    let n = Var::size("n", I64);
    let tensor = |name: &str| kernpack_compiler::ir::Buffer::new(name, F32, [n.expr().clone()], "global");
    let (a, out, scale, i) = (tensor("a"), tensor("out"), Var::new("scale", F32), Var::index("i"));
    let store = Stmt::store(out.clone(), &i, Expr::load(&a, &i) * &scale);
    let body = Stmt::for_loop(i, 0, &n, ForKind::Parallel, store);
    function("scaled", [memory(&a), value(&scale), memory(&out)], body)
}

#[test]
fn packed_functions_check_their_arguments() {
    let packed = make_packed_api(&scaled(), &PassContext::default()).unwrap();
    let main = format!(
        "{HOST}int32_t __tvm_ffi_scaled(void*, TVMFFIAny*, int32_t, TVMFFIAny*);\n\
         static _Alignas(64) float a[32], out[32];\nstatic int64_t shape[1] = {{32}}, other[1] = {{16}};\n\
         static DLTensor tensor(float* data, int64_t* shape) {{\n  \
         DLTensor t = {{data, {{kDLCPU, 0}}, 1, {{kDLFloat, 32, 1}}, shape, NULL, 0}};\n  return t;\n}}\n\
         static int call(DLTensor* x, double scale, DLTensor* y, int count) {{\n  TVMFFIAny args[3] = {{{{0}}}}, result = {{0}};\n  \
         args[0].type_index = kTVMFFIDLTensorPtr, args[0].v_ptr = x;\n  args[1].type_index = kTVMFFIFloat, args[1].v_float64 = scale;\n  \
         args[2].type_index = kTVMFFIDLTensorPtr, args[2].v_ptr = y;\n  return __tvm_ffi_scaled(NULL, args, count, &result);\n}}\n\
         int main(void) {{\n  for (int i = 0; i < 32; ++i) a[i] = (float)i;\n  \
         DLTensor x = tensor(a, shape), y = tensor(out, shape), small = tensor(out, other);\n  \
         printf(\"%d \", call(&x, 2.5, &y, 3));\n  float sum = 0;\n  for (int i = 0; i < 32; ++i) sum += out[i];\n  printf(\"%g\\n\", sum);\n  \
         call(&x, 2.5, &small, 3);\n  call(&x, 2.5, &y, 2);\n  call(&x, 2.5, &x, 3);\n  return 0;\n}}\n"
    );
    for way in WAYS {
        let text = run("packed", *way, std::slice::from_ref(&packed), &main);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "0 1240", "{text}");
        for expected in [
            "ValueError: Mismatched out.shape[0] on argument #2 when calling:",
            "TypeError: Expected 3 arguments when calling:",
            "ValueError: out overlaps another argument on argument #2 when calling:",
        ] {
            assert!(lines.contains(&expected), "{expected}\n{text}");
        }
    }
}
