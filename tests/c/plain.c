/* A host in plain C: loads the libtvm_ffi.so that is named on the command line and uses its C functions. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

static void* library;

static void* find(const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == NULL) fprintf(stderr, "no symbol %s\n", name);
  CHECK(symbol != NULL);
  return symbol;
}

/* F(TVMFFIGetVersion)(&version) calls the library's function with the type that the header gives it. */
#define F(name) ((__typeof__(&name))find(#name))

static TVMFFIByteArray bytes(const char* text) {
  TVMFFIByteArray array = {text, strlen(text)};
  return array;
}

/* The raised error must have this kind, and a message that contains `part`. */
static void check_raised(const char* kind, const char* part) {
  TVMFFIObjectHandle error = NULL;
  F(TVMFFIErrorMoveFromRaised)(&error);
  CHECK(error != NULL);
  TVMFFIErrorCell* cell = (TVMFFIErrorCell*)((char*)error + sizeof(TVMFFIObject));
  if (strcmp(cell->kind.data, kind) != 0 || strstr(cell->message.data, part) == NULL) {
    fprintf(stderr, "expected %s with '%s', got %s: %s\n", kind, part, cell->kind.data, cell->message.data);
    exit(1);
  }
  CHECK(cell->message.data[cell->message.size] == '\0');
  F(TVMFFIObjectDecRef)(error);
}

static void texts(void) {
  TVMFFIAny value;
  TVMFFIByteArray small = bytes("seven77"), large = bytes("eight888");
  CHECK(F(TVMFFIStringFromByteArray)(&small, &value) == 0);
  CHECK(value.type_index == kTVMFFISmallStr && value.small_str_len == 7 && strcmp(value.v_bytes, "seven77") == 0);
  CHECK(F(TVMFFIBytesFromByteArray)(&large, &value) == 0);
  CHECK(value.type_index == kTVMFFIBytes && value.zero_padding == 0);
  TVMFFIByteArray* cell = (TVMFFIByteArray*)((char*)value.v_obj + sizeof(TVMFFIObject));
  CHECK(cell->size == 8 && strcmp(cell->data, "eight888") == 0);
  CHECK(F(TVMFFIObjectDecRef)(value.v_obj) == 0);

  TVMFFIAny view = {.type_index = kTVMFFIRawStr, .v_c_str = "copied from a C string"}, owned;
  CHECK(F(TVMFFIAnyViewToOwnedAny)(&view, &owned) == 0 && owned.type_index == kTVMFFIStr);
  F(TVMFFIObjectDecRef)(owned.v_obj);
}

static void data_types(void) {
  DLDataType type;
  TVMFFIAny text;
  TVMFFIByteArray input = bytes("bf16x4");
  CHECK(F(TVMFFIDataTypeFromString)(&input, &type) == 0);
  CHECK(type.code == kDLBfloat && type.bits == 16 && type.lanes == 4);
  CHECK(F(TVMFFIDataTypeToString)(&type, &text) == 0 && text.type_index == kTVMFFIStr);
  CHECK(strcmp(((TVMFFIByteArray*)((char*)text.v_obj + sizeof(TVMFFIObject)))->data, "bfloat16x4") == 0);
  F(TVMFFIObjectDecRef)(text.v_obj);
  input = bytes("float31x");
  CHECK(F(TVMFFIDataTypeFromString)(&input, &type) == -1);
  check_raised("ValueError", "float31x");
}

static int deleted = 0;
static void count_deleted(void* self) { *(int*)self += 1; }

static int add_to(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  if (num_args != 1 || args[0].type_index != kTVMFFIInt) {
    F(TVMFFIErrorSetRaisedFromCStr)("TypeError", "add_to takes one int");
    return -1;
  }
  result->type_index = kTVMFFIInt;
  result->zero_padding = 0;
  result->v_int64 = args[0].v_int64 + *(int*)self;
  return 0;
}

static void functions(void) {
  TVMFFIObjectHandle function, found;
  deleted = 40;
  CHECK(F(TVMFFIFunctionCreate)(&deleted, add_to, count_deleted, &function) == 0);
  TVMFFIAny argument = {.type_index = kTVMFFIInt, .v_int64 = 2}, result = {.type_index = kTVMFFINone};
  CHECK(F(TVMFFIFunctionCall)(function, &argument, 1, &result) == 0 && result.v_int64 == 42);
  CHECK(F(TVMFFIFunctionCall)(function, &argument, 0, &result) == -1);
  check_raised("TypeError", "takes one int");

  TVMFFIByteArray name = bytes("plain.add_to");
  CHECK(F(TVMFFIFunctionSetGlobal)(&name, function, 0) == 0);
  CHECK(F(TVMFFIFunctionSetGlobal)(&name, function, 0) == -1);
  check_raised("RuntimeError", "Global Function `plain.add_to` is already registered");
  CHECK(F(TVMFFIFunctionSetGlobal)(&name, function, 1) == 0);
  CHECK(F(TVMFFIFunctionGetGlobal)(&name, &found) == 0 && found == function);
  F(TVMFFIObjectDecRef)(found);
  name = bytes("plain.missing");
  CHECK(F(TVMFFIFunctionGetGlobal)(&name, &found) == 0 && found == NULL);
  F(TVMFFIObjectDecRef)(function);
  CHECK(deleted == 40);

  TVMFFIObjectHandle mine;
  CHECK(F(TVMFFIFunctionCreate)(&deleted, add_to, count_deleted, &mine) == 0);
  F(TVMFFIObjectDecRef)(mine);
  CHECK(deleted == 41);

  CHECK(F(TVMFFIEnvModLookupFromImports)(NULL, "plain.add_to", &found) == 0 && found == function);
  CHECK(F(TVMFFIEnvModLookupFromImports)(NULL, "plain.missing", &found) == -1);
  check_raised("RuntimeError", "Cannot find function plain.missing");
}

static void errors(void) {
  TVMFFIObjectHandle cause, error, none = NULL;
  TVMFFIByteArray kind = bytes("ValueError"), message = bytes("outer"), backtrace = bytes("  frame\n");
  F(TVMFFIErrorSetRaisedFromCStrParts)("KeyError", (const char*[]){"in", NULL, "ner"}, 3);
  F(TVMFFIErrorMoveFromRaised)(&cause);
  CHECK(F(TVMFFIErrorCreateWithCauseAndExtraContext)(&kind, &message, &backtrace, cause, NULL, &error) == 0);
  F(TVMFFIObjectDecRef)(cause);
  TVMFFIErrorCell* cell = (TVMFFIErrorCell*)((char*)error + sizeof(TVMFFIObject));
  CHECK(cell->cause_chain == cause && cell->extra_context == NULL);
  TVMFFIErrorCell* inner = (TVMFFIErrorCell*)((char*)cause + sizeof(TVMFFIObject));
  CHECK(strcmp(inner->message.data, "inner") == 0);
  const TVMFFIByteArray* frame = F(TVMFFIBacktrace)("plain.c", 12, "errors", 0);
  const char* first = "  File \"plain.c\", line 12, in errors\n";
  CHECK(frame->size >= strlen(first) && strncmp(frame->data, first, strlen(first)) == 0);
  cell->update_backtrace(error, frame, kTVMFFIBacktraceUpdateModeAppend);
  CHECK(strncmp(cell->backtrace.data, "  frame\n  File \"plain.c\"", 24) == 0);
  F(TVMFFIErrorSetRaised)(error);
  F(TVMFFIObjectDecRef)(error);
  check_raised("ValueError", "outer");
  F(TVMFFIErrorMoveFromRaised)(&none);
  CHECK(none == NULL);
}

static void types(void) {
  TVMFFIByteArray key = bytes("plain.Shape2D"), circle_key = bytes("plain.Circle"), no_key = bytes("plain.None");
  int32_t index = 0;
  CHECK(F(TVMFFITypeKeyToIndex)(&no_key, &index) == -1);
  check_raised("InternalError", "Cannot find type `plain.None`");
  int32_t shape = F(TVMFFITypeGetOrAllocIndex)(&key, -1, 1, 4, 1, kTVMFFIObject);
  CHECK(shape >= kTVMFFIDynObjectBegin);
  int32_t circle = F(TVMFFITypeGetOrAllocIndex)(&circle_key, -1, 2, 0, 1, shape);
  CHECK(circle == shape + 1);
  CHECK(F(TVMFFITypeKeyToIndex)(&circle_key, &index) == 0 && index == circle);
  const TVMFFITypeInfo* info = F(TVMFFIGetTypeInfo)(circle);
  CHECK(info->type_depth == 2 && info->type_ancestors[1]->type_index == shape);

  TVMFFIFieldInfo field;
  memset(&field, 0, sizeof(field));
  field.name = bytes("radius");
  field.size = field.alignment = 8;
  field.offset = 24;
  CHECK(F(TVMFFITypeRegisterField)(circle, &field) == 0);
  CHECK(F(TVMFFITypeRegisterField)(circle, &field) == -1);
  check_raised("InternalError", "Duplicate field name \"radius\" in type \"plain.Circle\"");
  CHECK(info->num_fields == 1 && strcmp(info->fields[0].name.data, "radius") == 0);

  TVMFFIByteArray attr = bytes("plain.attr");
  TVMFFIAny value = {.type_index = kTVMFFIInt, .v_int64 = 7};
  CHECK(F(TVMFFIGetTypeAttrColumn)(&attr) == NULL);
  CHECK(F(TVMFFITypeRegisterAttr)(circle, &attr, &value) == 0);
  const TVMFFITypeAttrColumn* column = F(TVMFFIGetTypeAttrColumn)(&attr);
  CHECK(column->size > circle && column->data[circle - column->begin_index].v_int64 == 7);
  CHECK(F(TVMFFITypeRegisterAttr)(circle, &attr, &value) == -1);
  check_raised("RuntimeError", "already registered");
  CHECK(F(TVMFFIGetTypeInfo)(99999) == NULL);
  check_raised("InternalError", "type_index=99999");
}

static int given_back = 0;
static void give_back(DLManagedTensor* self) {
  given_back += 1;
  free(self);
}

static int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                    void (*set_error)(void*, const char*, const char*)) {
  (void)out;
  if (prototype->ndim != 2) {
    set_error(context, "MemoryError", "only matrices");
    return -1;
  }
  *out = NULL;
  return 0;
}

static void tensors(void) {
  static float data[6];
  static int64_t shape[2] = {2, 3};
  DLManagedTensor* managed = calloc(1, sizeof(DLManagedTensor));
  managed->dl_tensor.data = data;
  managed->dl_tensor.device.device_type = kDLCPU;
  managed->dl_tensor.ndim = 2;
  managed->dl_tensor.dtype = (DLDataType){kDLFloat, 32, 1};
  managed->dl_tensor.shape = shape;
  managed->deleter = give_back;

  TVMFFIObjectHandle tensor, view;
  CHECK(F(TVMFFITensorFromDLPack)(managed, 1 << 20, 0, &tensor) == -1);
  check_raised("RuntimeError", "FromDLPack: Data is not aligned to 1048576 bytes.");
  CHECK(F(TVMFFITensorFromDLPack)(managed, 4, 1, &tensor) == 0);
  DLTensor* cell = (DLTensor*)((char*)tensor + sizeof(TVMFFIObject));
  CHECK(cell->strides != NULL && cell->strides[0] == 3 && cell->strides[1] == 1);

  DLManagedTensorVersioned* exported;
  CHECK(F(TVMFFITensorToDLPackVersioned)(tensor, &exported) == 0);
  CHECK(exported->version.major == DLPACK_MAJOR_VERSION && exported->dl_tensor.data == data);
  DLManagedTensor* old;
  CHECK(F(TVMFFITensorToDLPack)(tensor, &old) == 0);
  DLTensor prototype = *cell;
  prototype.ndim = 1;
  CHECK(F(TVMFFITensorCreateUnsafeView)(tensor, &prototype, &view) == 0);
  F(TVMFFIObjectDecRef)(tensor);
  exported->deleter(exported);
  old->deleter(old);
  CHECK(given_back == 0);
  CHECK(((DLTensor*)((char*)view + sizeof(TVMFFIObject)))->shape[0] == 2);
  F(TVMFFIObjectDecRef)(view);
  CHECK(given_back == 1);

  prototype.ndim = 2;
  prototype.shape = shape;
  CHECK(F(TVMFFIEnvTensorAlloc)(&prototype, &tensor) == -1);
  check_raised("RuntimeError", "allocator is nullptr");
  CHECK(F(TVMFFIEnvSetDLPackManagedTensorAllocator)(allocate, 1, NULL) == 0);
  CHECK(F(TVMFFIEnvGetDLPackManagedTensorAllocator)() == allocate);
  CHECK(F(TVMFFIEnvTensorAlloc)(&prototype, &tensor) == -1);
  check_raised("RuntimeError", "failed to allocate");
  prototype.ndim = 1;
  CHECK(F(TVMFFIEnvTensorAlloc)(&prototype, &tensor) == -1);
  check_raised("MemoryError", "only matrices");
}

static int make_handle(void** result) {
  *result = &deleted;
  return 0;
}

static int unmake_handle(void* handle) { return handle == &deleted ? 0 : 1; }

static void environment(void) {
  void *stream = &deleted, *previous = &deleted, *handle = NULL;
  CHECK(F(TVMFFIEnvGetStream)(kDLCUDA, 1) == NULL);
  CHECK(F(TVMFFIEnvSetStream)(kDLCUDA, 1, stream, &previous) == 0 && previous == NULL);
  CHECK(F(TVMFFIEnvGetStream)(kDLCUDA, 1) == stream);
  CHECK(F(TVMFFIEnvCheckSignals)() == 0);
  CHECK(F(TVMFFIEnvRegisterCAPI)("Py_Nothing", stream) == -1);
  check_raised("ValueError", "Unknown env API Py_Nothing");
  CHECK(F(TVMFFIHandleInitOnce)(&handle, make_handle) == 0 && handle == &deleted);
  CHECK(F(TVMFFIHandleDeinitOnce)(&handle, unmake_handle) == 0 && handle == NULL);
  CHECK(F(TVMFFIEnvModRegisterContextSymbol)("__PlainSymbol", stream) == 0);
  CHECK(F(TVMFFIEnvModRegisterSystemLibSymbol)("plain_symbol", stream) == 0);
  TVMFFICustomAllocator* allocator = F(TVMFFIGetCustomAllocator)();
  CHECK(allocator != NULL && F(TVMFFISetCustomAllocator)(NULL) == 0);
  char* body = allocator->allocate(64, 64, kTVMFFIDynObjectBegin, allocator->context);
  CHECK((uintptr_t)body % 64 == 0);
  ((TVMFFIObjectAllocHeader*)body)[-1].delete_space(body);
}

static void objects(void) {
  TVMFFIObjectHandle opaque;
  deleted = 0;
  CHECK(F(TVMFFIObjectCreateOpaque)(&deleted, kTVMFFIArray, count_deleted, &opaque) == -1);
  check_raised("RuntimeError", "Only kTVMFFIOpaquePyObject is supported for now");
  CHECK(F(TVMFFIObjectCreateOpaque)(&deleted, kTVMFFIOpaquePyObject, count_deleted, &opaque) == 0);
  F(TVMFFIObjectIncRef)(opaque);
  F(TVMFFIObjectDecRef)(opaque);
  CHECK(deleted == 0);
  F(TVMFFIObjectDecRef)(opaque);
  CHECK(deleted == 1 && F(TVMFFIObjectDecRef)(NULL) == 0);

  int64_t words[3] = {5, 1, 0};
  TVMFFIByteArray input = {(const char*)words, sizeof(words)};
  TVMFFIAny value;
  CHECK(F(TVMFFIBigIntFromByteArray)(&input, &value) == 0 && value.type_index == kTVMFFIBigInt);
  TVMFFIByteArray content = F(TVMFFIBigIntGetContentByteArray)(&value);
  CHECK(content.size == 16 && memcmp(content.data, words, 16) == 0);
  F(TVMFFIObjectDecRef)(value.v_obj);
  input.size = 8;
  CHECK(F(TVMFFIBigIntFromByteArray)(&input, &value) == 0 && value.type_index == kTVMFFIInt && value.v_int64 == 5);
  input.size = 7;
  CHECK(F(TVMFFIBigIntFromByteArray)(&input, &value) == -1);
  check_raised("ValueError", "whole 64-bit words");
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  TVMFFIVersion version;
  F(TVMFFIGetVersion)(&version);
  CHECK(version.major == 0 && version.minor == 1 && version.patch == 16);
  texts();
  data_types();
  functions();
  errors();
  types();
  tensors();
  environment();
  objects();
  printf("plain C: all checks passed\n");
  return 0;
}
