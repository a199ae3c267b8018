//! The beginning of every file.

/// A workaround: GCC 16 makes `-(condition ? a * b + c : d)` lose the sign of `d` where it is
/// vectorized for AVX-512 (`IFN_COND_FMA` becomes `IFN_COND_FNMS`); without if-conversion there is
/// no such condition. GCC 14 is correct.
pub(crate) const PREAMBLE: &str =
    "#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ == 16 && defined(__AVX512F__)
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
