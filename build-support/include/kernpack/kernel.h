/* What a kernel in C or C++ needs to be called from every language.
 *
 * A kernel is a packed function: it gets its arguments as an array of tagged values, writes its result into a tagged
 * value, and returns 0, or -1 after it raised an error. kernpack-build finds kernels by their names:
 *
 *     #include <kernpack/kernel.h>
 *
 *     // Multiplies all elements.
 *     // kernpack: scale(tensor: mut Tensor[float32], factor: float)
 *     KERNPACK_KERNEL(scale) {
 *       DLTensor* tensor;
 *       double factor;
 *       if (kernpack_arg_count("scale", num_args, 2) != 0 ||
 *           kernpack_arg_tensor("scale", args, 0, &tensor) != 0 ||
 *           kernpack_arg_float("scale", args, 1, &factor) != 0) return -1;
 *       if (!kernpack_dtype_is(tensor, kDLFloat, 32) || !kernpack_is_contiguous(tensor)) {
 *         return kernpack_raise("TypeError", "scale: argument 0: expected a contiguous float32 tensor");
 *       }
 *       float* data = (float*)kernpack_data(tensor);
 *       for (int64_t i = 0; i < kernpack_element_count(tensor); ++i) data[i] *= (float)factor;
 *       return 0;  // result is None unless something is returned into it
 *     }
 *
 * The comment in front of a kernel is its documentation in every language. The line `kernpack: name(argument: type, ..) -> type` in it is
 * taken out: it makes the kernel a Rust function with these types (kernels::typed::scale), and tells hosts names and types. Types are int,
 * int8 to int64, uint8 to uint64, float, float32, float64, bool, str, bytes, Tensor, Tensor[float32] (or another type of elements), mut
 * Tensor[..] for one that is written to, Device, DataType, Function, Any, and for a result None.
 *
 * Arguments are borrowed for the duration of the call. The result is None when the kernel starts. A C++ kernel must not
 * let an exception out. The types have the names and layouts of the TVM FFI C ABI and of DLPack; include
 * <tvm/ffi/c_api.h> first to use that header's own definitions instead.
 */
#ifndef KERNPACK_KERNEL_H_
#define KERNPACK_KERNEL_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types ------------------------------------------------------------------------------------------------------ */

#ifndef DLPACK_DLPACK_H_

/* Where memory is. */
typedef enum {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLCUDAManaged = 13
} DLDeviceType;

/* A device: kind, and which one of that kind, from 0. */
typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

/* What an element is made of. */
typedef enum {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6
} DLDataTypeCode;

/* Type of an element: one of DLDataTypeCode, bits of a lane, number of lanes (1 unless it is a vector). */
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

/* A borrowed tensor. Shape and strides count elements. */
typedef struct {
  void* data;           /* see kernpack_data */
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;       /* ndim numbers */
  int64_t* strides;     /* ndim numbers; NULL means contiguous, last dimension fastest */
  uint64_t byte_offset; /* from data to the first element */
} DLTensor;

#endif /* DLPACK_DLPACK_H_ */

#ifndef TVM_FFI_C_API_H_

/* Type of a value. Values from kTVMFFIStaticObjectBegin on are objects. */
typedef enum {
  kTVMFFINone = 0,
  kTVMFFIInt = 1,
  kTVMFFIBool = 2,
  kTVMFFIFloat = 3,
  kTVMFFIOpaquePtr = 4,
  kTVMFFIDataType = 5,
  kTVMFFIDevice = 6,
  kTVMFFIDLTensorPtr = 7,
  kTVMFFIRawStr = 8,
  kTVMFFIByteArrayPtr = 9,
  kTVMFFIObjectRValueRef = 10,
  kTVMFFISmallStr = 11,
  kTVMFFISmallBytes = 12,
  kTVMFFIStaticObjectBegin = 64,
  kTVMFFIObject = 64,
  kTVMFFIStr = 65,
  kTVMFFIBytes = 66,
  kTVMFFIError = 67,
  kTVMFFIFunction = 68,
  kTVMFFIShape = 69,
  kTVMFFITensor = 70,
  kTVMFFIArray = 71,
  kTVMFFIMap = 72,
  kTVMFFIModule = 73
} TVMFFITypeIndex;

/* Header of every reference-counted object; what an object consists of follows it. */
typedef struct TVMFFIObject {
  uint64_t combined_ref_count;
  int32_t type_index;
  uint32_t __padding;
  void (*deleter)(void* self, int flags);
} TVMFFIObject;

/* A value: a type index of TVMFFITypeIndex or of a registered type, and the payload that belongs to it. */
typedef struct TVMFFIAny {
  int32_t type_index;
  union {
    uint32_t zero_padding;
    uint32_t small_str_len; /* kTVMFFISmallStr, kTVMFFISmallBytes: at most 7 */
  };
  union {
    int64_t v_int64;     /* kTVMFFIInt, kTVMFFIBool */
    double v_float64;    /* kTVMFFIFloat */
    void* v_ptr;         /* kTVMFFIOpaquePtr, kTVMFFIDLTensorPtr, kTVMFFIByteArrayPtr */
    const char* v_c_str; /* kTVMFFIRawStr */
    TVMFFIObject* v_obj; /* objects */
    DLDataType v_dtype;  /* kTVMFFIDataType */
    DLDevice v_device;   /* kTVMFFIDevice */
    char v_bytes[8];     /* kTVMFFISmallStr, kTVMFFISmallBytes */
    uint64_t v_uint64;
  };
} TVMFFIAny;

/* Borrowed bytes. */
typedef struct {
  const char* data;
  size_t size;
} TVMFFIByteArray;

#endif /* TVM_FFI_C_API_H_ */

/* ---- Defining kernels and raising errors ------------------------------------------------------------------------ */

#if defined(_WIN32)
#define KERNPACK_EXPORT __declspec(dllexport)
#else
#define KERNPACK_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define KERNPACK_EXTERN_C extern "C"
#else
#define KERNPACK_EXTERN_C
#endif

/* Starts the definition of the kernel `name`; its parameters are self, args, num_args and result. */
#define KERNPACK_KERNEL(name)                                                                             \
  KERNPACK_EXTERN_C KERNPACK_EXPORT int __tvm_ffi_##name(void* self, const TVMFFIAny* args, int32_t num_args, \
                                                         TVMFFIAny* result);                              \
  KERNPACK_EXTERN_C KERNPACK_EXPORT int __tvm_ffi_##name(                                                 \
      KERNPACK_UNUSED void* self, KERNPACK_UNUSED const TVMFFIAny* args, KERNPACK_UNUSED int32_t num_args, \
      KERNPACK_UNUSED TVMFFIAny* result)

#if defined(__GNUC__)
#define KERNPACK_UNUSED __attribute__((unused))
#else
#define KERNPACK_UNUSED
#endif

/* Sets the error of this thread and returns -1, so that a kernel ends with `return kernpack_raise(..)`. `kind` is the
 * name of a Python exception: "ValueError", "TypeError", "IndexError", "RuntimeError". Both strings are copied. The
 * Rust part of the library defines it. */
int kernpack_raise(const char* kind, const char* message);

/* The same with a format and arguments like printf's; messages are cut to 511 bytes. */
#define kernpack_raisef(kind, ...)                                       \
  (snprintf(kernpack_message_(), KERNPACK_MESSAGE_SIZE_, __VA_ARGS__), \
   kernpack_raise((kind), kernpack_message_()))

#define KERNPACK_MESSAGE_SIZE_ 512

#if defined(__cplusplus)
#define KERNPACK_THREAD_LOCAL_ thread_local
#else
#define KERNPACK_THREAD_LOCAL_ _Thread_local
#endif

KERNPACK_UNUSED static inline char* kernpack_message_(void) {
  static KERNPACK_THREAD_LOCAL_ char message[KERNPACK_MESSAGE_SIZE_];
  return message;
}

/* ---- Arguments: each returns 0, or -1 with an error raised that names the function and the argument -------------- */

/* Name of a value's type, as Python and error messages have it. */
KERNPACK_UNUSED static inline const char* kernpack_type_name(const TVMFFIAny* value) {
  switch (value->type_index) {
    case kTVMFFINone: return "None";
    case kTVMFFIInt: return "int";
    case kTVMFFIBool: return "bool";
    case kTVMFFIFloat: return "float";
    case kTVMFFIOpaquePtr: return "ctypes.c_void_p";
    case kTVMFFIDataType: return "dtype";
    case kTVMFFIDevice: return "Device";
    case kTVMFFIDLTensorPtr:
    case kTVMFFITensor: return "Tensor";
    case kTVMFFIRawStr:
    case kTVMFFISmallStr:
    case kTVMFFIStr: return "str";
    case kTVMFFIByteArrayPtr:
    case kTVMFFISmallBytes:
    case kTVMFFIBytes: return "bytes";
    case kTVMFFIFunction: return "Function";
    case kTVMFFIShape: return "Shape";
    case kTVMFFIArray: return "Array";
    case kTVMFFIMap: return "Map";
    case kTVMFFIModule: return "Module";
    default: return "object";
  }
}

/* Checks the number of arguments. */
KERNPACK_UNUSED static inline int kernpack_arg_count(const char* function, int32_t num_args, int32_t expected) {
  if (num_args == expected) return 0;
  kernpack_raisef("TypeError", "%s: expected %d argument%s, got %d", function, (int)expected,
                         expected == 1 ? "" : "s", (int)num_args);
  return -1;
}

/* The tensor in argument `index`, whether the host passed a tensor object or a DLTensor. */
KERNPACK_UNUSED static inline int kernpack_arg_tensor(const char* function, const TVMFFIAny* args, int32_t index,
                                                      DLTensor** out) {
  const TVMFFIAny* value = &args[index];
  if (value->type_index == kTVMFFITensor) {
    *out = (DLTensor*)((char*)value->v_obj + sizeof(TVMFFIObject));
    return 0;
  }
  if (value->type_index == kTVMFFIDLTensorPtr && value->v_ptr != NULL) {
    *out = (DLTensor*)value->v_ptr;
    return 0;
  }
  kernpack_raisef("TypeError", "%s: argument %d: expected Tensor, got %s", function, (int)index,
                         kernpack_type_name(value));
  return -1;
}

/* The integer in argument `index`; a bool counts as 0 or 1. */
KERNPACK_UNUSED static inline int kernpack_arg_int(const char* function, const TVMFFIAny* args, int32_t index,
                                                   int64_t* out) {
  const TVMFFIAny* value = &args[index];
  if (value->type_index == kTVMFFIInt || value->type_index == kTVMFFIBool) {
    *out = value->v_int64;
    return 0;
  }
  kernpack_raisef("TypeError", "%s: argument %d: expected int, got %s", function, (int)index,
                         kernpack_type_name(value));
  return -1;
}

/* The number in argument `index`, an int or bool included. */
KERNPACK_UNUSED static inline int kernpack_arg_float(const char* function, const TVMFFIAny* args, int32_t index,
                                                     double* out) {
  const TVMFFIAny* value = &args[index];
  switch (value->type_index) {
    case kTVMFFIFloat: *out = value->v_float64; return 0;
    case kTVMFFIInt:
    case kTVMFFIBool: *out = (double)value->v_int64; return 0;
    default:
      kernpack_raisef("TypeError", "%s: argument %d: expected float, got %s", function, (int)index,
                  kernpack_type_name(value));
  return -1;
  }
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* The first element. */
KERNPACK_UNUSED static inline void* kernpack_data(const DLTensor* tensor) {
  return (char*)tensor->data + tensor->byte_offset;
}

/* Whether elements are single values of that kind and size, such as (kDLFloat, 32). */
KERNPACK_UNUSED static inline int kernpack_dtype_is(const DLTensor* tensor, int code, int bits) {
  return tensor->dtype.code == code && tensor->dtype.bits == bits && tensor->dtype.lanes == 1;
}

/* Number of elements: the product of the shape. */
KERNPACK_UNUSED static inline int64_t kernpack_element_count(const DLTensor* tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->ndim; ++i) count *= tensor->shape[i];
  return count;
}

/* Whether the elements follow each other without gaps, last dimension fastest. */
KERNPACK_UNUSED static inline int kernpack_is_contiguous(const DLTensor* tensor) {
  int64_t expected = 1;
  if (tensor->strides == NULL || kernpack_element_count(tensor) == 0) return 1;
  for (int32_t i = tensor->ndim - 1; i >= 0; --i) {
    /* The stride of a dimension with one element is never used. */
    if (tensor->shape[i] != 1 && tensor->strides[i] != expected) return 0;
    expected *= tensor->shape[i];
  }
  return 1;
}

/* ---- Results: each returns 0, so that a kernel ends with `return kernpack_return_int(result, n)` ----------------- */

KERNPACK_UNUSED static inline int kernpack_return_int(TVMFFIAny* result, int64_t value) {
  result->type_index = kTVMFFIInt;
  result->zero_padding = 0;
  result->v_int64 = value;
  return 0;
}

KERNPACK_UNUSED static inline int kernpack_return_bool(TVMFFIAny* result, int value) {
  result->type_index = kTVMFFIBool;
  result->zero_padding = 0;
  result->v_int64 = value != 0;
  return 0;
}

KERNPACK_UNUSED static inline int kernpack_return_float(TVMFFIAny* result, double value) {
  result->type_index = kTVMFFIFloat;
  result->zero_padding = 0;
  result->v_float64 = value;
  return 0;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* KERNPACK_KERNEL_H_ */
