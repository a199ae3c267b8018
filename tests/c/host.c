/* A plain C program that loads a Kernpack library with dlopen and nothing else: no TVM, no Rust, no Python. */
#include <dlfcn.h>
#include <kernpack/kernel.h>
#include <stdio.h>
#include <string.h>

typedef int (*packed)(void *, const TVMFFIAny *, int32_t, TVMFFIAny *);
typedef struct {
  TVMFFIByteArray kind, message, backtrace;
} error_texts;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "line %d: %s failed\n", __LINE__, #condition);  \
      return 1;                                                       \
    }                                                                 \
  } while (0)

static TVMFFIAny integer(int64_t value) {
  TVMFFIAny any = {0};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

static TVMFFIAny text(const char *value) {
  TVMFFIAny any = {0};
  any.type_index = kTVMFFIRawStr;
  any.v_c_str = value;
  return any;
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  /* A function without objects. */
  packed add = (packed)dlsym(library, "__tvm_ffi_add");
  CHECK(add);
  TVMFFIAny args[2] = {integer(40), integer(2)}, result = {0};
  CHECK(add(NULL, args, 2, &result) == 0);
  CHECK(result.type_index == kTVMFFIInt && result.v_int64 == 42);

  /* The C API behind the library. */
  void *(*symbol)(const char *) = (void *(*)(const char *))dlsym(library, "kernpack_symbol");
  CHECK(symbol);
  CHECK(symbol("TVMFFINoSuchFunction") == NULL);
  void (*take_error)(TVMFFIObject **) = (void (*)(TVMFFIObject **))symbol("TVMFFIErrorMoveFromRaised");
  int (*release)(TVMFFIObject *) = (int (*)(TVMFFIObject *))symbol("TVMFFIObjectDecRef");
  int (*get_global)(const TVMFFIByteArray *, TVMFFIObject **) =
      (int (*)(const TVMFFIByteArray *, TVMFFIObject **))symbol("TVMFFIFunctionGetGlobal");
  int (*call)(TVMFFIObject *, TVMFFIAny *, int32_t, TVMFFIAny *) =
      (int (*)(TVMFFIObject *, TVMFFIAny *, int32_t, TVMFFIAny *))symbol("TVMFFIFunctionCall");
  CHECK(take_error && release && get_global && call);

  /* An error: -1, and the error object has the message. */
  args[0] = text("forty");
  CHECK(add(NULL, args, 2, &result) == -1);
  TVMFFIObject *error = NULL;
  take_error(&error);
  CHECK(error && error->type_index == kTVMFFIError);
  error_texts *texts = (error_texts *)(error + 1);
  CHECK(strncmp(texts->kind.data, "TypeError", texts->kind.size) == 0);
  CHECK(strcmp(texts->message.data, "add(a: int, b: int): argument 'a': expected int, got str") == 0);
  printf("%.*s: %s\n", (int)texts->kind.size, texts->kind.data, texts->message.data);
  release(error);
  take_error(&error);
  CHECK(error == NULL);

  /* A global function that the library registered, and a string result. */
  TVMFFIByteArray name = {"conversions.echo_str", strlen("conversions.echo_str")};
  TVMFFIObject *echo = NULL;
  CHECK(get_global(&name, &echo) == 0 && echo);
  args[0] = text("a string of more than seven bytes");
  result = (TVMFFIAny){0};
  CHECK(call(echo, args, 1, &result) == 0);
  CHECK(result.type_index == kTVMFFIStr);
  TVMFFIByteArray *content = (TVMFFIByteArray *)(result.v_obj + 1);
  CHECK(strcmp(content->data, "a string of more than seven bytes") == 0);
  release(result.v_obj);
  release(echo);
  printf("ok\n");
  return 0;
}
