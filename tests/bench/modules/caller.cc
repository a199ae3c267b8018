// The stock half of `cargo xtask bench modules`: libtvm_ffi's own loader, from C++. See
// ../README.md for its tasks and output.
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/tvm_ffi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace ffi = tvm::ffi;
using Clock = std::chrono::steady_clock;

// A module that consists of its bytes.
class KeptNode : public ffi::ModuleObj {
 public:
  explicit KeptNode(ffi::Bytes bytes) : bytes_(std::move(bytes)) {}
  const char* kind() const final { return "bench_kept"; }
  int GetPropertyMask() const final { return ffi::Module::kBinarySerializable; }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String&) final { return std::nullopt; }
  ffi::Bytes SaveToBytes() const final { return bytes_; }

 private:
  ffi::Bytes bytes_;
};

void Print(const char* what, Clock::duration time, size_t count) {
  double nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  std::printf("%s\t%f\n", what, nanoseconds / static_cast<double>(count));
}

void Load(const std::string& path, size_t functions) {
  ffi::Function::GetGlobalRequired("ffi.ModuleLoadFromFile");
  auto start = Clock::now();
  ffi::Module module = ffi::Module::LoadFromFile(path);
  Print("load", Clock::now() - start, 1);
  if (functions == 0) return;
  std::vector<ffi::String> names;
  for (size_t number = 0; number < functions; ++number) names.push_back("function_" + std::to_string(number));
  auto look = [&]() {
    auto start = Clock::now();
    for (const ffi::String& name : names) {
      ffi::Optional<ffi::Function> function = module->GetFunction(name);
      if (!function.has_value()) throw std::runtime_error("a function is missing");
    }
    return Clock::now() - start;
  };
  Print("first", look(), functions);
  look();
  Print("later", look(), functions);
  ffi::Function last = module->GetFunction(names.back()).value();
  if (last().cast<int64_t>() != static_cast<int64_t>(functions) - 1) {
    throw std::runtime_error("the last function returns another number");
  }
}

}  // namespace

int main(int argc, char** argv) {
  ffi::reflection::GlobalDef().def("ffi.Module.load_from_bytes.bench_kept", [](const ffi::Bytes& bytes) {
    return ffi::Module(ffi::make_object<KeptNode>(bytes));
  });
  try {
    if (argc != 4 || std::string(argv[1]) != "load") throw std::runtime_error("expected: load PATH FUNCTIONS");
    Load(argv[2], std::strtoul(argv[3], nullptr, 10));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
