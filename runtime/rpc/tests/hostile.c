/* Functions that harm a session as a faulty kernel would. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct { int32_t type_index; uint32_t zero; int64_t value; } any_t;
typedef int call_t(void *, const any_t *, int32_t, any_t *);
#define FUNCTION(name) int __tvm_ffi_##name(void *self, const any_t *args, int32_t argc, any_t *result)

FUNCTION(segfault) { *(volatile int *)0 = 1; return 0; }
FUNCTION(give_up) { abort(); }
FUNCTION(leave) { exit(3); }
FUNCTION(endless) { for (volatile long i = 0;; i++) {} }
static int deep(volatile int n) { volatile char page[4096]; page[0] = (char)n; return deep(n + 1) + page[0]; }
FUNCTION(recursion) { return deep(0); }

/* Starts up to 400 idle children, each in its own session. */
FUNCTION(forks) {
    for (int i = 0; i < 400; i++) {
        pid_t pid = fork();
        if (pid == 0) { setsid(); for (;;) pause(); }
        usleep(1000);
    }
    return 0;
}

/* Starts a grandchild whose parent ends at once, and which keeps all descriptors that it has inherited. */
FUNCTION(orphan) {
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        pid_t inner = fork();
        if (inner == 0) for (;;) pause();
        _exit(0);
    }
    waitpid(pid, 0, 0);
    return 0;
}

/* Allocates memory until that fails, and returns the number of MiB. */
FUNCTION(eat) {
    long count = 0;
    while (count < 1 << 20) {
        char *block = malloc(1 << 20);
        if (!block) break;
        memset(block, 1, 1 << 20);
        count++;
    }
    result->type_index = 1; result->zero = 0; result->value = count;
    return 0;
}

/* Writes 64 MiB into the working folder, and returns how many of them could be written. */
FUNCTION(fill) {
    static char block[1 << 20];
    FILE *file = fopen("filled", "w");
    long count = 0;
    while (file && count < 64 && fwrite(block, 1, sizeof block, file) == sizeof block && fflush(file) == 0) count++;
    if (file) fclose(file);
    result->type_index = 1; result->zero = 0; result->value = count;
    return 0;
}

/* Returns a pointer, which is meaningless on another machine. */
FUNCTION(pointer) { static int place; result->type_index = 4; result->zero = 0; result->value = (int64_t)(intptr_t)&place; return 0; }
