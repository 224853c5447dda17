/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling on stacks that a program has made for its coroutines. At the top of such a stack is
 * whatever the program put there for a return address, right before memory that cannot be read.
 * Proves that blocks can be sampled there, in the first thread and in others, whatever that address
 * is.
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#if !defined(__x86_64__)
int main(void)
{
    SKIP("the switch of stacks is written for x86-64");
}
#else
#include <pthread.h>
#include <sys/mman.h>

#define STACK_BYTES 65536

static __thread void *resume; /* stack pointer of who started the coroutine */

void coroutine_call(void *stack, void (*entry)(void), void **saved);
void coroutine_leave(void *saved) __attribute__((noreturn));

/* Not a call, so the top of the new stack is entry's return address. */
__asm__(".text\n"
        "coroutine_call:\n\t"
        "push %rbp\n\tpush %rbx\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
        "mov %rsp, (%rdx)\n\tmov %rdi, %rsp\n\tjmp *%rsi\n"
        "coroutine_leave:\n\t"
        "mov %rdi, %rsp\n\t"
        "pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbx\n\tpop %rbp\n\tret\n");

static __attribute__((noinline)) void coroutine(void)
{
    for (int i = 0; i < 20; i++) {
        char *p = malloc(100 + (size_t)i * 50);

        REQUIRE(p);
        CHECK_OPAQUE(p);
        free(p);
    }
    coroutine_leave(resume);
}

/* Something with a large frame, and one where rbp is the frame. */
static __attribute__((noinline)) int large(int n)
{
    volatile char frame[40000];

    memset((char *)frame, n, sizeof(frame));
    return frame[n];
}

static __attribute__((noinline)) int moving(int n)
{
    volatile char *frame = __builtin_alloca((size_t)n);

    frame[0] = (char)n;
    return frame[n / 2];
}

static void run_all(void)
{
    char *stack =
        mmap(NULL, STACK_BYTES + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t functions[] = {(uintptr_t)large,  (uintptr_t)moving,      (uintptr_t)qsort,
                             (uintptr_t)printf, (uintptr_t)strerror,    (uintptr_t)check_now,
                             (uintptr_t)exit,   (uintptr_t)pthread_join};

    REQUIRE(stack != MAP_FAILED);
    REQUIRE(mprotect(stack + STACK_BYTES, 8192, PROT_NONE) == 0);
    for (size_t f = 0; f < sizeof(functions) / sizeof(*functions); f++) {
        for (uintptr_t offset = 0; offset < 120; offset++) {
            void **top = (void **)(stack + STACK_BYTES) - 1;

            *top = (void *)(functions[f] + offset);
            coroutine_call(top, coroutine, &resume);
        }
    }
    munmap(stack, STACK_BYTES + 8192);
}

static void *run_thread(void *arg)
{
    free(malloc(10)); /* now its own stack is known */
    run_all();
    return arg;
}

int main(void)
{
    pthread_t thread;

    check_begin();
    large(1), moving(100);
    REQUIRE(salloc_set_sampling_interval(1) == 0);
    run_all();
    REQUIRE(pthread_create(&thread, NULL, run_thread, NULL) == 0);
    pthread_join(thread, NULL);
    return check_end();
}
#endif
