/* A caller in C: asks for the decibels of a ratio, and for the ratio of decibels. Kernpack is not linked: dlopen is enough.
 *
 *     cc -I build-support/include level.c -ldl -o level && ./level target/release/libdspkit.so
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <kernpack/kernel.h>

typedef int (*Call)(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);

static void* library;

static Call function(const char* name) {
  char symbol[128];
  snprintf(symbol, sizeof symbol, "__tvm_ffi_%s", name);
  Call found = (Call)dlsym(library, symbol);
  if (!found) fprintf(stderr, "there is no function %s\n", name);
  return found;
}

int main(int argc, char** argv) {
  if (argc < 2 || !(library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL))) {
    fprintf(stderr, "usage: level LIBRARY: %s\n", argc < 2 ? "no library" : dlerror());
    return 2;
  }
  Call decibels = function("decibels"), ratio = function("ratio");
  if (!decibels || !ratio) return 2;
  TVMFFIAny argument, result;
  memset(&argument, 0, sizeof argument);
  memset(&result, 0, sizeof result);
  argument.type_index = kTVMFFIFloat;
  argument.v_float64 = 0.5;
  if (decibels(NULL, &argument, 1, &result) != 0) return 1;
  printf("%.2f dB\n", result.v_float64);
  argument.v_float64 = result.v_float64;
  memset(&result, 0, sizeof result);
  if (ratio(NULL, &argument, 1, &result) != 0) return 1;
  printf("%.3f\n", result.v_float64);
  return 0;
}
