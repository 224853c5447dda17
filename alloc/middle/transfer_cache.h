/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transfer cache: bounded stacks of objects for each size class, between the per-CPU caches and
 * the central free lists. Classes of small blocks have a stack for each CPU, up to a number of
 * stacks. A CPU gets back its own objects first, and takes from the stacks of other CPUs if its own
 * is empty. If the cache is split into domains (last-level caches), CPUs take nothing from other
 * domains, and each domain has the capacity. Objects that do not fit go to the central free list.
 */
#ifndef SA_MIDDLE_TRANSFER_CACHE_H
#define SA_MIDDLE_TRANSFER_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Objects that one call may move. Not a multiple of 512, which is 4 KiB of slots. A program that
 * frees the blocks of an array in order walks through its array and through the slots in step. If
 * both are equally far from a multiple of 4 KiB, processors take the load from one for the store to
 * the other, and wait (4 KiB aliasing). With a multiple of 512 the distance would never change.
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

/* Passes on the objects of which no CPU has taken any since the last call, and lets the central
 * free lists do the same. Maintenance calls it. */
void sa_transfer_plunder(void);

/* Debug builds: ends the program if a stack is out of its bounds or holds a wrong object. */
#ifdef SA_DEBUG
void sa_transfer_validate(void);
#else
#define sa_transfer_validate() ((void)0)
#endif

/* Empties every stack into the central free lists, and gives all their new spans back. */
void sa_transfer_flush(void);

/* Summed over domains. */
void sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret);

/*
 * Splits the cache into domains: domain_of[cpu] < domains for cpu < cpus. CPUs beyond use domain 0.
 * Returns 0, and changes nothing, if `domains` is not from 2 to SA_DOMAINS_MAX or the cache is
 * split already.
 */
int sa_transfer_split(const uint8_t *domain_of, unsigned cpus, unsigned domains);

/* Domains in use, at least 1. */
unsigned sa_transfer_domains(void);

#endif
