// A library with its own kind of modules, made with the stock headers: `cpp.counter`. Every virtual
// function has an effect, and fails on request. Functions of the library use modules as C++ code
// does, through tvm::ffi::Module.
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace ffi = tvm::ffi;
using ffi::Array;
using ffi::Bytes;
using ffi::Module;
using ffi::Optional;
using ffi::String;

static int live = 0;

class CounterObj : public ffi::ModuleObj {
 public:
  CounterObj(int64_t start, std::string fails) : start_(start), fails_(fails) { ++live; }
  ~CounterObj() { --live; }

  const char* kind() const final { return "cpp.counter"; }
  int GetPropertyMask() const final { return Module::kBinarySerializable | Module::kRunnable; }

  Optional<ffi::Function> GetFunction(const String& name) final {
    Check("get_function");
    if (name == "count") {
      ffi::ObjectPtr<ffi::Object> self = ffi::GetObjectPtr<ffi::Object>(this);
      return ffi::Function::FromTyped([this, self](int64_t by) { return start_ += by; });
    }
    if (name == "later" && start_ >= 100) return ffi::Function::FromTyped([]() { return 1; });
    return std::nullopt;
  }
  bool ImplementsFunction(const String& name) final {
    Check("implements");
    return name == "count" || name == "virtual";
  }
  Optional<String> GetFunctionDoc(const String& name) final {
    Check("doc");
    if (name == "count") return String("Counts on, and says how far it is.");
    return std::nullopt;
  }
  Optional<String> GetFunctionMetadata(const String& name) final {
    Check("metadata");
    if (name == "count") return String("{\"type_schema\":\"counts\"}");
    return std::nullopt;
  }
  void WriteToFile(const String& file_name, const String& format) const final {
    Check("write_to_file");
    if (format != "txt") TVM_FFI_THROW(ValueError) << "a counter is not written as " << format;
    std::ofstream(std::string(file_name)) << start_;
  }
  Array<String> GetWriteFormats() const final {
    Check("write_formats");
    return {"txt", "counter"};
  }
  Bytes SaveToBytes() const final {
    Check("save_to_bytes");
    return Bytes(reinterpret_cast<const char*>(&start_), sizeof(start_));
  }
  String InspectSource(const String& format) const final {
    Check("inspect_source");
    return String("counter at " + std::to_string(start_) + (format.empty() ? "" : " as " + std::string(format)));
  }

 private:
  void Check(const char* what) const {
    if (fails_ == what) TVM_FFI_THROW(KeyError) << what << " of a counter fails";
    if (fails_ == std::string("std ") + what) throw std::out_of_range(std::string(what) + " of a counter fails by std");
    if (fails_ == std::string("int ") + what) throw 42;
  }

  int64_t start_;
  std::string fails_;
};

// A module with only the required functions.
class BareObj : public ffi::ModuleObj {
 public:
  const char* kind() const final { return "cpp.bare"; }
  Optional<ffi::Function> GetFunction(const String&) final { return std::nullopt; }
};

static Module NewCounter(int64_t start, String fails) {
  return Module(ffi::make_object<CounterObj>(start, std::string(fails)));
}

static Module LoadCounter(Bytes bytes) {
  int64_t start;
  if (bytes.size() != sizeof(start)) TVM_FFI_THROW(ValueError) << "a counter has 8 bytes, not " << bytes.size();
  std::memcpy(&start, bytes.data(), sizeof(start));
  return NewCounter(start, "");
}

// One line for the result of each virtual function of a module, called as C++ code does.
static String Describe(Module module, String name) {
  std::ostringstream out;
  auto text = [&](const char* what, auto call) {
    out << what << ": ";
    try {
      out << call();
    } catch (const ffi::Error& error) {
      out << "!" << error.kind() << ": " << error.message();
    }
    out << "\n";
  };
  auto optional = [](const Optional<String>& value) {
    return value.has_value() ? std::string(*value) : std::string("none");
  };
  text("kind", [&] { return module->kind(); });
  text("properties", [&] { return module->GetPropertyMask(); });
  text("function", [&] { return module->GetFunction(name).has_value(); });
  text("implements", [&] { return module->ImplementsFunction(name); });
  text("doc", [&] { return optional(module->GetFunctionDoc(name)); });
  text("metadata", [&] { return optional(module->GetFunctionMetadata(name)); });
  text("formats", [&] {
    std::string all;
    for (const String& format : module->GetWriteFormats()) all += std::string(format) + " ";
    return all;
  });
  text("bytes", [&] { return module->SaveToBytes().size(); });
  text("source", [&] { return std::string(module->InspectSource("")); });
  text("imports", [&] { return module->imports().size(); });
  return out.str();
}

// Calls a function of a module, or of its imports.
static ffi::Any CallImported(Module module, String name, int64_t argument) {
  Optional<ffi::Function> function = module->GetFunction(name, true);
  if (!function.has_value()) TVM_FFI_THROW(KeyError) << "no function " << name;
  return (*function)(argument);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("cpp_modules.counter", NewCounter)
      .def("cpp_modules.bare", []() { return Module(ffi::make_object<BareObj>()); })
      .def("cpp_modules.live", []() { return live; })
      // The number of exceptions of this thread that were thrown and not caught.
      .def("cpp_modules.uncaught", []() { return static_cast<int64_t>(std::uncaught_exceptions()); })
      .def("cpp_modules.describe", Describe)
      .def("cpp_modules.call_imported", CallImported)
      .def("cpp_modules.import",
           [](Module module, Module other) {
             module->ImportModule(other);
             return static_cast<int64_t>(module->imports().size());
           })
      .def("cpp_modules.clear", [](Module module) { module->ClearImports(); })
      .def("cpp_modules.write", [](Module module, String path, String format) { module->WriteToFile(path, format); })
      .def("ffi.Module.load_from_bytes.cpp.counter", LoadCounter);
}

// The offset of the module in a thrown Error, on which our handling of exceptions relies.
class Offsets : public ffi::Error {
 public:
  using ffi::Error::Error;
  static int64_t OfObject() {
    Offsets error("Kind", "message", "");
    ffi::ObjectRef* ref = &error;
    std::exception* base = &error;
    return reinterpret_cast<char*>(ref) - reinterpret_cast<char*>(base);
  }
};

static int64_t OffsetOfObject() { return Offsets::OfObject(); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(offset_of_object, OffsetOfObject);
