/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mixed spans save, as the metric and the stats page tell it. A program keeps a few of many
 * blocks of 160 bytes, and then takes blocks of 1000: these are what is saved, as no span of their
 * own has them. When they are freed, nothing is saved.
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <stdlib.h>
#include <string.h>

enum {
    SMALL = 400000, /* 61 MiB */
    KEPT_EACH = 64, /* of 51 on a span: one or none stays */
    LONG = 16000,   /* 15.6 MiB: what lies free is more than 1/5 of what is in use all the time */
};

static void *small[SMALL], *blocks[LONG];

/* The number on the stats page between two texts; 0 if they are not there. */
static size_t of_page(const char *before, const char *behind)
{
    char *page = salloc_get_stats(), *at, *end;
    size_t number = 0;

    REQUIRE(page);
    at = strstr(page, before);
    if (at) {
        number = strtoul(at + strlen(before), &end, 10);
        CHECK(strncmp(end, behind, strlen(behind)) == 0);
    }
    free(page);
    return number;
}

static size_t saved_of_page(void)
{
    return of_page(" bytes taken; ", " bytes saved\n");
}

static size_t free_of_page(void)
{
    return of_page(" as densely as possible; ", " of mixed spans");
}

int main(void)
{
    size_t bytes = 0, saved, taken, used;

    for (int i = 0; i < SMALL; i++) {
        small[i] = malloc(160);
        REQUIRE(small[i]);
    }
    CHECK(check_property("salloc.mixed_saved_bytes") == 0 && saved_of_page() == 0);
    for (int i = 0; i < SMALL; i++)
        if (i % KEPT_EACH)
            free(small[i]);
    for (int i = 0; i < LONG; i++) {
        blocks[i] = malloc(1000);
        REQUIRE(blocks[i]);
        bytes += malloc_usable_size(blocks[i]);
    }
    saved = check_property("salloc.mixed_saved_bytes");
    taken = check_property("salloc.mixed_taken_bytes");
    used = check_property("salloc.mixed_used_bytes");
    check_say("%zu bytes of blocks; %zu taken, %zu used, %zu saved", bytes, taken, used, saved);
    /* All blocks are saved, and those that caches hold besides. */
    CHECK_SAYS(saved >= bytes && saved < bytes + (64 << 10), "%zu of %zu", saved, bytes);
    CHECK(saved <= taken && saved < used);
    CHECK(saved_of_page() == check_property("salloc.mixed_saved_bytes"));
    CHECK(free_of_page() == check_property("salloc.mixed_bytes") - used);
    CHECK(free_of_page() > 0);
    for (int i = 0; i < LONG; i++)
        free(blocks[i]);
    salloc_release_free_memory(SIZE_MAX);
    saved = check_property("salloc.mixed_saved_bytes");
    CHECK_SAYS(saved < 64 << 10, "%zu of %zu", saved, bytes);
    return check_end();
}
