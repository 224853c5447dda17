/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of its caller's stack each call takes: on a stack that was painted before, from the
 * frame of the call to the lowest word that has changed. Symbols are bound (LD_BIND_NOW). Below the
 * stack there is an inaccessible page.
 *
 * usage: small_stacks BYTES_OF_MALLOC BYTES_OF_STATISTICS
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#define STACK 32768 /* bytes */
#define PAINT 0xa5

static ucontext_t back, there;
static char *stack;
static void (*run)(void);
static uintptr_t entered; /* the stack pointer of the function that calls */
static uint64_t rng = 7;

static void enter(void)
{
    entered = (uintptr_t)__builtin_frame_address(0);
    run();
}

/* Runs f on the painted stack, and returns the bytes that it took. */
static size_t depth_of(void (*f)(void))
{
    size_t i = 0;

    memset(stack, PAINT, STACK);
    run = f;
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = STACK;
    there.uc_link = &back;
    makecontext(&there, enter, 0);
    swapcontext(&back, &there);
    while (i < STACK && (unsigned char)stack[i] == PAINT)
        i++;
    return entered - (uintptr_t)(stack + i);
}

#define BLOCKS 2048
static void *blocks[BLOCKS];

/* One call at a random block: small and large sizes. */
static void mixed(void)
{
    uint64_t r = check_random(&rng);
    void **p = &blocks[r % BLOCKS];
    size_t n = (r >> 12) % 16 ? (r >> 16) % 3000 + 1 : (r >> 16) % 600000 + 1;

    switch (r >> 60) {
    case 0:
    case 1:
        *p = realloc(*p, n);
        break;
    case 2:
        free(*p);
        *p = calloc(1, n);
        break;
    case 3:
        free(*p);
        *p = memalign(64ul << (r >> 8) % 8, n);
        break;
    default:
        free(*p);
        *p = malloc(n);
    }
    REQUIRE(*p);
    *(char *)*p = 1;
}

static void many_mixed(void)
{
    for (int i = 0; i < 200000; i++)
        mixed();
}

static void drop(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

/* Long runs of one size: batches to and from every layer, and spans made and given back. */
static void runs(void)
{
    static void *run_of[30000];

    for (size_t size = 16; size <= 16384; size *= 4) {
        size_t n = sizeof(run_of) / sizeof(*run_of) * 16 / size + 600;

        n = n < 30000 ? n : 30000;
        for (int round = 0; round < 3; round++) {
            for (size_t i = 0; i < n; i++)
                run_of[i] = malloc(size);
            for (size_t i = 0; i < n; i++)
                free(run_of[i]);
        }
    }
}

/* Blocks whose sizes change: mixed spans, which are cut and joined. */
static void changing(void)
{
    static void *kept[8192];

    for (size_t round = 0; round < 6; round++)
        for (size_t i = 0; i < 8192; i++) {
            if (i % 8 == round)
                continue;
            free(kept[i]);
            kept[i] = malloc(300 + 600 * round + i % 512);
        }
    for (size_t i = 0; i < 8192; i++)
        free(kept[i]);
    memset(kept, 0, sizeof(kept));
}

/* Slow paths over seconds: the passes of maintenance, which release memory. */
static void passes(void)
{
    double end = check_now() + 1.2;

    while (check_now() < end) {
        for (int i = 0; i < 5000; i++)
            mixed();
        drop();
    }
}

static void fill(size_t size)
{
    static void *big[4096];
    size_t n = 0;

    while (n < 4096 && (big[n] = malloc(size)))
        n++;
    while (n)
        free(big[--n]);
}

/* Requests that fail: caches are emptied, and memory is given back, before NULL is returned. */
static void without_memory(void)
{
    fill(1 << 20);
    fill(200000);
    fill(60000);
}

static void info2(void)
{
    CHECK(mallinfo2().uordblks > 0);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void info(void)
{
    CHECK(mallinfo().uordblks > 0);
}
#pragma GCC diagnostic pop

static FILE *null;

static void xml(void)
{
    CHECK(malloc_info(0, null) == 0);
}

/* A free with another size is reported, and the program goes on. */
static void misused(void)
{
    void (*free_with)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");

    REQUIRE(free_with);
    free_with(malloc(100), 2000);
}

static void trim(void)
{
    malloc_trim(0);
}

static void handler(int number)
{
    (void)number;
    many_mixed();
}

/* A handler on an alternate stack of the size that SIGSTKSZ was for decades. */
static void on_alternate_stack(void)
{
    size_t bytes = 8192;
    char *low =
        mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t alternate = {.ss_sp = low + 4096, .ss_size = bytes};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};

    REQUIRE(low != MAP_FAILED && mprotect(low, 4096, PROT_NONE) == 0);
    if (sigaltstack(&alternate, NULL) != 0) {
        check_say("no alternate stack of 8192 bytes: the processor's state does not fit");
        return;
    }
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
}

static void say(const char *what, void (*f)(void), size_t most)
{
    size_t depth = depth_of(f);

    check_say("%-14s %5zu bytes", what, depth);
    CHECK_SAYS(depth <= most, "%s takes %zu bytes of stack, at most %zu", what, depth, most);
}

int main(int argc, char **argv)
{
    size_t of_malloc = argc > 1 ? strtoul(argv[1], NULL, 10) : 3072;
    size_t of_statistics = argc > 2 ? strtoul(argv[2], NULL, 10) : 4096;
    struct rlimit limit;
    char *low;

    check_begin();
    if (!getenv("LD_BIND_NOW"))
        SKIP("symbols are not bound");
    low = mmap(NULL, STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(low != MAP_FAILED && mprotect(low, 4096, PROT_NONE) == 0);
    stack = low + 4096;
    null = fopen("/dev/null", "w");
    REQUIRE(null);
    say("mixed", many_mixed, of_malloc);
    say("drop", drop, of_malloc);
    say("runs", runs, of_malloc);
    say("changing", changing, of_malloc);
    say("passes", passes, of_malloc);
    /* Hardened, misuse ends the program. The first report asks the loader for names. */
    if (!getenv("SALLOC_CONF") || !strstr(getenv("SALLOC_CONF"), "hardening")) {
        misused();
        say("a report", misused, of_malloc);
    }
    say("mallinfo2", info2, of_statistics);
    say("mallinfo", info, of_statistics);
    say("malloc_info", xml, of_statistics);
    say("malloc_trim", trim, of_statistics);
    on_alternate_stack();
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = check_status("VmSize") * 1024 + (100ul << 20);
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    say("without memory", without_memory, of_malloc);
    return check_end();
}
