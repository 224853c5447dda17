/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of the library and the kernel's of the process grow and shrink together, within 2 %
 * of what the program uses. Differences are compared, as the process has other memory too.
 *
 * Memory is what has been written, so the program writes all of its blocks, and uses sizes that
 * leave no whole page of the kernel unwritten behind the last object of a span: up to 4096 bytes,
 * and blocks with spans of their own.
 *
 * usage: kernel [outside]    outside: the heap cannot stay in the 64 GiB where it begins
 */
#include "test/outside/check.h"

#include <sys/mman.h>

#define WINDOW (64ul << 30)
#define HOLE   (4ul << 20)

#define BLOCKS 120000

typedef int property_function(const char *name, size_t *value);

struct figures {
    long ours, ours_virtual, kernel, kernel_virtual;
};

static property_function *property;
static char *blocks[BLOCKS];

static long get(const char *name)
{
    size_t value;

    REQUIRE(property(name, &value) == 0);
    return (long)value;
}

static struct figures take(void)
{
    struct figures f = {get("salloc.physical_bytes"), get("salloc.virtual_bytes"),
                        get("salloc.process_resident_bytes"), get("salloc.process_virtual_bytes")};

    return f;
}

static void compare(const char *when, const struct figures *start, long used)
{
    struct figures f = take();
    long memory = (f.ours - start->ours) - (f.kernel - start->kernel);
    long space =
        (f.ours_virtual - start->ours_virtual) - (f.kernel_virtual - start->kernel_virtual);

    CHECK_SAYS(labs(memory) <= used / 50, "%s: memory %ld of the library's, %ld of the kernel's",
               when, f.ours - start->ours, f.kernel - start->kernel);
    CHECK_SAYS(labs(space) <= used / 50,
               "%s: address space %ld of the library's, %ld of the kernel's", when,
               f.ours_virtual - start->ours_virtual, f.kernel_virtual - start->kernel_virtual);
}

/* Takes all addresses near the heap that are not in use; where they begin. */
static uintptr_t fill_window(void)
{
    char *block = malloc(100);
    uintptr_t start = (uintptr_t)block & ~(WINDOW - 1);

    for (uintptr_t at = start; at < start + WINDOW; at += HOLE)
        mmap((void *)at, HOLE, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    free(block);
    return start;
}

/* What reports say that the kernel says is what it says, if not always what it says just now. */
static void test_coverage(void)
{
    long resident, heap;
    size_t value;

    usleep(500000); /* 100 times what it takes to ask */
    if (property("salloc.heap_resident_bytes", &value) != 0)
        return;
    resident = get("salloc.kernel_resident_bytes");
    heap = get("salloc.heap_resident_bytes");
    CHECK_SAYS(labs(resident - heap) <= heap / 50, "%ld, %ld", resident, heap);
    CHECK(heap > 100l << 20);
    CHECK(get("salloc.kernel_hugepage_bytes") <= resident);
}

int main(int argc, char **argv)
{
    struct figures start;
    uintptr_t window = 0;
    unsigned random = 1;
    long used = 0, outside = 0;

    check_begin();
    property = (property_function *)dlsym(RTLD_DEFAULT, "salloc_get_numeric_property");
    REQUIRE(property);
    free(malloc(100));
    memset(blocks, 0, sizeof(blocks)); /* in memory before the start */
    if (argc > 1 && strcmp(argv[1], "outside") == 0)
        window = fill_window();
    start = take();
    for (int i = 0; i < BLOCKS; i++) {
        size_t size;

        random = random * 1103515245 + 12345;
        size = i % 300 ? (random >> 16) % 4096 + 1 : (random >> 16) * 20 + 300000;
        blocks[i] = malloc(size);
        REQUIRE(blocks[i]);
        /* All that the block occupies: pages that rounding up added would not be in memory. */
        memset(blocks[i], 1, malloc_usable_size(blocks[i]));
        used += (long)malloc_usable_size(blocks[i]);
        outside += ((uintptr_t)blocks[i] ^ window) >= WINDOW;
    }
    if (argc > 1) /* else it proves nothing; single blocks may be anywhere (samples, gaps) */
        CHECK_SAYS(outside > BLOCKS / 2, "%ld of %d blocks outside", outside, BLOCKS);
    compare("full", &start, used);
    test_coverage();
    for (int i = 0; i < BLOCKS; i++) {
        if (i % 10) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
    compare("freed", &start, used);
    REQUIRE(malloc_trim(0) == 1);
    compare("trimmed", &start, used);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    REQUIRE(malloc_trim(0) == 1);
    compare("empty", &start, used);
    return check_end();
}
