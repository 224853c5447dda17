/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transfer cache: of each class, bounded stacks of objects that CPUs have too many of. Those of
 * small blocks have one for each CPU, up to a number, which is asked for what the CPU needs again;
 * what one CPU frees and others need they take from there. Where last-level-cache domains are told
 * apart they take nothing from each other, and the bound is for each. What does not fit, or is not
 * there, goes to and comes from the central free list.
 */
#ifndef SA_MIDDLE_TRANSFER_CACHE_H
#define SA_MIDDLE_TRANSFER_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Objects that one call may move. Not a multiple of 512, which is 4 KiB of slots: a program that
 * frees the blocks of an array in order goes through both in step, and where they are equally far
 * from a multiple of 4 KiB processors take the load from one for the store to the other, and wait.
 * They would stay so for ever.
 */
#define SA_MOVE_MAX 448

struct sa_transfer_stats {
    size_t objects;
    size_t capacity, max_capacity;
    uint64_t insert_hits, insert_misses, insert_partial; /* misses include the partial ones */
    uint64_t remove_hits, remove_misses, remove_partial;
    size_t sharded; /* of the objects, those in shards of CPUs */
};

/* Takes up to n <= SA_MOVE_MAX objects for a CPU; how many. 0 only when out of memory. */
size_t sa_transfer_remove(int cpu, unsigned cls, void **objs, size_t n);

/* Whether there are objects that a CPU would get, without those of the central list; a hint. */
bool sa_transfer_has(int cpu, unsigned cls);

/* Gives n objects back from a CPU. */
void sa_transfer_insert(int cpu, unsigned cls, void *const *objs, size_t n);

/* Passes on what nobody has taken since the last call, and lets the central free lists do the same.
 * From maintenance. */
void sa_transfer_plunder(void);

/* Debug builds: ends the program if a stack is out of its bounds or holds a wrong object. */
#ifdef SA_DEBUG
void sa_transfer_validate(void);
#else
#define sa_transfer_validate() ((void)0)
#endif

/* Empties every class into the central free lists, which give back what they do not need. */
void sa_transfer_flush(void);

/* Summed over domains. */
void sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret);

/*
 * Splits the cache in domains: domain_of[cpu] < domains for cpu < cpus. CPUs beyond use domain 0. 0
 * (nothing changes): that is no number of domains to split in, or it was split before.
 */
int sa_transfer_split(const uint8_t *domain_of, unsigned cpus, unsigned domains);

/* Domains in use, at least 1. */
unsigned sa_transfer_domains(void);

#endif
