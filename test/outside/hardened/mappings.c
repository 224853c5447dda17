/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards behind large blocks, and the other inaccessible pages of the hardened mode, never take
 * more mappings than half of what the kernel allows (vm.max_map_count): more blocks live at once
 * than there can be guards, then half of them freed. The blocks stay usable, and as many as the
 * kernel allows stay for the program.
 */
#include "test/outside/check.h"

#include <stdio.h>

enum { BLOCK_BYTES = 300000, MOST = 40000, SPARE = 100 };

static void *blocks[MOST];

static size_t read_number(const char *path)
{
    FILE *f = fopen(path, "re");
    size_t n = 0;

    REQUIRE(f && fscanf(f, "%zu", &n) == 1);
    fclose(f);
    return n;
}

static size_t count_mappings(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    size_t n = 0;

    REQUIRE(f);
    for (int c; (c = getc(f)) != EOF;)
        n += c == '\n';
    fclose(f);
    return n;
}

int main(void)
{
    size_t allowed = read_number("/proc/sys/vm/max_map_count"), start, count = allowed / 2, guarded;

    check_begin();
    start = count_mappings();
    /* A guard takes two mappings: half as many blocks as mappings is twice what half of them can
     * guard. */
    if (count > MOST)
        SKIP("the kernel allows %zu mappings", allowed);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        REQUIRE(blocks[i]);
    }
    guarded = count_mappings() - start;
    CHECK_SAYS(guarded <= allowed / 2 + SPARE, "%zu mappings of %zu", guarded, allowed);
    CHECK_SAYS(guarded > allowed / 8, "%zu mappings of %zu: no guards", guarded, allowed);
    for (size_t i = 0; i < count; i += 2)
        free(blocks[i]);
    CHECK_SAYS(count_mappings() - start <= allowed / 2 + SPARE, "%zu mappings after frees",
               count_mappings() - start);
    for (size_t i = 0; i < count; i += 2) {
        blocks[i] = malloc(BLOCK_BYTES + (i % 100) * 4096);
        REQUIRE(blocks[i]);
    }
    CHECK_SAYS(count_mappings() - start <= allowed / 2 + SPARE, "%zu mappings in the end",
               count_mappings() - start);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    check_say("%zu mappings of %zu", guarded, allowed);
    return check_end();
}
