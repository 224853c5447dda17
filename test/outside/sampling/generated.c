/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated code that allocates, with anything in the register of the frame pointer. Proves that a
 * walk of such a stack reads nothing that may go away, and asks nothing behind a filter.
 *
 * usage: generated unmapped | closed | below | filter LIBRARY
 *   unmapped  the register points from a coroutine's stack into memory that another thread maps and
 *             unmaps all the time
 *   closed    the return address there is in a library that another thread opens and closes
 *   below     the register points behind a coroutine's stack that lies right below a thread's small
 * one filter    behind a filter that ends the process at calls that are not allowed
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#if !defined(__x86_64__)
int main(void)
{
    SKIP("the generated code is written for x86-64");
}
#else
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define STACK_BYTES 65536
#define SECONDS     1.0

/* Calls its second argument with its first one, on the stack of its third one, with its fourth one
 * in the register of the frame pointer. */
static const unsigned char code[] = {
    0x55,                   /* push %rbp */
    0x53,                   /* push %rbx */
    0x50,                   /* push %rax */
    0x48, 0x89, 0xe3,       /* mov %rsp, %rbx */
    0x48, 0x89, 0xcd,       /* mov %rcx, %rbp */
    0x48, 0x85, 0xd2,       /* test %rdx, %rdx */
    0x48, 0x0f, 0x45, 0xe2, /* cmovne %rdx, %rsp */
    0xff, 0xd6,             /* call *%rsi */
    0x48, 0x89, 0xdc,       /* mov %rbx, %rsp */
    0x58,                   /* pop %rax */
    0x5b,                   /* pop %rbx */
    0x5d,                   /* pop %rbp */
    0xc3,                   /* ret */
};

typedef void function(size_t bytes, void (*allocate)(size_t), void *stack, void *frame);

static volatile int done;
static const char *library;

static __attribute__((noinline)) void allocate(size_t bytes)
{
    for (int i = 0; i < 10; i++) {
        char *p = malloc(bytes + (size_t)i);

        REQUIRE(p);
        CHECK_OPAQUE(p);
        free(p);
    }
}

static function *generate(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    function *call;

    REQUIRE(page != MAP_FAILED);
    memcpy(page, code, sizeof(code));
    REQUIRE(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    memcpy(&call, &page, sizeof(call));
    return call;
}

/* A return address in the program, whose frame is found from the stack pointer. */
static void *place;

static __attribute__((noinline)) void note_place(void)
{
    place = __builtin_return_address(0);
}

/* Memory that looks like frames of the program, one behind the other. */
static void fill(void **at, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(*at); i += 2) {
        at[i] = at + i + 2;
        at[i + 1] = place;
    }
}

static void *map_and_unmap(void *at)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

    while (!done) {
        REQUIRE(mmap(at, STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0) == at);
        fill(at, STACK_BYTES);
        REQUIRE(mmap(at, STACK_BYTES, PROT_NONE, flags, -1, 0) == at);
    }
    return NULL;
}

/* A stack with room behind it for what the other thread maps. */
static char *make_stack(void)
{
    char *stack =
        mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(stack != MAP_FAILED);
    return stack;
}

static void unmapped(void)
{
    function *call = generate();
    char *stack = make_stack(), *top = stack + STACK_BYTES;
    pthread_t thread;

    REQUIRE(pthread_create(&thread, NULL, map_and_unmap, top) == 0);
    for (double end = check_now() + SECONDS; check_now() < end;)
        for (size_t offset = 0; offset < 60000; offset += 4096)
            call(100, allocate, top - 64, top + offset);
    done = 1;
    pthread_join(thread, NULL);
}

static void *open_and_close(void *ret)
{
    while (!done) {
        void *handle = dlopen(library, RTLD_NOW);
        void *address = handle ? dlsym(handle, "plugin_make") : NULL;

        REQUIRE(address);
        __atomic_store_n((void **)ret, address, __ATOMIC_RELAXED);
        dlclose(handle);
    }
    return NULL;
}

static void closed(void)
{
    function *call = generate();
    char *top = make_stack() + STACK_BYTES;
    void *address = NULL;
    unsigned turn = 0;
    pthread_t thread;

    REQUIRE(pthread_create(&thread, NULL, open_and_close, &address) == 0);
    for (double end = check_now() + SECONDS; check_now() < end;) {
        void **frame = (void **)(top - 4096), *now = __atomic_load_n(&address, __ATOMIC_RELAXED);

        /* A frame of the program, above which each word is an address of the library. */
        for (void **word = frame; word < (void **)top; word++)
            *word = (char *)now + 8;
        frame[0] = frame + 2;
        frame[1] = turn++ % 2 ? place : (char *)now + 8;
        call(100, allocate, (char *)frame - 128, frame);
    }
    done = 1;
    pthread_join(thread, NULL);
}

/* Calls a function on another stack, of which it is the outermost frame, as its description says.
 */
void on_stack(void *stack, void (*body)(void));
__asm__(".text\n"
        ".type on_stack, @function\n"
        "on_stack:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined rip\n"
        "    push %rbx\n"
        "    mov %rsp, %rbx\n"
        "    mov %rdi, %rsp\n"
        "    call *%rsi\n"
        "    mov %rbx, %rsp\n"
        "    pop %rbx\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size on_stack, .-on_stack\n");

static function *generated;

static void few(void)
{
    allocate(100);
}

static void from_generated(void)
{
    char *here = __builtin_frame_address(0);

    for (size_t offset = 0; offset < 60000; offset += 1024)
        generated(100, allocate, NULL, here + offset);
}

static void *small_thread(void *top)
{
    for (int i = 0; i < 20; i++)
        on_stack(top, few);
    on_stack(top, from_generated);
    return NULL;
}

static void below(void)
{
    const size_t guard = 4096, bytes = 16384 + 4096; /* of the thread's stack */
    char *stack = make_stack(), *top = stack + STACK_BYTES;
    pthread_attr_t attributes;
    pthread_t thread;

    generated = generate();
    REQUIRE(mprotect(top, guard, PROT_NONE) == 0);
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstack(&attributes, top + guard, bytes) == 0);
    REQUIRE(pthread_create(&thread, &attributes, small_thread, top) == 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

#define ALLOW(number)                                                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void filter(void)
{
    static struct sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_mmap),
        ALLOW(SYS_munmap),
        ALLOW(SYS_mprotect),
        ALLOW(SYS_madvise),
        ALLOW(SYS_mremap),
        ALLOW(SYS_futex),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof(instructions) / sizeof(*instructions), instructions};
    function *call = generate();
    char *top = make_stack() + STACK_BYTES;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        SKIP("no filters here");
    for (int i = 0; i < 1000; i++)
        call(100, allocate, top - 128, top - 48);
}

int main(int argc, char **argv)
{
    check_begin();
    REQUIRE(argc == 3);
    library = argv[2];
    note_place();
    REQUIRE(salloc_set_sampling_interval(1) == 0);
    if (strcmp(argv[1], "unmapped") == 0)
        unmapped();
    else if (strcmp(argv[1], "closed") == 0)
        closed();
    else if (strcmp(argv[1], "below") == 0)
        below();
    else
        filter();
    return check_end();
}
#endif
