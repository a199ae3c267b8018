// Errors in comparing, hashing and serializing: hooks that are not functions, return other types or
// call back with wrong arguments; broken access paths; calls with wrong arguments. One line each,
// the same with every library.
#include <tvm/ffi/reflection/access_path.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdio>
#include <string>

using namespace tvm::ffi;
namespace refl = tvm::ffi::reflection;

template <int kNumber>
struct HookedObj : public Object {
  int64_t number = 0;
  Any value;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
};
struct NoFunctionObj : HookedObj<0> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("errors.NoFunction", NoFunctionObj, Object);
};
struct NothingObj : HookedObj<1> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("errors.Nothing", NothingObj, Object);
};
struct TextObj : HookedObj<2> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("errors.Text", TextObj, Object);
};
struct OneArgumentObj : HookedObj<3> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("errors.OneArgument", OneArgumentObj, Object);
};
struct WrongArgumentObj : HookedObj<4> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("errors.WrongArgument", WrongArgumentObj, Object);
};

constexpr const char* kHooks[] = {"__s_equal__",    "__s_hash__",   "__ffi_eq__",       "__ffi_compare__",
                                  "__ffi_hash__", "__data_to_json__", "__data_from_json__"};

template <typename T>
Any Define(const Any& hook) {
  refl::ObjectDef<T>().def_ro("number", &T::number).def_ro("value", &T::value);
  for (const char* name : kHooks) refl::TypeAttrDef<T>().attr(name, hook);
  return Any(ObjectRef(make_object<T>()));
}

template <typename F>
void Try(const std::string& what, F f) {
  try {
    Any result = f();
    auto text = result.try_cast<String>();
    printf("%s -> %s %s\n", what.c_str(), result.GetTypeKey().c_str(), text ? text->c_str() : "");
  } catch (const Error& e) {
    printf("%s -> %s: %s\n", what.c_str(), e.kind().c_str(), std::string(e.message()).c_str());
  }
}

Function Global(const char* name) { return Function::GetGlobalRequired(name); }

// The last argument of a hook is its callback.
Function Callback(const PackedArgs& args) { return args[args.size() - 1].cast<Function>(); }

template <typename T>
void Hooks(const char* name, const Any& hook) {
  Any left = Define<T>(hook), right = Any(ObjectRef(make_object<T>()));
  Try(std::string(name) + " StructuralEqual", [&] { return Global("ffi.StructuralEqual")(left, right, false, false); });
  Try(std::string(name) + " mismatch",
      [&] { return Global("ffi.GetFirstStructuralMismatch")(left, right, false, false); });
  Try(std::string(name) + " StructuralHash", [&] { return Global("ffi.StructuralHash")(left, false, false); });
  Try(std::string(name) + " RecursiveEq", [&] { return Global("ffi.RecursiveEq")(left, right); });
  Try(std::string(name) + " RecursiveLt", [&] { return Global("ffi.RecursiveLt")(left, right); });
  Try(std::string(name) + " RecursiveHash", [&] { return Global("ffi.RecursiveHash")(left); });
  Try(std::string(name) + " ToJSONGraphString", [&] { return Global("ffi.ToJSONGraphString")(left, nullptr); });
  std::string node = "{\"type\":\"" + left.GetTypeKey() + "\",\"data\":1}";
  Try(std::string(name) + " FromJSONGraphString", [&] {
    return Global("ffi.FromJSONGraphString")(String("{\"root_index\":0,\"nodes\":[" + node + "]}"));
  });
}

void Keys() {
  auto key = [](const Any& value) {
    return Global("ffi.MakeObjectFromPackedArgs")("ffi.StructuralKey", "key", value, "hash_i64", 5);
  };
  Any left = key(ObjectRef(make_object<NoFunctionObj>())), right = key(ObjectRef(make_object<NoFunctionObj>()));
  Try("AnyEqual", [&] { return Any(AnyEqual()(left, right)); });
  Try("Map", [&] {
    Map<Any, Any> map;
    map.Set(left, Any(1));
    return Any(static_cast<int64_t>(map.count(right)));
  });
}

void Steps() {
  Function make = Global("ffi.MakeObjectFromPackedArgs"), repr = Global("ffi.ReprPrint");
  for (int kind = 0; kind < 6; ++kind) {
    for (const Any& key : {Any(1), Any(String("a")), Any(String("a longer text")), Any(nullptr), Any(1.5)}) {
      Try("step " + std::to_string(kind),
          [&] { return repr(make("ffi.reflection.AccessStep", "kind", kind, "key", key)); });
    }
  }
  Any step = make("ffi.reflection.AccessStep", "kind", 2, "key", 1);
  TVMFFIByteArray column{"__ffi_repr__", 12};
  TVMFFIAny hook = TVMFFIGetTypeAttrColumn(&column)->data[step.type_index()];
  Function print = AnyView::CopyFromTVMFFIAny(hook).cast<Function>();
  Try("repr of another", [&] { return print(ObjectRef(make_object<NothingObj>()), repr); });
  Try("repr of none", [&] { return print(nullptr, repr); });
  Try("repr that is not text", [&] { return print(step, Function::FromTyped([](AnyView) { return 5; })); });

  auto method = [](const char* name) { return refl::GetMethod("ffi.reflection.AccessPath", name); };
  Any root = method("_root")();
  Any path = method("_attr")(root, "a");
  Try("prefix", [&] { return method("_is_prefix_of")(root, path); });
  Try("extend by none", [&] { return method("_extend")(root, nullptr); });
  Try("extend by a path", [&] { return method("_extend")(root, root); });
  Try("attribute 1", [&] { return method("_attr")(root, 1); });
  Try("attribute of 1", [&] { return method("_attr")(1, "a"); });
  auto make_path = [&](const Any& parent, const Any& step, const Any& depth) {
    return make("ffi.reflection.AccessPath", "parent", parent, "step", step, "depth", depth);
  };
  Try("no step", [&] { return method("_to_steps")(make_path(root, nullptr, 1)); });
  Try("no path", [&] { return method("_to_steps")(make_path(step, step, 1)); });
  Try("parent 1", [&] { return make_path(1, step, 1); });
  Try("step 1", [&] { return make_path(root, 1, 1); });
  Try("depth x", [&] { return make_path(root, step, "x"); });
}

void Calls() {
  for (const char* name :
       {"ffi.StructuralEqual", "ffi.StructuralHash", "ffi.RecursiveEq", "ffi.ToJSONGraph", "ffi.FromJSONGraphString",
        "ffi.StructuralKey", "ffi.StructuralKeyEqual", "ffi.RecursiveHash"}) {
    Function function = Global(name);
    Try(name, [&] { return function(); });
    Try(name, [&] { return function(1, 2, 3, 4); });
    Try(name, [&] { return function("a", "b"); });
    Try(name, [&] { return function("a", "b", "c", "d"); });
    Try(name, [&] { return function("a", "b", 1); });
  }
}

int main() {
  Hooks<NoFunctionObj>("no function", Any(7));
  Hooks<NothingObj>("nothing", Function::FromPacked([](PackedArgs, Any* result) { *result = nullptr; }));
  Hooks<TextObj>("text", Function::FromPacked([](PackedArgs, Any* result) { *result = String("x"); }));
  Hooks<OneArgumentObj>("one argument", Function::FromPacked([](PackedArgs args, Any* result) {
    *result = Callback(args)(1);
  }));
  Hooks<WrongArgumentObj>("wrong argument", Function::FromPacked([](PackedArgs args, Any* result) {
    *result = Callback(args)(1, "a", "b", 4);
  }));
  Keys();
  Steps();
  Calls();
}
