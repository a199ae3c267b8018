/* The entry point of a program that runs on C libraries older than the one it is built on: in place
   of crt1.o, crti.o and crtbegin.o of the build machine, whose code expects glibc 2.34 to run
   constructors. */

typedef void (*constructor)(int, char **, char **);
extern constructor __init_array_start[] __attribute__((visibility("hidden")));
extern constructor __init_array_end[] __attribute__((visibility("hidden")));

/* Identifies the library that an exit handler belongs to: 0 is the program. */
__attribute__((visibility("hidden"))) void *__dso_handle = 0;

/* glibc calls this before `main`. musl runs constructors itself, and does not. */
__attribute__((visibility("hidden"), used)) void kernpack_constructors(int argc, char **argv, char **environment) {
  for (constructor *each = __init_array_start; each < __init_array_end; ++each) (*each)(argc, argv, environment);
}

/* __libc_start_main(main, argc, argv, constructors, destructors, what to do at exit, end of the stack) */
#if defined(__x86_64__)
__asm__(".text\n.globl _start\n.type _start,@function\n_start:\n"
        "  xorl %ebp, %ebp\n"
        "  movq %rdx, %r9\n"
        "  popq %rsi\n"
        "  movq %rsp, %rdx\n"
        "  andq $-16, %rsp\n"
        "  pushq %rax\n"
        "  pushq %rsp\n"
        "  xorl %r8d, %r8d\n"
        "  leaq kernpack_constructors(%rip), %rcx\n"
        "  movq main@GOTPCREL(%rip), %rdi\n"
        "  call *__libc_start_main@GOTPCREL(%rip)\n"
        "  hlt\n");
#define SYS_NEWFSTATAT 262
#define SYS_FSTAT 5
#elif defined(__aarch64__)
__asm__(".text\n.globl _start\n.type _start,%function\n_start:\n"
        "  mov x29, #0\n"
        "  mov x30, #0\n"
        "  mov x5, x0\n"
        "  ldr x1, [sp]\n"
        "  add x2, sp, #8\n"
        "  mov x6, sp\n"
        "  adrp x0, :got:main\n"
        "  ldr x0, [x0, #:got_lo12:main]\n"
        "  adrp x3, kernpack_constructors\n"
        "  add x3, x3, :lo12:kernpack_constructors\n"
        "  mov x4, #0\n"
        "  bl __libc_start_main\n"
        "  brk #1\n");
#define SYS_NEWFSTATAT 79
#define SYS_FSTAT 80
#else
#error "add the first instructions of this processor's programs"
#endif

#define LOCAL __attribute__((visibility("hidden")))
#define HERE -100
#define NO_FOLLOW 0x100

long syscall(long number, ...);
void *dlsym(void *library, const char *name);

/* Functions that glibc has only since 2.33. The system's struct is theirs on these processors. */
LOCAL int fstatat64(int folder, const char *path, void *result, int flags) {
  return (int)syscall(SYS_NEWFSTATAT, folder, path, result, flags);
}
LOCAL int stat64(const char *path, void *result) { return fstatat64(HERE, path, result, 0); }
LOCAL int lstat64(const char *path, void *result) { return fstatat64(HERE, path, result, NO_FOLLOW); }
LOCAL int fstat64(int descriptor, void *result) { return (int)syscall(SYS_FSTAT, descriptor, result); }

/* GCC's unwinder calls this function of glibc 2.35 first; if it returns -1, it calls the older
 * one. */
LOCAL int _dl_find_object(void *address, void *result) {
  (void)address;
  (void)result;
  return -1;
}

/* Functions that musl lacks, or has under another name. They are looked up when they are called. */
LOCAL int pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
  int (*with_library)(void (*)(void), void (*)(void), void (*)(void), void *) = dlsym(0, "__register_atfork");
  int (*plain)(void (*)(void), void (*)(void), void (*)(void)) = dlsym(0, "pthread_atfork");
  return with_library ? with_library(before, parent, child, __dso_handle) : plain ? plain(before, parent, child) : 0;
}
LOCAL const char *gnu_get_libc_version(void) {
  const char *(*real)(void) = dlsym(0, "gnu_get_libc_version");
  return real ? real() : "0.0";
}
LOCAL int __res_init(void) {
  int (*real)(void) = dlsym(0, "__res_init");
  return real ? real() : 0;
}
