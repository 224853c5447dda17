/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with generated code: functions in a mapping of its own, which call malloc, and the map
 * of them for perf. It says "ready" with its PID, and waits for its standard input to end.
 *
 * Functions keep a frame pointer, but for the last one, which keeps anything in its register.
 *
 * In the map, functions 1 and 2 have lines of their own after one that covers the first page;
 * function 3 has that line only; function 4 lies on the second page, of which only a line tells
 * that has no end yet.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE      4096
#define FUNCTIONS 5
#define BLOCKS    500
#define FRAMES    8

typedef void *function(size_t bytes, void *(*allocate)(size_t), const void *frame);

static const size_t places[FUNCTIONS] = {0, 256, 512, PAGE, 768};
static void *volatile last;

/* Calls its second argument with its first one, in a frame of its own. */
static const uint8_t code[] = {
#ifdef __x86_64__
    0x55,             /* push %rbp */
    0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
    0xff, 0xd6,       /* call *%rsi */
    0x5d,             /* pop %rbp */
    0xc3,             /* ret */
#else
    0xfd, 0x7b, 0xbf, 0xa9, /* stp x29, x30, [sp, #-16]! */
    0xfd, 0x03, 0x00, 0x91, /* mov x29, sp */
    0x20, 0x00, 0x3f, 0xd6, /* blr x1 */
    0xfd, 0x7b, 0xc1, 0xa8, /* ldp x29, x30, [sp], #16 */
    0xc0, 0x03, 0x5f, 0xd6, /* ret */
#endif
};

/* The same, with its third argument in the register of the frame pointer. */
static const uint8_t no_frame[] = {
#ifdef __x86_64__
    0x55,             /* push %rbp */
    0x48, 0x89, 0xd5, /* mov %rdx, %rbp */
    0xff, 0xd6,       /* call *%rsi */
    0x5d,             /* pop %rbp */
    0xc3,             /* ret */
#else
    0xfd, 0x7b, 0xbf, 0xa9, /* stp x29, x30, [sp, #-16]! */
    0xfd, 0x03, 0x02, 0xaa, /* mov x29, x2 */
    0x20, 0x00, 0x3f, 0xd6, /* blr x1 */
    0xfd, 0x7b, 0xc1, 0xa8, /* ldp x29, x30, [sp], #16 */
    0xc0, 0x03, 0x5f, 0xd6, /* ret */
#endif
};

static void *allocate(size_t bytes)
{
    void *block = malloc(bytes);

    return memset(block, 1, bytes);
}

static int write_map(const char *base)
{
    unsigned long long at = (unsigned long long)(uintptr_t)base;
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
    f = fopen(path, "w");
    if (!f)
        return 1;
    fprintf(f, "%llx 40 replaced function\n%llx %x whole page\n", at, at, PAGE);
    fprintf(f, "0x%llx 0x40 LazyCompile:*first a.js:1:10\n", at);
    fprintf(f, "%llx 40 no frame\n", at + places[4]);
    fprintf(f, "%llX 40 second\tfunction\nnonsense\n", at + places[1]);
    fprintf(f, "%llx %x unfinished", at, 2 * PAGE);
    return fclose(f) != 0;
}

int main(void)
{
    char *base = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* What is no frame pointer: no address, a small one, addresses that are not aligned, off the
     * stack, or whose second word is no code: a number, an address of the stack, of data. */
    uintptr_t words[][2] = {{0, 5}, {0, (uintptr_t)words}, {0, (uintptr_t)&last}};
    const void *const frames[] = {NULL,
                                  (void *)8,
                                  (char *)words + 1,
                                  (void *)-(uintptr_t)8,
                                  (const void *)(uintptr_t)&last,
                                  words[0],
                                  words[1],
                                  words[2]};
    char byte;

    if (base == MAP_FAILED)
        return 1;
    for (int i = 0; i < FUNCTIONS - 1; i++)
        memcpy(base + places[i], code, sizeof(code));
    memcpy(base + places[FUNCTIONS - 1], no_frame, sizeof(no_frame));
    if (mprotect(base, 2 * PAGE, PROT_READ | PROT_EXEC) != 0 || write_map(base) != 0)
        return 1;
    __builtin___clear_cache(base, base + 2 * PAGE);
    for (int i = 0; i < BLOCKS * FUNCTIONS; i++) {
        function *call;
        void *at = base + places[i % FUNCTIONS];

        memcpy(&call, &at, sizeof(call));
        last = call(1000 + (size_t)i % FUNCTIONS, allocate, frames[i / FUNCTIONS % FRAMES]);
    }
    printf("%llx\nready\n", (unsigned long long)(uintptr_t)base);
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        continue;
    return 0;
}
