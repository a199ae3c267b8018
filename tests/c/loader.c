/* A plain C program that is served by the library in its first argument: prints whether the library has the loader of modules, and loads the
 * library in its second argument with it. */
#include <dlfcn.h>
#include <kernpack/kernel.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "line %d: %s failed\n", __LINE__, #condition);  \
      return 1;                                                       \
    }                                                                 \
  } while (0)

int main(int argc, char **argv) {
  CHECK(argc == 3);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  void *(*symbol)(const char *) = (void *(*)(const char *))dlsym(library, "kernpack_symbol");
  CHECK(symbol);
  int (*get_global)(const TVMFFIByteArray *, TVMFFIObject **) =
      (int (*)(const TVMFFIByteArray *, TVMFFIObject **))symbol("TVMFFIFunctionGetGlobal");
  int (*call)(TVMFFIObject *, TVMFFIAny *, int32_t, TVMFFIAny *) =
      (int (*)(TVMFFIObject *, TVMFFIAny *, int32_t, TVMFFIAny *))symbol("TVMFFIFunctionCall");
  int (*release)(TVMFFIObject *) = (int (*)(TVMFFIObject *))symbol("TVMFFIObjectDecRef");
  CHECK(get_global && call && release);

  const char *name = "ffi.ModuleLoadFromFile";
  TVMFFIByteArray bytes = {name, strlen(name)};
  TVMFFIObject *load = (TVMFFIObject *)1;
  /* An unknown name is not an error: the function is NULL. */
  CHECK(get_global(&bytes, &load) == 0);
  if (!load) {
    printf("%s: none\n", name);
    return 0;
  }
  TVMFFIAny path = {0}, module = {0};
  path.type_index = kTVMFFIRawStr;
  path.v_c_str = argv[2];
  CHECK(call(load, &path, 1, &module) == 0 && module.v_obj);
  printf("%s: loaded\n", name);
  CHECK(release(load) == 0);
  return release(module.v_obj);
}
