/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory goes back to the system by itself. 512 MiB of blocks of one size are written to and freed
 * by another thread; then the program only makes about a hundred small malloc and free pairs a
 * second. Proves that it is below 64 MiB resident within 10 seconds, and, over several rounds, that
 * what is left does not grow. usage: outside_memory_returned BYTES ROUNDS
 */
#include "test/outside/check.h"

#include <pthread.h>

#define TOTAL_BYTES   (512ul << 20)
#define LIMIT_KIB     (64ul << 10)
#define LIMIT_SECONDS 10.0

static char **blocks;
static size_t count;

static void *freer(void *arg)
{
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    return arg;
}

int main(int argc, char **argv)
{
    size_t bytes, rounds, first = 0;

    REQUIRE(argc == 3);
    check_begin();
    bytes = strtoul(argv[1], NULL, 10);
    rounds = strtoul(argv[2], NULL, 10);
    count = TOTAL_BYTES / bytes;
    for (size_t round = 0; round < rounds; round++) {
        size_t resident;
        pthread_t thread;
        double start;

        blocks = malloc(count * sizeof(*blocks));
        REQUIRE(blocks);
        for (size_t i = 0; i < count; i++) {
            blocks[i] = malloc(bytes);
            REQUIRE(blocks[i]);
            memset(blocks[i], 1, bytes);
        }
        CHECK(check_status("VmRSS:") >= TOTAL_BYTES / 1024);
        REQUIRE(pthread_create(&thread, NULL, freer, NULL) == 0);
        pthread_join(thread, NULL);
        free(blocks);
        start = check_now();
        do {
            char *p = malloc(64 + (size_t)(check_now() * 1000) % 100);

            REQUIRE(p);
            CHECK_OPAQUE(p);
            *p = 1;
            usleep(10000);
            free(p);
            resident = check_status("VmRSS:");
        } while ((resident >= LIMIT_KIB || (round && resident >= first + LIMIT_KIB / 4)) &&
                 check_now() < start + LIMIT_SECONDS);
        CHECK_SAYS(resident < LIMIT_KIB, "round %zu: %zu KiB resident after %.1f s", round,
                   resident, check_now() - start);
        /* What is left of the last round must not differ from the first by more than a few caches:
         * a sixteenth of the limit for each round would show within ten. Memory goes back step by
         * step, so the time is the same ten seconds: just below the limit is not where it ends. */
        if (round == 0)
            first = resident;
        CHECK_SAYS(resident < first + LIMIT_KIB / 4, "round %zu: %zu KiB, in the first %zu", round,
                   resident, first);
        check_say("round %zu: %zu KiB resident after %.2f s", round, resident, check_now() - start);
    }
    return check_end();
}
