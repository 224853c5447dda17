/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target that runs on salloc, and profiles made of what is in its memory. They are those that the
 * process itself would make (sampling/snapshot/profile_snapshot.h), and the library's own writers
 * write them.
 */
#ifndef SA_TOOL_READING_READING_H
#define SA_TOOL_READING_READING_H

#include "sampling/profile/profile.h"
#include "sampling/profile/profile_buckets.h"
#include "tool/samples/live.h"
#include "tool/symbol/code_map.h"
#include "tool/target/stop.h"

struct sa_reading {
    struct sa_target target;
    struct sa_objects objects;
    struct sa_table table;
    struct sa_stacks stacks;
    struct sa_code_map code; /* of a process, once a writer has asked for it */
    bool code_read;
};

/* Opens a process or a core, and finds salloc in it. */
bool sa_reading_open(struct sa_reading *r, struct sa_source source, struct sa_error *e);

/* The same for who wants numbers alone: without call stacks, and without the names of what is
 * loaded. */
bool sa_reading_open_numbers(struct sa_reading *r, struct sa_source source, struct sa_error *e);
/* Stops a process that is open, and opens it anew: until then it may map and unmap memory. False:
 * it is neither stopped nor open. */
bool sa_reading_stop(struct sa_reading *r, struct sa_source source, struct sa_target_stop *stop,
                     struct sa_error *e);
void sa_reading_close(struct sa_reading *r);

/* All memory that the allocator uses; 0: not known. */
uint64_t sa_reading_used_bytes(struct sa_reading *r, struct sa_error *e);

struct sa_outside_profile {
    struct sa_profile profile;
    struct sa_profile_origin origin;
    struct sa_live_copy live;
    struct sa_buckets rows;
    unsigned twice;          /* stacks that were met twice */
    uint64_t again, dropped; /* what was read again, and what could not be read */
};

/* HEAP: what is in use, and what was ever allocated. PEAK_HEAP: what was in use when most was.
 * ALLOCATIONS: what was ever allocated. FRAGMENTATION: what is in use, and the free memory that it
 * keeps from other use; waste_max is not known. */
bool sa_reading_profile(struct sa_reading *r, enum salloc_profile_type type,
                        struct sa_outside_profile *ret, struct sa_error *e);

/* What is in use, without anything else: no totals, and not where it lies. HEAP. */
bool sa_reading_in_use(struct sa_reading *r, struct sa_outside_profile *ret, struct sa_error *e);

/* A profile with nothing in it but what its origin and the sampling rates say. */
bool sa_reading_without_samples(struct sa_reading *r, enum salloc_profile_type type,
                                struct sa_outside_profile *ret, struct sa_error *e);

/* Leaves only those samples for which keep is true, and what was ever allocated out. */
void sa_outside_profile_filter(struct sa_outside_profile *p, const bool *keep);

/* Notes what was left out (note.h). */
void sa_outside_profile_tell(const struct sa_outside_profile *p);
void sa_outside_profile_free(struct sa_outside_profile *p);

#endif
