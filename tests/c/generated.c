/* A library as Apache TVM's compiler makes them: it does not link the runtime. It finds the
 * functions that it needs in variables that the loader sets (the context symbols), except for
 * one function, which the dynamic linker must find. With BY_NAME it is like TVM's C output: the
 * dynamic linker must find all functions. */
#include <kernpack/kernel.h>
#include <string.h>

typedef struct {
  void *sync_handle;
  int32_t num_task;
} TVMParallelGroupEnv;
typedef int (*lambda_t)(int task_id, TVMParallelGroupEnv *penv, void *cdata);

#define CONTEXT(name) __attribute__((weak)) void *name
CONTEXT(__TVMFFIFunctionCall);
CONTEXT(__TVMFFIErrorSetRaisedFromCStr);
CONTEXT(__TVMFFIEnvModLookupFromImports);
CONTEXT(__TVMFFIHandleInitOnce);
CONTEXT(__TVMBackendAllocWorkspace);
CONTEXT(__TVMBackendFreeWorkspace);
CONTEXT(__TVMBackendParallelLaunch);
CONTEXT(__TVMBackendParallelBarrier);
CONTEXT(__tvm_ffi__library_ctx);

void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t num_parts);

#ifdef BY_NAME
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
int TVMFFIFunctionCall(void *function, TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);
int TVMFFIEnvModLookupFromImports(void *library_ctx, const char *name, void **out);
int TVMFFIHandleInitOnce(void **handle, int (*init)(void **));
void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint, int dtype_bits_hint);
int TVMBackendFreeWorkspace(int device_type, int device_id, void *block);
int TVMBackendParallelLaunch(lambda_t lambda, void *cdata, int num_task);
int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv);
#define FUNCTION(type, name) name
#else
#define FUNCTION(type, name) ((type)__##name)
#endif

#define set_raised FUNCTION(void (*)(const char *, const char *), TVMFFIErrorSetRaisedFromCStr)
#define function_call FUNCTION(int (*)(void *, TVMFFIAny *, int32_t, TVMFFIAny *), TVMFFIFunctionCall)
#define lookup FUNCTION(int (*)(void *, const char *, void **), TVMFFIEnvModLookupFromImports)
#define init_once FUNCTION(int (*)(void **, int (*)(void **)), TVMFFIHandleInitOnce)
#define alloc_workspace FUNCTION(void *(*)(int, int, uint64_t, int, int), TVMBackendAllocWorkspace)
#define free_workspace FUNCTION(int (*)(int, int, void *), TVMBackendFreeWorkspace)
#define launch FUNCTION(int (*)(lambda_t, void *, int), TVMBackendParallelLaunch)
#define barrier FUNCTION(int (*)(int, TVMParallelGroupEnv *), TVMBackendParallelBarrier)

#define PACKED(name) \
  __attribute__((visibility("default"))) int __tvm_ffi_##name(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)

static int returns(TVMFFIAny *result, int64_t value) {
  result->type_index = kTVMFFIInt;
  result->v_int64 = value;
  return 0;
}

/* The check of compiled code for each argument that must be an integer. */
static int take_int(const char *function, const TVMFFIAny *args, int32_t num_args, int32_t index, int64_t *value) {
  if (index >= num_args || args[index].type_index != kTVMFFIInt) {
    const char *parts[] = {"Mismatched type on argument #", index == 0 ? "0" : "1", " when calling: `", function, "`, expected int"};
    TVMFFIErrorSetRaisedFromCStrParts("TypeError", parts, 5);
    return -1;
  }
  *value = args[index].v_int64;
  return 0;
}

#define ARG(index, name) \
  int64_t name;          \
  if (take_int(__func__ + strlen("__tvm_ffi_"), args, num_args, index, &name) != 0) return -1; \
  (void)self

/* ---- A parallel loop ---- */

typedef struct {
  int64_t n;
  int64_t *squares;
  int64_t *sums;
  int32_t tasks;
} loop_t;

/* The tasks fill their shares of an array, meet, and then add up other shares. */
static int square_and_sum(int task_id, TVMParallelGroupEnv *penv, void *cdata) {
  loop_t *loop = cdata;
  int64_t step = (loop->n + penv->num_task - 1) / penv->num_task;
  for (int64_t i = task_id * step; i < loop->n && i < (task_id + 1) * step; ++i) loop->squares[i] = i * i;
  if (barrier(task_id, penv) != 0) return -1;
  int64_t *share = alloc_workspace(kDLCPU, 0, sizeof(int64_t) * loop->n, kDLInt, 64);
  if (share == NULL) return -1;
  int64_t sum = 0, count = 0;
  for (int64_t i = task_id; i < loop->n; i += penv->num_task) share[count++] = loop->squares[i];
  for (int64_t i = 0; i < count; ++i) sum += share[i];
  if (free_workspace(kDLCPU, 0, share) != 0) return -1;
  loop->sums[task_id] = sum;
  loop->tasks = penv->num_task;
  return 0;
}

/* The sum of the squares below n, with this number of tasks. */
PACKED(sum_of_squares) {
  ARG(0, n);
  ARG(1, num_task);
  loop_t loop = {n, NULL, NULL, 0};
  loop.squares = alloc_workspace(kDLCPU, 0, sizeof(int64_t) * n, kDLInt, 64);
  loop.sums = alloc_workspace(kDLCPU, 0, sizeof(int64_t) * 4096, kDLInt, 64);
  if (loop.squares == NULL || loop.sums == NULL) return -1;
  int64_t sum = 0;
  if (launch(square_and_sum, &loop, (int)num_task) != 0) return -1;
  for (int32_t i = 0; i < loop.tasks; ++i) sum += loop.sums[i];
  if (free_workspace(kDLCPU, 0, loop.sums) != 0 || free_workspace(kDLCPU, 0, loop.squares) != 0) return -1;
  return returns(result, sum);
}

static int count_tasks(int task_id, TVMParallelGroupEnv *penv, void *cdata) {
  if (task_id == 0) *(int64_t *)cdata = penv->num_task;
  return 0;
}

/* The number of tasks that a launch of `num_task` tasks runs. */
PACKED(tasks) {
  ARG(0, num_task);
  int64_t count = 0;
  if (launch(count_tasks, &count, (int)num_task) != 0) return -1;
  return returns(result, count);
}

static int launch_inside(int task_id, TVMParallelGroupEnv *penv, void *cdata) {
  int64_t count = 0;
  (void)penv;
  if (launch(count_tasks, &count, 4) != 0) return -1;
  ((int64_t *)cdata)[task_id] = count;
  return 0;
}

/* The tasks of three launches inside a launch of three, together. */
PACKED(nested) {
  int64_t counts[3] = {0};
  (void)self, (void)args, (void)num_args;
  if (launch(launch_inside, counts, 3) != 0) return -1;
  return returns(result, counts[0] + counts[1] + counts[2]);
}

static int fail_at(int task_id, TVMParallelGroupEnv *penv, void *cdata) {
  if (task_id == *(int64_t *)cdata) {
    const char *parts[] = {"Assert fail: ", "task ", "must not run"};
    TVMFFIErrorSetRaisedFromCStrParts("ValueError", parts, 3);
    return -1;
  }
  /* Compiled code ignores it. */
  barrier(task_id, penv);
  return 0;
}

/* Four tasks; this one fails while the others wait for it. */
PACKED(failing) {
  ARG(0, task);
  if (launch(fail_at, &task, 4) != 0) return -1;
  return returns(result, 0);
}

/* ---- Workspaces ---- */

PACKED(workspaces) {
  enum { COUNT = 40 };
  char *blocks[COUNT];
  (void)self, (void)args, (void)num_args;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < COUNT; ++i) {
      uint64_t size = (uint64_t)(i * i * 100);
      blocks[i] = alloc_workspace(kDLCPU, 0, size, kDLFloat, 32);
      if (blocks[i] == NULL) return -1;
      if ((uintptr_t)blocks[i] % 64 != 0) {
        set_raised("AssertionError", "a workspace is not aligned");
        return -1;
      }
      memset(blocks[i], i, size);
    }
    for (int i = 0; i < COUNT; ++i) {
      uint64_t size = (uint64_t)(i * i * 100);
      if (size > 0 && (blocks[i][0] != (char)i || blocks[i][size - 1] != (char)i)) {
        set_raised("AssertionError", "workspaces overlap");
        return -1;
      }
    }
    /* First the even ones, then the odd ones in reverse order. */
    for (int i = 0; i < COUNT; i += 2) if (free_workspace(kDLCPU, 0, blocks[i]) != 0) return -1;
    for (int i = COUNT - 1; i > 0; i -= 2) if (free_workspace(kDLCPU, 0, blocks[i]) != 0) return -1;
  }
  return returns(result, COUNT);
}

/* Frees memory that is not a workspace. */
PACKED(free_stranger) {
  static int stranger;
  (void)self, (void)args, (void)num_args, (void)result;
  return free_workspace(kDLCPU, 0, &stranger);
}

/* Requests a workspace on a device of this kind. */
PACKED(workspace_on) {
  ARG(0, device_type);
  void *block = alloc_workspace((int)device_type, 0, 64, kDLFloat, 32);
  if (block == NULL) return -1;
  return free_workspace((int)device_type, 0, block) != 0 ? -1 : returns(result, 1);
}

/* ---- A packed call ---- */

static void *callee;

static int find_callee(void **out) {
  return lookup(__tvm_ffi__library_ctx, "test.context.twice", out);
}

/* Calls the global function, which it looks up once. */
PACKED(call_twice) {
  ARG(0, x);
  TVMFFIAny arg = {0};
  arg.type_index = kTVMFFIInt;
  arg.v_int64 = x;
  if (callee == NULL && init_once(&callee, find_callee) != 0) return -1;
  return function_call(callee, &arg, 1, result);
}
