/* The C interface of a TVM FFI runtime: types, constants and the 50 functions of libtvm_ffi.so.
 *
 * Generated from Kernpack's Rust sources; do not edit (tests/tests/abi/c_header.rs describes how
 * to regenerate it). A program that includes this header does not need Apache TVM: it links or
 * loads the libtvm_ffi.so that Kernpack builds. Names and layouts are those of the ABI, so the
 * header works with the stock library, too. The stock C++ headers define the same types: if they
 * are included first, this header adds only the missing declarations.
 *
 * Ownership. Arguments are borrowed. The caller owns every TVMFFIAny and every handle that a
 * function writes, and releases it with TVMFFIObjectDecRef if
 * `type_index >= kTVMFFIStaticObjectBegin`. Functions with the result int return 0, or -1 after
 * they raised an error on this thread, which TVMFFIErrorMoveFromRaised takes.
 */
#ifndef KERNPACK_C_API_H_
#define KERNPACK_C_API_H_

#if defined(KERNPACK_KERNEL_H_) && !defined(TVM_FFI_C_API_H_)
#error "include <kernpack/c_api.h> before <kernpack/kernel.h>, which defines only some of these types"
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- DLPack: tensors that libraries exchange ----------------------------------------------------------------------- */

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

/* Kinds of devices. */
typedef enum {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17,
  kDLTrn = 18,
} DLDeviceType;

/* Codes of element types. */
typedef enum {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6,
  kDLFloat8_e3m4 = 7,
  kDLFloat8_e4m3 = 8,
  kDLFloat8_e4m3b11fnuz = 9,
  kDLFloat8_e4m3fn = 10,
  kDLFloat8_e4m3fnuz = 11,
  kDLFloat8_e5m2 = 12,
  kDLFloat8_e5m2fnuz = 13,
  kDLFloat8_e8m0fnu = 14,
  kDLFloat6_e2m3fn = 15,
  kDLFloat6_e3m2fn = 16,
  kDLFloat4_e2m1fn = 17,
} DLDataTypeCode;

/* Bits of `DLManagedTensorVersioned::flags`. */
/* The consumer must not write. */
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL)
/* The data is a copy that the producer made. */
#define DLPACK_FLAG_BITMASK_IS_COPIED (2UL)
/* Elements smaller than a byte occupy a whole byte. */
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (4UL)

/* Version of the DLPack ABI of a managed tensor. */
typedef struct DLPackVersion DLPackVersion;
struct DLPackVersion {
  /* Major version; versions that differ are incompatible. */
  uint32_t major;
  /* Minor version, for compatible additions. */
  uint32_t minor;
};

/* A device: kind and index. */
typedef struct DLDevice DLDevice;
struct DLDevice {
  /* One of `device_type`, an integer because foreign code may use its own values. */
  int32_t device_type;
  /* Index among the devices of that kind, from 0. */
  int32_t device_id;
};

/* Element type: code, bits and vector lanes. */
typedef struct DLDataType DLDataType;
struct DLDataType {
  /* One of `dtype_code`. */
  uint8_t code;
  /* Bits of one lane. */
  uint8_t bits;
  /* Vector lanes; negative as i16 for scalable vectors. */
  uint16_t lanes;
};

/* A borrowed tensor. Shape and strides count elements. */
typedef struct DLTensor DLTensor;
struct DLTensor {
  /* Start of the data on `device`; the first element is at `byte_offset`. */
  void* data;
  /* Device of the data. */
  DLDevice device;
  /* Number of dimensions. */
  int32_t ndim;
  /* Element type. */
  DLDataType dtype;
  /* `ndim` dimensions; may be NULL when `ndim` is 0. */
  int64_t* shape;
  /* `ndim` strides in elements; NULL (before DLPack 1.2) means row major. */
  int64_t* strides;
  /* Bytes from `data` to the first element. */
  uint64_t byte_offset;
};

/* A tensor with its owner (before DLPack 1.0). */
typedef struct DLManagedTensor DLManagedTensor;
struct DLManagedTensor {
  /* The tensor. */
  DLTensor dl_tensor;
  /* The owner's data. */
  void* manager_ctx;
  /* Releases the tensor, including this struct; may be NULL. */
  void (*deleter)(DLManagedTensor* self);
};

/* A tensor with its owner and flags (DLPack 1.0 and later). */
typedef struct DLManagedTensorVersioned DLManagedTensorVersioned;
struct DLManagedTensorVersioned {
  /* The producer's version. */
  DLPackVersion version;
  /* The owner's data. */
  void* manager_ctx;
  /* Releases the tensor, including this struct; may be NULL. */
  void (*deleter)(DLManagedTensorVersioned* self);
  /* Bits of `dlpack_flags`. */
  uint64_t flags;
  /* The tensor. */
  DLTensor dl_tensor;
};

/* Callback with which an allocator reports a failure: error context, kind, message. */
typedef void (*DLPackSetError)(void* error_ctx, const char* kind, const char* message);

/* Allocates a tensor like `prototype` (ignoring data, strides and offset) with a frontend's
 * allocator; returns 0 on success. */
typedef int32_t (*DLPackManagedTensorAllocator)(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_ctx, DLPackSetError set_error);

#endif /* DLPACK_DLPACK_H_ */

/* ---- Values and objects -------------------------------------------------------------------------------------------- */

#ifndef TVM_FFI_C_API_H_
#define TVM_FFI_C_API_H_

/* Static type indices. Values with an index below `STATIC_OBJECT_BEGIN` are stored inline; the
 * others are objects. */
typedef enum {
  /* Annotation only: "any value". Never the index of a value. */
  kTVMFFIAny = -1,
  /* No value. */
  kTVMFFINone = 0,
  /* 64-bit signed integer. */
  kTVMFFIInt = 1,
  /* Boolean, payload 0 or 1. */
  kTVMFFIBool = 2,
  /* 64-bit floating point number. */
  kTVMFFIFloat = 3,
  /* Untyped pointer. */
  kTVMFFIOpaquePtr = 4,
  /* `DLDataType` by value. */
  kTVMFFIDataType = 5,
  /* `DLDevice` by value. */
  kTVMFFIDevice = 6,
  /* Borrowed `DLTensor*`. */
  kTVMFFIDLTensorPtr = 7,
  /* Borrowed NUL-terminated string. Views only. */
  kTVMFFIRawStr = 8,
  /* Borrowed `TVMFFIByteArray*`. Views only. */
  kTVMFFIByteArrayPtr = 9,
  /* Pointer to an object pointer that the callee may move out. Views only. */
  kTVMFFIObjectRValueRef = 10,
  /* String of at most 7 bytes inside the value. */
  kTVMFFISmallStr = 11,
  /* Bytes, at most 7, inside the value. */
  kTVMFFISmallBytes = 12,
  /* Structural mutation produced no new value (since header 0.1.15). */
  kTVMFFIUnchanged = 13,
  /* First index of reference-counted objects. */
  kTVMFFIStaticObjectBegin = 64,
  /* `ffi.Object`, the root. */
  kTVMFFIObject = 64,
  /* `ffi.String`. */
  kTVMFFIStr = 65,
  /* `ffi.Bytes`. */
  kTVMFFIBytes = 66,
  /* `ffi.Error`. */
  kTVMFFIError = 67,
  /* `ffi.Function`. */
  kTVMFFIFunction = 68,
  /* `ffi.Shape`. */
  kTVMFFIShape = 69,
  /* `ffi.Tensor`. */
  kTVMFFITensor = 70,
  /* `ffi.Array`. */
  kTVMFFIArray = 71,
  /* `ffi.Map`. */
  kTVMFFIMap = 72,
  /* `ffi.Module`. */
  kTVMFFIModule = 73,
  /* `ffi.OpaquePyObject`. */
  kTVMFFIOpaquePyObject = 74,
  /* `ffi.List`. */
  kTVMFFIList = 75,
  /* `ffi.Dict`. */
  kTVMFFIDict = 76,
  /* `ffi.VisitInterrupt`. */
  kTVMFFIVisitInterrupt = 77,
  /* `ffi.BigInt` (since header 0.1.15). */
  kTVMFFIBigInt = 78,
  /* One past the last static object index. */
  kTVMFFIStaticObjectEnd = 79,
  /* First index that is allocated at run time. */
  kTVMFFIDynObjectBegin = 128,
} TVMFFITypeIndex;

/* A live object: the address of its header. */
typedef void* TVMFFIObjectHandle;

/* Bits of the deleter's `flags`. */
typedef enum {
  /* The last strong reference is gone: run the destructor. */
  kTVMFFIObjectDeleterFlagBitMaskStrong = 1,
  /* The last weak reference is gone: free the storage. */
  kTVMFFIObjectDeleterFlagBitMaskWeak = 2,
  /* Both at once. */
  kTVMFFIObjectDeleterFlagBitMaskBoth = 3,
} TVMFFIObjectDeleterFlagBitMask;

/* Runs an object's destructor and/or frees its storage; the first argument is the address of the
 * header. */
typedef void (*TVMFFIObjectDeleter)(void* self, int32_t flags);

/* Header of every reference-counted object. */
typedef struct TVMFFIObject TVMFFIObject;
struct TVMFFIObject {
  /* Strong count in the low 32 bits, weak count in the high 32 bits. Accessed atomically. */
  uint64_t combined_ref_count;
  /* Run-time type index. */
  int32_t type_index;
  /* Always zero. */
  uint32_t __padding;
  /* Destroys the object; NULL (NULL) for objects that are never destroyed. */
  TVMFFIObjectDeleter deleter;
};

/* A value of any type: 16 bytes, a type index and a payload.
 *
 * An argument (a *view*) borrows its object; a result or container element (*owned*) holds one
 * strong reference if `type_index >= 64`. Invariants: `small_len` is 0 except for small strings
 * and bytes, None has payload 0, a bool payload is exactly 0 or 1 in all 64 bits, a data type's
 * upper four payload bytes are 0. */
typedef struct TVMFFIAny {
  /* Type of the payload; see `type_index`. */
  int32_t type_index;
  /* Length of a small string or small bytes; 0 for all other types. */
  union {
    uint32_t zero_padding;
    uint32_t small_str_len;
  };
  /* The payload. */
  union {
    /* Integers and booleans. */
    int64_t v_int64;
    /* Floating point numbers. */
    double v_float64;
    /* Untyped pointers. */
    void* v_ptr;
    /* NUL-terminated strings. */
    const char* v_c_str;
    /* Objects. */
    TVMFFIObject* v_obj;
    /* Data types. */
    DLDataType v_dtype;
    /* Devices. */
    DLDevice v_device;
    /* Small strings and bytes. */
    char v_bytes[8];
    /* All 64 bits, for hashing and comparing. */
    uint64_t v_uint64;
  };
} TVMFFIAny;

/* Borrowed bytes: pointer and length. */
typedef struct TVMFFIByteArray TVMFFIByteArray;
struct TVMFFIByteArray {
  /* First byte; may be NULL when `size` is 0. */
  const char* data;
  /* Number of bytes. */
  size_t size;
};

/* The word before an object's body if a custom allocator created the object. */
typedef struct TVMFFIObjectAllocHeader TVMFFIObjectAllocHeader;
struct TVMFFIObjectAllocHeader {
  /* Frees the storage; receives the body's address. */
  void (*delete_space)(void* ptr);
};

/* An allocator that a frontend installs for objects. */
typedef struct TVMFFICustomAllocator TVMFFICustomAllocator;
struct TVMFFICustomAllocator {
  /* Returns storage for a body, preceded by an initialized `TVMFFIObjectAllocHeader`, or NULL
   * with an error raised. */
  void* (*allocate)(size_t size, size_t alignment, int32_t type_index, void* context);
  /* Passed to `allocate` unchanged. */
  void* context;
};

/* The calling convention of a packed function: 0 is success, -1 means that an error is raised on
 * this thread.
 *
 * `args` are views. The caller sets `result` to a value that owns nothing (None); the callee
 * overwrites it with an owned value or leaves it unchanged. */
typedef int32_t (*TVMFFISafeCallType)(void* handle, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);

/* ---- Objects whose layout the ABI fixes: the parts after the header ------------------------------------------------ */

/* Fields of a shape, after the object header. Dimensions are in elements. */
typedef struct TVMFFIShapeCell TVMFFIShapeCell;
struct TVMFFIShapeCell {
  /* First dimension. */
  const int64_t* data;
  /* Number of dimensions. */
  size_t size;
};

/* Fields of an array or list, after the object header. */
typedef struct TVMFFISeqCell TVMFFISeqCell;
struct TVMFFISeqCell {
  /* First element (`TVMFFIAny`, owned). */
  void* data;
  /* Number of elements. */
  int64_t size;
  /* Capacity in elements. */
  int64_t capacity;
  /* Frees `data` if it is separate from the object; NULL (NULL) if it is inside the object. */
  void (*data_deleter)(void* data);
};

/* Modes of `TVMFFIErrorCell::update_backtrace`. */
typedef enum {
  /* Replace the backtrace. */
  kTVMFFIBacktraceUpdateModeReplace = 0,
  /* Append to the backtrace. */
  kTVMFFIBacktraceUpdateModeAppend = 1,
} TVMFFIBacktraceUpdateMode;

/* Fields of an error, after the object header. */
typedef struct TVMFFIErrorCell TVMFFIErrorCell;
struct TVMFFIErrorCell {
  /* Class of the error, for example `ValueError`. */
  TVMFFIByteArray kind;
  /* Description of the problem; NUL-terminated. */
  TVMFFIByteArray message;
  /* One line per frame, most recent call first. */
  TVMFFIByteArray backtrace;
  /* Replaces or appends to the backtrace; see `backtrace_update`. */
  void (*update_backtrace)(TVMFFIObjectHandle self, const TVMFFIByteArray* backtrace, int32_t mode);
  /* The error that caused this one; owned, may be NULL. */
  TVMFFIObjectHandle cause_chain;
  /* Frontend data; owned, may be NULL. */
  TVMFFIObjectHandle extra_context;
};

/* Fields of a function, after the object header. */
typedef struct TVMFFIFunctionCell TVMFFIFunctionCell;
struct TVMFFIFunctionCell {
  /* The entry point; receives the function object's handle. */
  TVMFFISafeCallType safe_call;
  /* C++ entry point that throws; this implementation never calls it and sets it to NULL. */
  void* cpp_call;
};

/* Fields of an opaque object, after the object header. */
typedef struct TVMFFIOpaqueObjectCell TVMFFIOpaqueObjectCell;
struct TVMFFIOpaqueObjectCell {
  /* The foreign object. */
  void* handle;
};

/* ---- Types: fields, methods, attributes ---------------------------------------------------------------------------- */

/* Reads a field: `field` is the field's address, `result` receives an owned value. */
typedef int32_t (*TVMFFIFieldGetter)(void* field, TVMFFIAny* result);

/* Writes a field: `field` is the field's address, `value` is a view. */
typedef int32_t (*TVMFFIFieldSetter)(void* field, const TVMFFIAny* value);

/* Creates an empty instance of a type. */
typedef int32_t (*TVMFFIObjectCreator)(TVMFFIObjectHandle* result);

/* Bits of a field's or method's `flags`. */
typedef enum {
  /* May be set after construction. */
  kTVMFFIFieldFlagBitMaskWritable = 1,
  /* Has a default. */
  kTVMFFIFieldFlagBitMaskHasDefault = 1 << 1,
  /* The method does not take `self`. */
  kTVMFFIFieldFlagBitMaskIsStaticMethod = 1 << 2,
  /* Ignored by structural equality and hash. */
  kTVMFFIFieldFlagBitMaskSEqHashIgnore = 1 << 3,
  /* Enters a pattern definition region. */
  kTVMFFIFieldFlagBitMaskSEqHashDefPattern = 1 << 4,
  /* The default is the result of calling a function. */
  kTVMFFIFieldFlagBitMaskDefaultFromFactory = 1 << 5,
  /* Not shown by repr. */
  kTVMFFIFieldFlagBitMaskReprOff = 1 << 6,
  /* Not compared. */
  kTVMFFIFieldFlagBitMaskCompareOff = 1 << 7,
  /* Not hashed. */
  kTVMFFIFieldFlagBitMaskHashOff = 1 << 8,
  /* Not a parameter of the generated constructor. */
  kTVMFFIFieldFlagBitMaskInitOff = 1 << 9,
  /* Keyword-only in the generated constructor. */
  kTVMFFIFieldFlagBitMaskKwOnly = 1 << 10,
  /* The setter is a function object. */
  kTVMFFIFieldFlagBitSetterIsFunctionObj = 1 << 11,
  /* Enters a simple definition region. */
  kTVMFFIFieldFlagBitMaskSEqHashDefSimple = 1 << 12,
} TVMFFIFieldFlagBitMask;

/* Values of `TVMFFITypeMetadata::structural_eq_hash_kind`. */
typedef enum {
  /* No structural equality. */
  kTVMFFISEqHashKindUnsupported = 0,
  /* Compared as a tree node. */
  kTVMFFISEqHashKindTreeNode = 1,
  /* A free variable. */
  kTVMFFISEqHashKindFreeVar = 2,
  /* Compared as a node of a directed acyclic graph. */
  kTVMFFISEqHashKindDAGNode = 3,
  /* A tree node without free variables. */
  kTVMFFISEqHashKindConstTreeNode = 4,
  /* Compared by address. */
  kTVMFFISEqHashKindUniqueInstance = 5,
} TVMFFISEqHashKind;

/* A field that any language can read. All strings are UTF-8. */
typedef struct TVMFFIFieldInfo TVMFFIFieldInfo;
struct TVMFFIFieldInfo {
  /* Name. */
  TVMFFIByteArray name;
  /* Documentation. */
  TVMFFIByteArray doc;
  /* JSON object with the type schema. */
  TVMFFIByteArray metadata;
  /* Bits of `field_flag`. */
  int64_t flags;
  /* Size in bytes. */
  int64_t size;
  /* Alignment in bytes. */
  int64_t alignment;
  /* Offset in bytes from the object's handle. */
  int64_t offset;
  /* Reads the field. */
  TVMFFIFieldGetter getter;
  /* A `TVMFFIFieldSetter`, or a function object when `field_flag::SETTER_IS_FUNCTION_OBJ` is
   * set. */
  void* setter;
  /* Default value, or its factory. */
  TVMFFIAny default_value_or_factory;
  /* Declared type if it has a static index; else `super::type_index::ANY` or an object's
   * index. */
  int32_t field_static_type_index;
};

/* A method that any language can call. */
typedef struct TVMFFIMethodInfo TVMFFIMethodInfo;
struct TVMFFIMethodInfo {
  /* Name. */
  TVMFFIByteArray name;
  /* Documentation. */
  TVMFFIByteArray doc;
  /* JSON object with the type schema. */
  TVMFFIByteArray metadata;
  /* Bits of `field_flag`. */
  int64_t flags;
  /* The function; its first argument is the object unless static. */
  TVMFFIAny method;
};

/* Metadata that a type registers about itself. */
typedef struct TVMFFITypeMetadata TVMFFITypeMetadata;
struct TVMFFITypeMetadata {
  /* Documentation. */
  TVMFFIByteArray doc;
  /* Creates an empty instance; may be NULL. */
  TVMFFIObjectCreator creator;
  /* Size of the object in bytes including the header; 0 if unknown. */
  int32_t total_size;
  /* One of `seq_hash_kind`. */
  int32_t structural_eq_hash_kind;
};

/* A type's record in the type table. Its address never changes. */
typedef struct TVMFFITypeInfo TVMFFITypeInfo;
struct TVMFFITypeInfo {
  /* Run-time index. */
  int32_t type_index;
  /* Number of ancestors. */
  int32_t type_depth;
  /* Unique name. */
  TVMFFIByteArray type_key;
  /* `type_depth` ancestors, root first. */
  const TVMFFITypeInfo** type_ancestors;
  /* Hash of the key (libstdc++ `std::hash<string_view>`). */
  uint64_t type_key_hash;
  /* Number of own fields. */
  int32_t num_fields;
  /* Number of own methods. */
  int32_t num_methods;
  /* Own fields. */
  const TVMFFIFieldInfo* fields;
  /* Own methods. */
  const TVMFFIMethodInfo* methods;
  /* NULL until registered. */
  const TVMFFITypeMetadata* metadata;
};

/* One attribute of all types, indexed by type. */
typedef struct TVMFFITypeAttrColumn TVMFFITypeAttrColumn;
struct TVMFFITypeAttrColumn {
  /* Value of type `begin_index + i` at `data[i]`. */
  const TVMFFIAny* data;
  /* Number of values. */
  int32_t size;
  /* Type of the first value. */
  int32_t begin_index;
};

/* Version of an implementation of the ABI. */
typedef struct TVMFFIVersion TVMFFIVersion;
struct TVMFFIVersion {
  /* Major version. */
  uint32_t major;
  /* Minor version. */
  uint32_t minor;
  /* Patch version. */
  uint32_t patch;
};

/* ---- Functions ----------------------------------------------------------------------------------------------------- */

/* Writes the version of this implementation. */
void TVMFFIGetVersion(TVMFFIVersion* out);

/* Adds a strong reference to an object. Any thread may call it. */
int TVMFFIObjectIncRef(TVMFFIObjectHandle obj);

/* Releases a strong reference; releasing the last one destroys the object. NULL is
 * allowed and has no effect. */
int TVMFFIObjectDecRef(TVMFFIObjectHandle obj);

/* Wraps a foreign object (`type_index` must be `kTVMFFIOpaquePyObject`);
 * `deleter(handle)` runs when the wrapper is destroyed. The caller owns the one
 * reference in `*out`. */
int TVMFFIObjectCreateOpaque(void* handle, int32_t type_index, void (*deleter)(void*), TVMFFIObjectHandle* out);

/* Writes the type index of a type key; an unknown key is an InternalError. */
int TVMFFITypeKeyToIndex(const TVMFFIByteArray* key, int32_t* out);

/* Returns the index of a type key, which is registered if it is new.
 * `static_index` is the requested index, or -1 for any; `depth` is the number of
 * ancestors; `num_child_slots` indices are reserved for children, and more
 * children are allowed if `child_slots_can_overflow` is 1. With `parent_index` -2,
 * returns -2 for an unknown key and does not register it. Returns -1 with an error
 * raised if the registration contradicts the table. */
int32_t TVMFFITypeGetOrAllocIndex(const TVMFFIByteArray* key, int32_t static_index, int32_t depth, int32_t num_child_slots, int32_t child_slots_can_overflow, int32_t parent_index);

/* Returns the record of a type; NULL for an index that is not registered. The
 * address never changes. */
const TVMFFITypeInfo* TVMFFIGetTypeInfo(int32_t type_index);

/* Adds a field to a type. Strings are copied; values get their own reference. */
int TVMFFITypeRegisterField(int32_t type_index, const TVMFFIFieldInfo* info);

/* Adds a method to a type. Strings are copied; the function gets its own
 * reference. */
int TVMFFITypeRegisterMethod(int32_t type_index, const TVMFFIMethodInfo* info);

/* Sets the metadata of a type. Can be called once per type. */
int TVMFFITypeRegisterMetadata(int32_t type_index, const TVMFFITypeMetadata* metadata);

/* Sets a type's value in an attribute column, once. The column is created if it is
 * new. Type index 0 only creates the column. */
int TVMFFITypeRegisterAttr(int32_t type_index, const TVMFFIByteArray* name, const TVMFFIAny* value);

/* Returns an attribute column; NULL if it is not registered. The address never
 * changes, but its `data` may. */
const TVMFFITypeAttrColumn* TVMFFIGetTypeAttrColumn(const TVMFFIByteArray* name);

/* Creates a function from an entry point. If the first argument and `deleter` are
 * both NULL, `safe_call` receives the function object as its handle; otherwise it
 * receives the first argument, and `deleter` is called with it when the function
 * is destroyed. The caller owns the one reference in `*out`. */
int TVMFFIFunctionCreate(void* self, TVMFFISafeCallType safe_call, void (*deleter)(void*), TVMFFIObjectHandle* out);

/* Calls a function. Arguments are borrowed; set `result->type_index` to
 * `kTVMFFINone` before the call. The caller owns the result afterwards. Returns -1
 * if an error is raised. */
int TVMFFIFunctionCall(TVMFFIObjectHandle func, TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);

/* Registers a function under a name; the table takes its own reference.
 * Registering an existing name is a RuntimeError unless `allow_override` is 1. */
int TVMFFIFunctionSetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle func, int allow_override);

/* Like `TVMFFIFunctionSetGlobal`, with documentation and metadata. */
int TVMFFIFunctionSetGlobalFromMethodInfo(const TVMFFIMethodInfo* info, int allow_override);

/* Looks up a global function. `*out` is a new reference, or NULL if the function
 * does not exist (which is not an error). */
int TVMFFIFunctionGetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle* out);

/* Converts a borrowed value to an owned one: a string behind a pointer is copied,
 * an object gets a reference, an rvalue reference is moved from. */
int TVMFFIAnyViewToOwnedAny(const TVMFFIAny* view, TVMFFIAny* out);

/* Takes the error that this thread raised; the caller owns the reference in
 * `*out`, NULL if there was none. */
void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle* out);

/* Raises an error object on this thread, replacing any other; takes its own
 * reference. */
void TVMFFIErrorSetRaised(TVMFFIObjectHandle error);

/* Raises a new error on this thread, with the backtrace of the caller. */
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);

/* Like `TVMFFIErrorSetRaisedFromCStr`, with a message in parts; parts that are
 * NULL are skipped. */
void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t num_parts);

/* Creates an error object; strings are copied. The caller owns the one reference
 * in `*out`. */
int TVMFFIErrorCreate(const TVMFFIByteArray* kind, const TVMFFIByteArray* message, const TVMFFIByteArray* backtrace, TVMFFIObjectHandle* out);

/* Like `TVMFFIErrorCreate`, with the error that caused this one and an object for
 * the frontend; both may be NULL, and each gets its own reference. */
int TVMFFIErrorCreateWithCauseAndExtraContext(const TVMFFIByteArray* kind, const TVMFFIByteArray* message, const TVMFFIByteArray* backtrace, TVMFFIObjectHandle cause_chain, TVMFFIObjectHandle extra_context, TVMFFIObjectHandle* out);

/* Returns the backtrace of the caller as a string, one line per frame, most recent
 * call first; `filename`, `lineno` and `func`, if not NULL, are the first frame.
 * The backtrace ends where a call crossed from another language unless
 * `cross_ffi_boundary` is 1. Valid until the thread's next call. */
const TVMFFIByteArray* TVMFFIBacktrace(const char* filename, int lineno, const char* func, int cross_ffi_boundary);

/* Creates a tensor that owns a DLPack tensor, whose deleter runs when the tensor
 * is destroyed. On failure the caller still owns the DLPack tensor. The caller
 * owns the one reference in `*out`. */
int TVMFFITensorFromDLPack(DLManagedTensor* from, int32_t require_alignment, int32_t require_contiguous, TVMFFIObjectHandle* out);

/* Like `TVMFFITensorFromDLPack`, for the versioned form. */
int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned* from, int32_t require_alignment, int32_t require_contiguous, TVMFFIObjectHandle* out);

/* Creates a DLPack tensor that shares the tensor's data and keeps it alive until
 * its deleter is called. */
int TVMFFITensorToDLPack(TVMFFIObjectHandle from, DLManagedTensor** out);

/* Like `TVMFFITensorToDLPack`, in the versioned form. */
int TVMFFITensorToDLPackVersioned(TVMFFIObjectHandle from, DLManagedTensorVersioned** out);

/* Creates a tensor with the data, shape and strides of `prototype` that keeps
 * `source` alive. Does not check that the data belongs to `source`. The caller
 * owns the one reference in `*out`. */
int TVMFFITensorCreateUnsafeView(TVMFFIObjectHandle source, const DLTensor* prototype, TVMFFIObjectHandle* out);

/* Creates a string; up to 7 bytes are stored in the value itself. `*out` is
 * overwritten, not released. */
int TVMFFIStringFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out);

/* Creates bytes; up to 7 are stored in the value itself. `*out` is overwritten,
 * not released. */
int TVMFFIBytesFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out);

/* Parses a data type such as `float32`, `int8x4`, `bool`. */
int TVMFFIDataTypeFromString(const TVMFFIByteArray* text, DLDataType* out);

/* Formats a data type; `*out` is an owned string. */
int TVMFFIDataTypeToString(const DLDataType* dtype, TVMFFIAny* out);

/* If `*addr` is NULL, calls `init(addr)`, which stores a handle there; only one of
 * several threads calls it. Returns the result of `init`. */
int TVMFFIHandleInitOnce(void** addr, int (*init)(void**));

/* Sets `*addr` to NULL and calls `deinit` with the previous value, unless that was
 * NULL. */
int TVMFFIHandleDeinitOnce(void** addr, int (*deinit)(void*));

/* Returns the object allocator, which frontends may replace; never NULL. */
TVMFFICustomAllocator* TVMFFIGetCustomAllocator(void);

/* Replaces the object allocator; NULL restores the built-in one. */
int TVMFFISetCustomAllocator(TVMFFICustomAllocator* allocator);

/* Creates an integer from two's complement words, least significant first; one
 * that fits 64 bits becomes a plain integer. `*out` is overwritten, not released. */
int TVMFFIBigIntFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out);

/* Returns the two's complement words of an integer, least significant first;
 * borrowed from the value. */
TVMFFIByteArray TVMFFIBigIntGetContentByteArray(const TVMFFIAny* value);

#endif /* TVM_FFI_C_API_H_ */

/* ---- Functions of the environment: streams, allocators, signals, modules ------------------------------------------- */

#ifndef TVM_FFI_EXTRA_C_ENV_API_H_
#define TVM_FFI_EXTRA_C_ENV_API_H_

/* A device's work queue. */
typedef void* TVMFFIStreamHandle;

/* Sets this thread's current stream of a device; the previous one is written to
 * `*out_previous` unless that is NULL. */
int TVMFFIEnvSetStream(int32_t device_type, int32_t device_id, TVMFFIStreamHandle stream, TVMFFIStreamHandle* out_previous);

/* Returns this thread's current stream of a device; NULL if none was set. */
TVMFFIStreamHandle TVMFFIEnvGetStream(int32_t device_type, int32_t device_id);

/* Sets this thread's tensor allocator, and with `write_to_global` 1 also that of
 * all threads without their own; the thread's previous one is written to
 * `*out_previous` unless that is NULL. */
int TVMFFIEnvSetDLPackManagedTensorAllocator(DLPackManagedTensorAllocator allocator, int write_to_global, DLPackManagedTensorAllocator* out_previous);

/* Returns the tensor allocator: this thread's, else the one for all threads, else
 * NULL. */
DLPackManagedTensorAllocator TVMFFIEnvGetDLPackManagedTensorAllocator(void);

/* Creates a tensor like `prototype` (only type, device and shape are read) with
 * the current allocator. The caller owns the one reference in `*out`. */
int TVMFFIEnvTensorAlloc(DLTensor* prototype, TVMFFIObjectHandle* out);

/* Lets the frontend handle signals that have arrived; returns -1 with an error
 * raised if the work should stop. */
int TVMFFIEnvCheckSignals(void);

/* Registers a function of the frontend: `PyErr_CheckSignals`, `PyGILState_Ensure`,
 * `PyGILState_Release`. */
int TVMFFIEnvRegisterCAPI(const char* name, void* symbol);

/* Looks up a function in a library's imports, then among the global functions.
 * `*out` is borrowed from the library. */
int TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library_ctx, const char* name, TVMFFIObjectHandle* out);

/* Registers an address that is written into the variable of this name in each
 * library loaded from now on. */
int TVMFFIEnvModRegisterContextSymbol(const char* name, void* symbol);

/* Registers a symbol of the system library: code that is linked into the program
 * itself. */
int TVMFFIEnvModRegisterSystemLibSymbol(const char* name, void* symbol);

#endif /* TVM_FFI_EXTRA_C_ENV_API_H_ */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KERNPACK_C_API_H_ */
