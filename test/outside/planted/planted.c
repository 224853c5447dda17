/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs with one planted error each. `planted` prints the number of errors, `planted NUMBER` the
 * name of one, and `planted NUMBER quiet|busy|common|clean` commits it: among a few blocks, in a
 * program that allocates a lot, in one in which the place that allocates most has allocated the
 * block, too, or not at all (the same program without the error). Exits with 0 if nobody notices.
 * run.py counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MB      (1l << 20)
#define LIVE    5000   /* blocks of a busy program */
#define STEPS   100000 /* its allocations before the error; a tenth of it follows */
#define VARIOUS 64     /* neighbours of a quiet one */

extern void *_Znwm(size_t size);
extern void *_Znam(size_t size);
extern void *_ZnwmSt11align_val_t(size_t size, size_t align);
extern void _ZdlPv(void *p);
extern void _ZdlPvm(void *p, size_t size);
extern void _ZdaPvm(void *p, size_t size);
extern void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t align);

typedef volatile unsigned char *bytes;

static void *volatile live[LIVE], *volatile near[VARIOUS];
static volatile unsigned char seen;
static char global[64];
static int busy, common, clean;
static void *volatile made; /* common: a block of the error's size that churn has allocated */

static unsigned rnd(void)
{
    static unsigned long long state = 12345;

    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33);
}

/* Mostly small blocks, some of a page, few large ones. */
static size_t some_size(void)
{
    unsigned kind = rnd() % 1000;

    return kind < 900 ? 8 + rnd() % 250 : kind < 998 ? 256 + rnd() % 8000 : 40000 + rnd() % 400000;
}

__attribute__((noinline)) static void *allocate(size_t size)
{
    void *volatile p = malloc(size);

    return p;
}

/* The last block, which has the size, is not in use by the program. */
static void churn(int steps, size_t last)
{
    for (int i = 0; i <= steps; i++) {
        unsigned at = rnd() % LIVE;
        size_t size = i < steps ? some_size() : last;
        char *p;

        if (i < steps)
            free(live[at]);
        p = allocate(size);
        memset(p, 1, size < 64 ? size : 64);
        if (i < steps)
            live[at] = p;
        else
            made = p;
    }
}

static void frees(long n, size_t size)
{
    for (long i = 0; i < n; i++) {
        void *volatile p = malloc(i % 2 ? size : some_size());

        free(p);
    }
}

static void begin(size_t size)
{
    if (busy)
        churn(STEPS, size);
    if (!common)
        free(made);
    for (int i = 0; i < VARIOUS; i++)
        near[i] = malloc(i % 2 ? size : some_size() % 1000);
}

/* An ordinary end: a little work, and blocks that are freed. */
static void end(void)
{
    if (busy) {
        churn(STEPS / 10, 1);
        free(made);
    }
    for (int i = 0; i < VARIOUS; i += 2) {
        free(near[i]);
        near[i] = NULL;
    }
}

enum kind {
    WRITE_OVER, /* how: bytes; from the end on, or (1 MB) one byte at that distance */
    WRITE_UNDER,
    READ_OVER,
    READ_UNDER,
    TERMINATOR,  /* a zero behind the end */
    DOUBLE_FREE, /* how: other frees in between */
    FREE_INSIDE, /* how: offset */
    FREE_ELSEWHERE,
    REALLOC_BAD,
    USE_READ, /* how: other frees in between; -1: after a second */
    USE_WRITE,
    ZERO_READ, /* how: offset */
    ZERO_WRITE,
    OLD_READ,  /* of the block before realloc to `how` bytes */
    OLD_WRITE, /* the same */
    SHRUNK,    /* a write at the old end */
    SIZED,     /* how: the wrong size */
    MISMATCH,
};

static const char *const kind_names[] = {
    "write_over",  "write_under",    "read_over", "read_under", "terminator", "double_free",
    "free_inside", "free_elsewhere", "realloc",   "use_read",   "use_write",  "zero_read",
    "zero_write",  "old_read",       "old_write", "shrunk",     "sized",      "mismatch",
};

struct error {
    enum kind kind;
    long size, how;
    int freed; /* the block is freed afterwards */
};

static struct error table[400];
static int errors;

static void add(enum kind kind, long size, long how, int freed)
{
    table[errors++] = (struct error){kind, size, how, freed};
}

static void make_table(void)
{
    static const long sizes[] = {24, 1000, 40000, 500000};
    static const long far[] = {1, 8, 32, 4096, MB};
    static const long later[] = {0, 1, 100, 10000, -1};

    for (int s = 0; s < 4; s++) {
        for (int f = 0; f < 5; f++)
            for (int freed = 0; freed < 2; freed++) {
                add(WRITE_OVER, sizes[s], far[f], freed);
                add(WRITE_UNDER, sizes[s], far[f], freed);
            }
        for (int f = 0; f < 5; f += 2) {
            add(READ_OVER, sizes[s], far[f], 1);
            add(READ_UNDER, sizes[s], far[f], 1);
        }
        add(TERMINATOR, sizes[s], 0, 1);
        add(TERMINATOR, sizes[s], 0, 0);
        for (int l = 0; l < 5; l++) {
            if (later[l] >= 0)
                add(DOUBLE_FREE, sizes[s], later[l], 0);
            add(USE_READ, sizes[s], later[l], 0);
            add(USE_WRITE, sizes[s], later[l], 0);
        }
        add(FREE_INSIDE, sizes[s], 8, 0);
        add(FREE_INSIDE, sizes[s], 16, 0);
        add(REALLOC_BAD, sizes[s], 0, 0);
        add(OLD_READ, sizes[s], sizes[s] * 8, 0);
        add(OLD_WRITE, sizes[s], sizes[s] * 8, 0);
        add(SHRUNK, sizes[s], sizes[s] * 3 / 4, 0);
        add(SHRUNK, sizes[s], sizes[s] * 3 / 4, 1);
        add(SIZED, sizes[s], sizes[s] - 1, 0);
        add(SIZED, sizes[s], sizes[s] * 2, 0);
    }
    for (int i = 0; i < 6; i++)
        add(FREE_ELSEWHERE, 24, i, 0);
    add(REALLOC_BAD, 24, 1, 0);
    add(REALLOC_BAD, 24, 2, 0);
    for (int offset = 0; offset < 24; offset += 8) {
        add(ZERO_READ, 0, offset, 1);
        add(ZERO_WRITE, 0, offset, 1);
        add(ZERO_WRITE, 0, offset, 0);
    }
    for (int i = 0; i < 5; i++)
        add(MISMATCH, 48, i, 0);
}

static void write_at(bytes p, long n)
{
    for (long i = 0; !clean && i < n; i++)
        p[i] = 0x41;
}

static void read_at(bytes p, long n)
{
    for (long i = 0; !clean && i < n; i++)
        seen ^= p[i];
}

static void overflow(const struct error *e, bytes p)
{
    int writes = e->kind == WRITE_OVER || e->kind == WRITE_UNDER;
    int over = e->kind == WRITE_OVER || e->kind == READ_OVER;
    long n = e->how == MB ? 1 : e->how;
    bytes at = over ? p + e->size + e->how - n : p - e->how;

    (writes ? write_at : read_at)(at, n);
}

static void bad_free(const struct error *e)
{
    char stack[64];
    char *mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *const places[] = {stack + 16,       global + 16, (void *)((size_t)make_table & ~15ul),
                            (void *)0x123450, mapped + 16, mapped + 4096};
    void *volatile p = places[e->how];

    memset(stack, 0, sizeof(stack));
    memset(global, 0, sizeof(global));
    if (!clean)
        free(p);
}

static void bad_realloc(const struct error *e, char *p)
{
    char stack[64] = "";
    void *volatile bad = e->how == 0 ? p : e->how == 1 ? p + 8 : stack + 16;

    if (e->how == 0)
        free(p);
    if (!clean)
        near[1] = realloc(bad, 100);
}

static void wait_for(long frees_between, size_t size)
{
    struct timespec pause = {1, 200000000};

    if (frees_between >= 0) {
        frees(frees_between, size);
        return;
    }
    if (!clean)
        nanosleep(&pause, NULL);
    frees(1000, size);
}

static void mismatch(const struct error *e)
{
    void *p;

    switch (e->how) {
    case 0:
        p = malloc(48);
        (clean ? free : _ZdlPv)(p);
        break;
    case 1:
        p = _Znwm(48);
        (clean ? _ZdlPv : free)(p);
        break;
    case 2:
        p = _Znam(48);
        if (clean)
            _ZdaPvm(p, 48);
        else
            _ZdlPvm(p, 48);
        break;
    case 3:
        p = _ZnwmSt11align_val_t(48, 64);
        if (clean)
            _ZdlPvmSt11align_val_t(p, 48, 64);
        else
            _ZdlPvm(p, 48);
        break;
    default:
        p = _Znwm(48);
        if (clean)
            _ZdlPv(p);
        else
            _ZdlPvmSt11align_val_t(p, 48, 256);
    }
}

static void commit(const struct error *e)
{
    void *volatile kept = e->kind == SIZED ? _Znwm((size_t)e->size)
                          : common         ? made
                                           : malloc((size_t)e->size);
    char *p = kept;

    if (e->size)
        memset(p, 7, (size_t)e->size);
    switch (e->kind) {
    case WRITE_OVER:
    case WRITE_UNDER:
    case READ_OVER:
    case READ_UNDER:
        overflow(e, (bytes)p);
        break;
    case TERMINATOR:
        if (!clean)
            ((bytes)p)[e->size] = 0;
        break;
    case DOUBLE_FREE:
        free(p);
        frees(e->how, (size_t)e->size);
        if (!clean)
            free(kept);
        break;
    case FREE_INSIDE:
        free(p + (clean ? 0 : e->how));
        break;
    case FREE_ELSEWHERE:
        bad_free(e);
        break;
    case REALLOC_BAD:
        bad_realloc(e, p);
        break;
    case USE_READ:
    case USE_WRITE:
        free(p);
        wait_for(e->how, (size_t)e->size);
        (e->kind == USE_READ ? read_at : write_at)((bytes)kept + e->size / 2, 8);
        break;
    case ZERO_READ:
    case ZERO_WRITE:
        (e->kind == ZERO_READ ? read_at : write_at)((bytes)p + e->how, 1);
        break;
    case OLD_READ:
    case OLD_WRITE:
        near[1] = realloc(p, (size_t)e->how);
        if (kept == near[1])
            _exit(77); /* it grew where it was: no error */
        (e->kind == OLD_READ ? read_at : write_at)((bytes)kept + e->size / 2, 8);
        break;
    case SHRUNK:
        kept = realloc(p, (size_t)e->how);
        p = kept;
        write_at((bytes)p + e->how, 4);
        break;
    case SIZED:
        _ZdlPvm(p, (size_t)(clean ? e->size : e->how));
        break;
    case MISMATCH:
        mismatch(e);
        break;
    }
    if (e->freed)
        free(p);
    else
        near[3] = p; /* it is in use to the end */
}

int main(int argc, char **argv)
{
    const struct error *e;

    make_table();
    if (argc < 2) {
        printf("%d\n", errors);
        return 0;
    }
    e = &table[atoi(argv[1])];
    if (argc < 3) {
        printf("%s size %ld by %ld %s\n", kind_names[e->kind], e->size, e->how,
               e->freed ? "freed" : "");
        return 0;
    }
    common = strcmp(argv[2], "common") == 0;
    busy = common || strcmp(argv[2], "busy") == 0;
    clean = strcmp(argv[2], "clean") == 0;
    begin((size_t)e->size);
    commit(e);
    end();
    return 0;
}
