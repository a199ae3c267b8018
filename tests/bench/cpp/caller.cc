// The C++ caller: tvm::ffi::Function objects from the stock headers. See ../README.md for its input
// and output.
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

namespace {

using tvm::ffi::Error;
using tvm::ffi::Function;
using tvm::ffi::Module;

// The same barrier as Rust's black_box: the value passes through memory that is opaque to the
// compiler.
template <typename T>
inline void Barrier(T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

int64_t Nanoseconds(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
}

int64_t TimeAdd(const Function& add, int64_t iterations) {
  int64_t sum = 0;
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < iterations; ++i) {
    int64_t a = 3, b = 4;
    Barrier(a);
    Barrier(b);
    int64_t result = add(a, b).cast<int64_t>();
    Barrier(result);
    sum += result;
  }
  int64_t elapsed = Nanoseconds(start);
  if (sum != 7 * iterations) throw std::runtime_error("add returned wrong results");
  return elapsed;
}

int64_t TimeFail(const Function& fail, int64_t iterations) {
  int64_t failures = 0;
  auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < iterations; ++i) {
    int64_t code = 7;
    Barrier(code);
    try {
      int64_t result = fail(code).cast<int64_t>();
      Barrier(result);
    } catch (const Error& error) {
      failures += error.kind() == "ValueError";
    }
  }
  int64_t elapsed = Nanoseconds(start);
  if (failures != iterations) throw std::runtime_error("fail did not raise ValueError");
  return elapsed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::map<std::string, Function> add, fail;
    for (int i = 1; i < argc; ++i) {
      std::string argument = argv[i];
      size_t equals = argument.find('=');
      if (equals == std::string::npos) throw std::runtime_error("expected name=path, got " + argument);
      Module module = Module::LoadFromFile(argument.substr(equals + 1));
      std::string name = argument.substr(0, equals);
      add.emplace(name, module->GetFunction("add").value());
      fail.emplace(name, module->GetFunction("fail").value());
    }
    // A function made and called in this program: without a library and without safe_call.
    add.emplace("in-process", Function::FromTyped([](int64_t a, int64_t b) -> int64_t { return a + b; }));
    std::cout << "ready" << std::endl;
    std::string what, library;
    int64_t iterations;
    while (std::cin >> what >> library >> iterations) {
      if (what == "add") {
        std::cout << TimeAdd(add.at(library), iterations) << std::endl;
      } else if (what == "fail") {
        std::cout << TimeFail(fail.at(library), iterations) << std::endl;
      } else {
        throw std::runtime_error("unknown case " + what);
      }
    }
  } catch (const std::exception& error) {
    std::cerr << "caller.cc: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}
