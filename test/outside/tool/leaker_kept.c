/* SPDX-License-Identifier: Apache-2.0 */
/* Plants of the program leaker that keep blocks, in places that are hard to find. */
#include "test/outside/tool/leaker.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct node *volatile places[SHAPES * NODES];
static __thread void *volatile own_place;
static pthread_key_t key;

__attribute__((noinline, noclone)) void *kept_block(size_t bytes)
{
    return calloc(1, bytes);
}

static void in_static_data(void)
{
    static int used;

    for (int i = 0; i < NODES; i++)
        places[used++] = kept_block(50);
}

static void in_thread_local_data(void)
{
    own_place = kept_block(50);
}

static void in_thread_specific_data(void)
{
    if (!key && pthread_key_create(&key, NULL) != 0)
        exit(1);
    pthread_setspecific(key, kept_block(50));
}

static void in_mapping(void)
{
    static void **mapping;
    static int used;

    if (!mapping)
        mapping = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < NODES; i++)
        mapping[used++ * 16] = kept_block(50);
}

static void in_shared_memory(void)
{
    static void **mapping;
    static int used;
    int fd;

    if (!mapping) {
        fd = memfd_create("kept", 0);
        if (fd < 0 || ftruncate(fd, 1 << 16) != 0)
            exit(1);
        mapping = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    mapping[used++] = kept_block(50);
}

static void in_read_only_mapping(void)
{
    void **mapping = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    mapping[7] = kept_block(50);
    mprotect(mapping, 4096, PROT_READ);
}

static void behind_break(void)
{
    void **p = sbrk(64);

    p[3] = kept_block(50);
}

static void by_inner_pointers(void)
{
    static int used;

    for (int i = 0; i < NODES; i++)
        places[used++] = (void *)((char *)kept_block(500) + i * 5);
}

static void by_end(void)
{
    static int used;

    places[used++] = (void *)((char *)kept_block(64) + 64);
}

static void in_long_list(void)
{
    for (int i = 0; i < DEEP / SHAPES; i++) {
        struct node *n = kept_block(sizeof(*n));

        n->next = places[0];
        places[0] = n;
    }
}

static void in_large_block(void)
{
    static void **volatile blocks[SHAPES];
    static int used;
    void **p = blocks[used++] = kept_block(5 << 20);

    for (int i = 0; i < NODES; i++)
        p[i * 6000] = kept_block(50);
}

/* Another thread has them where it waits: on its stack, and in its thread-local data. */
static void *wait_with(void *arg)
{
    void *volatile mine[4] = {kept_block(50), kept_block(5000), kept_block(50), arg};

    own_place = kept_block(70);
    *(int *)arg = 1;
    for (;;)
        pause();
    return mine[0];
}

static void by_waiting_thread(void)
{
    static int started[SHAPES], used;
    volatile int *flag = &started[used++];
    pthread_t thread;

    if (pthread_create(&thread, NULL, wait_with, (void *)flag) != 0)
        exit(1);
    while (!*flag)
        usleep(1000);
}

/* Reads until the end of its input, with the only pointers to two blocks in registers. */
static void *wait_in_registers(void *arg)
{
#ifdef __x86_64__
    register uintptr_t a __asm__("r14") = (uintptr_t)kept_block(50);
    register uintptr_t b __asm__("r15") = (uintptr_t)kept_block(3000);
    uintptr_t vector[2] = {(uintptr_t)kept_block(50), 0};
    long result = SYS_pause;

    __asm__ volatile("movdqu %3, %%xmm7\n\t"
                     "movq $0, %3\n\t"
                     "movl $1, (%4)\n\t"
                     "1: movl $34, %%eax\n\t"
                     "syscall\n\t"
                     "jmp 1b"
                     : "+a"(result)
                     : "r"(a), "r"(b), "m"(vector[0]), "r"(arg)
                     : "rcx", "r11", "memory");
#else
    *(int *)arg = 1;
    pause();
#endif
    return NULL;
}

static void in_registers(void)
{
    static int started[SHAPES], used;
    volatile int *flag = &started[used++];
    pthread_t thread;

    if (pthread_create(&thread, NULL, wait_in_registers, (void *)flag) != 0)
        exit(1);
    while (!*flag)
        usleep(1000);
}

const struct plant kept[] = {
    {"in_static_data", in_static_data, false},
    {"in_thread_local_data", in_thread_local_data, true},
    {"in_thread_specific_data", in_thread_specific_data, true},
    {"in_mapping", in_mapping, false},
    {"in_shared_memory", in_shared_memory, false},
    {"in_read_only_mapping", in_read_only_mapping, false},
    {"behind_break", behind_break, false},
    {"by_inner_pointers", by_inner_pointers, false},
    {"by_end", by_end, false},
    {"in_long_list", in_long_list, false},
    {"in_large_block", in_large_block, false},
    {"by_waiting_thread", by_waiting_thread, false},
    {"in_registers", in_registers, false},
};

const size_t kept_count = sizeof(kept) / sizeof(*kept);
