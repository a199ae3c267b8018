//! The builtins of the compiler: calls of kind [`CallKind::Builtin`], with their effects.

use super::expr::CallKind;

/// The effect of a call, ordered from least to most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Effect {
    /// The value depends only on the arguments.
    Pure,
    /// The call reads memory.
    Reads,
    /// The call changes memory.
    Updates,
    /// The call may have any effect.
    Opaque,
    /// The call leaves the function.
    Jump,
}

/// `likely(condition)`: a guard that loop partitioning may remove.
pub const LIKELY: &str = "likely";
/// `address_of(load)`: the address from which a load would read.
pub const ADDRESS_OF: &str = "address_of";
/// `access_ptr(load, extent, rw)`: a pointer to the element of a load (which is not executed), for
/// a C function that accesses `extent` elements from there. `rw` is 1 for reads, 2 for writes, 3
/// for both.
pub const ACCESS_PTR: &str = "access_ptr";
/// `make_tensor(load, rw, extent0, extent1, .., stride0, stride1, ..)`: a pointer to a `DLTensor`
/// on the stack, whose first element is that of a load (which is not executed). It is an argument
/// of a packed function, borrowed for the call. `rw` is as for `access_ptr`; strides are in
/// elements.
pub const MAKE_TENSOR: &str = "make_tensor";
/// `isnullptr(pointer)`.
pub const ISNULLPTR: &str = "isnullptr";
/// `struct_get(pointer, index, kind)`: a field of a `DLTensor` or an FFI value; [`StructField`]
/// lists the kinds.
pub const STRUCT_GET: &str = "struct_get";
/// `struct_set(pointer, index, kind, value)`.
pub const STRUCT_SET: &str = "struct_set";
/// `stack_alloca(kind, count)`: `any`, `shape` (i64) or `array` (DLTensor) on the stack, until the
/// end of the function.
pub const STACK_ALLOCA: &str = "stack_alloca";
/// `call_packed(name, args..)`: the result of a packed function.
pub const CALL_PACKED: &str = "call_packed";
/// `call_packed_lowered(name, stack, begin, end)`: the arguments and, in slot `end`, the result are
/// FFI values on the stack.
pub const CALL_PACKED_LOWERED: &str = "call_packed_lowered";
/// `call_trace_packed_lowered(name, stack, begin, end, traced)`: like `call_packed_lowered`; the
/// value is `traced` if the function returns none.
pub const CALL_TRACE_PACKED_LOWERED: &str = "call_trace_packed_lowered";
/// `call_cpacked_lowered(symbol, stack, begin, end)`: like `call_packed_lowered`, for a packed
/// function that is linked by its C symbol.
pub const CALL_CPACKED_LOWERED: &str = "call_cpacked_lowered";
/// `static_handle()`: the address of a pointer variable that lives as long as the code; initially
/// null.
pub const STATIC_HANDLE: &str = "static_handle";
/// `constant_data(name)`: the address of the data with this name in the function's attribute
/// `constants`: bytes, or the symbol of data in another object; aligned to 64 bytes.
pub const CONSTANT_DATA: &str = "constant_data";
/// `linked_pointer(symbol)`: the content of a pointer variable that another object of the library
/// defines under this symbol. Other code may write it at any time.
pub const LINKED_POINTER: &str = "linked_pointer";
/// `relaxed_load(address)`: the 64-bit integer at an address, which other threads may write: an
/// atomic load without order.
pub const RELAXED_LOAD: &str = "relaxed_load";
/// `throw_last_error()`: returns -1.
pub const THROW_LAST_ERROR: &str = "throw_last_error";
/// `storage_sync(scope)`: a barrier for the threads that share a scope.
pub const STORAGE_SYNC: &str = "storage_sync";
/// `thread_allreduce(..)`: a reduction across threads.
pub const THREAD_ALLREDUCE: &str = "thread_allreduce";
/// `fma(a, b, c)`: `a * b + c`, rounded once.
pub const FMA: &str = "fma";
/// `prefetch(address, rw, locality, cache)`.
pub const PREFETCH: &str = "prefetch";
/// `reinterpret(value)`: the same bits as another type.
pub const REINTERPRET: &str = "reinterpret";
/// `alloc_workspace(device_type, device_id, bytes, code, bits)`: temporary memory; null if the
/// allocation fails.
pub const ALLOC_WORKSPACE: &str = "alloc_workspace";
/// `free_workspace(device_type, device_id, pointer)`.
pub const FREE_WORKSPACE: &str = "free_workspace";
/// `assume(condition)`: asserts to the optimizer that the condition holds; nothing is evaluated.
pub const ASSUME: &str = "assume";
/// `break_loop()`: ends the innermost loop.
pub const BREAK_LOOP: &str = "break_loop";
/// `continue_loop()`: continues with the next iteration of the innermost loop.
pub const CONTINUE_LOOP: &str = "continue_loop";
/// `handle_add_byte_offset(pointer, bytes)`.
pub const HANDLE_ADD_BYTE_OFFSET: &str = "handle_add_byte_offset";
/// `warp_shuffle(mask, value, lane, width, warp_size)`, and the variants `_up`, `_down`, `_xor`.
pub const WARP_SHUFFLE: &str = "warp_shuffle";
/// `dot(sums, a, b)`: adds to each lane of `sums`, a 32-bit integer, the products of a group of
/// adjacent lanes of `a` and `b`, which are integers of 8 or 16 bits.
///
/// The group size is the number of lanes of `a` divided by that of `sums`. The factors are widened
/// first; sums wrap. Unsigned and signed bytes in groups of 4, and pairs of 16 bits, are one
/// instruction on targets that support it.
pub const DOT: &str = "dot";
/// `any_lane(mask)`: true if any lane of a vector of truth values is true.
pub const ANY_LANE: &str = "any_lane";
/// `parallel_barrier()`: waits for all tasks of a parallel launch.
pub const PARALLEL_BARRIER: &str = "parallel_barrier";

/// The fields for `struct_get` and `struct_set`, with TVM's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i64)]
pub enum StructField {
    /// The address of the `DLTensor` itself, in an array of them.
    Address = 0,
    /// `data`.
    Data = 1,
    /// `shape`, a pointer to i64.
    Shape = 2,
    /// `strides`, a pointer to i64 or null.
    Strides = 3,
    /// `ndim`, i32.
    Ndim = 4,
    /// The code of `dtype`, u8.
    TypeCode = 5,
    /// The bits of `dtype`, u8.
    TypeBits = 6,
    /// The lanes of `dtype`, u16.
    TypeLanes = 7,
    /// `byte_offset`, u64.
    ByteOffset = 8,
    /// The id of the device, i32.
    DeviceId = 9,
    /// The kind of the device, i32.
    DeviceType = 10,
    /// The type index of an FFI value, i32.
    AnyTypeIndex = 13,
    /// The four bytes after it, i32.
    AnyPadding = 14,
    /// The payload of an FFI value: i64, f64 or a pointer, depending on the type of the call.
    AnyValue = 15,
    /// An element of an array of i64.
    Int64Element = 17,
}

impl StructField {
    /// Returns the field with a number.
    pub fn of(kind: i64) -> Option<Self> {
        Some(match kind {
            0 => Self::Address,
            1 => Self::Data,
            2 => Self::Shape,
            3 => Self::Strides,
            4 => Self::Ndim,
            5 => Self::TypeCode,
            6 => Self::TypeBits,
            7 => Self::TypeLanes,
            8 => Self::ByteOffset,
            9 => Self::DeviceId,
            10 => Self::DeviceType,
            13 => Self::AnyTypeIndex,
            14 => Self::AnyPadding,
            15 => Self::AnyValue,
            17 => Self::Int64Element,
            _ => return None,
        })
    }
}

/// The math functions: pure, one or more floats to a float of the same type, for each lane.
pub const MATH: &[(&str, usize)] = &[
    ("exp", 1),
    ("exp2", 1),
    ("expm1", 1),
    ("log", 1),
    ("log2", 1),
    ("log10", 1),
    ("log1p", 1),
    ("tanh", 1),
    ("sigmoid", 1),
    ("erf", 1),
    ("sin", 1),
    ("cos", 1),
    ("tan", 1),
    ("sinh", 1),
    ("cosh", 1),
    ("asin", 1),
    ("acos", 1),
    ("atan", 1),
    ("atan2", 2),
    ("sqrt", 1),
    ("rsqrt", 1),
    ("pow", 2),
    ("abs", 1),
    ("floor", 1),
    ("ceil", 1),
    ("trunc", 1),
    ("round", 1),
    ("copysign", 2),
    ("nanmin", 2),
    ("nanmax", 2),
    ("fma", 3),
];

/// Other pure builtins, with their number of arguments; `usize::MAX` means any number.
const PURE: &[(&str, usize)] = &[
    (LIKELY, 1),
    (ADDRESS_OF, 1),
    (ISNULLPTR, 1),
    (REINTERPRET, 1),
    (HANDLE_ADD_BYTE_OFFSET, 2),
    (CONSTANT_DATA, 1),
    (DOT, 3),
    ("popcount", 1),
    ("clz", 1),
    ("ctz", 1),
    (ANY_LANE, 1),
    ("isnan", 1),
    ("isinf", 1),
    ("isfinite", 1),
    ("bitnot", 1),
    ("vectorlow", 1),
    ("vectorhigh", 1),
    ("vectorcombine", 2),
    ("warp_shuffle", 5),
    ("warp_shuffle_up", 5),
    ("warp_shuffle_down", 5),
    ("warp_shuffle_xor", 5),
];

/// The other builtins, with their effects.
const IMPURE: &[(&str, Effect)] = &[
    (ACCESS_PTR, Effect::Reads),
    (MAKE_TENSOR, Effect::Updates),
    (STRUCT_GET, Effect::Reads),
    (LINKED_POINTER, Effect::Reads),
    (RELAXED_LOAD, Effect::Reads),
    (STRUCT_SET, Effect::Updates),
    (STACK_ALLOCA, Effect::Updates),
    (PREFETCH, Effect::Updates),
    (ASSUME, Effect::Updates),
    (ALLOC_WORKSPACE, Effect::Opaque),
    (FREE_WORKSPACE, Effect::Opaque),
    (CALL_PACKED, Effect::Opaque),
    (CALL_PACKED_LOWERED, Effect::Opaque),
    (CALL_TRACE_PACKED_LOWERED, Effect::Opaque),
    (CALL_CPACKED_LOWERED, Effect::Opaque),
    (STATIC_HANDLE, Effect::Updates),
    (STORAGE_SYNC, Effect::Opaque),
    (THREAD_ALLREDUCE, Effect::Opaque),
    (PARALLEL_BARRIER, Effect::Opaque),
    (THROW_LAST_ERROR, Effect::Jump),
    (BREAK_LOOP, Effect::Jump),
    (CONTINUE_LOOP, Effect::Jump),
];

/// Returns the effect of a builtin; `None` if the builtin does not exist.
pub fn effect_of_builtin(name: &str) -> Option<Effect> {
    if MATH.iter().chain(PURE).any(|(known, _)| *known == name) {
        return Some(Effect::Pure);
    }
    IMPURE.iter().find(|(known, _)| *known == name).map(|(_, effect)| *effect)
}

/// Returns the number of arguments of a math function; `None` if the function is not a math
/// function.
pub fn math_arity(name: &str) -> Option<usize> {
    MATH.iter().find(|(known, _)| *known == name).map(|(_, arity)| *arity)
}

/// The effect of a call.
pub fn effect(kind: CallKind, name: &str) -> Effect {
    match kind {
        CallKind::Builtin => effect_of_builtin(name).unwrap_or(Effect::Opaque),
        CallKind::PureExtern | CallKind::LlvmIntrinsic => Effect::Pure,
        CallKind::Extern | CallKind::Packed | CallKind::Function => Effect::Opaque,
    }
}
