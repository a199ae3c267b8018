// The C++ peer: a library made with the stock headers.
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace {

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;

int64_t Add(int64_t a, int64_t b) { return a + b; }

int64_t Fail(int64_t code) { TVM_FFI_THROW(ValueError) << "code " << code << " is not allowed"; }

int64_t FirstDimension(ffi::TensorView x) { return x.size(0); }

// The type of kernpack-lib, in C++.
class RecordObj : public ffi::Object {
 public:
  int64_t count = 0;
  double scale = 0;
  ffi::String label;
  ffi::Optional<ffi::ObjectRef> next;

  RecordObj() = default;

  int64_t Count() const { return count; }
  int64_t Plus(int64_t a) const { return count + a; }
  int64_t PlusTwo(int64_t a, int64_t b) const { return count + a + b; }

  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("bench.cpp.Record", RecordObj, ffi::Object);
};

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<RecordObj>()
      .def_ro("count", &RecordObj::count)
      .def_ro("scale", &RecordObj::scale)
      .def_ro("label", &RecordObj::label)
      .def_ro("next", &RecordObj::next)
      .def("get", &RecordObj::Count)
      .def("plus", &RecordObj::Plus)
      .def("plus_two", &RecordObj::PlusTwo);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, Add);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, Fail);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(view, FirstDimension);
