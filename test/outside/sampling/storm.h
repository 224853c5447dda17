/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers of storm.c. Each does a small piece of work again and again; storm.c counts the
 * pieces, and says that something hangs if the count of one stands still.
 */
#ifndef SA_TEST_OUTSIDE_STORM_H
#define SA_TEST_OUTSIDE_STORM_H

#include <stdint.h>

struct storm {
    const char *folder;  /* of libplugin.so and libthrower.so */
    const char *scratch; /* where profiles are written */
};

extern struct storm storm;

struct worker {
    const char *name;
    void (*work)(uint64_t *random);
    uint64_t count; /* atomic */
};

/* storm_profiles.c */
void storm_interval(uint64_t *random);
void storm_snapshot(uint64_t *random);
void storm_record(uint64_t *random);
void storm_write(uint64_t *random);

/* Allocates, checks and frees a few blocks. */
void storm_blocks(uint64_t *random);

#endif
