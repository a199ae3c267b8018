/* A stand-in for the CUDA driver that records what a launch passes, so that launching can be tested without a GPU. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int status;
typedef void *handle;

static char log_text[4096];
static int fail_launch;

const char *fake_cuda_log(void) { return log_text; }
void fake_cuda_fail_launch(int fail) { fail_launch = fail; }

static void note(const char *text) { strncat(log_text, text, sizeof log_text - strlen(log_text) - 1); }

status cuInit(unsigned flags) { note("init;"); return flags; }
status cuGetErrorName(status s, const char **out) { *out = s == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_UNKNOWN"; return 0; }
status cuGetErrorString(status s, const char **out) { (void)s; *out = "an illegal memory access was encountered"; return 0; }
status cuDeviceGet(int *out, int ordinal) { *out = ordinal; return ordinal < 2 ? 0 : 101; }
status cuDevicePrimaryCtxRetain(handle *out, int device) { *out = (handle)(intptr_t)(0x100 + device); note("retain;"); return 0; }
status cuCtxPushCurrent_v2(handle context) { (void)context; return 0; }
status cuCtxPopCurrent_v2(handle *out) { *out = 0; return 0; }
status cuModuleLoadData(handle *out, const void *image) {
  char line[64];
  snprintf(line, sizeof line, "load %s;", (const char *)image);
  note(line);
  *out = (handle)0x200;
  return 0;
}
status cuModuleGetFunction(handle *out, handle module, const char *name) {
  char line[64];
  (void)module;
  snprintf(line, sizeof line, "function %s;", name);
  note(line);
  *out = (handle)0x300;
  return 0;
}
status cuFuncSetAttribute(handle function, int attribute, int value) {
  char line[64];
  (void)function;
  snprintf(line, sizeof line, "attribute %d=%d;", attribute, value);
  note(line);
  return 0;
}
status cuLaunchKernel(handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, handle stream, void **params, void **extra) {
  char line[256];
  (void)function;
  (void)extra;
  /* The kernel of the test: (float*, float, int, long long). */
  snprintf(line, sizeof line, "launch %u,%u,%u x %u,%u,%u shared %u stream %p: %p %g %d %lld;", gx, gy, gz, bx, by, bz,
           shared, stream, *(void **)params[0], *(float *)params[1], *(int *)params[2], *(long long *)params[3]);
  note(line);
  return fail_launch ? 700 : 0;
}
