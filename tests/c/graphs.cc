// Random values and graphs of objects, compared, hashed and serialized through the global functions
// of the loaded libtvm_ffi.so. Libraries that agree print the same lines.
//
// Arguments: the mode, the first seed, the number of seeds. `values`: all of these operations.
// `hostile`: decodes broken JSON graphs, each in a process of its own.
#include <sys/mman.h>
#include <sys/wait.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/access_path.h>
#include <tvm/ffi/reflection/registry.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>
#include <unistd.h>

using namespace tvm::ffi;
namespace refl = tvm::ffi::reflection;

template <TVMFFISEqHashKind kind>
struct NodeObj : public Object {
  Any a, b;
  int64_t number = 0;
  double real = 0;
  String text;
  Any ignored;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kind;
};
struct TreeObj : NodeObj<kTVMFFISEqHashKindTreeNode> {
  TVM_FFI_DECLARE_OBJECT_INFO("graphs.Tree", TreeObj, Object);
};
struct DerivedObj : TreeObj {
  Any extra;
  DLDataType dtype{kDLInt, 32, 1};
  bool flag = false;
  DLDevice device{kDLCPU, 0};
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("graphs.Derived", DerivedObj, TreeObj);
};
struct DagObj : NodeObj<kTVMFFISEqHashKindDAGNode> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("graphs.Dag", DagObj, Object);
};
struct ConstObj : NodeObj<kTVMFFISEqHashKindConstTreeNode> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("graphs.Const", ConstObj, Object);
};
struct UniqueObj : NodeObj<kTVMFFISEqHashKindUniqueInstance> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("graphs.Unique", UniqueObj, Object);
};
struct VarObj : NodeObj<kTVMFFISEqHashKindFreeVar> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("graphs.Var", VarObj, Object);
};
struct FuncObj : NodeObj<kTVMFFISEqHashKindTreeNode> {  // a: pattern region, b: simple region, text: use
  Any body;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("graphs.Func", FuncObj, Object);
};
struct CustomObj : NodeObj<kTVMFFISEqHashKindTreeNode> {  // hooks
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("graphs.Custom", CustomObj, Object);
};
struct UnsupportedObj : NodeObj<kTVMFFISEqHashKindUnsupported> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("graphs.Unsupported", UnsupportedObj, Object);
};
struct EqOnlyObj : NodeObj<kTVMFFISEqHashKindTreeNode> {
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("graphs.EqOnly", EqOnlyObj, Object);
};
struct ByValueObj : NodeObj<kTVMFFISEqHashKindTreeNode> {  // hash and equality of keys by number
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("graphs.ByValue", ByValueObj, Object);
};

template <typename T>
void Define() {
  refl::ObjectDef<T> def;
  def.def_ro("a", &T::a).def_ro("b", &T::b).def_ro("number", &T::number).def_ro("real", &T::real);
  def.def_ro("text", &T::text);
  def.def_ro("ignored", &T::ignored, refl::AttachFieldFlag::SEqHashIgnore(), refl::compare(false));
}

int64_t ByValueHash(const Any& key) { return key.as<ByValueObj>()->number; }
bool ByValueEqual(const Any& l, const Any& r) {
  return l.as<ByValueObj>()->number == r.as<ByValueObj>()->number;
}

void Register() {
  Define<TreeObj>();
  refl::ObjectDef<DerivedObj>()
      .def_ro("extra", &DerivedObj::extra)
      .def_ro("dtype", &DerivedObj::dtype)
      .def_ro("flag", &DerivedObj::flag)
      .def_ro("device", &DerivedObj::device);
  Define<DagObj>();
  Define<ConstObj>();
  Define<UniqueObj>();
  Define<VarObj>();
  refl::ObjectDef<FuncObj>()
      .def_ro("a", &FuncObj::a, refl::AttachFieldFlag::SEqHashDefPattern())
      .def_ro("b", &FuncObj::b, refl::AttachFieldFlag::SEqHashDefSimple())
      .def_ro("number", &FuncObj::number)
      .def_ro("text", &FuncObj::text, refl::AttachFieldFlag::SEqHashIgnore())
      .def_ro("body", &FuncObj::body);
  Define<CustomObj>();
  Define<UnsupportedObj>();
  Define<EqOnlyObj>();
  Define<ByValueObj>();
  using EqCb = TypedFunction<bool(AnyView, AnyView, int, AnyView)>;
  using HashCb = TypedFunction<int64_t(AnyView, int64_t, int)>;
  refl::TypeAttrDef<CustomObj>()
      .def("__s_equal__",
           [](const Object* l, const Object* r, const EqCb& eq) {
             const auto *a = static_cast<const CustomObj*>(l), *b = static_cast<const CustomObj*>(r);
             int region = a->number % 3;
             if (!eq(a->a, b->a, region, "first")) {
               if (a->number % 7 != 0) return false;
               if (!eq(a->b, b->b, 0, "again")) return false;
               return true;
             }
             return eq(a->b, b->b, 0, "second") && eq(a->text, b->text, 0, "text");
           })
      .def("__s_hash__",
           [](const Object* o, int64_t init, const HashCb& hash) {
             const auto* a = static_cast<const CustomObj*>(o);
             return hash(a->text, hash(a->b, hash(a->a, init, a->number % 3), 0), 0);
           })
      .def("__ffi_eq__",
           [](const Object* l, const Object* r, const TypedFunction<bool(AnyView, AnyView)>& eq) {
             const auto *a = static_cast<const CustomObj*>(l), *b = static_cast<const CustomObj*>(r);
             return eq(a->b, b->b) && eq(a->a, b->a);
           })
      .def("__ffi_compare__",
           [](const Object* l, const Object* r, const TypedFunction<int32_t(AnyView, AnyView)>& cmp) {
             const auto *a = static_cast<const CustomObj*>(l), *b = static_cast<const CustomObj*>(r);
             int32_t c = cmp(a->b, b->b);
             return c != 0 ? c * 2 : cmp(a->a, b->a);
           })
      .def("__ffi_hash__", [](const Object* o, const TypedFunction<int64_t(AnyView)>& hash) {
        const auto* a = static_cast<const CustomObj*>(o);
        return hash(a->a) ^ (hash(a->b) * 31);
      });
  refl::TypeAttrDef<EqOnlyObj>().def(
      "__ffi_compare__",
      [](const Object* l, const Object* r, const TypedFunction<int32_t(AnyView, AnyView)>& cmp) {
        const auto *a = static_cast<const EqOnlyObj*>(l), *b = static_cast<const EqOnlyObj*>(r);
        return cmp(a->a, b->a);
      });
  refl::TypeAttrDef<ByValueObj>()
      .native_fn_attr<&ByValueHash>(type_attr::kAnyHash)
      .native_fn_attr<&ByValueEqual>(type_attr::kAnyEqual);
  refl::TypeAttrDef<UnsupportedObj>()
      .def("__data_to_json__",
           [](AnyView v) -> Any {
             const auto* self = static_cast<const UnsupportedObj*>(v.cast<const Object*>());
             return Map<String, Any>{{"n", self->number}};
           })
      .def("__data_from_json__", [](AnyView v) -> Any {
        auto obj = make_object<UnsupportedObj>();
        obj->number = v.cast<Map<String, Any>>()["n"].cast<int64_t>();
        return ObjectRef(obj);
      });
}

struct Rng {
  uint64_t s;
  uint64_t next() {
    uint64_t z = (s += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return next() % n; }
};

// Variables are at fixed addresses, because their hash may be their address.
char* arena;
size_t arena_used;
constexpr size_t kArena = 1 << 26;
std::vector<VarObj*> arena_vars;
void ClearArena() {
  for (VarObj* var : arena_vars) var->text = String("");
  arena_vars.clear();
  arena_used = 0;
}
ObjectRef NewVar(String name) {
  auto* p = new (arena + arena_used) VarObj();
  arena_vars.push_back(p);
  arena_used = (arena_used + sizeof(VarObj) + 15) / 16 * 16;
  p->text = name;
  auto* header = reinterpret_cast<TVMFFIObject*>(static_cast<Object*>(p));
  header->combined_ref_count = (1ULL << 32) | 1;
  header->type_index = VarObj::RuntimeTypeIndex();
  header->deleter = [](void*, int) {};
  return ObjectRef(detail::ObjectUnsafe::ObjectPtrFromOwned<Object>(static_cast<Object*>(p)));
}

struct Gen {
  Rng r;          // the shape
  Rng p;          // where this one differs
  uint64_t odds;  // one in so many leaves differs; 0: none
  std::vector<Any> pool = {};
  std::vector<ObjectRef> vars = {};
  bool flip() { return odds != 0 && p.below(odds) == 0; }

  std::string Text() {
    size_t n = r.below(4) == 0 ? r.below(30) : r.below(9);
    std::string t;
    for (size_t i = 0; i < n; ++i) t.push_back("abcdefgh \"\\\n\t\x01z"[r.below(15)]);
    if (flip()) t += "!";
    return t;
  }
  Any Leaf() {
    switch (r.below(13)) {
      case 0: return Any(nullptr);
      case 1: return Any(static_cast<int64_t>(r.below(5)) + (flip() ? 1 : 0));
      case 2: return Any(static_cast<int64_t>(r.next()) + (flip() ? 1 : 0));
      case 3: return Any(r.below(2) == 0);
      case 4: {
        double values[] = {0.0, -0.0, 1.5, -3.25, std::numeric_limits<double>::quiet_NaN(), 1e300,
                           std::numeric_limits<double>::infinity(), 0.1};
        double v = values[r.below(8)];
        if (std::isnan(v) && flip()) {
          uint64_t bits = 0x7ff8000000000123ULL;
          memcpy(&v, &bits, 8);
        }
        return Any(v);
      }
      case 5: return Any(DLDataType{static_cast<uint8_t>(r.below(3)), 32, static_cast<uint16_t>(1 + r.below(4))});
      case 6: return Any(DLDevice{r.below(2) ? kDLCPU : kDLCUDA, static_cast<int32_t>(r.below(3))});
      case 7: return Any(Bytes(Text()));
      case 8: {
        std::vector<int64_t> dims;
        for (uint64_t i = r.below(4); i > 0; --i) dims.push_back(static_cast<int64_t>(r.below(4)) + (flip() ? 1 : 0));
        return Any(Shape(dims));
      }
      case 9: return Big();
      default: return Any(String(Text()));
    }
  }
  // An integer of one to three words.
  Any Big() {
    int64_t words[3] = {static_cast<int64_t>(r.next()), static_cast<int64_t>(r.below(3)) - 1,
                        static_cast<int64_t>(r.below(5)) - 2};
    TVMFFIByteArray bytes{reinterpret_cast<const char*>(words), (1 + r.below(3)) * 8};
    TVMFFIAny big;
    if (TVMFFIBigIntFromByteArray(&bytes, &big) != 0) abort();
    return detail::AnyUnsafe::MoveTVMFFIAnyToAny(&big);
  }
  Any Key() {
    switch (r.below(8)) {
      case 0: return Any(static_cast<int64_t>(r.below(20)));
      case 1: return Any(r.below(2) == 0);
      case 2: return Any(0.5 * static_cast<double>(r.below(4)));
      case 3: return Any(Bytes(Text()));
      case 4: return vars.empty() ? Any(nullptr) : Any(vars[r.below(vars.size())]);
      case 5: {
        auto o = make_object<ByValueObj>();
        o->number = static_cast<int64_t>(r.below(6));
        return Any(ObjectRef(o));
      }
      default: return Any(String(Text()));
    }
  }
  template <typename T>
  Any Node(int depth, T* node, ObjectPtr<T> own) {
    node->a = Value(depth - 1);
    node->b = Value(depth - 1);
    node->number = static_cast<int64_t>(r.below(9)) + (flip() ? 1 : 0);
    node->real = 0.5 * static_cast<double>(r.below(3));
    node->text = String(Text());
    node->ignored = flip() ? Any(1) : Any(2);
    return Any(ObjectRef(own));
  }
  template <typename T>
  Any Make(int depth) {
    auto p = make_object<T>();
    return Node<T>(depth, p.get(), p);
  }
  Any Var() {
    if (!vars.empty() && r.below(3) != 0) return Any(vars[r.below(vars.size())]);
    vars.push_back(NewVar(String(Text())));
    return Any(vars.back());
  }
  Any Tensor_() {
    struct Alloc {
      void AllocData(DLTensor* t) { t->data = calloc(1, GetDataSize(*t) + 1); }
      void FreeData(DLTensor* t) { free(t->data); }
    };
    Shape shape({static_cast<int64_t>(r.below(4)), static_cast<int64_t>(1 + r.below(3))});
    Tensor t = Tensor::FromNDAlloc(Alloc(), shape, DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
    float* data = static_cast<float*>(t.data_ptr());
    for (int64_t i = 0; i < t.numel(); ++i) data[i] = static_cast<float>(r.below(3)) + (flip() ? 1 : 0);
    return Any(t);
  }
  Any Value(int depth) {
    Any v = Value_(depth);
    if (v.type_index() >= 64 && pool.size() < 200) pool.push_back(v);
    return v;
  }
  Any Value_(int depth) {
    if (depth <= 0) return Leaf();
    if (!pool.empty() && r.below(8) == 0) return pool[r.below(pool.size())];
    switch (r.below(24)) {
      case 0: case 1: {
        Array<Any> a;
        for (uint64_t i = r.below(5) + (flip() ? 1 : 0); i > 0; --i) a.push_back(Value(depth - 1));
        return Any(a);
      }
      case 2: {
        List<Any> a;
        for (uint64_t i = r.below(5) + (flip() ? 1 : 0); i > 0; --i) a.push_back(Value(depth - 1));
        return Any(a);
      }
      case 3: case 4: {
        Map<Any, Any> m;
        for (uint64_t i = r.below(8) + (flip() ? 1 : 0); i > 0; --i) { Any k = Key(); m.Set(k, Value(depth - 1)); }
        return Any(m);
      }
      case 5: {
        Dict<Any, Any> m;
        for (uint64_t i = r.below(8) + (flip() ? 1 : 0); i > 0; --i) { Any k = Key(); m.Set(k, Value(depth - 1)); }
        return Any(m);
      }
      case 6: case 7: case 8: return Make<TreeObj>(depth);
      case 9: {
        auto p = make_object<DerivedObj>();
        p->extra = Value(depth - 1);
        p->flag = r.below(2) == 0;
        p->dtype.lanes = static_cast<uint16_t>(1 + r.below(2));
        p->device.device_id = static_cast<int>(r.below(2));
        return Node<DerivedObj>(depth, p.get(), p);
      }
      case 10: case 11: return Make<DagObj>(depth);
      case 12: return Make<ConstObj>(depth);
      case 13: return r.below(6) == 0 ? Make<UniqueObj>(depth) : Leaf();
      case 14: case 15: {
        auto p = make_object<FuncObj>();
        Array<Any> params;
        for (uint64_t i = r.below(4); i > 0; --i) params.push_back(Var());
        p->a = params;
        p->b = r.below(3) == 0 ? Value(depth - 1) : Var();
        p->number = static_cast<int64_t>(r.below(3)) + (flip() ? 1 : 0);
        p->body = Value(depth - 1);
        return Any(ObjectRef(p));
      }
      case 16: case 17: case 18: return Var();
      case 19: case 20: return Make<CustomObj>(depth);
      case 21: return r.below(20) == 0 ? Make<UnsupportedObj>(depth) : Leaf();
      case 22: return r.below(4) == 0 ? Make<EqOnlyObj>(depth) : Tensor_();
      default: return Make<ByValueObj>(depth);
    }
  }
};

std::string Show(const Any& v) {
  if (auto s = v.try_cast<String>()) return "'" + std::string(*s) + "'";
  if (v.type_index() == kTVMFFIBool) return v.cast<bool>() ? "true" : "false";
  if (auto i = v.try_cast<int64_t>()) return std::to_string(*i);
  if (v.type_index() == kTVMFFIFloat) return std::to_string(v.cast<double>());
  return v.GetTypeKey();
}
std::string Steps(const refl::AccessPath& path) {
  std::string out;
  for (const refl::AccessStep& step : path->ToSteps()) {
    out += "/" + std::to_string(static_cast<int>(step->kind)) + ":" + Show(step->key);
  }
  return out;
}
template <typename F>
std::string Try(F f) {
  try {
    return f();
  } catch (const Error& e) {
    return e.kind() + ": " + std::string(e.message());
  }
}

// JSON text in pieces: numbers, texts, words, punctuation.
std::vector<std::string> Tokens(const std::string& json) {
  std::vector<std::string> tokens;
  for (size_t i = 0; i < json.size();) {
    size_t j = i + 1;
    if (json[i] == '"') {
      while (j < json.size() && json[j] != '"') j += json[j] == '\\' ? 2 : 1;
      ++j;
    } else if (isdigit(json[i]) || json[i] == '-') {
      while (j < json.size() && (isdigit(json[j]) || strchr(".eE+-", json[j]))) ++j;
    } else if (isalpha(json[i])) {
      while (j < json.size() && isalpha(json[j])) ++j;
    }
    tokens.push_back(json.substr(i, j - i));
    i = j;
  }
  return tokens;
}

// Replacements for a part of a graph: values, then texts with a meaning.
const char* const kValues[] = {"0", "1", "-1", "2", "3", "5", "7", "100000", "9223372036854775807", "1.5", "true",
                               "null", "\"a\"", "[]", "{}", "[1]", "[0,1]", "[1,\"a\"]", "[2.5]", "[0,1,2]",
                               "{\"value\":3}"};
const char* const kTexts[] = {"ffi.Array", "ffi.Map", "ffi.List", "ffi.Dict", "ffi.Shape", "Device", "DataType", "int",
                              "float", "bool", "None", "ffi.String", "ffi.Bytes", "ffi.Tensor", "void*", "ffi.Object",
                              "ffi.SmallStr", "ffi.BigInt", "graphs.Tree", "graphs.Derived", "graphs.Unsupported",
                              "no.such", "float32", "Zm8=", "ffi.Enum", "ffi.IntEnum", "ffi.StrEnum",
                              "ffi.reflection.AccessPath", "ffi.StructuralKey", "type", "data"};

std::string Mutate(const std::string& json, Rng& r) {
  std::vector<std::string> tokens = Tokens(json);
  auto any_token = [&] { return r.below(tokens.size()); };
  for (uint64_t n = 1 + r.below(3); n > 0; --n) {
    size_t at = any_token();
    while (strchr("{}[],:", tokens[at][0]) != nullptr && r.below(10) != 0) at = any_token();
    switch (r.below(6)) {
      case 0:
      case 1: tokens[at] = kValues[r.below(sizeof(kValues) / sizeof(*kValues))]; break;
      case 2: tokens[at] = tokens[any_token()]; break;
      case 3:
        tokens[at] = "\"" + std::string(kTexts[r.below(sizeof(kTexts) / sizeof(*kTexts))]) + "\"";
        break;
      case 4: std::swap(tokens[at], tokens[any_token()]); break;
      default: tokens[at] = std::to_string(r.below(12));
    }
  }
  std::string out;
  for (const std::string& token : tokens) out += token;
  return out;
}

Function Global(const char* name) { return Function::GetGlobalRequired(name); }

// The two values of a seed: the same except for a few places, or different.
std::pair<Any, Any> Values(uint64_t seed) {
  ClearArena();
  Rng meta{seed * 77 + 5};
  int depth = 1 + static_cast<int>(meta.below(5));
  uint64_t odds[] = {0, 0, 40, 10};
  Gen left{{seed}, {seed + 1000}, 0}, right{{seed}, {seed + 2000}, odds[meta.below(4)]};
  Any l = left.Value(depth);
  if (meta.below(3) == 0) right.vars = left.vars;
  Any r = right.Value(depth);
  if (meta.below(10) == 0) {
    Gen other{{seed + 31}, {1}, 0};
    r = other.Value(depth);
  }
  return {l, r};
}

std::string Bool(const Any& value) { return value.cast<bool>() ? "yes" : "no"; }
std::string Int(const Any& value) { return std::to_string(value.cast<int64_t>()); }

void Structural(const Any& l, const Any& r) {
  static Function equal = Global("ffi.StructuralEqual"), mismatch = Global("ffi.GetFirstStructuralMismatch"),
                  hash = Global("ffi.StructuralHash");
  for (int flags = 0; flags < 4; ++flags) {
    bool map_vars = flags & 1, skip = flags & 2;
    printf(" %d equal %s\n", flags, Try([&] { return Bool(equal(l, r, map_vars, skip)); }).c_str());
    printf(" %d to itself %s\n", flags, Try([&] { return Bool(equal(l, l, map_vars, skip)); }).c_str());
    printf(" %d path %s\n", flags, Try([&] {
             Any pair = mismatch(l, r, map_vars, skip);
             if (pair == nullptr) return std::string("none");
             auto both = pair.cast<Tuple<refl::AccessPath, refl::AccessPath>>();
             return Steps(both.get<0>()) + " " + Steps(both.get<1>());
           }).c_str());
    for (const Any& value : {l, r}) {
      printf(" %d hash %s\n", flags, Try([&] { return Int(hash(value, map_vars, skip)); }).c_str());
    }
  }
}

void Recursive(const Any& l, const Any& r) {
  static Function hash = Global("ffi.RecursiveHash");
  for (const char* name :
       {"ffi.RecursiveEq", "ffi.RecursiveLt", "ffi.RecursiveLe", "ffi.RecursiveGt", "ffi.RecursiveGe"}) {
    Function compare = Global(name);
    printf(" %s %s %s\n", name, Try([&] { return Bool(compare(l, r)); }).c_str(),
           Try([&] { return Bool(compare(l, l)); }).c_str());
  }
  for (const Any& value : {l, r}) printf(" hash %s\n", Try([&] { return Int(hash(value)); }).c_str());
}

void Keys(const Any& l, const Any& r) {
  static Function make = Global("ffi.StructuralKey"), equal = Global("ffi.StructuralKeyEqual");
  printf(" key %s\n", Try([&] {
           Any left = make(l), right = make(r);
           return Bool(equal(left, right)) + Bool(Any(AnyEqual()(left, right))) + std::to_string(AnyHash()(left));
         }).c_str());
}

std::string ToText(const Any& value, const Any& metadata) {
  static Function to_text = Global("ffi.ToJSONGraphString");
  return Try([&] { return std::string(to_text(value, metadata).cast<String>()); });
}

void Json(const Any& value, const Any& metadata) {
  static Function equal = Global("ffi.StructuralEqual"), from_text = Global("ffi.FromJSONGraphString");
  static Function to_graph = Global("ffi.ToJSONGraph"), from_graph = Global("ffi.FromJSONGraph");
  std::string text = ToText(value, metadata);
  printf(" text %s\n", text.c_str());
  printf(" from text %s\n", Try([&] {
           Any back = from_text(String(text));
           return Bool(equal(value, back, true, false)) + ToText(back, nullptr);
         }).c_str());
  printf(" from graph %s\n", Try([&] { return ToText(from_graph(to_graph(value, metadata)), nullptr); }).c_str());
}

void Hostile(uint64_t seed) {
  static Function from_text = Global("ffi.FromJSONGraphString");
  std::string text = ToText(Values(seed).first, nullptr);
  if (text[0] != '{' || text.size() > 6000) return;
  Rng random{seed * 13 + 1};
  text = Mutate(text, random);
  printf("%llu %s\n", static_cast<unsigned long long>(seed), text.c_str());
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    printf(" -> %s\n", Try([&] {
             Any back = from_text(String(text));
             return back.GetTypeKey() + " " + ToText(back, nullptr);
           }).c_str());
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) printf(" -> died\n");
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  uint64_t first = strtoull(argv[2], nullptr, 10), end = first + strtoull(argv[3], nullptr, 10);
  void* place = mmap(reinterpret_cast<void*>(0x200000000000), kArena, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (place == MAP_FAILED) return 3;
  arena = static_cast<char*>(place);
  Register();
  for (uint64_t seed = first; seed < end; ++seed) {
    if (strcmp(argv[1], "hostile") == 0) {
      Hostile(seed);
      continue;
    }
    auto [l, r] = Values(seed);
    printf("%llu %s %s\n", static_cast<unsigned long long>(seed), l.GetTypeKey().c_str(), r.GetTypeKey().c_str());
    Structural(l, r);
    Recursive(l, r);
    Keys(l, r);
    Json(l, seed % 2 ? Any(nullptr) : Any(String("metadata")));
  }
}
