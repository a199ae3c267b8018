// The table of types and operations, tests/data/objects.json, from C++: a program that is compiled
// with the stock headers loads the Rust library and finds its types by their registrations.
// tests/python/objects_table.py documents the table.
//
// objects_table TABLE LIBRARY: prints a line for each row and sample that differs from the table,
// then the number of those that ran.
#include <tvm/ffi/reflection/accessor.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;

using ffi::Any;
using ffi::AnyView;
using ffi::Array;
using ffi::Function;
using ffi::Map;
using ffi::String;
using ffi::TypeIndex;
using Object = Map<Any, Any>;

static Any Call(const Function& function, const std::vector<Any>& args) {
  std::vector<AnyView> views(args.begin(), args.end());
  Any result;
  function.CallPacked(ffi::PackedArgs(views.data(), static_cast<int32_t>(views.size())), &result);
  return result;
}

static Any CallGlobal(const char* name, const std::vector<Any>& args) {
  return Call(Function::GetGlobalRequired(name), args);
}

static const TVMFFITypeInfo* TypeOf(const String& key) {
  TVMFFIByteArray bytes{key.data(), key.size()};
  int32_t index = 0;
  TVM_FFI_CHECK_SAFE_CALL(TVMFFITypeKeyToIndex(&bytes, &index));
  return TVMFFIGetTypeInfo(index);
}

static std::string Text(const TVMFFIByteArray& bytes) { return std::string(bytes.data, bytes.size); }

// A method of a type, or of an ancestor.
static ffi::Optional<Function> FindMethod(const TVMFFITypeInfo* info, const std::string& name) {
  for (int32_t depth = info->type_depth; depth >= 0; --depth) {
    const TVMFFITypeInfo* part = depth == info->type_depth ? info : info->type_ancestors[depth];
    for (int32_t i = 0; i < part->num_methods; ++i) {
      if (Text(part->methods[i].name) == name) return AnyView::CopyFromTVMFFIAny(part->methods[i].method).cast<Function>();
    }
  }
  return std::nullopt;
}

static Function Method(const TVMFFITypeInfo* info, const std::string& name) {
  ffi::Optional<Function> found = FindMethod(info, name);
  if (!found.has_value()) throw std::runtime_error(Text(info->type_key) + " has no method " + name);
  return *found;
}

static ffi::Optional<Function> Attribute(const char* name, int32_t type_index) {
  AnyView value = refl::TypeAttrColumn(name)[type_index];
  if (value.type_index() == TypeIndex::kTVMFFINone) return std::nullopt;
  return value.cast<Function>();
}

// All fields of a type, those of its ancestors first.
static std::vector<const TVMFFIFieldInfo*> FieldsOf(const TVMFFITypeInfo* info) {
  std::vector<const TVMFFIFieldInfo*> fields;
  refl::ForEachFieldInfo(info, [&](const TVMFFIFieldInfo* field) { fields.push_back(field); });
  return fields;
}

static const TVMFFIFieldInfo* FieldOf(const Any& object, const std::string& name) {
  for (const TVMFFIFieldInfo* field : FieldsOf(TVMFFIGetTypeInfo(object.type_index()))) {
    if (Text(field->name) == name) return field;
  }
  throw std::runtime_error(object.GetTypeKey() + " has no field " + name);
}

static Any Get(const Any& object, const TVMFFIFieldInfo* field) {
  return refl::FieldGetter(field)(object.cast<const ffi::Object*>());
}

static Any Operation(const std::string& name, const std::vector<Any>& args) {
  auto call = [&](const char* global) { return CallGlobal(global, args); };
  auto same_number = [&](const char* global, std::vector<Any> first, std::vector<Any> second) {
    return CallGlobal(global, first).cast<int64_t>() == CallGlobal(global, second).cast<int64_t>();
  };
  if (name == "eq") return call("ffi.RecursiveEq");
  if (name == "lt") return call("ffi.RecursiveLt");
  if (name == "le") return call("ffi.RecursiveLe");
  if (name == "hash_equal") return same_number("ffi.RecursiveHash", {args[0]}, {args[1]});
  if (name == "repr") return call("ffi.ReprPrint");
  if (name == "deepcopy") return call("ffi.DeepCopy");
  if (name == "copy") {
    ffi::Optional<Function> copy = Attribute("__ffi_shallow_copy__", args[0].type_index());
    if (!copy.has_value()) TVM_FFI_THROW(TypeError) << args[0].GetTypeKey() << " does not support copy";
    return Call(*copy, args);
  }
  if (name == "json") return CallGlobal("ffi.FromJSONGraphString", {CallGlobal("ffi.ToJSONGraphString", {args[0], nullptr})});
  if (name == "same") return args[0].same_as(args[1]);
  if (name == "is") {
    const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(args[0].type_index());
    int32_t wanted = TypeOf(args[1].cast<String>())->type_index;
    bool is = info->type_index == wanted;
    for (int32_t i = 0; i < info->type_depth; ++i) is = is || info->type_ancestors[i]->type_index == wanted;
    return is;
  }
  if (name == "structural_equal") return CallGlobal("ffi.StructuralEqual", {args[0], args[1], false, false});
  if (name == "structural_equal_mapped") return CallGlobal("ffi.StructuralEqual", {args[0], args[1], true, false});
  if (name == "structural_hash_equal") {
    return same_number("ffi.StructuralHash", {args[0], false, false}, {args[1], false, false});
  }
  throw std::runtime_error("unknown operation " + name);
}

class Table {
 public:
  explicit Table(const std::string& path) : library_(CallGlobal("ffi.ModuleLoadFromFile", {String(path)})) {}

  // The C++ value of a value in the table.
  Any Evaluate(const Any& value) const {
    if (std::optional<Array<Any>> list = value.as<Array<Any>>()) {
      std::vector<Any> values = EvaluateAll(*list);
      return Array<Any>(values.begin(), values.end());
    }
    if (!value.as<Object>()) return value;
    Object object = value.cast<Object>();
    auto text = [&](const char* key) { return std::string(object[String(key)].cast<String>()); };
    auto has = [&](const char* key) { return object.count(String(key)) != 0; };
    auto args = [&]() {
      return has("args") ? EvaluateAll(object[String("args")].cast<Array<Any>>()) : std::vector<Any>();
    };
    auto of = [&]() { return Evaluate(object[String("of")]); };
    if (has("new")) {
      std::vector<Any> all = args();
      if (has("kwargs")) {
        all.push_back(CallGlobal("ffi.GetKwargsObject", {}));
        for (const auto& [name, argument] : object[String("kwargs")].cast<Object>()) {
          all.push_back(name);
          all.push_back(Evaluate(argument));
        }
      }
      const TVMFFITypeInfo* info = TypeOf(text("new"));
      ffi::Optional<Function> init = Attribute("__ffi_init__", info->type_index);
      return Call(init.has_value() ? *init : Method(info, "__ffi_init__"), all);
    }
    if (has("call")) return Call(FunctionNamed(text("call")), args());
    if (has("method")) {
      std::vector<Any> all = {of()};
      for (const Any& argument : args()) all.push_back(argument);
      return Call(Method(TVMFFIGetTypeInfo(all[0].type_index()), text("method")), all);
    }
    if (has("static")) return Call(Method(TypeOf(text("type")), text("static")), args());
    if (has("get")) {
      Any target = of();
      return Get(target, FieldOf(target, text("get")));
    }
    if (has("set")) {
      Any target = of();
      Any to = Evaluate(object[String("to")]);
      refl::FieldSetter(FieldOf(target, text("set")))(target.cast<const ffi::Object*>(), to);
      return target;
    }
    if (has("op")) return Operation(text("op"), args());
    if (has("var")) return names_.at(text("var"));
    if (has("bytes")) {
      std::string digits = text("bytes"), bytes;
      for (size_t i = 0; i < digits.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
      return ffi::Bytes(bytes);
    }
    if (has("map")) {
      Map<Any, Any> map;
      for (const Any& pair : object[String("map")].cast<Array<Any>>()) {
        map.Set(Evaluate(pair.cast<Array<Any>>()[0]), Evaluate(pair.cast<Array<Any>>()[1]));
      }
      return map;
    }
    if (has("dtype")) return ffi::StringToDLDataType(text("dtype"));
    if (has("device")) return DLDevice{kDLCPU, 0};
    if (has("shape")) return ffi::Shape(object[String("shape")].cast<Array<int64_t>>());
    if (has("function")) return FunctionNamed(text("function"));
    throw std::runtime_error("a value without a known tag");
  }

  // The result of a row, or its error as [kind, message].
  Any Run(const Object& row) {
    names_.clear();
    try {
      if (row.count(String("let"))) {
        for (const Any& named : row[String("let")].cast<Array<Any>>()) {
          Array<Any> pair = named.cast<Array<Any>>();
          names_[pair[0].cast<String>()] = Evaluate(pair[1]);
        }
      }
      return Encode(Evaluate(row[String("value")]));
    } catch (const ffi::Error& error) {
      return Failure(error);
    }
  }

  static Any Failure(const ffi::Error& error) {
    return Array<Any>{String(std::string(error.kind())), String(error.message())};
  }

  // The form of a result in the table.
  static Any Encode(const Any& value) {
    auto tagged = [](const char* tag, Any content) { return Object{{String(tag), content}}; };
    if (std::optional<ffi::Bytes> bytes = value.as<ffi::Bytes>()) {
      std::ostringstream digits;
      for (size_t i = 0; i < bytes->size(); ++i) {
        char pair[3];
        std::snprintf(pair, sizeof(pair), "%02x", static_cast<unsigned char>(bytes->data()[i]));
        digits << pair;
      }
      return tagged("bytes", String(digits.str()));
    }
    switch (value.type_index()) {
      case TypeIndex::kTVMFFIDataType:
        return tagged("dtype", ffi::DLDataTypeToString(value.cast<DLDataType>()));
      case TypeIndex::kTVMFFIDevice:
        return tagged("device", String("cpu:0"));
      case TypeIndex::kTVMFFIFunction:
        return tagged("function", true);
      case TypeIndex::kTVMFFIShape: {
        ffi::Shape shape = value.cast<ffi::Shape>();
        return tagged("shape", Array<Any>(shape.begin(), shape.end()));
      }
      case TypeIndex::kTVMFFITensor: {
        ffi::Tensor tensor = value.cast<ffi::Tensor>();
        const int32_t* data = static_cast<const int32_t*>(tensor.data_ptr());
        Object content{{String("dtype"), ffi::DLDataTypeToString(tensor.dtype())},
                       {String("shape"), Array<Any>(tensor.shape().begin(), tensor.shape().end())},
                       {String("data"), Array<Any>(data, data + tensor.numel())}};
        return tagged("tensor", content);
      }
      case TypeIndex::kTVMFFIArray: {
        Array<Any> list;
        for (const Any& element : value.cast<Array<Any>>()) list.push_back(Encode(element));
        return list;
      }
      case TypeIndex::kTVMFFIMap: {
        Array<Any> pairs;
        for (const auto& [key, element] : value.cast<Map<Any, Any>>()) pairs.push_back(Array<Any>{Encode(key), Encode(element)});
        return tagged("map", pairs);
      }
      default:
        break;
    }
    if (value.type_index() < TypeIndex::kTVMFFIDynObjectBegin) return value;
    const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(value.type_index());
    String key(Text(info->type_key));
    std::string parent = Text(info->type_ancestors[info->type_depth - 1]->type_key);
    if (parent == "ffi.IntEnum" || parent == "ffi.StrEnum") {
      return Object{{String("enum"), key}, {String("value"), Get(value, FieldOf(value, "value"))}};
    }
    Object fields;
    for (const TVMFFIFieldInfo* field : FieldsOf(info)) fields.Set(String(Text(field->name)), Encode(Get(value, field)));
    return Object{{String("object"), key}, {String("fields"), fields}};
  }

 private:
  std::vector<Any> EvaluateAll(const Array<Any>& values) const {
    std::vector<Any> results;
    for (const Any& value : values) results.push_back(Evaluate(value));
    return results;
  }

  Function FunctionNamed(const std::string& name) const {
    return CallGlobal("ffi.ModuleGetFunction", {library_, String(name), false}).cast<Function>();
  }

  Any library_;
  std::map<std::string, Any> names_;
};

static int failures = 0;

static void Check(const Any& what, const std::string& column, const Any& got, const Any& expected) {
  if (CallGlobal("ffi.StructuralEqual", {got, expected, false, false}).cast<bool>()) return;
  auto text = [](const Any& value) { return std::string(CallGlobal("ffi.json.Stringify", {value, nullptr}).cast<String>()); };
  std::cout << text(what) << " " << column << "\n  expected " << text(expected) << "\n  got      " << text(got) << "\n";
  ++failures;
}

static void CheckSample(Table& table, const Object& sample) {
  Any made = sample[String("value")];
  Object fails = sample.count(String("fails")) ? sample[String("fails")].cast<Object>() : Object();
  auto outcome = [](const std::string& name, std::vector<Any> args) -> Any {
    try {
      return Operation(name, args);
    } catch (const ffi::Error& error) {
      return Table::Failure(error);
    }
  };
  auto fields = [](const Any& value) { return Table::Encode(value).cast<Object>()[String("fields")]; };
  Any value = table.Evaluate(made);
  Check(made, "reads", fields(value), sample[String("reads")]);
  Check(made, "repr", outcome("repr", {value}), sample[String("repr")]);
  for (const char* name : {"eq", "le", "hash_equal", "structural_equal", "structural_hash_equal"}) {
    Any expected = fails.count(String(name)) ? fails[String(name)] : Any(true);
    Check(made, name, outcome(name, {value, table.Evaluate(made)}), expected);
  }
  for (const char* name : {"copy", "deepcopy", "json"}) {
    Any result = outcome(name, {value});
    if (!fails.count(String(name))) {
      Check(made, name, fields(result), sample[String("reads")]);
    } else if (std::string(name) == "copy") {
      // Python tests the way in which a type declares that it cannot be copied.
      Check(made, name, result.cast<Array<Any>>()[0], String("TypeError"));
    } else {
      Check(made, name, result, fails[String(name)]);
    }
  }
}

static void CheckType(const Object& row) {
  const TVMFFITypeInfo* info = TypeOf(row[String("key")].cast<String>());
  Any doc = row[String("doc")] == nullptr ? Any(String("")) : row[String("doc")];
  Check(row[String("key")], "doc", String(Text(info->metadata->doc)), doc);
  Object expected = row[String("fields")].cast<Object>();
  Check(row[String("key")], "fields", info->num_fields, static_cast<int64_t>(expected.size()));
  for (int32_t i = 0; i < info->num_fields; ++i) {
    String name(Text(info->fields[i].name));
    Array<Any> described = expected[name].cast<Array<Any>>();
    Check(row[String("key")], name, String(Text(info->fields[i].doc)), described.size() > 1 ? described[1] : Any(String("")));
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  Object data = CallGlobal("ffi.json.Parse", {String(text.str())}).cast<Object>();
  Table table(argv[2]);
  int ran = 0;
  auto is_ours = [](const Object& row) {
    if (!row.count(String("hosts"))) return true;
    for (const Any& host : row[String("hosts")].cast<Array<Any>>()) {
      if (host.cast<String>() == "cpp") return true;
    }
    return false;
  };
  for (const Any& row : data[String("types")].cast<Array<Any>>()) CheckType(row.cast<Object>());
  for (const Any& each : data[String("rows")].cast<Array<Any>>()) {
    Object row = each.cast<Object>();
    if (!is_ours(row)) continue;
    ++ran;
    Any expected = row.count(String("result")) ? row[String("result")] : row.count(String("error")) ? row[String("error")] : Any();
    Check(row[String("rule")], "row", table.Run(row), expected);
  }
  for (const Any& sample : data[String("samples")].cast<Array<Any>>()) {
    if (!is_ours(sample.cast<Object>())) continue;
    ++ran;
    CheckSample(table, sample.cast<Object>());
  }
  std::cout << ran << " ran, " << failures << " failures" << std::endl;
  return failures == 0 ? 0 : 1;
}
