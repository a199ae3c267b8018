//! The functions of the runtime, and the resources that are released when a function ends.

use crate::codegen::RuntimeSymbols;
use crate::codegen::source::body::Body;
use crate::codegen::source::unit::Unit;
use crate::error::{Result, require};

/// A function of the runtime: name, type of the result, types of the parameters.
pub(super) struct Function {
    name: &'static str,
    ret: &'static str,
    params: &'static [&'static str],
}

pub(super) const CALL: Function =
    Function { name: "TVMFFIFunctionCall", ret: "int", params: &["void*", "TVMFFIAny*", "int32_t", "TVMFFIAny*"] };
pub(super) const RAISE: Function =
    Function { name: "TVMFFIErrorSetRaisedFromCStr", ret: "void", params: &["const char*", "const char*"] };
pub(super) const LOOK_UP: Function =
    Function { name: "TVMFFIEnvModLookupFromImports", ret: "int", params: &["void*", "const char*", "void**"] };
pub(super) const INIT_ONCE: Function =
    Function { name: "TVMFFIHandleInitOnce", ret: "int", params: &["void**", "int (*)(void**)"] };
pub(super) const ALLOC_WORKSPACE: Function =
    Function { name: "TVMBackendAllocWorkspace", ret: "void*", params: &["int", "int", "uint64_t", "int", "int"] };
pub(super) const FREE_WORKSPACE: Function =
    Function { name: "TVMBackendFreeWorkspace", ret: "int", params: &["int", "int", "void*"] };
pub(super) const LAUNCH: Function = Function {
    name: "TVMBackendParallelLaunch",
    ret: "int",
    params: &["int (*)(int, kp_group*, void*)", "void*", "int"],
};
pub(super) const BARRIER: Function =
    Function { name: "TVMBackendParallelBarrier", ret: "int", params: &["int", "kp_group*"] };

/// The runtime's name for the library that contains the code: a variable that the loader of the
/// library sets.
const LIBRARY: &str = "__tvm_ffi__library_ctx";

/// Memory of the C library for vectors of any width.
const MEMORY: &str = "#if defined(_MSC_VER)
#include <malloc.h>
#define KP_ALLOC(size) _aligned_malloc(size, 64)
#define KP_FREE(memory) _aligned_free(memory)
#else
#include <stdlib.h>
#define KP_ALLOC(size) aligned_alloc(64, size)
#define KP_FREE(memory) free(memory)
#endif
";

impl Unit {
    /// Adds a declaration after those of types and helper functions.
    fn declare_late(&mut self, name: &str, text: impl FnOnce() -> String) {
        if !self.has(name) {
            let text = text();
            self.names.reserve(name);
            self.prototypes.push_str(&text);
            self.declared.insert(name.to_owned(), text);
        }
    }

    /// Declares a function of the user that is defined elsewhere.
    pub(super) fn external(&mut self, symbol: &str, ret: &str, params: &[String]) -> Result<()> {
        let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
        let text = format!("{ret} {symbol}({params});\n");
        match self.declared.get(symbol) {
            Some(known) => require!(
                *known == text,
                Target,
                "`{symbol}` is called as `{}` and as `{}`",
                known.trim_end(),
                text.trim_end()
            ),
            None => {
                self.names.reserve(symbol);
                self.prototypes.push_str(&text);
                self.declared.insert(symbol.to_owned(), text);
            }
        }
        Ok(())
    }

    /// Returns the callee for a function of the runtime, which is declared at its first use.
    pub(super) fn runtime(&mut self, function: &Function) -> String {
        let Function { name, ret, params } = function;
        let params = params.join(", ");
        match self.symbols.clone() {
            RuntimeSymbols::Context => {
                let variable = format!("__{name}");
                self.declare_late(&variable, || format!("KP_CONTEXT {ret} (*{variable})({params});\n"));
                match self.stand_in(name) {
                    Some(stand_in) => format!("({variable} != NULL ? {variable} : {stand_in})"),
                    // The stock libtvm_ffi does not set variables, but exports the function.
                    None => {
                        self.declare_late(name, || {
                            format!("#if defined(__GNUC__)\n{ret} {name}({params}) __attribute__((weak));\n#else\n#define {name} NULL\n#endif\n")
                        });
                        format!("({variable} != NULL ? {variable} : {name})")
                    }
                }
            }
            RuntimeSymbols::Direct => {
                self.declare_late(name, || format!("{ret} {name}({params});\n"));
                (*name).to_owned()
            }
            RuntimeSymbols::Prefixed(prefix) => {
                let symbol = format!("{prefix}{name}");
                self.declare_late(&symbol, || format!("{ret} {symbol}({params});\n"));
                symbol
            }
        }
    }

    /// The fallback for a function of the runtime in a process without it: the stock libtvm_ffi has
    /// neither a thread pool nor workspaces. Then one task runs all iterations, with memory of the
    /// C library.
    fn stand_in(&mut self, name: &str) -> Option<&'static str> {
        let raise = if name.ends_with("AllocWorkspace") { self.runtime(&RAISE) } else { String::new() };
        let (stand_in, text) = match name {
            "TVMBackendParallelLaunch" => (
                "kp_launch_alone",
                "static int kp_launch_alone(int (*task)(int, kp_group*, void*), void* data, int count) {\n  \
                    kp_group group = {NULL, 1};\n  (void)count;\n  return task(0, &group, data);\n}\n",
            ),
            "TVMBackendParallelBarrier" => (
                "kp_no_barrier",
                "static int kp_no_barrier(int task, kp_group* group) {\n  (void)task;\n  (void)group;\n  return 0;\n}\n",
            ),
            "TVMBackendAllocWorkspace" => (
                "kp_alloc_alone",
                "static void* kp_alloc_alone(int type, int id, uint64_t bytes, int code, int bits) {\n  \
                    void* memory = KP_ALLOC((size_t)((bytes + 63) & ~(uint64_t)63));\n  \
                    (void)type; (void)id; (void)code; (void)bits;\n  \
                    if (memory == NULL) {\n    \
                        RAISE(\"MemoryError\", \"out of memory for a workspace of a kernel\");\n  \
                    }\n  return memory;\n}\n",
            ),
            "TVMBackendFreeWorkspace" => (
                "kp_free_alone",
                "static int kp_free_alone(int type, int id, void* memory) {\n  (void)type; (void)id;\n  KP_FREE(memory);\n  return 0;\n}\n",
            ),
            _ => return None,
        };
        if name.ends_with("Workspace") {
            self.declare_late("KP_ALLOC", || MEMORY.to_owned());
        }
        self.declare_late(stand_in, || text.replace("RAISE", &raise));
        Some(stand_in)
    }

    /// The variable with the handle of the library.
    pub(super) fn library(&mut self) -> &'static str {
        self.declare_late(LIBRARY, || format!("KP_CONTEXT void* {LIBRARY};\n"));
        LIBRARY
    }

    /// Declares the environment that tasks of a parallel loop receive.
    pub(super) fn group(&mut self) {
        self.declare_late("kp_group", || {
            "typedef struct { void* sync_handle; int32_t num_task; } kp_group;\n".to_owned()
        });
    }

    /// Declares a function that releases a value if it is an object reference. The reference counts
    /// of objects are part of the ABI.
    pub(super) fn releaser(&mut self) -> &'static str {
        let body = "TVMFFIObject* object = a->v_obj;\n  \
            if (a->type_index < kTVMFFIStaticObjectBegin) return;\n  \
            uint64_t old = KP_COUNT_DOWN(&object->combined_ref_count, 1);\n  \
            if ((uint32_t)old != 1) return;\n  \
            KP_ACQUIRE();\n  \
            if (old == 0x100000001ULL) {\n    if (object->deleter != NULL) object->deleter(object, 3);\n    return;\n  }\n  \
            if (object->deleter != NULL) object->deleter(object, 1);\n  \
            if (KP_COUNT_DOWN(&object->combined_ref_count, 1ULL << 32) != 1ULL << 32) return;\n  \
            KP_ACQUIRE();\n  \
            if (object->deleter != NULL) object->deleter(object, 2);";
        self.function("kp_release", "void", &["TVMFFIAny*"], body);
        "kp_release"
    }
}

/// Markers around the value that a function returns, until it is known whether the function has
/// resources to release.
const RETURN: char = '\u{1}';
const END: char = '\u{2}';

impl Body<'_> {
    /// A statement that returns from the function.
    pub(crate) fn leave(&self, value: &str) -> String {
        format!("{RETURN}{value}{END}")
    }

    /// The body of a function: declarations, lines, and the cleanup at its end. `ret` is its return
    /// type, `None` if it returns nothing. Falling off the end returns 0.
    pub(super) fn finish(&mut self, ret: Option<&str>, lines: Vec<String>, falls: bool) -> String {
        let cleanup = core::mem::take(&mut self.cleanup);
        let hoisted = core::mem::take(&mut self.hoisted);
        let mut text: String = hoisted.iter().map(|line| format!("{line}\n")).collect();
        let leaves = !cleanup.is_empty();
        if let (true, Some(ret)) = (leaves, ret) {
            text.push_str(&format!("  {ret} status_ = 0;\n"));
        }
        for line in lines {
            text.push_str(&ended(&line, leaves, ret.is_some()));
            text.push('\n');
        }
        if leaves {
            // There may be no other jump to the label.
            text.push_str("  goto leave_;\nleave_:;\n");
            text.extend(cleanup.into_iter().rev().map(|line| format!("  {line}\n")));
            text.push_str(if ret.is_some() { "  return status_;\n" } else { "" });
        } else if falls && ret.is_some() {
            text.push_str("  return 0;\n");
        }
        text
    }
}

/// The line with its return markers expanded.
fn ended(line: &str, leaves: bool, has_value: bool) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(RETURN) {
        let (value, after) = after.split_once(END).unwrap_or((after, ""));
        text.push_str(before);
        text.push_str(&match (leaves, has_value) {
            (true, true) => format!("{{ status_ = {value}; goto leave_; }}"),
            (true, false) => "goto leave_;".to_owned(),
            (false, true) => format!("return {value};"),
            (false, false) => "return;".to_owned(),
        });
        rest = after;
    }
    text.push_str(rest);
    text
}
