// The C++ peer: a library made with the stock headers.
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace {

int64_t Add(int64_t a, int64_t b) { return a + b; }

int64_t Fail(int64_t code) { TVM_FFI_THROW(ValueError) << "code " << code << " is not allowed"; }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, Add);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, Fail);
