//! Packed functions and parallel loops, with a small host.

use kernpack_compiler::codegen::{RuntimeSymbols, Target, c};
use kernpack_compiler::ir::{Expr, F32, ForKind, I32, I64, IrModule, LoweredFunc, Stmt, Var};
use kernpack_compiler::pass::make_packed_api::make_packed_api;
use kernpack_compiler::pass::{PassContext, lower_for_host};

use crate::compile::{WAYS, buffer, function, memory, returning, run, value};

/// The parts of a host that generated code calls: three tasks one after the other, and printing of
/// errors.
const HOST: &str = "#include <inttypes.h>\n#include <kernpack/kernel.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
    typedef struct { void* sync_handle; int32_t num_task; } group_t;\n\
    int TVMBackendParallelLaunch(int (*task)(int, group_t*, void*), void* data, int count) {\n  \
    group_t group = {0, 3};\n  for (int i = 2; i >= 0; --i) if (task(i, &group, data) != 0) return -1;\n  return 0;\n}\n\
    void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) { printf(\"%s: %s\\n\", kind, message); }\n";

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

/// The runtime for packed calls and workspaces: three functions, and counts of allocations and
/// releases.
const RUNTIME: &str = "static int taken, given, deleted;\n\
    void* TVMBackendAllocWorkspace(int type, int id, uint64_t bytes, int code, int bits) {\n  ++taken;\n  return malloc(bytes);\n}\n\
    int TVMBackendFreeWorkspace(int type, int id, void* p) { ++given; free(p); return 0; }\n\
    int TVMFFIHandleInitOnce(void** handle, int (*init)(void**)) { return *handle != NULL ? 0 : init(handle); }\n\
    int TVMFFIEnvModLookupFromImports(void* library, const char* name, void** out) { *out = (void*)name; return 0; }\n\
    static void delete_object(void* self, int flags) { ++deleted; if (flags != 3) abort(); free(self); }\n\
    int TVMFFIFunctionCall(void* f, TVMFFIAny* args, int32_t count, TVMFFIAny* result) {\n  const char* name = f;\n  \
    if (name[0] == 'b') { printf(\"boom %d\\n\", (int)args[0].v_int64); return -1; }\n  \
    if (name[0] == 'h') { result->type_index = kTVMFFIFloat, result->v_float64 = args[0].v_float64 / 2; return 0; }\n  \
    TVMFFIObject* object = calloc(1, sizeof(TVMFFIObject));\n  object->combined_ref_count = 0x100000001;\n  object->deleter = delete_object;\n  \
    result->type_index = kTVMFFIStaticObjectBegin, result->v_obj = object;\n  return 0;\n}\n";

/// For each of n rows: a workspace, a packed call that returns a value, one that returns an object,
/// and one that fails in row `stop`.
fn with_calls() -> LoweredFunc {
    use kernpack_compiler::ir::builtin::CALL_PACKED;
    use kernpack_compiler::ir::{Buffer, POINTER};
    let (n, stop, i) = (Var::size("n", I64), Var::new("stop", I64), Var::index("i"));
    let out = Buffer::new("out", F32, [n.expr().clone()], "global");
    let row = Buffer::new("row", F32, [n.expr().clone()], "global");
    let call = |name: &str, dtype, arg: Expr| Expr::builtin(CALL_PACKED, dtype, [Expr::text(name), arg]);
    let body = Stmt::seq([
        Stmt::alloc(row.clone()),
        Stmt::store(row.clone(), &i, call("half", F32, i.cast(F32))),
        Stmt::bind(Var::new("object", POINTER), call("object", POINTER, i.expr().clone())),
        Stmt::evaluate(call("object", I32, i.expr().clone())),
        Stmt::if_then(i.equals(&stop), Stmt::evaluate(call("boom", I32, i.expr().clone())), None),
        Stmt::store(out.clone(), &i, Expr::load(&row, &i) + 1.0),
    ]);
    let body = Stmt::for_loop(i, 0, &n, ForKind::Serial, body);
    function("calls", [memory(&out), value(&stop)], body)
}

#[test]
fn packed_calls_give_back_what_they_return_and_take() {
    let mut target = Target::c();
    target.runtime = RuntimeSymbols::Direct;
    let lowered = lower_for_host(&IrModule::new([with_calls()]), &target).unwrap();
    let functions: Vec<LoweredFunc> = lowered.functions.to_vec();
    let main = format!(
        "{HOST}{RUNTIME}int32_t __tvm_ffi_calls(void*, TVMFFIAny*, int32_t, TVMFFIAny*);\n\
         static _Alignas(64) float out[8];\nint main(void) {{\n  int64_t shape[1] = {{8}};\n  \
         DLTensor t = {{out, {{kDLCPU, 0}}, 1, {{kDLFloat, 32, 1}}, shape, NULL, 0}};\n  \
         for (int stop = 5; stop < 100; stop += 90) {{\n    TVMFFIAny args[2] = {{{{0}}}}, result = {{0}};\n    \
         args[0].type_index = kTVMFFIDLTensorPtr, args[0].v_ptr = &t;\n    args[1].type_index = kTVMFFIInt, args[1].v_int64 = stop;\n    \
         int status = __tvm_ffi_calls(NULL, args, 2, &result);\n    \
         printf(\"%d: %d %d %d\\n\", status, taken, given, deleted);\n  }}\n  \
         for (int i = 0; i < 8; ++i) printf(\"%g \", out[i]);\n  return 0;\n}}\n"
    );
    for way in WAYS {
        let text = run("calls", *way, &functions, &main);
        // Rows 0 to 5, of which the last one fails; then all 8.
        assert_eq!(text, "boom 5\n-1: 6 6 12\n0: 14 14 28\n1 1.5 2 2.5 3 3.5 4 4.5 ", "{}", way.0);
    }
}

#[test]
fn libraries_reach_the_runtime_through_variables() {
    let source = c::build(&IrModule::new([with_calls(), scaled()]), &Target::c()).unwrap();
    for expected in [
        "KP_CONTEXT int (*__TVMFFIFunctionCall)(void*, TVMFFIAny*, int32_t, TVMFFIAny*);",
        "KP_CONTEXT void* __tvm_ffi__library_ctx;",
        "KP_CONTEXT void (*__TVMFFIErrorSetRaisedFromCStr)(const char*, const char*);",
        "KERNPACK_EXTERN_C KERNPACK_EXPORT int32_t __tvm_ffi_scaled(",
    ] {
        assert!(source.contains(expected), "{expected}\n{source}");
    }
    assert!(!source.contains("#include <math.h>"));
}

#[test]
fn source_is_a_module_that_is_written() {
    let build = kernpack::Function::find_global("kernpack.target.build.c").unwrap().unwrap();
    let module: kernpack::Module = build.call((&scaled(), "c")).unwrap().to().unwrap();
    assert_eq!((module.kind().as_str(), module.function("scaled").is_err()), ("c", true));
    let source = module.inspect_source("c").unwrap();
    assert!(source.contains("scaled"));
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("scaled.c");
    module.write_to_file(path.to_str().unwrap(), "c").unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), source);
    let error = build.call((1, "c")).unwrap_err().to_string();
    assert!(
        error.contains("takes a kernpack.ir.LoweredFunc, an array of them or a kernpack.ir.IrModule, got int"),
        "{error}"
    );
}
