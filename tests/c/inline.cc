// A C++ program that is compiled with the stock headers, whose inline code does most of the work
// itself, and linked with our libtvm_ffi.so.
#include <tvm/ffi/big_int.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace ffi = tvm::ffi;

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

// Runs the action, which must throw an error of this kind whose message contains `part`.
template <typename Action>
static void CheckThrows(const char* kind, const char* part, Action action) {
  try {
    action();
  } catch (const ffi::Error& error) {
    if (error.kind() == kind && error.message().find(part) != std::string::npos) return;
    std::fprintf(stderr, "expected %s with '%s', got %s\n", kind, part, error.what());
    std::exit(1);
  }
  std::fprintf(stderr, "expected %s with '%s', got no error\n", kind, part);
  std::exit(1);
}

class PointObj : public ffi::Object {
 public:
  int64_t x = 0;
  ffi::String name;
  int64_t Double() const { return 2 * x; }
  static constexpr bool _type_mutable = true;
  static constexpr uint32_t _type_child_slots = 2;
  TVM_FFI_DECLARE_OBJECT_INFO("inline.Point", PointObj, ffi::Object);
};

class Point3Obj : public PointObj {
 public:
  double z = 0;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("inline.Point3", Point3Obj, PointObj);
};

class Point3 : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Point3, ffi::ObjectRef, Point3Obj);
};

static void Texts() {
  ffi::String small = "seven77", large = "more than seven bytes";
  ffi::Any value = large;
  CHECK(value.cast<ffi::String>() == large && small.size() == 7);
  CHECK(small + "-" + large == "seven77-more than seven bytes");
  CHECK(ffi::AnyHash()(ffi::Any(ffi::String("ab"))) == ffi::AnyHash()(ffi::Any(ffi::String(std::string("ab")))));
  CHECK(ffi::Bytes(std::string("\0x", 2)).size() == 2);
}

static void Containers() {
  ffi::Array<ffi::Any> array;
  for (int i = 0; i < 100; ++i) array.push_back(i % 3 == 0 ? ffi::Any(ffi::String("item")) : ffi::Any(i));
  ffi::Array<ffi::Any> copy = array;
  copy.Set(1, ffi::String("changed"));
  CHECK(array.size() == 100 && array[1].cast<int>() == 1 && copy[1].cast<ffi::String>() == "changed");
  CheckThrows("IndexError", "Index 100 out of bounds 100", [&] { (void)array[100]; });

  ffi::List<int64_t> list{3, 1, 2};
  list.push_back(4);
  list.erase(list.begin());
  CHECK(list.size() == 3 && list[0] == 1);

  ffi::Map<ffi::String, int64_t> map;
  ffi::Dict<ffi::Any, ffi::Any> dict;
  for (int i = 0; i < 1000; ++i) {
    map.Set("key" + std::to_string(i), i);
    dict.Set(i, ffi::String("value"));
  }
  for (int i = 0; i < 1000; i += 2) {
    map.erase("key" + std::to_string(i));
    dict.erase(ffi::Any(i));
  }
  CHECK(map.size() == 500 && map.at("key501") == 501 && dict.size() == 500);
  CheckThrows("KeyError", "key is not in Map", [&] { (void)map.at("key2"); });
  ffi::Shape shape{2, 3, 4};
  CHECK(shape.Product() == 24);
}

static void Functions() {
  auto add = ffi::Function::FromTyped([](int64_t a, int64_t b) { return a + b; }, "add");
  CHECK(add(40, 2).cast<int64_t>() == 42);
  CheckThrows("TypeError", "Mismatched number of arguments", [&] { add(1); });
  ffi::Function::SetGlobal("inline.add", add);
  CheckThrows("RuntimeError", "already registered", [&] { ffi::Function::SetGlobal("inline.add", add); });
  ffi::Function::SetGlobal("inline.add", add, true);
  CHECK(ffi::Function::GetGlobalRequired("inline.add")(1, 2).cast<int64_t>() == 3);
  CHECK(!ffi::Function::GetGlobal("inline.missing").has_value());

  auto fail = ffi::Function::FromTyped([](const ffi::String& why) -> void { TVM_FFI_THROW(ValueError) << "because " << why; });
  CheckThrows("ValueError", "because of that", [&] { fail("of that"); });
  // Through the C calling convention and the error slot.
  ffi::AnyView argument = "of this";
  ffi::Any result;
  CHECK(TVMFFIFunctionCall(const_cast<ffi::FunctionObj*>(fail.get()), reinterpret_cast<TVMFFIAny*>(&argument), 1,
                           reinterpret_cast<TVMFFIAny*>(&result)) == -1);
  ffi::Error error = ffi::detail::MoveFromSafeCallRaised();
  CHECK(error.kind() == "ValueError" && error.message() == "because of this");
  CHECK(error.backtrace().find("inline.cc") != std::string::npos);

  static int destroyed = 0;
  {
    auto extern_c = ffi::Function::FromExternC(
        &destroyed,
        [](void* self, const TVMFFIAny*, int32_t, TVMFFIAny* rv) {
          rv->type_index = kTVMFFIInt;
          rv->v_int64 = *static_cast<int*>(self) + 10;
          return 0;
        },
        [](void* self) { *static_cast<int*>(self) += 1; });
    CHECK(extern_c().cast<int>() == 10 && destroyed == 0);
  }
  CHECK(destroyed == 1);
}

static void Types() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<PointObj>().def_rw("x", &PointObj::x, "Abscissa.", refl::DefaultValue(7)).def_ro("name", &PointObj::name).def(
      "double", &PointObj::Double);
  refl::ObjectDef<Point3Obj>().def_ro("z", &Point3Obj::z);
  refl::GlobalDef().def("inline.point_x", [](const Point3& point) { return point->x; });

  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(Point3Obj::RuntimeTypeIndex());
  CHECK(info->type_depth == 2 && info->type_ancestors[1]->type_index == PointObj::RuntimeTypeIndex());
  CHECK(info->type_index == PointObj::RuntimeTypeIndex() + 1);
  const TVMFFITypeInfo* parent = info->type_ancestors[1];
  CHECK(parent->num_fields == 2 && parent->num_methods == 1 && parent->metadata->total_size == sizeof(PointObj));
  CHECK(std::string(parent->fields[0].doc.data) == "Abscissa." && parent->fields[0].default_value_or_factory.v_int64 == 7);

  auto object = ffi::make_object<Point3Obj>();
  object->x = 21;
  Point3 point(object);
  CHECK(point.as<PointObj>() != nullptr && ffi::Any(point).as<PointObj>()->x == 21);
  CHECK(ffi::Function::GetGlobalRequired("inline.point_x")(point).cast<int>() == 21);
  refl::FieldGetter get_x("inline.Point", "x");
  CHECK(get_x(object.get()).cast<int>() == 21);
  refl::FieldSetter("inline.Point", "x")(object.get(), 5);
  CHECK(object->x == 5);
  CHECK(refl::GetMethod("inline.Point", "double")(point).cast<int>() == 10);
  CheckThrows("TypeError", "inline.Point", [&] { ffi::Any(ffi::String("no point")).cast<Point3>(); });
  CheckThrows("InternalError", "Cannot find type `inline.None`", [&] { refl::FieldGetter("inline.None", "x"); });
}

struct HeapAlloc {
  void AllocData(DLTensor* tensor) { tensor->data = std::malloc(ffi::GetDataSize(*tensor)); }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

static void Tensors() {
  auto tensor = ffi::Tensor::FromNDAlloc(HeapAlloc(), {2, 3}, DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  auto again = ffi::Tensor::FromDLPackVersioned(tensor.ToDLPackVersioned(), 4, true);
  CHECK(again.data_ptr() == tensor.data_ptr() && again.strides()[0] == 3);
  auto view = again.as_strided({3}, {2}, 1);
  CHECK(view.shape().size() == 1 && static_cast<char*>(view.data_ptr()) == static_cast<char*>(tensor.data_ptr()) + 4);
  CHECK(ffi::DLDataTypeToString(ffi::StringToDLDataType("float8_e4m3fn")) == "float8_e4m3fn");
  CheckThrows("ValueError", "unknown dtype `quaternion`", [&] { ffi::StringToDLDataType("quaternion"); });
  ffi::Any dtype = DLDataType{kDLInt, 8, 4};
  CHECK(ffi::Any(ffi::String("int8x4")).cast<DLDataType>().lanes == dtype.cast<DLDataType>().lanes);
}

static void BigInts() {
  ffi::BigInt big = ffi::BigInt(int64_t(1) << 62) * 4;
  ffi::Any value = big;
  CHECK(value.type_index() == ffi::TypeIndex::kTVMFFIBigInt && value.cast<ffi::BigInt>() / 8 == ffi::BigInt(int64_t(1) << 61));
}

int main() {
  Texts();
  Containers();
  Functions();
  Types();
  Tensors();
  BigInts();
  std::printf("inline C++: all checks passed\n");
  return 0;
}
