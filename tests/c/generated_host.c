/* A plain C program that loads a library as Apache TVM's compiler makes them, with libtvm_ffi.so
 * and nothing else.
 * Arguments: libtvm_ffi.so, the library. */
#include <dlfcn.h>
#include <kernpack/kernel.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) {                                              \
      fprintf(stderr, "line %d: %s failed\n", __LINE__, #condition); \
      return 1;                                                      \
    }                                                                \
  } while (0)

static int (*get_global)(const TVMFFIByteArray *, TVMFFIObject **);
static int (*call)(TVMFFIObject *, TVMFFIAny *, int32_t, TVMFFIAny *);
static void (*take_error)(TVMFFIObject **);


static TVMFFIAny text(const char *value) {
  TVMFFIAny any = {0};
  any.type_index = kTVMFFIRawStr;
  any.v_c_str = value;
  return any;
}

static TVMFFIAny integer(int64_t value) {
  TVMFFIAny any = {0};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

static TVMFFIObject *global(const char *name) {
  TVMFFIByteArray bytes = {name, strlen(name)};
  TVMFFIObject *function = NULL;
  return get_global(&bytes, &function) == 0 ? function : NULL;
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  void *runtime = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (!runtime) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  get_global = (int (*)(const TVMFFIByteArray *, TVMFFIObject **))dlsym(runtime, "TVMFFIFunctionGetGlobal");
  call = (int (*)(TVMFFIObject *, TVMFFIAny *, int32_t, TVMFFIAny *))dlsym(runtime, "TVMFFIFunctionCall");
  take_error = (void (*)(TVMFFIObject **))dlsym(runtime, "TVMFFIErrorMoveFromRaised");
  CHECK(get_global && call && take_error);

  TVMFFIObject *load = global("ffi.ModuleLoadFromFile"), *get_function = global("ffi.ModuleGetFunction");
  CHECK(load && get_function);
  TVMFFIAny module = {0}, path = text(argv[2]);
  CHECK(call(load, &path, 1, &module) == 0 && module.type_index == kTVMFFIModule);

  const struct {
    const char *name;
    int64_t args[2], result;
  } rows[] = {
      {"sum_of_squares", {1000, 0}, 332833500}, {"sum_of_squares", {1000, 7}, 332833500}, {"tasks", {6, 0}, 6},
      {"nested", {0, 0}, 3},                    {"failing", {9, 0}, 0},                   {"workspaces", {0, 0}, 40},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    TVMFFIAny query[3] = {module, text(rows[i].name), {0}}, function = {0}, result = {0};
    query[2].type_index = kTVMFFIBool;
    CHECK(call(get_function, query, 3, &function) == 0 && function.type_index == kTVMFFIFunction);
    TVMFFIAny args[2] = {integer(rows[i].args[0]), integer(rows[i].args[1])};
    CHECK(call(function.v_obj, args, 2, &result) == 0);
    CHECK(result.type_index == kTVMFFIInt && result.v_int64 == rows[i].result);
  }

  /* The error of a task. */
  TVMFFIAny query[3] = {module, text("failing"), {0}}, function = {0}, result = {0}, task = integer(2);
  query[2].type_index = kTVMFFIBool;
  CHECK(call(get_function, query, 3, &function) == 0);
  CHECK(call(function.v_obj, &task, 1, &result) == -1);
  TVMFFIObject *error = NULL;
  take_error(&error);
  CHECK(error && error->type_index == kTVMFFIError);
  TVMFFIByteArray *message = (TVMFFIByteArray *)(error + 1) + 1;
  CHECK(strcmp(message->data, "Assert fail: task must not run") == 0);

  /* Its threads are still looking for work. */
  dlclose(runtime);
  nanosleep(&(struct timespec){0, 5000000}, NULL);
  printf("all checks passed\n");
  return 0;
}
