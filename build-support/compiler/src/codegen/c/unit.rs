//! One C file: the declarations so far, and the helper functions that its code needs.

use std::collections::HashMap;

use kernpack::DataType;

use super::names::Names;
use super::types::{check, is_native, lane, lane_bits, scalar, stored};
use crate::codegen::RuntimeSymbols;
use crate::error::{Result, require};
use crate::ir::DataTypeExt;

/// The parts of the file, in their order.
pub(super) struct Unit {
    /// Names at file scope.
    pub(super) names: Names,
    /// Types and helper functions by name, so that each is defined once; prototypes with their
    /// text.
    declared: HashMap<String, String>,
    /// The text of types and helper functions.
    prelude: String,
    /// The declarations of functions that are defined elsewhere.
    prototypes: String,
    /// The text of functions.
    pub(super) functions: String,
    /// The way in which code accesses the runtime.
    pub(super) symbols: RuntimeSymbols,
}

impl Unit {
    pub(super) fn new(symbols: &RuntimeSymbols) -> Self {
        Self {
            names: Names::new(),
            declared: HashMap::new(),
            prelude: String::new(),
            prototypes: String::new(),
            functions: String::new(),
            symbols: symbols.clone(),
        }
    }

    /// Returns the text of the file.
    pub(super) fn finish(self) -> String {
        format!("{PREAMBLE}{}\n{}\n{}", self.prelude, self.prototypes, self.functions)
    }

    fn declare(&mut self, name: &str, text: impl FnOnce() -> String) {
        if !self.declared.contains_key(name) {
            let text = text();
            self.prelude.push_str(&text);
            self.declared.insert(name.to_owned(), text);
        }
    }

    /// Adds a declaration after those of types and helper functions.
    pub(super) fn declare_late(&mut self, name: &str, text: impl FnOnce() -> String) {
        if !self.declared.contains_key(name) {
            let text = text();
            self.names.reserve(name);
            self.prototypes.push_str(&text);
            self.declared.insert(name.to_owned(), text);
        }
    }

    /// Returns true if a helper is already declared: its parts need not be generated.
    pub(super) fn has(&self, name: &str) -> bool {
        self.declared.contains_key(name)
    }

    /// Adds a helper function with the parameters `a`, `b`, `c`, ..
    pub(super) fn function(&mut self, name: &str, ret: &str, params: &[&str], body: &str) {
        self.declare(name, || {
            let params: Vec<String> = params.iter().zip('a'..).map(|(ty, letter)| format!("{ty} {letter}")).collect();
            format!("KP_INLINE {ret} {name}({}) {{\n  {body}\n}}\n", params.join(", "))
        });
    }

    /// Declares a function of scalars that is defined elsewhere, and that helper functions may
    /// call. A second declaration with other types is ignored: for libm, the first one is decisive.
    pub(super) fn prototype(&mut self, symbol: &str, ret: &str, params: &[String]) {
        if !self.declared.contains_key(symbol) {
            let text = format!("{ret} {symbol}({});\n", params.join(", "));
            self.names.reserve(symbol);
            self.prelude.push_str(&text);
            self.declared.insert(symbol.to_owned(), text);
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

    /// The type of a value.
    pub(super) fn value_type(&mut self, dtype: DataType) -> Result<String> {
        check(dtype)?;
        if dtype.lanes() <= 1 {
            return Ok(scalar(dtype));
        }
        let name = format!("kp_{}", dtype.short_name());
        self.declare(&name, || {
            let (lane, lanes) = (lane(dtype), dtype.lanes());
            let plain = format!("typedef struct {{ {lane} v[{lanes}]; }} {name};\n");
            if !is_native(dtype) {
                return plain;
            }
            let bytes = lanes * lane_bits(dtype) / 8;
            format!(
                "#if KP_VECTORS\ntypedef {lane} {name} __attribute__((vector_size({bytes})));\n#else\n{plain}#endif\n"
            )
        });
        Ok(name)
    }

    /// The type of an element in memory, which may alias memory of another type.
    pub(super) fn memory_type(&mut self, dtype: DataType) -> Result<String> {
        check(dtype)?;
        let name = format!("kp_{}", dtype.element().short_name());
        self.declare(&name, || format!("typedef {} KP_MAY_ALIAS {name};\n", stored(dtype)));
        Ok(name)
    }
}

/// A workaround: GCC 16 makes `-(condition ? a * b + c : d)` lose the sign of `d` where it is
/// vectorized for AVX-512 (`IFN_COND_FMA` becomes `IFN_COND_FNMS`); without if-conversion there is
/// no such condition. GCC 14 is correct.
const PREAMBLE: &str = "#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ == 16 && defined(__AVX512F__)
#pragma GCC optimize(\"no-tree-loop-if-convert\")
#endif
#if defined(__clang__)
#pragma clang diagnostic ignored \"-Wunknown-warning-option\"
#pragma clang diagnostic ignored \"-Wbitwise-conditional-parentheses\"
#pragma clang diagnostic ignored \"-Wbitwise-instead-of-logical\"
#pragma clang diagnostic ignored \"-Wparentheses-equality\"
#pragma clang diagnostic ignored \"-Wpsabi\"
#endif
#include <kernpack/kernel.h>

#if defined(__GNUC__)
#define KP_INLINE static inline __attribute__((always_inline, unused))
#define KP_NOINLINE __attribute__((noinline))
#define KP_CONTEXT KERNPACK_EXPORT __attribute__((weak))
#define KP_COUNT_DOWN(count, by) __atomic_fetch_sub((count), (by), __ATOMIC_RELEASE)
#define KP_ACQUIRE() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define KP_MAY_ALIAS __attribute__((may_alias))
#define KP_RESTRICT __restrict
#define KP_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define KP_ALIGN(bytes) __attribute__((aligned(bytes)))
#define KP_PREFETCH(address, rw, locality) __builtin_prefetch((address), (rw), (locality))
#else
#define KP_INLINE static inline
#define KP_NOINLINE
#if defined(_MSC_VER)
#include <intrin.h>
#define KP_CONTEXT __declspec(selectany) KERNPACK_EXPORT
#define KP_COUNT_DOWN(count, by) ((uint64_t)_InterlockedExchangeAdd64((volatile __int64*)(count), -(__int64)(by)))
#define KP_ACQUIRE() ((void)0)
#else
#include <stdatomic.h>
#define KP_CONTEXT KERNPACK_EXPORT
#define KP_COUNT_DOWN(count, by) atomic_fetch_sub((_Atomic uint64_t*)(count), (by))
#define KP_ACQUIRE() ((void)0)
#endif
#define KP_MAY_ALIAS
#define KP_RESTRICT restrict
#define KP_LIKELY(condition) (condition)
#define KP_ALIGN(bytes) _Alignas(bytes)
#define KP_PREFETCH(address, rw, locality) ((void)(address))
#endif

/* Vectors are those of GNU C, or arrays that are worked on lane by lane. */
#if !defined(KP_VECTORS)
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)
#define KP_VECTORS 1
#else
#define KP_VECTORS 0
#endif
#endif
#if KP_VECTORS
#define KP_AT(vector, lane) (vector)[lane]
#if !defined(__clang__)
#pragma GCC diagnostic ignored \"-Wpsabi\"
#endif
#else
#define KP_AT(vector, lane) (vector).v[lane]
#endif

";
