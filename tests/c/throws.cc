// Raises errors in functions of several kinds and prints their backtraces. The test runs it with
// the stock library and with ours and compares the output.
#include <tvm/ffi/tvm_ffi.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ffi = tvm::ffi;

#define NO_INLINE __attribute__((noinline))
// Prevents a tail call, which would have no frame.
#define STAY() __asm__ volatile("" ::: "memory")

namespace shapes {

struct Circle {
  NO_INLINE void Method(int x) const {
    if (x != 0) TVM_FFI_THROW(ValueError) << "bad " << x;
    STAY();
  }
};

template <typename T>
NO_INLINE void Generic(T x) {
  Circle().Method(static_cast<int>(x));
  STAY();
}

static inline void Inlined() { Generic<double>(3.0); }

static NO_INLINE void Recursive(int depth) {
  if (depth == 0) {
    Inlined();
  } else {
    Recursive(depth - 1);
  }
  STAY();
}

}  // namespace shapes

extern "C" NO_INLINE void Entry() {
  shapes::Inlined();
  STAY();
}

static int Throws(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  TVM_FFI_SAFE_CALL_BEGIN();
  Entry();
  TVM_FFI_SAFE_CALL_END();
}

static NO_INLINE int Raises(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  TVMFFIErrorSetRaisedFromCStr("KeyError", "raised");
  STAY();
  return -1;
}

static NO_INLINE int RaisesParts(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  const char* parts[] = {"in ", "parts"};
  TVMFFIErrorSetRaisedFromCStrParts("KeyError", parts, 2);
  STAY();
  return -1;
}

// The names of a frontend: native frames end here.
extern "C" NO_INLINE void _PyFrontend() {
  shapes::Recursive(2);
  STAY();
}

static NO_INLINE void ShowHere(const char* name, int cross) {
  printf("%s\n%s\n", name, TVMFFIBacktrace(nullptr, 0, nullptr, cross)->data);
}

extern "C" NO_INLINE void PyObject_Frontend(int cross) {
  ShowHere("here", cross);
  STAY();
}

template <typename Action>
static void Show(const char* name, Action action) {
  try {
    action();
  } catch (const ffi::Error& error) {
    printf("%s: %s\n%s\n", name, error.what(), error.backtrace().c_str());
  }
}

int main() {
  for (int round = 0; round < 2; ++round) {
    Show("direct", [] { Entry(); });
    Show("recursive", [] { shapes::Recursive(3); });
    auto typed = ffi::Function::FromTyped([](int x) -> int {
      shapes::Generic(x);
      return 1;
    });
    Show("typed", [&] { typed(7); });
    Show("wrong type", [&] { typed("x"); });
    for (auto* function : {Throws, Raises, RaisesParts}) {
      auto wrapped = ffi::Function::FromExternC(nullptr, function, nullptr);
      Show("C function", [&] { wrapped(); });
    }
    Show("frontend", [] { _PyFrontend(); });
    PyObject_Frontend(0);
    PyObject_Frontend(1);
  }
  for (const char* limit : {"0", "1", "2", "3", "none"}) {
    setenv("TVM_TRACEBACK_LIMIT", limit, 1);
    Show(limit, [] { Entry(); });
    PyObject_Frontend(1);
  }
  return 0;
}
