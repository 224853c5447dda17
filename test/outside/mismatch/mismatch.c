/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function that allocates, with every function that frees: what the C and C++ standards
 * forbid is reported, and nothing else is. Operators have their mangled names here, so that no C++
 * compiler is needed. Each pair runs in a child of its own, whose stderr is read.
 *
 * usage: mismatch sampled|unsampled|off|hardened
 *   sampled    every block is sampled: a report for each stack, and the program goes on
 *   unsampled  no block is: nothing is said
 *   off        the same with every block sampled
 *   hardened   the first mismatch ends the program
 */
#include "test/outside/check.h"
#include "test/outside/own_stderr.h"

#include <signal.h>
#include <sys/wait.h>

enum family { MALLOC, NEW, ARRAY };

enum { ALIGN = 64, TIMES = 3 };

/* How a function is called: its arguments in this order. */
enum form {
    SIZE,       /* f(size) */
    SIZE_TAG,   /* f(size, nothrow) */
    SIZE_ALIGN, /* f(size, align), or with nothrow behind, which is not looked at */
    ALIGN_SIZE, /* f(align, size) */
    POSIX,      /* f(&p, align, size) */
    COUNT_SIZE, /* f(1, size) */
    RESIZE,     /* f(NULL, size), f(p, size) */
    PLAIN,      /* f(p), or with nothrow behind */
    SIZED,      /* f(p, size) */
    ALIGNED,    /* f(p, align) */
    SIZED_ALIGNED,
    ALIGNED_SIZED,
};

struct function {
    const char *name;
    enum family family;
    enum form form;
    size_t align; /* 0: none */
    void *address;
};

static struct function makers[] = {
    {"malloc", MALLOC, SIZE, 0, NULL},
    {"calloc", MALLOC, COUNT_SIZE, 0, NULL},
    {"realloc", MALLOC, RESIZE, 0, NULL},
    {"aligned_alloc", MALLOC, ALIGN_SIZE, ALIGN, NULL},
    {"memalign", MALLOC, ALIGN_SIZE, ALIGN, NULL},
    {"posix_memalign", MALLOC, POSIX, ALIGN, NULL},
    {"_Znwm", NEW, SIZE, 0, NULL},
    {"_ZnwmRKSt9nothrow_t", NEW, SIZE_TAG, 0, NULL},
    {"_ZnwmSt11align_val_t", NEW, SIZE_ALIGN, ALIGN, NULL},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", NEW, SIZE_ALIGN, ALIGN, NULL},
    {"_Znam", ARRAY, SIZE, 0, NULL},
    {"_ZnamRKSt9nothrow_t", ARRAY, SIZE_TAG, 0, NULL},
    {"_ZnamSt11align_val_t", ARRAY, SIZE_ALIGN, ALIGN, NULL},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", ARRAY, SIZE_ALIGN, ALIGN, NULL},
};

static struct function enders[] = {
    {"free", MALLOC, PLAIN, 0, NULL},
    {"cfree", MALLOC, PLAIN, 0, NULL},
    {"realloc", MALLOC, RESIZE, 0, NULL},
    {"free_sized", MALLOC, SIZED, 0, NULL},
    {"free_aligned_sized", MALLOC, ALIGNED_SIZED, ALIGN, NULL},
    {"_ZdlPv", NEW, PLAIN, 0, NULL},
    {"_ZdlPvRKSt9nothrow_t", NEW, PLAIN, 0, NULL},
    {"_ZdlPvm", NEW, SIZED, 0, NULL},
    {"_ZdlPvSt11align_val_t", NEW, ALIGNED, ALIGN, NULL},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", NEW, ALIGNED, ALIGN, NULL},
    {"_ZdlPvmSt11align_val_t", NEW, SIZED_ALIGNED, ALIGN, NULL},
    {"_ZdaPv", ARRAY, PLAIN, 0, NULL},
    {"_ZdaPvRKSt9nothrow_t", ARRAY, PLAIN, 0, NULL},
    {"_ZdaPvm", ARRAY, SIZED, 0, NULL},
    {"_ZdaPvSt11align_val_t", ARRAY, ALIGNED, ALIGN, NULL},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", ARRAY, ALIGNED, ALIGN, NULL},
    {"_ZdaPvmSt11align_val_t", ARRAY, SIZED_ALIGNED, ALIGN, NULL},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define CALL(f, type, ...) (((type)(f)->address)(__VA_ARGS__))

__attribute__((noinline)) static void *make(const struct function *f, size_t size)
{
    void *p = NULL;

    switch (f->form) {
    case SIZE:
        return CALL(f, void *(*)(size_t), size);
    case SIZE_TAG:
        return CALL(f, void *(*)(size_t, const void *), size, "");
    case SIZE_ALIGN:
        return CALL(f, void *(*)(size_t, size_t, const void *), size, ALIGN, "");
    case ALIGN_SIZE:
        return CALL(f, void *(*)(size_t, size_t), ALIGN, size);
    case POSIX:
        return CALL(f, int (*)(void **, size_t, size_t), &p, ALIGN, size) ? NULL : p;
    case COUNT_SIZE:
        return CALL(f, void *(*)(size_t, size_t), 1, size);
    case RESIZE:
        return CALL(f, void *(*)(void *, size_t), NULL, size);
    default:
        return NULL;
    }
}

/* What realloc returns stays: it is a block of malloc's. */
__attribute__((noinline)) static void end(const struct function *f, void *p, size_t size)
{
    switch (f->form) {
    case RESIZE:
        p = CALL(f, void *(*)(void *, size_t), p, size + 1000);
        CHECK_OPAQUE(p);
        break;
    case PLAIN:
        CALL(f, void (*)(void *, const void *), p, "");
        break;
    case SIZED:
        CALL(f, void (*)(void *, size_t), p, size);
        break;
    case ALIGNED:
        CALL(f, void (*)(void *, size_t, const void *), p, ALIGN, "");
        break;
    case SIZED_ALIGNED:
        CALL(f, void (*)(void *, size_t, size_t), p, size, ALIGN);
        break;
    case ALIGNED_SIZED:
        CALL(f, void (*)(void *, size_t, size_t), p, ALIGN, size);
        break;
    default:
        break;
    }
}

/* The same stack each time: the loop is not unrolled. */
static void run_pair(const struct function *maker, const struct function *ender, size_t size)
{
    for (volatile int i = 0; i < TIMES; i++) {
        void *p = make(maker, size);

        CHECK_OPAQUE(p);
        if (!p)
            _exit(3);
        end(ender, p, size);
    }
}

static int errors; /* what is written to stderr */

struct outcome {
    int status;
    char text[16384];
};

static void run(const struct function *maker, const struct function *ender, size_t size,
                struct outcome *ret)
{
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        run_pair(maker, ender, size);
        _exit(0);
    }
    REQUIRE(waitpid(pid, &ret->status, 0) == pid);
    own_stderr_read(errors, ret->text, sizeof(ret->text));
}

static int count(const char *text, const char *part)
{
    int n = 0;

    for (text = strstr(text, part); text; text = strstr(text + 1, part))
        n++;
    return n;
}

static bool is_sized(const struct function *f)
{
    return f->form == SIZED || f->form == SIZED_ALIGNED || f->form == ALIGNED_SIZED;
}

/* A sized free with another alignment may be one of another class: it is then reported as that,
 * also if the block is not sampled. */
static bool is_wrong_size(const struct function *maker, const struct function *ender)
{
    return is_sized(ender) && maker->align != ender->align;
}

/* Whether a program may do that. Any alignment goes with free and realloc. */
static bool may_follow(const struct function *maker, const struct function *ender)
{
    if (maker->family != ender->family)
        return false;
    if (ender->family == MALLOC && !is_sized(ender))
        return true;
    return maker->align == ender->align;
}

static void test_pair(const struct function *maker, const struct function *ender, size_t size,
                      const char *mode)
{
    bool allowed = may_follow(maker, ender), ends = strcmp(mode, "hardened") == 0;
    bool silent = allowed || strcmp(mode, "off") == 0 || strcmp(mode, "unsampled") == 0;
    struct outcome got;
    int reports, sized;

    run(maker, ender, size, &got);
    reports = count(got.text, "salloc: mismatched ");
    sized = count(got.text, "salloc: sized free: ");
    if (!ends && is_wrong_size(maker, ender))
        CHECK_SAYS(got.status == 0 && reports + sized <= (strcmp(mode, "off") ? 1 : 0),
                   "%s, %s of %zu bytes: status %d, %s", maker->name, ender->name, size, got.status,
                   got.text);
    else if (silent)
        CHECK_SAYS(got.status == 0 && !got.text[0], "%s, %s of %zu bytes: status %d, %s",
                   maker->name, ender->name, size, got.status, got.text);
    else if (ends)
        CHECK_SAYS(WIFSIGNALED(got.status) && WTERMSIG(got.status) == SIGABRT &&
                       reports + sized == 1 && (reports || is_wrong_size(maker, ender)),
                   "%s, %s of %zu bytes: status %d, %s", maker->name, ender->name, size, got.status,
                   got.text);
    else
        CHECK_SAYS(got.status == 0 && reports == 1 && count(got.text, "allocated by thread") == 1 &&
                       count(got.text, "\n") > 5 && !sized,
                   "%s, %s of %zu bytes: status %d, %s", maker->name, ender->name, size, got.status,
                   got.text);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64, 8192, 300032}; /* multiples of the alignment */

    errors = own_stderr_begin(argv);
    check_begin();
    REQUIRE(argc == 2);
    for (size_t i = 0; i < COUNT(makers); i++)
        REQUIRE(makers[i].address = dlsym(RTLD_DEFAULT, makers[i].name));
    for (size_t i = 0; i < COUNT(enders); i++)
        REQUIRE(enders[i].address = dlsym(RTLD_DEFAULT, enders[i].name));
    for (size_t i = 0; i < COUNT(makers); i++)
        for (size_t j = 0; j < COUNT(enders); j++)
            for (size_t k = 0; k < COUNT(sizes); k++)
                test_pair(&makers[i], &enders[j], sizes[k], argv[1]);
    return check_end();
}
