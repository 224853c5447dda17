/* SPDX-License-Identifier: Apache-2.0 */
/* What salloc.h promises of salloc_worth_moving, salloc_move and salloc_defragment_targets, in
 * every mode of the library. */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 4000

static char *blocks[BLOCKS];

static void check_targets(int sparse)
{
    struct salloc_defragment_target t[4];
    size_t n, all = salloc_defragment_targets(NULL, 0, sizeof(*t));

    n = salloc_defragment_targets(t, 4, sizeof(*t));
    CHECK(n == all || n + 1 == all || n == all + 1);
    for (size_t i = 0; i < n && i < 4; i++) {
        CHECK(t[i].block_bytes && t[i].spans && t[i].free_blocks && t[i].excess_bytes);
        CHECK(i == 0 || t[i].excess_bytes <= t[i - 1].excess_bytes);
    }
    CHECK(!sparse || (n && t[0].block_bytes == 1024 && t[0].excess_bytes > 1024 * BLOCKS / 2));
    errno = 0;
    CHECK(salloc_defragment_targets(NULL, 1, sizeof(*t)) == 0 && errno == EINVAL);
    errno = 0;
    CHECK(salloc_defragment_targets(t, 1, 8) == 0 && errno == EINVAL);
}

/* Three classes are sparse: every fourth block stays, which is one on each span of 8 KiB for the
 * largest. About 3/4 of the bytes of each class are in excess, and each has over twice the bytes of
 * the next one. The order by excess bytes is neither that of the sizes nor its reverse. */
static void check_order(void)
{
    static const struct {
        size_t bytes;
        int count;
    } of[] = {{2048, 4000}, {512, 6000}, {1024, 1200}};
    static void *sparse[3][6000];
    struct salloc_defragment_target t[3] = {0};

    for (int k = 0; k < 3; k++)
        for (int i = 0; i < of[k].count; i++) {
            sparse[k][i] = malloc(of[k].bytes);
            CHECK(sparse[k][i]);
        }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < of[k].count; i++)
            if (i % 4) {
                free(sparse[k][i]);
                sparse[k][i] = NULL;
            }
    malloc_trim(0);
    REQUIRE(salloc_defragment_targets(t, 3, sizeof(*t)) >= 3);
    for (int k = 0; k < 3; k++) {
        size_t bytes = of[k].bytes * (size_t)of[k].count;

        CHECK_SAYS(t[k].block_bytes == of[k].bytes && t[k].excess_bytes > bytes / 2 &&
                       t[k].excess_bytes <= bytes,
                   "%d: blocks of %zu, %zu bytes in excess", k, t[k].block_bytes,
                   t[k].excess_bytes);
        for (int i = 0; i < of[k].count; i += 4)
            free(sparse[k][i]);
    }
}

static int over; /* atomic */

static void *ask(void *unused)
{
    struct salloc_defragment_target t;

    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        salloc_defragment_targets(&t, 1, sizeof(t));
    return unused;
}

/* A child of fork, which was made while a thread asked, can allocate. */
static void fork_while_asked(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, ask, NULL) == 0);
    for (int i = 0; i < 200; i++) {
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
            alarm(20);
            for (size_t size = 16; size < 100000; size *= 2)
                for (int k = 0; k < 50; k++)
                    blocks[k] = malloc(size);
            _exit(0);
        }
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
        if (status)
            break;
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}

static size_t fragmentation(void)
{
    size_t bytes = 0;

    CHECK(salloc_get_numeric_property("salloc.fragmentation_bytes", &bytes) == 0);
    return bytes;
}

int main(void)
{
    int on_stack = 1, asked = 0, moved = 0;
    size_t before;

    check_begin();

    CHECK(!salloc_worth_moving(NULL) && !salloc_worth_moving(&on_stack));
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(1024);
        CHECK(blocks[i]);
        memset(blocks[i], i, 1024);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (i % 8) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    malloc_trim(0);
    /* Hardened, blocks are larger, and freed ones are kept back for a while. */
    check_targets(!getenv("HARDENED"));
    before = fragmentation();
    for (int i = 0; i < BLOCKS; i += 8) {
        size_t bytes = malloc_usable_size(blocks[i]);
        char *p;

        if (!salloc_worth_moving(blocks[i]))
            continue;
        asked++;
        errno = 77;
        p = salloc_move(blocks[i]);
        CHECK(errno == 77);
        if (!p)
            continue;
        moved++;
        CHECK(p != blocks[i] && malloc_usable_size(p) == bytes && (uintptr_t)p % 16 == 0);
        blocks[i] = p;
    }
    CHECK(getenv("HARDENED") ? !asked : moved > BLOCKS / 16);
    CHECK(getenv("HARDENED") || (before > 1024 * BLOCKS / 2 && fragmentation() < before / 2));
    for (int i = 0; i < BLOCKS; i += 8) {
        for (int k = 0; k < 1024; k++)
            CHECK(blocks[i][k] == (char)i);
        free(blocks[i]);
    }
    malloc_trim(0);
    if (!getenv("HARDENED"))
        check_order();
    fork_while_asked();
    return check_end();
}
