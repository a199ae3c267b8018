/* A stand-in for the CUDA driver: it implements the functions that Kernpack calls on the host,
 * so that devices and launches can be tested without a GPU. "Device" memory is from malloc and
 * every allocation knows its device, so copies really move bytes and wrong addresses are
 * detected. Work is done when it is enqueued. A kernel does not run: its launch is written to
 * the log.
 *
 * Variables describe the machine: FAKE_CUDA_DEVICES (2), FAKE_CUDA_VERSION (13000),
 * FAKE_CUDA_INIT (the status of cuInit), FAKE_CUDA_MEMORY (bytes of each device, 1 GiB).
 * FAKE_CUDA_KERNELS names a library with a function `void NAME(const unsigned *sizes, void
 * **params)` for each kernel that does run on the host (`sizes` are grid and block, x, y and z
 * each). With FAKE_CUDA_FAIL=FUNCTION=STATUS each call of a function of the driver fails; with
 * FAKE_CUDA_STICKY=KERNEL=STATUS every call fails after a launch of the kernel, as with a
 * context that an invalid address has broken; FAKE_CUDA_LOG=0 disables the log.
 *
 * An image is text. A line `kernel NAME TYPES` declares a kernel and its parameters, one letter
 * each: p pointer, b h i l signed integers of 1, 2, 4, 8 bytes, e bfloat16 or half (2 bytes in
 * hexadecimal digits), f float, d double. Images in other formats (ELF, fat binaries, PTX from a
 * compiler) have any requested kernel, and the log does not contain its parameters. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned status;
typedef uint64_t address;

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
       INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719 };
enum { DEVICES = 8 };
enum kind { ON_DEVICE, PINNED, MANAGED };

struct context { int device; };
struct stream { struct context *context; };
struct event { struct context *context; int recorded; long time; };
struct block { struct block *next; char *data; size_t size; int device; enum kind kind; };
struct module { struct context *context; char *text; };
typedef void host_kernel(const unsigned *sizes, void **params);
struct function { struct module *module; char name[128]; char types[64]; int known; int dynamic_shared; int static_shared; host_kernel *run; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context contexts[DEVICES];
static struct block *blocks;
static size_t used[DEVICES];
static int retained[DEVICES];
static long live[4]; /* modules, streams, events, blocks */
static long now;
static char *log_text;
static size_t log_length, log_size;
static char fail_name[64];
static status fail_status;
static int initialized;
static status sticky;
static int has_log = 1;
static const char *always_fails, *breaks; /* FAKE_CUDA_FAIL, FAKE_CUDA_STICKY */
static void *kernels;
static _Thread_local struct context *current;

static long number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? atol(text) : otherwise;
}
static int device_count(void) { return (int)number("FAKE_CUDA_DEVICES", 2); }
static size_t device_memory(void) { return (size_t)number("FAKE_CUDA_MEMORY", 1L << 30); }

static void note(const char *format, ...) {
#ifndef QUIET
  if (!has_log) return;
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  if (length >= (int)sizeof text) length = sizeof text - 1;
  pthread_mutex_lock(&lock);
  if (log_length + (size_t)length + 1 > log_size) {
    log_size = (log_length + (size_t)length + 1) * 2;
    log_text = realloc(log_text, log_size);
  }
  memcpy(log_text + log_length, text, (size_t)length + 1);
  log_length += (size_t)length;
  pthread_mutex_unlock(&lock);
#else
  (void)format;
#endif
}

/* For the tests: the log since the last call, and the numbers of objects (modules, streams,
 * events, blocks of memory). */
char *fake_cuda_take_log(void) {
  pthread_mutex_lock(&lock);
  char *text = log_text ? log_text : strdup("");
  log_text = NULL;
  log_length = log_size = 0;
  pthread_mutex_unlock(&lock);
  return text;
}
void fake_cuda_free_log(char *text) { free(text); }
long fake_cuda_live(int what) { return live[what]; }
/* Makes the next call of the function return the status without any effect. */
void fake_cuda_fail(const char *name, status value) {
  pthread_mutex_lock(&lock);
  snprintf(fail_name, sizeof fail_name, "%s", name);
  fail_status = value;
  pthread_mutex_unlock(&lock);
}

/* The status of `NAME=STATUS`, if the name is this one. */
static status status_for(const char *text, const char *name) {
  size_t length = strlen(name);
  return !strncmp(text, name, length) && text[length] == '=' ? (status)atol(text + length + 1) : 0;
}
static status injected(const char *name) {
  if (sticky) return sticky;
  status always = always_fails ? status_for(always_fails, name) : 0;
  if (always) return always;
  if (!fail_name[0]) return 0;
  status value = 0;
  pthread_mutex_lock(&lock);
  if (!strcmp(fail_name, name)) {
    value = fail_status;
    fail_name[0] = 0;
  }
  pthread_mutex_unlock(&lock);
  return value;
}
/* The beginning of every function. */
#define BEGIN                                        \
  do {                                               \
    if (!initialized) return NOT_INITIALIZED;        \
    status injected_status = injected(__func__);     \
    if (injected_status) return injected_status;     \
  } while (0)
#define BEGIN_IN_CONTEXT                             \
  BEGIN;                                             \
  do { if (!current) return INVALID_CONTEXT; } while (0)

static const struct { status value; const char *name, *meaning; } statuses[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
};
status cuGetErrorName(status value, const char **out) {
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
    if (statuses[i].value == value) { *out = statuses[i].name; return 0; }
  *out = NULL;
  return INVALID_VALUE;
}
status cuGetErrorString(status value, const char **out) {
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
    if (statuses[i].value == value) { *out = statuses[i].meaning; return 0; }
  *out = NULL;
  return INVALID_VALUE;
}

status cuDriverGetVersion(int *out) { *out = (int)number("FAKE_CUDA_VERSION", 13000); return 0; }
status cuInit(unsigned flags) {
  status value = (status)number("FAKE_CUDA_INIT", 0);
  if (flags) return INVALID_VALUE;
  if (value) return value;
  if (!device_count()) return NO_DEVICE;
  for (int i = 0; i < DEVICES; i++) contexts[i].device = i;
  has_log = (int)number("FAKE_CUDA_LOG", 1);
  always_fails = getenv("FAKE_CUDA_FAIL");
  breaks = getenv("FAKE_CUDA_STICKY");
  const char *library = getenv("FAKE_CUDA_KERNELS");
  if (library && !kernels && !(kernels = dlopen(library, RTLD_NOW | RTLD_LOCAL))) fprintf(stderr, "stand-in: %s\n", dlerror());
  initialized = 1;
  note("init;");
  return 0;
}
status cuDeviceGetCount(int *out) { BEGIN; *out = device_count(); return 0; }
status cuDeviceGet(int *out, int ordinal) {
  BEGIN;
  *out = ordinal;
  return ordinal >= 0 && ordinal < device_count() ? 0 : INVALID_DEVICE;
}
status cuDeviceGetName(char *out, int size, int device) {
  BEGIN;
  snprintf(out, (size_t)size, "Stand-in %d", device);
  return 0;
}
status cuDeviceGetUuid_v2(char *out, int device) { BEGIN; memset(out, device, 16); return 0; }
status cuDeviceTotalMem_v2(size_t *out, int device) { BEGIN; (void)device; *out = device_memory(); return 0; }
status cuDeviceGetAttribute(int *out, int attribute, int device) {
  BEGIN;
  static const int values[][2] = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {10, 32}, {12, 65536}, {13, 1755000},
                                  {16, 132}, {38, 52428800}, {41, 1}, {51, 32}, {75, 9}, {76, 0}, {95, 1}, {97, 232448}, {115, 1}, {120, 1}};
  (void)device;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (values[i][0] == attribute) { *out = values[i][1]; return 0; }
  return INVALID_VALUE;
}
status cuDevicePrimaryCtxRetain(struct context **out, int device) {
  BEGIN;
  *out = &contexts[device];
  retained[device]++;
  note("retain %d;", device);
  return 0;
}
status cuDevicePrimaryCtxRelease_v2(int device) { BEGIN; retained[device]--; return 0; }
status cuCtxGetCurrent(struct context **out) { BEGIN; *out = current; return 0; }
status cuCtxSetCurrent(struct context *context) { BEGIN; current = context; return 0; }
status cuCtxSynchronize(void) { BEGIN_IN_CONTEXT; note("synchronize %d;", current->device); return 0; }

static status allocate(void **out, size_t size, enum kind kind) {
  if (!size) return INVALID_VALUE;
  pthread_mutex_lock(&lock);
  int fits = kind == PINNED || (size <= device_memory() && used[current->device] + size <= device_memory());
  struct block *block = fits ? malloc(sizeof *block) : NULL;
  if (block) {
    *block = (struct block){blocks, aligned_alloc(512, (size + 511) / 512 * 512), size, current->device, kind};
    blocks = block;
    if (kind != PINNED) used[current->device] += size;
    live[3]++;
    *out = block->data;
  }
  pthread_mutex_unlock(&lock);
  return block ? 0 : OUT_OF_MEMORY;
}
static status release(void *data, int pinned) {
  status value = INVALID_VALUE;
  pthread_mutex_lock(&lock);
  for (struct block **at = &blocks; *at; at = &(*at)->next) {
    struct block *block = *at;
    if (block->data != data || (block->kind == PINNED) != pinned) continue;
    *at = block->next;
    if (!pinned) used[block->device] -= block->size;
    live[3]--;
    free(block->data);
    free(block);
    value = 0;
    break;
  }
  pthread_mutex_unlock(&lock);
  return value;
}
/* The device of memory; -1 for pinned and managed memory, -2 if it is not an allocation of that
 * size. */
static int owner(address data, size_t size) {
  int device = -2;
  pthread_mutex_lock(&lock);
  for (struct block *block = blocks; block && device == -2; block = block->next) {
    address start = (address)(uintptr_t)block->data;
    if (data >= start && data + size <= start + block->size) device = block->kind == ON_DEVICE ? block->device : -1;
  }
  pthread_mutex_unlock(&lock);
  return device;
}
status cuMemGetInfo_v2(size_t *available, size_t *total) {
  BEGIN_IN_CONTEXT;
  *total = device_memory();
  *available = device_memory() - used[current->device];
  return 0;
}
status cuMemAlloc_v2(address *out, size_t size) {
  BEGIN_IN_CONTEXT;
  void *data = NULL;
  status value = allocate(&data, size, ON_DEVICE);
  *out = (address)(uintptr_t)data;
  return value;
}
status cuMemAllocAsync(address *out, size_t size, struct stream *stream) { (void)stream; return cuMemAlloc_v2(out, size); }
status cuMemAllocManaged(address *out, size_t size, unsigned flags) {
  BEGIN_IN_CONTEXT;
  void *data = NULL;
  status value = flags == 1 ? allocate(&data, size, MANAGED) : INVALID_VALUE;
  *out = (address)(uintptr_t)data;
  return value;
}
status cuMemHostAlloc(void **out, size_t size, unsigned flags) { BEGIN_IN_CONTEXT; (void)flags; return allocate(out, size, PINNED); }
status cuMemFree_v2(address data) { BEGIN_IN_CONTEXT; return release((void *)(uintptr_t)data, 0); }
status cuMemFreeAsync(address data, struct stream *stream) { (void)stream; return cuMemFree_v2(data); }
status cuMemFreeHost(void *data) { BEGIN_IN_CONTEXT; return release(data, 1); }

static int stream_ok(struct stream *stream) { return !stream || stream->context == current; }
static status move(address target, int target_device, address source, int source_device, size_t size) {
  if ((target_device >= 0 && owner(target, size) != target_device) || (source_device >= 0 && owner(source, size) != source_device))
    return INVALID_VALUE;
  memcpy((void *)(uintptr_t)target, (const void *)(uintptr_t)source, size);
  return 0;
}
status cuMemcpyHtoDAsync_v2(address target, const void *source, size_t size, struct stream *stream) {
  BEGIN_IN_CONTEXT;
  if (!stream_ok(stream)) return INVALID_HANDLE;
  note("to device %d %zu;", current->device, size);
  return move(target, current->device, (address)(uintptr_t)source, -1, size);
}
status cuMemcpyDtoHAsync_v2(void *target, address source, size_t size, struct stream *stream) {
  BEGIN_IN_CONTEXT;
  if (!stream_ok(stream)) return INVALID_HANDLE;
  note("from device %d %zu;", current->device, size);
  return move((address)(uintptr_t)target, -1, source, current->device, size);
}
status cuMemcpyDtoDAsync_v2(address target, address source, size_t size, struct stream *stream) {
  BEGIN_IN_CONTEXT;
  if (!stream_ok(stream)) return INVALID_HANDLE;
  note("on device %d %zu;", current->device, size);
  return move(target, current->device, source, current->device, size);
}
status cuMemcpyPeerAsync(address target, struct context *to, address source, struct context *from, size_t size, struct stream *stream) {
  BEGIN_IN_CONTEXT;
  if (!stream_ok(stream)) return INVALID_HANDLE;
  note("device %d to %d %zu;", from->device, to->device, size);
  return move(target, to->device, source, from->device, size);
}
status cuMemcpyAsync(address target, address source, size_t size, struct stream *stream) {
  BEGIN_IN_CONTEXT;
  if (!stream_ok(stream)) return INVALID_HANDLE;
  note("anywhere %zu;", size);
  return move(target, -1, source, -1, size);
}

status cuStreamCreate(struct stream **out, unsigned flags) {
  BEGIN_IN_CONTEXT;
  (void)flags;
  *out = malloc(sizeof **out);
  (*out)->context = current;
  __atomic_add_fetch(&live[1], 1, __ATOMIC_RELAXED);
  return 0;
}
status cuStreamDestroy_v2(struct stream *stream) { BEGIN; free(stream); __atomic_sub_fetch(&live[1], 1, __ATOMIC_RELAXED); return 0; }
status cuStreamSynchronize(struct stream *stream) { BEGIN_IN_CONTEXT; return stream_ok(stream) ? 0 : INVALID_HANDLE; }
status cuStreamWaitEvent(struct stream *stream, struct event *event, unsigned flags) {
  BEGIN_IN_CONTEXT;
  note("stream of %d waits for event of %d;", stream ? stream->context->device : current->device, event->context->device);
  return flags ? INVALID_VALUE : 0;
}
status cuEventCreate(struct event **out, unsigned flags) {
  BEGIN_IN_CONTEXT;
  (void)flags;
  *out = malloc(sizeof **out);
  **out = (struct event){current, 0, 0};
  __atomic_add_fetch(&live[2], 1, __ATOMIC_RELAXED);
  return 0;
}
status cuEventDestroy_v2(struct event *event) { BEGIN; free(event); __atomic_sub_fetch(&live[2], 1, __ATOMIC_RELAXED); return 0; }
status cuEventRecord(struct event *event, struct stream *stream) {
  BEGIN_IN_CONTEXT;
  if (event->context != current || !stream_ok(stream)) return INVALID_HANDLE;
  event->recorded = 1;
  event->time = __atomic_add_fetch(&now, 1, __ATOMIC_RELAXED);
  return 0;
}
status cuEventSynchronize(struct event *event) { BEGIN; (void)event; return 0; }
/* A record is one millisecond after the one before. */
status cuEventElapsedTime(float *out, struct event *start, struct event *end) {
  BEGIN;
  if (!start->recorded || !end->recorded) return INVALID_HANDLE;
  *out = (float)(end->time - start->time);
  return 0;
}
status cuEventElapsedTime_v2(float *out, struct event *start, struct event *end) { return cuEventElapsedTime(out, start, end); }

static status load(struct module **out, const char *image) {
  const char *form = !memcmp(image, "\177ELF", 4) ? "elf" : !memcmp(image, "\x50\xed\x55\xba", 4) ? "fatbin" : "text";
  if (!strcmp(form, "text") && strstr(image, "broken")) return 218;
  /* The header of a real cubin contains its architecture at 0x30: CUDA 13 in the second byte.
   * This device is sm_90. */
  if (!strcmp(form, "elf") && image[0x31] >= 50 && image[0x31] / 10 != 9) return 209;
  *out = malloc(sizeof **out);
  (*out)->context = current;
  (*out)->text = strdup(strcmp(form, "text") ? "" : image);
  __atomic_add_fetch(&live[0], 1, __ATOMIC_RELAXED);
  note("load %s on %d;", strstr((*out)->text, ".target") ? "ptx" : form, current->device);
  return 0;
}
status cuModuleLoadData(struct module **out, const void *image) { BEGIN_IN_CONTEXT; return load(out, image); }
status cuModuleLoadDataEx(struct module **out, const void *image, unsigned count, const unsigned *options, void **values) {
  BEGIN_IN_CONTEXT;
  status value = load(out, image);
  char *text = NULL;
  for (unsigned i = 0; i < count; i++)
    if (options[i] == 5) text = values[i]; /* CU_JIT_ERROR_LOG_BUFFER */
  if (value && text) strcpy(text, "ptxas error : line 2; a token is wrong\n");
  return value;
}
status cuModuleUnload(struct module *module) {
  BEGIN;
  if (module->context != current) return INVALID_CONTEXT;
  note("unload on %d;", current->device);
  free(module->text);
  free(module);
  __atomic_sub_fetch(&live[0], 1, __ATOMIC_RELAXED);
  return 0;
}
status cuModuleGetFunction(struct function **out, struct module *module, const char *name) {
  BEGIN_IN_CONTEXT;
  struct function *function = calloc(1, sizeof *function);
  function->module = module;
  snprintf(function->name, sizeof function->name, "%s", name);
  char pattern[256];
  snprintf(pattern, sizeof pattern, "kernel %s ", name);
  const char *found = strstr(module->text, pattern);
  if (found) {
    function->known = 1;
    sscanf(found + strlen(pattern), "%63[a-z]", function->types);
  } else if (strstr(module->text, "kernel ")) {
    free(function);
    return NOT_FOUND;
  }
  if (kernels) *(void **)&function->run = dlsym(kernels, name);
  note("function %s on %d;", name, module->context->device);
  *out = function;
  return 0;
}
status cuFuncSetAttribute(struct function *function, int attribute, int value) {
  BEGIN_IN_CONTEXT;
  if (attribute != 8 || value > 232448) return INVALID_VALUE;
  function->dynamic_shared = value;
  note("attribute %d=%d;", attribute, value);
  return 0;
}
status cuFuncGetAttribute(int *out, int attribute, struct function *function) {
  BEGIN_IN_CONTEXT;
  *out = attribute == 0 ? (strstr(function->name, "narrow") ? 256 : 1024) : attribute == 1 ? function->static_shared : attribute == 8 ? function->dynamic_shared : 0;
  return 0;
}

static void note_parameters(struct function *function, void **params) {
#ifndef QUIET
  for (const char *type = function->types; *type; type++, params++) {
    switch (*type) {
      case 'p': note(" %#lx", (unsigned long)*(address *)*params); break;
      case 'b': note(" %d", *(int8_t *)*params); break;
      case 'h': note(" %d", *(int16_t *)*params); break;
      case 'e': note(" %04x", *(uint16_t *)*params); break;
      case 'i': note(" %d", *(int32_t *)*params); break;
      case 'l': note(" %ld", (long)*(int64_t *)*params); break;
      case 'f': note(" %g", (double)*(float *)*params); break;
      case 'd': note(" %g", *(double *)*params); break;
    }
  }
  note(";");
#else
  (void)function;
  (void)params;
#endif
}
/* Runs the kernel on the host, if the library has such a function. */
static void run(struct function *function, const unsigned *sizes, void **params) {
  if (function->run) function->run(sizes, params);
  if (breaks && !sticky) sticky = status_for(breaks, function->name);
}
/* The checks of a driver before the kernel is started. */
static status judge(struct function *function, const unsigned *sizes, unsigned shared, struct stream *stream) {
  if (!current) return INVALID_CONTEXT;
  if (function->module->context != current || (stream > (struct stream *)2 && stream->context != current)) return INVALID_HANDLE;
  if (!sizes[0] || !sizes[1] || !sizes[2] || !sizes[3] || !sizes[4] || !sizes[5]) return INVALID_VALUE;
  if ((unsigned long)sizes[3] * sizes[4] * sizes[5] > 1024 || sizes[5] > 64) return INVALID_VALUE;
  if (sizes[1] > 65535 || sizes[2] > 65535) return INVALID_VALUE;
  if (strstr(function->name, "narrow") && (unsigned long)sizes[3] * sizes[4] * sizes[5] > 256) return 701;
  if (shared > 49152 && shared > (unsigned)function->dynamic_shared) return INVALID_VALUE;
  return 0;
}
status cuLaunchKernel(struct function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, struct stream *stream, void **params, void **extra) {
#ifdef QUIET
  (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)shared; (void)stream; (void)params; (void)extra;
  (void)function; (void)judge; (void)note_parameters; (void)run;
  return 0;
#else
  BEGIN;
  (void)extra;
  const unsigned sizes[6] = {gx, gy, gz, bx, by, bz};
  status value = judge(function, sizes, shared, stream);
  if (value) return value;
  note("launch %s on %d: %u,%u,%u x %u,%u,%u shared %u%s:", function->name, current->device, gx, gy, gz, bx, by, bz, shared,
       stream ? " in a stream" : "");
  note_parameters(function, params);
  run(function, sizes, params);
  return 0;
#endif
}

struct attribute { unsigned id; char pad[4]; union { char pad[64]; int flag; struct { unsigned x, y, z; } cluster; } value; };
struct config { unsigned sizes[6], shared; struct stream *stream; struct attribute *attributes; unsigned count; };
#ifndef WITHOUT_LAUNCH_EX
status cuLaunchKernelEx(const struct config *config, struct function *function, void **params, void **extra) {
  BEGIN;
  (void)extra;
  status value = judge(function, config->sizes, config->shared, config->stream);
  if (value) return value;
  const unsigned *s = config->sizes;
  note("launch %s on %d: %u,%u,%u x %u,%u,%u shared %u%s", function->name, current->device, s[0], s[1], s[2], s[3], s[4], s[5], config->shared,
       config->stream ? " in a stream" : "");
  for (unsigned i = 0; i < config->count; i++) {
    struct attribute *a = &config->attributes[i];
    if (a->id == 4) note(" cluster %u,%u,%u", a->value.cluster.x, a->value.cluster.y, a->value.cluster.z);
    else if (a->id == 2 && a->value.flag) note(" cooperative");
    else if (a->id == 6 && a->value.flag) note(" programmatic");
    else return INVALID_VALUE;
  }
  note(":");
  note_parameters(function, params);
  run(function, s, params);
  return 0;
}
#endif
