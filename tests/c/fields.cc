// C++ object types with fields of every kind, for visitors in Rust. A library that is loaded with
// any libtvm_ffi.so in the process.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/device.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/reflection/registry.h>

using namespace tvm::ffi;
namespace refl = tvm::ffi::reflection;

struct BaseObj : public Object {
  int64_t wide = -5;
  bool flag = true;
  TVM_FFI_DECLARE_OBJECT_INFO("fields.Base", BaseObj, Object);
};

struct AllObj : public BaseObj {
  int8_t tiny = -1;
  uint16_t little = 60000;
  int32_t narrow = -70000;
  uint32_t small = 7;
  uint32_t large = 4000000000u;
  double real = 1.5;
  float half = 0.25f;
  String text = "text of a length that takes an object";
  String invalid = String(std::string("\xff!"));
  Bytes bytes = Bytes(std::string("\0\xff", 2));
  void* pointer = reinterpret_cast<void*>(16);
  DLDataType dtype{kDLFloat, 32, 4};
  DLDevice device{kDLCUDA, 1};
  Optional<int64_t> some = 3;
  Optional<int64_t> none;
  Any any = 2.5;
  Array<int64_t> array{1, 2, 3};
  Map<String, int64_t> map{{"a", 1}};
  Shape shape{2, 3};
  ObjectRef object = ObjectRef(make_object<BaseObj>());
  ObjectRef nothing;
  Optional<ObjectRef> same;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("fields.All", AllObj, BaseObj);
};

struct ThrowsObj : public Object {
  int64_t first = 1;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("fields.Throws", ThrowsObj, Object);
};

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<BaseObj>().def_ro("wide", &BaseObj::wide).def_ro("flag", &BaseObj::flag);
  refl::ObjectDef<AllObj>()
      .def_ro("tiny", &AllObj::tiny)
      .def_ro("little", &AllObj::little)
      .def_ro("narrow", &AllObj::narrow)
      .def_ro("small", &AllObj::small)
      .def_ro("large", &AllObj::large)
      .def_ro("real", &AllObj::real)
      .def_ro("half", &AllObj::half)
      .def_ro("text", &AllObj::text)
      .def_ro("invalid", &AllObj::invalid)
      .def_ro("bytes", &AllObj::bytes)
      .def_ro("pointer", &AllObj::pointer)
      .def_ro("dtype", &AllObj::dtype)
      .def_ro("device", &AllObj::device)
      .def_ro("some", &AllObj::some)
      .def_ro("none", &AllObj::none)
      .def_ro("any", &AllObj::any)
      .def_ro("array", &AllObj::array)
      .def_ro("map", &AllObj::map)
      .def_ro("shape", &AllObj::shape)
      .def_ro("object", &AllObj::object)
      .def_ro("nothing", &AllObj::nothing)
      .def_ro("same", &AllObj::same);
  refl::ObjectDef<ThrowsObj>().def_ro("first", &ThrowsObj::first);
  TVMFFIFieldInfo broken{};
  broken.name = TVMFFIByteArray{"broken", 6};
  broken.doc = broken.metadata = TVMFFIByteArray{nullptr, 0};
  broken.size = broken.alignment = 8;
  broken.offset = sizeof(TVMFFIObject);
  broken.field_static_type_index = kTVMFFIInt;
  broken.getter = [](void*, TVMFFIAny*) -> int {
    TVM_FFI_SAFE_CALL_BEGIN();
    TVM_FFI_THROW(KeyError) << "no value today";
    TVM_FFI_SAFE_CALL_END();
  };
  TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeRegisterField(ThrowsObj::_GetOrAllocRuntimeTypeIndex(), &broken));
  refl::GlobalDef()
      .def("fields.all",
           [] {
             auto all = make_object<AllObj>();
             all->same = all->object;
             return ObjectRef(all);
           })
      .def("fields.throws", [] { return ObjectRef(make_object<ThrowsObj>()); });
}
