/* A C program that embeds Kernpack's runtime: it links Kernpack's libtvm_ffi.so, includes its header, and needs nothing of Apache.
 *
 *     host LIBRARY       LIBRARY is libimagekit.so
 *
 * It loads a library, calls kernels and functions on its own memory, gives it a callback, reads an object's fields, reads errors,
 * and writes a map as JSON. Every check that fails ends it with status 1. */

#include <kernpack/c_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values ------------------------------------------------------------------------------------------------------- */

static TVMFFIByteArray bytes(const char* text) {
  TVMFFIByteArray array = {text, strlen(text)};
  return array;
}

static TVMFFIAny none(void) {
  TVMFFIAny any;
  memset(&any, 0, sizeof any);
  return any;
}

static TVMFFIAny integer(int64_t value) {
  TVMFFIAny any = none();
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

/* A borrowed text: valid as an argument for as long as the text is. */
static TVMFFIAny text(const char* value) {
  TVMFFIAny any = none();
  any.type_index = kTVMFFIRawStr;
  any.v_c_str = value;
  return any;
}

/* A borrowed tensor. */
static TVMFFIAny tensor(DLTensor* value) {
  TVMFFIAny any = none();
  any.type_index = kTVMFFIDLTensorPtr;
  any.v_ptr = value;
  return any;
}

static TVMFFIAny object(TVMFFIObjectHandle handle) {
  TVMFFIAny any = none();
  any.v_obj = (TVMFFIObject*)handle;
  any.type_index = any.v_obj->type_index;
  return any;
}

/* Releases an owned value. */
static void release(TVMFFIAny* any) {
  if (any->type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(any->v_obj);
  *any = none();
}

/* The data after the header of an object. */
#define CELL(type, handle) ((const type*)((const char*)(handle) + sizeof(TVMFFIObject)))

/* ---- Errors ------------------------------------------------------------------------------------------------------- */

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (!(condition)) {                                                   \
      fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
      exit(1);                                                            \
    }                                                                     \
  } while (0)

/* Ends the program with the error that was raised on this thread. */
static void give_up(const char* what) {
  TVMFFIObjectHandle error = NULL;
  TVMFFIErrorMoveFromRaised(&error);
  if (error) {
    const TVMFFIErrorCell* cell = CELL(TVMFFIErrorCell, error);
    fprintf(stderr, "%s: %s: %s\n%s", what, cell->kind.data, cell->message.data, cell->backtrace.data);
  }
  exit(1);
}

static TVMFFIAny call(TVMFFIObjectHandle function, TVMFFIAny* args, int32_t count, const char* what) {
  TVMFFIAny result = none();
  if (TVMFFIFunctionCall(function, args, count, &result) != 0) give_up(what);
  return result;
}

/* ---- Functions ---------------------------------------------------------------------------------------------------- */

static TVMFFIObjectHandle global(const char* name) {
  TVMFFIByteArray array = bytes(name);
  TVMFFIObjectHandle function = NULL;
  if (TVMFFIFunctionGetGlobal(&array, &function) != 0) give_up(name);
  if (!function) {
    fprintf(stderr, "no global function %s\n", name);
    exit(1);
  }
  return function;
}

/* The function of a library; its reference is the caller's. */
static TVMFFIObjectHandle function_of(TVMFFIAny module, const char* name) {
  TVMFFIObjectHandle get = global("ffi.ModuleGetFunction");
  TVMFFIAny args[3] = {module, text(name), integer(1)};
  TVMFFIAny found = call(get, args, 3, name);
  TVMFFIObjectDecRef(get);
  if (found.type_index != kTVMFFIFunction) {
    fprintf(stderr, "the library has no function %s\n", name);
    exit(1);
  }
  return found.v_obj;
}

/* ---- An image of this program's own ------------------------------------------------------------------------------- */

enum { HEIGHT = 48, WIDTH = 64 };
static uint8_t pixels[HEIGHT][WIDTH][3];
static float blurred[HEIGHT][WIDTH];

static DLTensor describe(void* data, int32_t ndim, int64_t* shape, int64_t* strides, uint8_t code, uint8_t bits) {
  DLTensor result;
  memset(&result, 0, sizeof result);
  result.data = data;
  result.device.device_type = kDLCPU;
  result.ndim = ndim;
  result.dtype.code = code;
  result.dtype.bits = bits;
  result.dtype.lanes = 1;
  result.shape = shape;
  result.strides = strides;
  return result;
}

/* ---- A callback: the library calls it for each row of an image. ----------------------------------------------------- */

typedef struct {
  int64_t calls;
  int64_t fail_at;
} Rows;

static int on_row(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  Rows* rows = (Rows*)self;
  if (count != 2 || args[0].type_index != kTVMFFITensor || args[1].type_index != kTVMFFIInt) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "on_row: expected a tensor and an int");
    return -1;
  }
  if (args[1].v_int64 == rows->fail_at) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", "on_row: this row is not wanted");
    return -1;
  }
  rows->calls += 1;
  /* The row as it came: the argument is borrowed, the result is owned. */
  return TVMFFIAnyViewToOwnedAny(&args[0], result);
}

static void forget(void* self) { ((Rows*)self)->calls += 1000; }

/* ---- Fields ------------------------------------------------------------------------------------------------------- */

/* The value of a field that the type of an object, or one above it, registered. */
static TVMFFIAny field(TVMFFIAny of, const char* name) {
  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(of.type_index);
  CHECK(info);
  for (int32_t depth = 0; depth <= info->type_depth; ++depth) {
    const TVMFFITypeInfo* type = depth < info->type_depth ? info->type_ancestors[depth] : info;
    for (int32_t at = 0; at < type->num_fields; ++at) {
      const TVMFFIFieldInfo* candidate = &type->fields[at];
      if (candidate->name.size == strlen(name) && memcmp(candidate->name.data, name, strlen(name)) == 0) {
        TVMFFIAny value = none();
        if (candidate->getter((char*)of.v_obj + candidate->offset, &value) != 0) give_up(name);
        return value;
      }
    }
  }
  fprintf(stderr, "no field %s\n", name);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
    return 2;
  }
  TVMFFIVersion version;
  TVMFFIGetVersion(&version);
  printf("runtime: ABI %u.%u.%u\n", (unsigned)version.major, (unsigned)version.minor, (unsigned)version.patch);

  TVMFFIObjectHandle load = global("ffi.ModuleLoadFromFile");
  TVMFFIAny path = text(argv[1]);
  TVMFFIAny module = call(load, &path, 1, "load");
  TVMFFIObjectDecRef(load);

  /* A function of Rust on memory of C. */
  for (int y = 0; y < HEIGHT; ++y)
    for (int x = 0; x < WIDTH; ++x)
      for (int c = 0; c < 3; ++c) pixels[y][x][c] = (uint8_t)(3 * y + 2 * x + 40 * c);
  int64_t rgb_shape[3] = {HEIGHT, WIDTH, 3}, rgb_strides[3] = {3 * WIDTH, 3, 1};
  DLTensor rgb = describe(pixels, 3, rgb_shape, rgb_strides, kDLUInt, 8);
  TVMFFIObjectHandle to_gray = function_of(module, "imagekit.to_gray");
  TVMFFIAny argument = tensor(&rgb);
  TVMFFIAny gray = call(to_gray, &argument, 1, "to_gray");
  TVMFFIObjectDecRef(to_gray);
  CHECK(gray.type_index == kTVMFFITensor);
  const DLTensor* gray_tensor = CELL(DLTensor, gray.v_obj);
  CHECK(gray_tensor->ndim == 2 && gray_tensor->shape[0] == HEIGHT && gray_tensor->shape[1] == WIDTH);
  const float* gray_data = (const float*)((const char*)gray_tensor->data + gray_tensor->byte_offset);
  float luma = (299.f * pixels[7][9][0] + 587.f * pixels[7][9][1] + 114.f * pixels[7][9][2]) / 1000.f;
  CHECK(fabsf(gray_data[7 * WIDTH + 9] - luma) < 1e-3f);
  printf("to_gray (Rust): %lld x %lld, pixel (7, 9) is %.3f\n", (long long)gray_tensor->shape[0],
         (long long)gray_tensor->shape[1], (double)gray_data[7 * WIDTH + 9]);

  /* A kernel in C that writes into memory of this program. */
  int64_t shape[2] = {HEIGHT, WIDTH}, strides[2] = {WIDTH, 1};
  DLTensor target = describe(blurred, 2, shape, strides, kDLFloat, 32);
  TVMFFIObjectHandle blur = function_of(module, "blur");
  TVMFFIAny blur_args[3] = {gray, tensor(&target), integer(2)};
  TVMFFIAny nothing = call(blur, blur_args, 3, "blur");
  CHECK(nothing.type_index == kTVMFFINone);
  CHECK(blurred[20][30] > 0.f);
  printf("blur (C): pixel (20, 30) is %.3f, was %.3f\n", (double)blurred[20][30], (double)gray_data[20 * WIDTH + 30]);

  /* An error: the call returns -1, and the error describes the problem. */
  blur_args[2] = text("wide");
  TVMFFIAny result = none();
  CHECK(TVMFFIFunctionCall(blur, blur_args, 3, &result) == -1);
  TVMFFIObjectHandle error = NULL;
  TVMFFIErrorMoveFromRaised(&error);
  CHECK(error && strcmp(CELL(TVMFFIErrorCell, error)->kind.data, "TypeError") == 0);
  printf("an error: %s\n", CELL(TVMFFIErrorCell, error)->message.data);
  TVMFFIObjectDecRef(error);
  TVMFFIObjectDecRef(blur);

  /* The library calls back, once for each row. */
  Rows rows = {0, -1};
  TVMFFIObjectHandle callback = NULL;
  if (TVMFFIFunctionCreate(&rows, on_row, forget, &callback) != 0) give_up("callback");
  TVMFFIObjectHandle map_rows = function_of(module, "map_rows");
  TVMFFIAny map_args[2] = {gray, object(callback)};
  TVMFFIAny mapped = call(map_rows, map_args, 2, "map_rows");
  const float* mapped_data = (const float*)CELL(DLTensor, mapped.v_obj)->data;
  CHECK(rows.calls == HEIGHT && memcmp(mapped_data, gray_data, sizeof blurred) == 0);
  printf("map_rows (Rust): %lld calls of a C function\n", (long long)rows.calls);
  release(&mapped);
  /* Its error passes through the library unchanged. */
  rows.fail_at = 3;
  CHECK(TVMFFIFunctionCall(map_rows, map_args, 2, &result) == -1);
  TVMFFIErrorMoveFromRaised(&error);
  CHECK(strcmp(CELL(TVMFFIErrorCell, error)->message.data, "on_row: this row is not wanted") == 0);
  TVMFFIObjectDecRef(error);
  TVMFFIObjectDecRef(map_rows);
  TVMFFIObjectDecRef(callback);
  CHECK(rows.calls >= 1000);

  /* An object of a Rust type, read through the registered fields of the type. */
  TVMFFIObjectHandle histogram = function_of(module, "histogram");
  TVMFFIAny found = call(histogram, &gray, 1, "histogram");
  TVMFFIObjectDecRef(histogram);
  TVMFFIAny total = field(found, "total"), mean = field(found, "mean"), bins = field(found, "bins");
  CHECK(total.v_int64 == HEIGHT * WIDTH && mean.type_index == kTVMFFIFloat && bins.type_index == kTVMFFIArray);
  const TVMFFISeqCell* cells = CELL(TVMFFISeqCell, bins.v_obj);
  int64_t sum = 0;
  for (int64_t at = 0; at < cells->size; ++at) sum += ((const TVMFFIAny*)cells->data)[at].v_int64;
  CHECK(sum == HEIGHT * WIDTH);
  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(found.type_index);
  printf("an object of type %.*s: total %lld, mean %.3f, %lld bins\n", (int)info->type_key.size, info->type_key.data,
         (long long)total.v_int64, mean.v_float64, (long long)cells->size);
  release(&bins);
  release(&found);

  /* A type of the runtime itself: a map, written as JSON. */
  TVMFFIObjectHandle make_map = global("ffi.Map"), stringify = global("ffi.json.Stringify");
  TVMFFIAny pairs[4] = {text("kernel"), text("blur"), text("radius"), integer(2)};
  TVMFFIAny json_args[2] = {call(make_map, pairs, 4, "ffi.Map"), none()};
  TVMFFIAny json = call(stringify, json_args, 2, "ffi.json.Stringify");
  CHECK(json.type_index == kTVMFFIStr);
  const TVMFFIByteArray* written = CELL(TVMFFIByteArray, json.v_obj);
  CHECK(strcmp(written->data, "{\"kernel\":\"blur\",\"radius\":2}") == 0);
  printf("JSON: %s\n", written->data);
  release(&json);
  release(&json_args[0]);
  TVMFFIObjectDecRef(make_map);
  TVMFFIObjectDecRef(stringify);

  release(&gray);
  release(&module);
  puts("every check holds");
  return 0;
}
