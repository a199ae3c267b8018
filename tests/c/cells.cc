// Works on objects that Rust made, with the inline code of the stock headers.
// tests/tests/abi/capi.rs loads it and does its own half of the work on the same objects. A
// `Status` is 0, or -1 with the error raised in libtvm_ffi.so.
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace ffi = tvm::ffi;

using Status = int;

// An argument: a view that the caller keeps.
static ffi::Any Owned(const TVMFFIAny* view) { return ffi::Any(*reinterpret_cast<const ffi::AnyView*>(view)); }

// A result: the caller owns it.
static void Give(ffi::Any&& value, TVMFFIAny* out) { *out = ffi::detail::AnyUnsafe::MoveAnyToTVMFFIAny(std::move(value)); }

template <typename Ref>
static Ref Borrow(TVMFFIObjectHandle handle) {
  return ffi::detail::ObjectUnsafe::ObjectRefFromObjectPtr<Ref>(
      ffi::detail::ObjectUnsafe::ObjectPtrFromUnowned<ffi::Object>(static_cast<TVMFFIObject*>(handle)));
}

using Dict = ffi::Dict<ffi::Any, ffi::Any>;

extern "C" Status DictSet(TVMFFIObjectHandle dict, const TVMFFIAny* key, const TVMFFIAny* value) {
  TVM_FFI_SAFE_CALL_BEGIN();
  Borrow<Dict>(dict).Set(Owned(key), Owned(value));
  TVM_FFI_SAFE_CALL_END();
}

// None if the key is missing. Works for both.
extern "C" Status MapGet(TVMFFIObjectHandle map, const TVMFFIAny* key, TVMFFIAny* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  const auto* obj = static_cast<const ffi::MapBaseObj*>(Borrow<ffi::ObjectRef>(map).get());
  auto found = obj->find(Owned(key));
  Give(found == obj->end() ? ffi::Any() : ffi::Any(found->second), out);
  TVM_FFI_SAFE_CALL_END();
}

extern "C" int64_t ShapeProduct(TVMFFIObjectHandle shape) { return Borrow<ffi::Shape>(shape).Product(); }

// Sum of all elements of a float32 tensor, through its strides.
extern "C" double TensorSum(TVMFFIObjectHandle handle) {
  auto tensor = Borrow<ffi::Tensor>(handle);
  const float* data = static_cast<const float*>(tensor.data_ptr());
  double sum = 0;
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    for (int64_t j = 0; j < tensor.size(1); ++j) sum += data[i * tensor.stride(0) + j * tensor.stride(1)];
  }
  return sum;
}

// Throws the error, catches it, appends to its backtrace, and raises it again.
extern "C" Status ThrowAndRaise(TVMFFIObjectHandle error) {
  TVM_FFI_SAFE_CALL_BEGIN();
  try {
    throw Borrow<ffi::Error>(error);
  } catch (ffi::Error& caught) {
    TVMFFIByteArray more{"  in C++\n", 9};
    caught.UpdateBacktrace(&more, kTVMFFIBacktraceUpdateModeAppend);
    throw;
  }
  TVM_FFI_SAFE_CALL_END();
}

// The full message of an error, the message of its cause, and its extra context.
extern "C" Status DescribeError(TVMFFIObjectHandle handle, TVMFFIAny* text, TVMFFIAny* cause, TVMFFIAny* extra) {
  TVM_FFI_SAFE_CALL_BEGIN();
  auto error = Borrow<ffi::Error>(handle);
  Give(ffi::String(error.FullMessage()), text);
  if (auto found = error.cause_chain()) Give(ffi::String(found->what()), cause);
  if (auto found = error.extra_context()) Give(ffi::Any(*found), extra);
  TVM_FFI_SAFE_CALL_END();
}

// Calls a function that Rust made; its error becomes an exception and is raised again.
extern "C" Status CallTwice(TVMFFIObjectHandle function, const TVMFFIAny* argument, TVMFFIAny* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  auto callee = Borrow<ffi::Function>(function);
  Give(callee(callee(Owned(argument))), out);
  TVM_FFI_SAFE_CALL_END();
}

// A type whose keys are equal if their numbers are equal modulo 1000.
class NumberObj : public ffi::Object {
 public:
  int64_t number = 0;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("cells.Number", NumberObj, ffi::Object);
};

static int64_t Number(const TVMFFIAny* value) { return reinterpret_cast<const NumberObj*>(value->v_obj)->number; }

extern "C" TVMFFIAny HashNumber(const TVMFFIAny* value) {
  TVMFFIAny result{};
  if (Number(value) < 0) {
    Give(ffi::Error("ValueError", "negative numbers have no hash", ""), &result);
    return result;
  }
  result.type_index = kTVMFFIInt;
  result.v_int64 = Number(value) % 1000;
  return result;
}

extern "C" TVMFFIAny EqualNumbers(const TVMFFIAny* left, const TVMFFIAny* right) {
  TVMFFIAny result{};
  result.type_index = kTVMFFIBool;
  result.v_int64 = Number(left) % 1000 == Number(right) % 1000;
  return result;
}

extern "C" Status RegisterNumber() {
  TVMFFIByteArray hash{"__any_hash__", 12}, equal{"__any_equal__", 13};
  TVMFFIAny hook{};
  hook.type_index = kTVMFFIOpaquePtr;
  hook.v_ptr = reinterpret_cast<void*>(HashNumber);
  if (TVMFFITypeRegisterAttr(NumberObj::RuntimeTypeIndex(), &hash, &hook) != 0) return -1;
  hook.v_ptr = reinterpret_cast<void*>(EqualNumbers);
  return TVMFFITypeRegisterAttr(NumberObj::RuntimeTypeIndex(), &equal, &hook);
}

extern "C" void NewNumber(int64_t number, TVMFFIAny* out) {
  auto object = ffi::make_object<NumberObj>();
  object->number = number;
  Give(ffi::ObjectRef(object), out);
}
