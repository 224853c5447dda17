/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees that name the size of another class: every pair of a true and a claimed class, with every
 * function that takes a size, with caches that have room and with full ones. The block is freed as
 * what it is: what is allocated next overlaps neither the 10,000 neighbours nor each other. The
 * stack is reported once. Hardened, the first such free ends the program.
 *
 * usage: sized MODE [FUNCTION]
 *   all, every  each pair of classes; every: of each third class
 *   off         the same as every, and nothing is said
 *   hardened    the first free ends the program
 */
#include "test/outside/check.h"

#include <signal.h>
#include <sys/wait.h>

enum { ALIGN = 64, CLASSES = 200, NEIGHBOURS = 10000, FULL = 2000, WRITTEN = 4096 };

/* The order of the arguments. */
enum form { SIZED, SIZED_ALIGNED, ALIGNED_SIZED, SIZED_FLAGS };

static const struct function {
    const char *maker, *ender;
    enum form form;
    bool aligned;
} functions[] = {
    {"_Znwm", "_ZdlPvm", SIZED, false},
    {"_Znam", "_ZdaPvm", SIZED, false},
    {"_ZnwmSt11align_val_t", "_ZdlPvmSt11align_val_t", SIZED_ALIGNED, true},
    {"_ZnamSt11align_val_t", "_ZdaPvmSt11align_val_t", SIZED_ALIGNED, true},
    {"malloc", "free_sized", SIZED, false},
    {"aligned_alloc", "free_aligned_sized", ALIGNED_SIZED, true},
    {"malloc", "sdallocx", SIZED_FLAGS, false},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static size_t sizes[CLASSES]; /* one of each class, and large ones */
static size_t count;

struct block {
    unsigned char *p;
    size_t size;
    unsigned char byte;
};

static struct block neighbours[NEIGHBOURS];
static void *held[FULL];

/* The largest size of each class that is a multiple of `step`. The sizes of two classes differ by
 * more than a byte, so that none has two entries. */
static void find_classes(size_t step)
{
    for (size_t size = step; size <= 262144 && count < CLASSES - 3; size += step) {
        void *p = malloc(size);
        size_t usable = malloc_usable_size(p) / step * step;

        CHECK_OPAQUE(p);
        free(p);
        if (usable > size)
            size = usable;
        sizes[count++] = size;
    }
    sizes[count++] = 300032;
    sizes[count++] = 1 << 20;
    sizes[count++] = 3 << 20;
}

static void *make(const struct function *f, size_t size)
{
    void *maker = dlsym(RTLD_DEFAULT, f->maker), *p;

    if (!f->aligned)
        p = ((void *(*)(size_t))maker)(size);
    else if (f->form == ALIGNED_SIZED)
        p = ((void *(*)(size_t, size_t))maker)(ALIGN, size);
    else
        p = ((void *(*)(size_t, size_t))maker)(size, ALIGN);
    REQUIRE(p);
    return p;
}

/* One place for all, so that there is one stack. */
__attribute__((noinline)) static void end(const struct function *f, void *p, size_t size)
{
    static const char *found;
    static void *ender;

    if (found != f->ender)
        ender = dlsym(RTLD_DEFAULT, found = f->ender);
    switch (f->form) {
    case SIZED:
        ((void (*)(void *, size_t))ender)(p, size);
        break;
    case SIZED_ALIGNED:
        ((void (*)(void *, size_t, size_t))ender)(p, size, ALIGN);
        break;
    case ALIGNED_SIZED:
        ((void (*)(void *, size_t, size_t))ender)(p, ALIGN, size);
        break;
    case SIZED_FLAGS:
        ((void (*)(void *, size_t, int))ender)(p, size, 0);
        break;
    }
    __asm__ volatile("" ::: "memory");
}

/* Large blocks are written at both ends. */
static void fill(const struct block *b)
{
    size_t n = b->size < WRITTEN ? b->size : WRITTEN / 2;

    memset(b->p, b->byte, n);
    memset(b->p + b->size - n, b->byte, n);
}

static bool holds(const struct block *b)
{
    size_t n = b->size < WRITTEN ? b->size : WRITTEN / 2;

    return b->p[0] == b->byte && memcmp(b->p, b->p + 1, n - 1) == 0 &&
           b->p[b->size - n] == b->byte &&
           memcmp(b->p + b->size - n, b->p + b->size - n + 1, n - 1) == 0;
}

static struct block begin(const struct function *f, size_t size, int byte)
{
    struct block b = {make(f, size), size, (unsigned char)byte};

    fill(&b);
    return b;
}

/* Neighbours of all classes of up to 4 KiB, and a few of longer ones. */
static void make_neighbours(const struct function *f)
{
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        size_t size = sizes[i % count];

        if (size > 4096 && i >= 4 * count)
            size = sizes[i % 10];
        neighbours[i] = begin(f, size, (int)(i % 200) + 1);
    }
}

static void check_neighbours(size_t size)
{
    size_t broken = 0;

    for (size_t i = 0; i < NEIGHBOURS; i++)
        broken += !holds(&neighbours[i]);
    CHECK_SAYS(!broken, "%zu neighbours after frees of %zu bytes", broken, size);
}

/* Frees a block of `size` bytes as one of `claimed`. What is then allocated is whole. */
static void free_as(const struct function *f, size_t size, size_t claimed)
{
    struct block next[4];

    end(f, begin(f, size, 251).p, claimed);
    for (size_t i = 0; i < COUNT(next); i++)
        next[i] = begin(f, i % 2 ? size : claimed, 252 + (int)i);
    for (size_t i = 0; i < COUNT(next); i++)
        CHECK_SAYS(holds(&next[i]), "%zu bytes freed as %zu by %s", size, claimed, f->ender);
    for (size_t i = 0; i < COUNT(next); i++)
        end(f, next[i].p, next[i].size);
}

/* Fills the cache of a class. */
static void fill_cache(const struct function *f, size_t size)
{
    size_t n = size <= 256 ? FULL : FULL / 50;

    for (size_t i = 0; i < n; i++)
        held[i] = make(f, size);
    for (size_t i = 0; i < n; i++)
        end(f, held[i], size);
}

static void run_pairs(const struct function *f, size_t step)
{
    for (size_t i = 0; i < count; i += step) {
        for (size_t j = 0; j < 2 * count; j += step) {
            size_t other = sizes[j % count];

            if (j / step == count / step)
                fill_cache(f, sizes[i]); /* from here on it is the claimed one */
            if (other != sizes[i])
                free_as(f, j < count ? sizes[i] : other, j < count ? other : sizes[i]);
        }
        if (i % 8 == 0)
            check_neighbours(sizes[i]);
    }
}

/* In a process of its own. */
static void run(const struct function *f, const char *mode)
{
    find_classes(f->aligned ? ALIGN : 1);
    CHECK_SAYS(count > 30, "%zu classes", count);
    make_neighbours(f);
    run_pairs(f, strcmp(mode, "all") == 0 ? 1 : 3);
    check_neighbours(0);
}

static int reports_of(const char *text)
{
    int n = 0;

    for (text = strstr(text, "salloc: sized free: "); text;
         text = strstr(text + 1, "salloc: sized free: "))
        n++;
    return n;
}

/* Runs this program again for a function, and reads its stderr. */
static void test_function(const struct function *f, const char *program, const char *mode)
{
    bool aborts = strcmp(mode, "hardened") == 0;
    int expected = strcmp(mode, "off") == 0 ? 0 : 1, ends[2], status;
    char text[16384];
    size_t used = 0;
    ssize_t n;
    pid_t pid;

    REQUIRE(pipe(ends) == 0 && (pid = fork()) >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        execl(program, program, mode, f->ender, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    while (used < sizeof(text) - 1 && (n = read(ends[0], text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    close(ends[0]);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(aborts ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT : status == 0,
               "%s: status %#x", f->ender, status);
    CHECK_SAYS(reports_of(text) == expected, "%s: %d reports: %.300s", f->ender, reports_of(text),
               text);
    if (!expected)
        CHECK_SAYS(!text[0], "%s: %.300s", f->ender, text);
}

int main(int argc, char **argv)
{
    check_begin();
    REQUIRE(argc >= 2);
    for (size_t i = 0; i < COUNT(functions); i++)
        if (argc == 2)
            test_function(&functions[i], argv[0], argv[1]);
        else if (strcmp(argv[2], functions[i].ender) == 0)
            run(&functions[i], argv[1]);
    return check_end();
}
