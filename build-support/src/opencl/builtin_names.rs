//! Names of built-in functions of OpenCL C. Compilers accept a kernel with such a name as another
//! overload, and the driver then has no kernel of that name.

/// Functions of OpenCL C 1.2 and later versions, in alphabetical order, without those that end in
/// the width of a vector.
#[rustfmt::skip]
const NAMES: [&str; 212] = [
    "abs", "abs_diff", "acos", "acosh", "acospi", "add_sat", "all", "any", "as_char", "as_double", "as_float",
    "as_int", "as_long", "as_short", "as_uchar", "as_uint", "as_ulong", "as_ushort", "asin", "asinh", "asinpi",
    "async_work_group_copy", "async_work_group_strided_copy", "atan", "atan2", "atan2pi", "atanh", "atanpi",
    "atomic_add", "atomic_and", "atomic_cmpxchg", "atomic_dec", "atomic_inc", "atomic_max", "atomic_min", "atomic_or",
    "atomic_sub", "atomic_xchg", "atomic_xor", "barrier", "bitselect", "cbrt", "ceil", "clamp", "clz", "convert_char",
    "convert_double", "convert_float", "convert_int", "convert_long", "convert_short", "convert_uchar",
    "convert_uint", "convert_ulong", "convert_ushort", "copysign", "cos", "cosh", "cospi", "cross", "ctz", "degrees",
    "distance", "dot", "erf", "erfc", "exp", "exp10", "exp2", "expm1", "fabs", "fast_distance", "fast_length",
    "fast_normalize", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "fract", "frexp", "get_global_id",
    "get_global_linear_id", "get_global_offset", "get_global_size", "get_group_id", "get_local_id",
    "get_local_linear_id", "get_local_size", "get_num_groups", "get_work_dim", "hadd", "half_cos", "half_divide",
    "half_exp", "half_exp10", "half_exp2", "half_log", "half_log10", "half_log2", "half_powr", "half_recip",
    "half_rsqrt", "half_sin", "half_sqrt", "half_tan", "hypot", "ilogb", "isequal", "isfinite", "isgreater",
    "isgreaterequal", "isinf", "isless", "islessequal", "islessgreater", "isnan", "isnormal", "isnotequal",
    "isordered", "isunordered", "ldexp", "length", "lgamma", "lgamma_r", "log", "log10", "log1p", "log2", "logb",
    "mad", "mad24", "mad_hi", "mad_sat", "max", "maxmag", "mem_fence", "min", "minmag", "mix", "modf", "mul24",
    "mul_hi", "nan", "native_cos", "native_divide", "native_exp", "native_exp10", "native_exp2", "native_log",
    "native_log10", "native_log2", "native_powr", "native_recip", "native_rsqrt", "native_sin", "native_sqrt",
    "native_tan", "nextafter", "normalize", "popcount", "pow", "pown", "powr", "prefetch", "printf", "radians",
    "read_mem_fence", "remainder", "remquo", "rhadd", "rint", "rootn", "rotate", "round", "rsqrt", "select",
    "shuffle", "shuffle2", "sign", "signbit", "sin", "sincos", "sinh", "sinpi", "smoothstep", "sqrt", "step",
    "sub_sat", "tan", "tanh", "tanpi", "tgamma", "trunc", "upsample", "vec_step", "vload16", "vload2", "vload3",
    "vload4", "vload8", "vload_half", "vstore16", "vstore2", "vstore3", "vstore4", "vstore8", "vstore_half",
    "wait_group_events", "work_group_barrier", "write_mem_fence",
];

/// Returns true if OpenCL C has a function of this name.
pub(super) fn is_builtin(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert!(NAMES.is_sorted());
        assert!(["mix", "abs", "write_mem_fence", "dot"].into_iter().all(is_builtin));
        assert!(!["", "mix2", "scale", "Mix"].into_iter().any(is_builtin));
    }
}
