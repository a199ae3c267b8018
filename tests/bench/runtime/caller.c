/* Measures one libtvm_ffi.so through its C interface alone: the same program, started once for each library.
 * See ../README.md for what it reads and prints. Usage: caller library=path */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tvm/ffi/c_api.h>

#define FUNCTIONS(X)                                                                                                  \
  X(TVMFFIObjectDecRef) X(TVMFFITypeKeyToIndex) X(TVMFFITypeGetOrAllocIndex) X(TVMFFIGetTypeInfo)                     \
  X(TVMFFITypeRegisterField) X(TVMFFITypeRegisterMetadata) X(TVMFFIGetTypeAttrColumn) X(TVMFFITypeRegisterAttr)       \
  X(TVMFFIFunctionCreate)                                                                                             \
  X(TVMFFIFunctionCall) X(TVMFFIFunctionGetGlobal) X(TVMFFIAnyViewToOwnedAny) X(TVMFFIErrorMoveFromRaised)            \
  X(TVMFFIErrorSetRaisedFromCStr) X(TVMFFIErrorSetRaised) X(TVMFFIErrorCreate) X(TVMFFITensorFromDLPack)              \
  X(TVMFFITensorToDLPack) X(TVMFFIStringFromByteArray) X(TVMFFIDataTypeFromString) X(TVMFFIDataTypeToString)

#define DECLARE(name) static __typeof__(name)* p##name;
FUNCTIONS(DECLARE)

static void fail(const char* what) {
  TVMFFIObjectHandle error = NULL;
  if (pTVMFFIErrorMoveFromRaised) pTVMFFIErrorMoveFromRaised(&error);
  if (error) {
    TVMFFIErrorCell* cell = (TVMFFIErrorCell*)((char*)error + sizeof(TVMFFIObject));
    fprintf(stderr, "%s: %.*s: %.*s\n", what, (int)cell->kind.size, cell->kind.data, (int)cell->message.size,
            cell->message.data);
  } else {
    fprintf(stderr, "%s\n", what);
  }
  exit(1);
}

static void check(int status, const char* what) {
  if (status != 0) fail(what);
}

static TVMFFIByteArray bytes_of(const char* text) {
  TVMFFIByteArray bytes = {text, strlen(text)};
  return bytes;
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

static TVMFFIAny boolean(int value) {
  TVMFFIAny any = integer(value);
  any.type_index = kTVMFFIBool;
  return any;
}

static TVMFFIAny text(const char* value) {
  TVMFFIByteArray bytes = bytes_of(value);
  TVMFFIAny any = none();
  check(pTVMFFIStringFromByteArray(&bytes, &any), "string");
  return any;
}

static void release(TVMFFIAny* any) {
  if (any->type_index >= kTVMFFIStaticObjectBegin) pTVMFFIObjectDecRef(any->v_obj);
  *any = none();
}

static TVMFFIObjectHandle global(const char* name) {
  TVMFFIByteArray bytes = bytes_of(name);
  TVMFFIObjectHandle function = NULL;
  check(pTVMFFIFunctionGetGlobal(&bytes, &function), name);
  if (!function) fail(name);
  return function;
}

static TVMFFIAny call(TVMFFIObjectHandle function, const TVMFFIAny* args, int count) {
  TVMFFIAny result = none();
  check(pTVMFFIFunctionCall(function, (TVMFFIAny*)args, count, &result), "call");
  return result;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void expect(int condition, const char* what) {
  if (!condition) {
    fprintf(stderr, "wrong result: %s\n", what);
    exit(1);
  }
}

/* ---- A type of this program's own: what a user's C or C++ library registers. ---- */

typedef struct {
  TVMFFIObject header;
  int64_t tag;
  TVMFFIAny name;
  TVMFFIAny children;
} Node;

static int32_t node_type;

static void node_delete(void* self, int flags) {
  Node* node = (Node*)self;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    release(&node->name);
    release(&node->children);
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) free(node);
}

static int node_create(TVMFFIObjectHandle* out) {
  Node* node = (Node*)calloc(1, sizeof(Node));
  node->header.combined_ref_count = (1ull << 32) | 1;
  node->header.type_index = node_type;
  node->header.deleter = node_delete;
  *out = node;
  return 0;
}

static int get_int(void* field, TVMFFIAny* result) {
  *result = integer(*(int64_t*)field);
  return 0;
}

static int set_int(void* field, const TVMFFIAny* value) {
  *(int64_t*)field = value->v_int64;
  return 0;
}

static int get_any(void* field, TVMFFIAny* result) {
  TVMFFIAny* value = (TVMFFIAny*)field;
  if (value->type_index >= kTVMFFIStaticObjectBegin)
    __atomic_fetch_add(&((TVMFFIObject*)value->v_obj)->combined_ref_count, 1, __ATOMIC_RELAXED);
  *result = *value;
  return 0;
}

static int set_any(void* field, const TVMFFIAny* value) {
  TVMFFIAny owned = none();
  if (pTVMFFIAnyViewToOwnedAny(value, &owned) != 0) return -1;
  release((TVMFFIAny*)field);
  *(TVMFFIAny*)field = owned;
  return 0;
}

static void register_field(const char* name, size_t offset, size_t size, const char* schema, TVMFFIFieldGetter getter,
                           TVMFFIFieldSetter setter, int32_t static_type) {
  TVMFFIFieldInfo info;
  memset(&info, 0, sizeof info);
  info.name = bytes_of(name);
  info.metadata = bytes_of(schema);
  info.size = (int64_t)size;
  info.alignment = 8;
  info.offset = (int64_t)offset;
  info.getter = getter;
  info.setter = (void*)setter;
  info.field_static_type_index = static_type;
  check(pTVMFFITypeRegisterField(node_type, &info), name);
}

/* The hook that a deep copy calls: returns a new node with the same fields. */
static int node_copy(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)self;
  expect(count == 1, "arguments of the copy hook");
  const Node* source = (const Node*)args[0].v_obj;
  TVMFFIObjectHandle handle;
  node_create(&handle);
  Node* copy = (Node*)handle;
  copy->tag = source->tag;
  get_any((void*)&source->name, &copy->name);
  get_any((void*)&source->children, &copy->children);
  *result = none();
  result->type_index = node_type;
  result->v_obj = (TVMFFIObject*)handle;
  return 0;
}

static void register_node(void) {
  TVMFFIByteArray key = bytes_of("bench.Node");
  node_type = pTVMFFITypeGetOrAllocIndex(&key, -1, 1, 0, 1, kTVMFFIObject);
  register_field("tag", offsetof(Node, tag), 8, "{\"type_schema\":\"{\\\"type\\\":\\\"int\\\"}\"}", get_int, set_int,
                 kTVMFFIInt);
  register_field("name", offsetof(Node, name), 16, "{\"type_schema\":\"{\\\"type\\\":\\\"ffi.String\\\"}\"}", get_any,
                 set_any, -1);
  register_field("children", offsetof(Node, children), 16, "{\"type_schema\":\"{\\\"type\\\":\\\"Any\\\"}\"}", get_any,
                 set_any, -1);
  TVMFFITypeMetadata metadata;
  memset(&metadata, 0, sizeof metadata);
  metadata.creator = node_create;
  metadata.total_size = sizeof(Node);
  metadata.structural_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  check(pTVMFFITypeRegisterMetadata(node_type, &metadata), "metadata");
  TVMFFIByteArray attr = bytes_of("__ffi_shallow_copy__");
  TVMFFIAny hook = none();
  hook.type_index = kTVMFFIFunction;
  TVMFFIObjectHandle function;
  check(pTVMFFIFunctionCreate(NULL, node_copy, NULL, &function), "function");
  hook.v_obj = (TVMFFIObject*)function;
  check(pTVMFFITypeRegisterAttr(node_type, &attr, &hook), "attribute");
  release(&hook);
}

static TVMFFIAny node(int64_t tag, const char* name, TVMFFIAny children) {
  TVMFFIObjectHandle handle;
  node_create(&handle);
  Node* created = (Node*)handle;
  created->tag = tag;
  created->name = text(name);
  created->children = children;
  TVMFFIAny any = none();
  any.type_index = node_type;
  any.v_obj = (TVMFFIObject*)handle;
  return any;
}

static TVMFFIObjectHandle make_array;

/* A tree of nodes with ten children each; every node is an object and its children are one array. */
static TVMFFIAny tree(int depth, int64_t* count) {
  TVMFFIAny children[10] = {{0}};
  int64_t tag = (*count)++;
  int used = depth > 0 ? 10 : 0;
  for (int i = 0; i < used; ++i) children[i] = tree(depth - 1, count);
  TVMFFIAny array = call(make_array, children, used);
  for (int i = 0; i < used; ++i) release(&children[i]);
  char name[48];
  snprintf(name, sizeof name, tag % 2 ? "n%lld" : "a longer name of node %lld", (long long)(tag % 1000));
  return node(tag, name, array);
}

/* ---- The cases. Each runs `iterations` operations and gives the nanoseconds; what it needs is made before. ---- */

static uint64_t sink;
static TVMFFIObjectHandle echo;
static TVMFFIAny graph_small, graph_a, graph_b;
static int64_t graph_nodes;

static int echo_call(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)self;
  *result = count ? args[0] : none();
  return 0;
}

static uint64_t bench_call(uint64_t n) {
  TVMFFIAny arg = integer(7), result = none();
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    check(pTVMFFIFunctionCall(echo, &arg, 1, &result), "call");
    sink += result.v_int64;
  }
  return now() - start;
}

static uint64_t bench_function_create(uint64_t n) {
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIObjectHandle function;
    check(pTVMFFIFunctionCreate(&sink, echo_call, NULL, &function), "function");
    pTVMFFIObjectDecRef(function);
  }
  return now() - start;
}

static uint64_t bench_get_global(uint64_t n) {
  TVMFFIByteArray name = bytes_of("ffi.MapForwardIterFunctor");
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIObjectHandle function;
    check(pTVMFFIFunctionGetGlobal(&name, &function), "global");
    pTVMFFIObjectDecRef(function);
  }
  return now() - start;
}

static uint64_t strings(uint64_t n, const char* value) {
  TVMFFIByteArray bytes = bytes_of(value);
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIAny any;
    check(pTVMFFIStringFromByteArray(&bytes, &any), "string");
    if (any.type_index >= kTVMFFIStaticObjectBegin) pTVMFFIObjectDecRef(any.v_obj);
    sink += any.type_index;
  }
  return now() - start;
}

static uint64_t bench_string_short(uint64_t n) { return strings(n, "seven77"); }
static uint64_t bench_string_long(uint64_t n) {
  return strings(n, "a string that is sixty-four characters long and lies on the heap");
}

static uint64_t create(uint64_t n, const char* name, const TVMFFIAny* args, int count) {
  TVMFFIObjectHandle function = global(name);
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIAny result = call(function, args, count);
    release(&result);
  }
  uint64_t elapsed = now() - start;
  pTVMFFIObjectDecRef(function);
  return elapsed;
}

static uint64_t create_sequence(uint64_t n, const char* name) {
  TVMFFIAny args[20];
  for (int i = 0; i < 20; ++i) args[i] = integer(i);
  return create(n, name, args, 20);
}

static uint64_t create_mapping(uint64_t n, const char* name) {
  TVMFFIAny args[20];
  for (int i = 0; i < 20; ++i) args[i] = integer(i * 7);
  return create(n, name, args, 20);
}

static uint64_t bench_array(uint64_t n) { return create_sequence(n, "ffi.Array"); }
static uint64_t bench_list(uint64_t n) { return create_sequence(n, "ffi.List"); }
static uint64_t bench_shape(uint64_t n) { return create_sequence(n, "ffi.Shape"); }
static uint64_t bench_map(uint64_t n) { return create_mapping(n, "ffi.Map"); }
static uint64_t bench_dict(uint64_t n) { return create_mapping(n, "ffi.Dict"); }

static uint64_t bench_array_get(uint64_t n) {
  TVMFFIAny args[20];
  for (int i = 0; i < 20; ++i) args[i] = integer(i);
  TVMFFIAny array = call(make_array, args, 20);
  TVMFFIObjectHandle get = global("ffi.ArrayGetItem");
  int64_t sum = 0;
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIAny get_args[2] = {array, integer((int64_t)(i % 20))};
    sum += call(get, get_args, 2).v_int64;
  }
  uint64_t elapsed = now() - start;
  expect(n < 20 || sum > 0, "ffi.ArrayGetItem");
  release(&array);
  pTVMFFIObjectDecRef(get);
  return elapsed;
}

static uint64_t bench_list_append(uint64_t n) {
  TVMFFIObjectHandle make = global("ffi.List"), append = global("ffi.ListAppend"), size = global("ffi.ListSize");
  uint64_t elapsed = 0;
  for (uint64_t done = 0; done < n;) {
    uint64_t batch = n - done < 1000 ? n - done : 1000;
    TVMFFIAny list = call(make, NULL, 0);
    uint64_t start = now();
    for (uint64_t i = 0; i < batch; ++i) {
      TVMFFIAny args[2] = {list, integer((int64_t)i)};
      call(append, args, 2);
    }
    elapsed += now() - start;
    expect((uint64_t)call(size, &list, 1).v_int64 == batch, "ffi.ListSize");
    release(&list);
    done += batch;
  }
  pTVMFFIObjectDecRef(make);
  pTVMFFIObjectDecRef(append);
  pTVMFFIObjectDecRef(size);
  return elapsed;
}

enum { KEYS = 1000 };
static TVMFFIAny int_keys[KEYS], text_keys[KEYS], object_keys[KEYS];

static void make_keys(void) {
  for (int i = 0; i < KEYS; ++i) {
    char name[32];
    snprintf(name, sizeof name, i % 2 ? "k%d" : "the key of number %d", i);
    int_keys[i] = integer((int64_t)i * 2654435761u);
    text_keys[i] = text(name);
    object_keys[i] = node(i, "key", none());
  }
}

static uint64_t insert(uint64_t n, const TVMFFIAny* keys) {
  TVMFFIObjectHandle make = global("ffi.Dict"), set = global("ffi.DictSetItem"), size = global("ffi.DictSize");
  uint64_t elapsed = 0;
  for (uint64_t done = 0; done < n;) {
    uint64_t batch = n - done < KEYS ? n - done : KEYS;
    TVMFFIAny dict = call(make, NULL, 0);
    uint64_t start = now();
    for (uint64_t i = 0; i < batch; ++i) {
      TVMFFIAny args[3] = {dict, keys[i], integer((int64_t)i)};
      call(set, args, 3);
    }
    elapsed += now() - start;
    expect((uint64_t)call(size, &dict, 1).v_int64 == batch, "ffi.DictSize");
    release(&dict);
    done += batch;
  }
  pTVMFFIObjectDecRef(make);
  pTVMFFIObjectDecRef(set);
  pTVMFFIObjectDecRef(size);
  return elapsed;
}

static uint64_t lookup(uint64_t n, const TVMFFIAny* keys) {
  TVMFFIObjectHandle make = global("ffi.Map"), get = global("ffi.MapGetItem");
  TVMFFIAny pairs[2 * KEYS];
  for (int i = 0; i < KEYS; ++i) {
    pairs[2 * i] = keys[i];
    pairs[2 * i + 1] = integer(i);
  }
  TVMFFIAny map = call(make, pairs, 2 * KEYS);
  int64_t sum = 0;
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t at = i * 7 % KEYS;
    TVMFFIAny args[2] = {map, keys[at]};
    sum += call(get, args, 2).v_int64 - (int64_t)at;
  }
  uint64_t elapsed = now() - start;
  expect(sum == 0, "ffi.MapGetItem");
  release(&map);
  pTVMFFIObjectDecRef(make);
  pTVMFFIObjectDecRef(get);
  return elapsed;
}

static uint64_t bench_insert_int(uint64_t n) { return insert(n, int_keys); }
static uint64_t bench_insert_str(uint64_t n) { return insert(n, text_keys); }
static uint64_t bench_insert_object(uint64_t n) { return insert(n, object_keys); }
static uint64_t bench_lookup_int(uint64_t n) { return lookup(n, int_keys); }
static uint64_t bench_lookup_str(uint64_t n) { return lookup(n, text_keys); }
static uint64_t bench_lookup_object(uint64_t n) { return lookup(n, object_keys); }

static uint64_t bench_type_by_key(uint64_t n) {
  TVMFFIByteArray key = bytes_of("bench.Node");
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    int32_t index;
    check(pTVMFFITypeKeyToIndex(&key, &index), "key");
    sink += index;
  }
  return now() - start;
}

static uint64_t bench_type_info(uint64_t n) {
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) sink += pTVMFFIGetTypeInfo(i % 2 ? node_type : kTVMFFIArray)->type_index;
  return now() - start;
}

static uint64_t bench_attr_column(uint64_t n) {
  TVMFFIByteArray name = bytes_of("__ffi_repr__");
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) sink += pTVMFFIGetTypeAttrColumn(&name)->size;
  return now() - start;
}

static uint64_t bench_dtype_parse(uint64_t n) {
  TVMFFIByteArray name = bytes_of("float32x4");
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    DLDataType dtype;
    check(pTVMFFIDataTypeFromString(&name, &dtype), "dtype");
    sink += dtype.lanes;
  }
  return now() - start;
}

static uint64_t bench_dtype_print(uint64_t n) {
  DLDataType dtype = {kDLBfloat, 16, 1};
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIAny any = none();
    check(pTVMFFIDataTypeToString(&dtype, &any), "dtype");
    release(&any);
  }
  return now() - start;
}

static void keep_managed(struct DLManagedTensor* managed) { (void)managed; }

static uint64_t bench_dlpack(uint64_t n) {
  static int64_t shape[2] = {4, 8}, strides[2] = {8, 1};
  static float data[32] __attribute__((aligned(64)));
  DLManagedTensor managed;
  memset(&managed, 0, sizeof managed);
  managed.dl_tensor.data = data;
  managed.dl_tensor.device.device_type = kDLCPU;
  managed.dl_tensor.ndim = 2;
  managed.dl_tensor.dtype.code = kDLFloat;
  managed.dl_tensor.dtype.bits = 32;
  managed.dl_tensor.dtype.lanes = 1;
  managed.dl_tensor.shape = shape;
  managed.dl_tensor.strides = strides;
  managed.deleter = keep_managed;
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIObjectHandle tensor;
    DLManagedTensor* out;
    check(pTVMFFITensorFromDLPack(&managed, 0, 0, &tensor), "from DLPack");
    check(pTVMFFITensorToDLPack(tensor, &out), "to DLPack");
    out->deleter(out);
    pTVMFFIObjectDecRef(tensor);
  }
  return now() - start;
}

static uint64_t bench_error_raise(uint64_t n) {
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIObjectHandle error;
    pTVMFFIErrorSetRaisedFromCStr("ValueError", "expected 3 columns, got 4");
    pTVMFFIErrorMoveFromRaised(&error);
    pTVMFFIObjectDecRef(error);
  }
  return now() - start;
}

static uint64_t bench_error_create(uint64_t n) {
  TVMFFIByteArray kind = bytes_of("ValueError"), message = bytes_of("expected 3 columns, got 4");
  TVMFFIByteArray backtrace = bytes_of("  File \"kernel.c\", line 7, in main\n");
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIObjectHandle error;
    check(pTVMFFIErrorCreate(&kind, &message, &backtrace, &error), "error");
    pTVMFFIObjectDecRef(error);
  }
  return now() - start;
}

/* An error of a builtin: created, raised and caught. */
static uint64_t bench_error_builtin(uint64_t n) {
  TVMFFIObjectHandle get = global("ffi.ArrayGetItem");
  TVMFFIAny array = call(make_array, NULL, 0);
  TVMFFIAny args[2] = {array, integer(3)};
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIAny result = none();
    TVMFFIObjectHandle error;
    expect(pTVMFFIFunctionCall(get, args, 2, &result) != 0, "an index out of bounds");
    pTVMFFIErrorMoveFromRaised(&error);
    pTVMFFIObjectDecRef(error);
  }
  uint64_t elapsed = now() - start;
  release(&array);
  pTVMFFIObjectDecRef(get);
  return elapsed;
}

/* A document of about 30 KB with all features of JSON. */
static TVMFFIAny document(void) {
  static char buffer[65536];
  size_t used = (size_t)snprintf(buffer, sizeof buffer, "{\"name\": \"benchmark\", \"rows\": [");
  for (int i = 0; i < 300; ++i) {
    used += (size_t)snprintf(buffer + used, sizeof buffer - used,
                             "%s{\"id\": %d, \"weight\": %.6f, \"tags\": [\"red\", \"gr\\u00fcn\", \"a\\nb\"], \"ok\": %s, \"next\": null}",
                             i ? ", " : "", i * 37, i / 7.0, i % 3 ? "true" : "false");
  }
  snprintf(buffer + used, sizeof buffer - used, "]}");
  return text(buffer);
}

static uint64_t bench_json_parse(uint64_t n) {
  TVMFFIObjectHandle parse = global("ffi.json.Parse");
  TVMFFIAny source = document();
  uint64_t elapsed = 0;
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t start = now();
    TVMFFIAny result = call(parse, &source, 1);
    elapsed += now() - start;
    expect(result.type_index == kTVMFFIMap, "ffi.json.Parse");
    release(&result);
  }
  release(&source);
  pTVMFFIObjectDecRef(parse);
  return elapsed;
}

static uint64_t bench_json_write(uint64_t n) {
  TVMFFIObjectHandle parse = global("ffi.json.Parse"), write = global("ffi.json.Stringify");
  TVMFFIAny source = document();
  TVMFFIAny args[2] = {call(parse, &source, 1), none()};
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIAny result = call(write, args, 2);
    expect(result.type_index == kTVMFFIStr, "ffi.json.Stringify");
    release(&result);
  }
  uint64_t elapsed = now() - start;
  release(&args[0]);
  release(&source);
  pTVMFFIObjectDecRef(parse);
  pTVMFFIObjectDecRef(write);
  return elapsed;
}

static uint64_t bench_json_graph(uint64_t n) {
  TVMFFIObjectHandle save = global("ffi.ToJSONGraphString"), load = global("ffi.FromJSONGraphString");
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIAny args[2] = {graph_small, none()};
    TVMFFIAny saved = call(save, args, 2);
    TVMFFIAny loaded = call(load, &saved, 1);
    expect(loaded.type_index == node_type, "ffi.FromJSONGraphString");
    release(&saved);
    release(&loaded);
  }
  uint64_t elapsed = now() - start;
  pTVMFFIObjectDecRef(save);
  pTVMFFIObjectDecRef(load);
  return elapsed;
}

static uint64_t over_graph(uint64_t n, const char* name, const TVMFFIAny* args, int count, int expected_type) {
  TVMFFIObjectHandle function = global(name);
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIAny result = call(function, args, count);
    expect(result.type_index == expected_type && (expected_type != kTVMFFIBool || result.v_int64 == 1), name);
    release(&result);
  }
  uint64_t elapsed = now() - start;
  pTVMFFIObjectDecRef(function);
  return elapsed;
}

static uint64_t bench_structural_equal(uint64_t n) {
  TVMFFIAny args[4] = {graph_a, graph_b, boolean(0), boolean(0)};
  return over_graph(n, "ffi.StructuralEqual", args, 4, kTVMFFIBool);
}

static uint64_t bench_structural_hash(uint64_t n) {
  TVMFFIAny args[3] = {graph_a, boolean(0), boolean(0)};
  return over_graph(n, "ffi.StructuralHash", args, 3, kTVMFFIInt);
}

static uint64_t bench_recursive_equal(uint64_t n) {
  TVMFFIAny args[2] = {graph_a, graph_b};
  return over_graph(n, "ffi.RecursiveEq", args, 2, kTVMFFIBool);
}

static uint64_t bench_recursive_hash(uint64_t n) { return over_graph(n, "ffi.RecursiveHash", &graph_a, 1, kTVMFFIInt); }
static uint64_t bench_repr(uint64_t n) { return over_graph(n, "ffi.ReprPrint", &graph_small, 1, kTVMFFIStr); }
static uint64_t bench_deep_copy(uint64_t n) { return over_graph(n, "ffi.DeepCopy", &graph_small, 1, node_type); }

static uint64_t bench_walk(uint64_t n) {
  TVMFFIObjectHandle walk = global("ffi.StructuralWalk");
  TVMFFIAny nothing = call(make_array, NULL, 0);
  uint64_t start = now();
  for (uint64_t i = 0; i < n; ++i) {
    TVMFFIAny args[4] = {graph_a, nothing, nothing, integer(0)};
    TVMFFIAny result = call(walk, args, 4);
    release(&result);
  }
  uint64_t elapsed = now() - start;
  release(&nothing);
  pTVMFFIObjectDecRef(walk);
  return elapsed;
}

static const struct {
  const char* name;
  uint64_t (*run)(uint64_t);
} cases[] = {
    {"call", bench_call},
    {"function_create", bench_function_create},
    {"get_global", bench_get_global},
    {"string_short", bench_string_short},
    {"string_long", bench_string_long},
    {"array", bench_array},
    {"array_get", bench_array_get},
    {"list", bench_list},
    {"list_append", bench_list_append},
    {"shape", bench_shape},
    {"map", bench_map},
    {"dict", bench_dict},
    {"insert_int", bench_insert_int},
    {"insert_str", bench_insert_str},
    {"insert_object", bench_insert_object},
    {"lookup_int", bench_lookup_int},
    {"lookup_str", bench_lookup_str},
    {"lookup_object", bench_lookup_object},
    {"type_by_key", bench_type_by_key},
    {"type_info", bench_type_info},
    {"attr_column", bench_attr_column},
    {"dtype_parse", bench_dtype_parse},
    {"dtype_print", bench_dtype_print},
    {"dlpack", bench_dlpack},
    {"error_raise", bench_error_raise},
    {"error_create", bench_error_create},
    {"error_builtin", bench_error_builtin},
    {"json_parse", bench_json_parse},
    {"json_write", bench_json_write},
    {"json_graph", bench_json_graph},
    {"structural_equal", bench_structural_equal},
    {"structural_hash", bench_structural_hash},
    {"recursive_equal", bench_recursive_equal},
    {"recursive_hash", bench_recursive_hash},
    {"repr", bench_repr},
    {"deep_copy", bench_deep_copy},
    {"walk", bench_walk},
};

int main(int argc, char** argv) {
  const char* path = argc == 2 ? strchr(argv[1], '=') : NULL;
  if (!path) {
    fprintf(stderr, "usage: caller library=path\n");
    return 2;
  }
  void* library = dlopen(path + 1, RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
#define FIND(name)                                                   \
  p##name = (__typeof__(name)*)dlsym(library, #name);                \
  if (!p##name) {                                                    \
    fprintf(stderr, "%s: no %s\n", path + 1, #name);                 \
    return 1;                                                        \
  }
  FUNCTIONS(FIND)
  check(pTVMFFIFunctionCreate(NULL, echo_call, NULL, &echo), "function");
  make_array = global("ffi.Array");
  register_node();
  make_keys();
  int64_t nodes = 0;
  graph_small = tree(3, &nodes);
  graph_a = tree(4, &graph_nodes);
  /* 11,111 nodes ten times over: about 100,000. */
  TVMFFIAny parts[2][9];
  for (int copy = 0; copy < 2; ++copy) {
    graph_nodes = 0;
    for (int i = 0; i < 9; ++i) parts[copy][i] = tree(4, &graph_nodes);
    TVMFFIAny all = call(make_array, parts[copy], 9);
    for (int i = 0; i < 9; ++i) release(&parts[copy][i]);
    if (copy == 0) release(&graph_a);
    *(copy == 0 ? &graph_a : &graph_b) = node(-1, "root", all);
  }
  puts("ready");
  fflush(stdout);
  char name[64], target[64];
  unsigned long long iterations;
  while (scanf("%63s %63s %llu", name, target, &iterations) == 3) {
    uint64_t elapsed = 0;
    int found = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
      if (strcmp(cases[i].name, name) == 0) {
        elapsed = cases[i].run(iterations);
        found = 1;
      }
    }
    if (!found) fail(name);
    printf("%llu\n", (unsigned long long)elapsed);
    fflush(stdout);
  }
  return sink == 42;
}
