/* SPDX-License-Identifier: Apache-2.0 */
/**
 * salloc: a malloc replacement. Programs need nothing from this header to use it: link -lsalloc or
 * preload libsalloc.so. It offers what malloc's own interface does not: reports, limits, questions
 * about blocks.
 *
 * Unless a function says otherwise it may be called from any thread at any time, returns 0 or a
 * pointer on success and -1 or NULL with errno on failure, and writes no result on failure.
 */
#ifndef SALLOC_SALLOC_H
#define SALLOC_SALLOC_H

#include <salloc/profile.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the library that is running, as "major.minor.patch". Never freed. */
const char *salloc_version(void);

/**
 * The stats page: a text in the malloc-stats layout that tells where memory is. doc/stats.md
 * explains every line. Exact while no other thread allocates, approximate otherwise; the rows of the
 * summary always add up.
 *
 * At the hard limit the text comes past it, as do the following ones, until together they are some 7 MiB beyond (and
 * one more for each thousand CPUs).
 *
 * @return a string that the caller frees with free(), or NULL with errno ENOMEM.
 */
char *salloc_get_stats(void);

/**
 * The same as a JSON object: integers by name, sizes in bytes, counters apart from gauges, arrays of
 * classes and of CPUs. doc/stats.md has the names; they stay as they are while "schema_version" does.
 *
 * @return as salloc_get_stats.
 */
char *salloc_get_stats_json(void);

/**
 * The same in the text format of OpenMetrics, for Prometheus and what reads its format.
 *
 * @return as salloc_get_stats.
 */
char *salloc_get_stats_openmetrics(void);

/**
 * The same in the text format of Prometheus (0.0.4), which node_exporter's textfile collector reads: without units, and
 * with the type "gauge" for what OpenMetrics calls "info".
 *
 * @return as salloc_get_stats.
 */
char *salloc_get_stats_prometheus(void);

/**
 * Reads a figure by name. Names and meanings are tcmalloc's where it has them:
 *
 *   generic.current_allocated_bytes    bytes in use by the application
 *   generic.bytes_in_use_by_app        the same
 *   generic.heap_size                  address space of the heap, released parts left out
 *   generic.physical_memory_used       heap_size plus metadata, mapped for it or used
 *   generic.virtual_memory_used        physical_memory_used plus what was released
 *   generic.peak_memory_usage          the most that physical_memory_used has been
 *   generic.realized_fragmentation     percent of it beyond what was in use then, as estimated
 *   tcmalloc.pageheap_free_bytes       free spans that hold memory; also tcmalloc.page_heap_free
 *   tcmalloc.pageheap_unmapped_bytes   those that hold none, and address space kept for the
 *                                      radix map; also tcmalloc.page_heap_unmapped
 *   tcmalloc.slack_bytes               the sum of the two
 *   tcmalloc.central_cache_free        free objects in central free lists
 *   tcmalloc.transfer_cache_free       in transfer caches that all CPUs share
 *   tcmalloc.sharded_transfer_cache_free   in those that CPUs have of their own, for small blocks
 *   tcmalloc.cpu_free                  in per-CPU caches
 *   tcmalloc.thread_cache_free         in per-thread caches (where rseq is missing); also
 *                                      tcmalloc.current_total_thread_cache_bytes
 *   tcmalloc.max_total_thread_cache_bytes  the most that those hold together
 *   tcmalloc.thread_cache_count        how many of those are in use
 *   tcmalloc.local_bytes               cpu_free plus thread_cache_free
 *   tcmalloc.metadata_bytes            salloc's own records, and what is mapped for more of them
 *   tcmalloc.external_fragmentation_bytes  physical_memory_used but for what is in use
 *   tcmalloc.required_bytes            physical_memory_used but for pageheap_free_bytes
 *   tcmalloc.num_released_total_bytes  given back to the system since the start
 *   tcmalloc.num_released_release_memory_to_system_bytes   of that, by salloc_release_free_memory and
 *                                      malloc_trim
 *   tcmalloc.desired_usage_limit_bytes the soft limit, settable; SIZE_MAX: none
 *   tcmalloc.hard_usage_limit_bytes    the hard limit, settable
 *   tcmalloc.soft_limit_hits           times that there was more than the soft limit
 *   tcmalloc.hard_limit_hits           requests that did not fit under the hard limit
 *   tcmalloc.successful_shrinks_after_soft_limit_hit, ..._hard_limit_hit
 *                                      of those, when giving memory back was enough
 *   tcmalloc.num_released_soft_limit_exceeded_bytes, ..._hard_limit_exceeded_bytes
 *                                      given back because of them
 *   tcmalloc.background_release_rate   bytes in a second that are given back in any case, settable
 *   tcmalloc.num_released_process_background_actions_bytes   given back because of it
 *   tcmalloc.per_cpu_caches_active     1 or 0
 *   tcmalloc.max_per_cpu_cache_size    limit of each per-CPU cache, settable
 *   tcmalloc.skip_subrelease_interval  seconds: free memory is kept for the highest demand of so
 *                                      long to come back; 0: the rule is off; settable, as are
 *   tcmalloc.skip_subrelease_short_interval, tcmalloc.skip_subrelease_long_interval
 *                                      seconds: as the option of the name in doc/tuning.md
 *   tcmalloc.sampled_internal_fragmentation   bytes in use beyond what was asked for, as estimated
 *                                      from the samples
 *   tcmalloc.page_algorithm            1: the page heap is aware of hugepages; 0: it is not
 *   tcmalloc.security_partitioning_active     0
 *   tcmalloc.experiment.NAME           1 or 0: what the stats page lists as MALLOC EXPERIMENTS; and
 *                                      TCMALLOC_TEMERAIRE, TCMALLOC_TEMERAIRE_WITH_SUBRELEASE_V3: as
 *                                      tcmalloc.page_algorithm
 *   salloc.NAME                        every name of the tables in doc/stats.md but those of classes
 *                                      and CPUs: salloc.allocated_bytes, salloc.cache_hits, ...
 *
 * @return 0, or -1 with errno ENOENT for an unknown name, EINVAL for a null argument.
 */
int salloc_get_numeric_property(const char *name, size_t *value);

/**
 * Sets a settable figure: tcmalloc.max_per_cpu_cache_size, up to 1 GiB, the intervals of
 * tcmalloc.skip_subrelease_..., up to 300 seconds, the two limits, as salloc_set_memory_limit
 * does, and tcmalloc.background_release_rate, as salloc_set_release_rate.
 *
 * @return 0, or -1 with errno ENOENT (unknown name), EPERM (not settable), EINVAL or ERANGE (out of range).
 */
int salloc_set_numeric_property(const char *name, size_t value);

/**
 * Empties the caches and gives free memory back to the system: at least `bytes` if so much is free
 * (SIZE_MAX: all of it).
 *
 * @return bytes given back; they may be fewer, also 0.
 */
size_t salloc_release_free_memory(size_t bytes);

enum salloc_memory_limit {
    SALLOC_SOFT_LIMIT =
        0, /**< beyond it, free memory goes back at once, then the program is told */
    SALLOC_HARD_LIMIT = 1, /**< beyond it, allocations fail with ENOMEM */
};

#define SALLOC_NO_LIMIT SIZE_MAX

/**
 * Limits what salloc uses: "actual memory used" of the stats page (generic.physical_memory_used), which
 * counts what the program was given whether or not it has touched it. There are no limits at first
 * (but near the limit of the control group memory goes back, see doc/tuning.md, group_limit).
 *
 * The soft limit makes memory go back: whenever more is taken into use, free pages and then what caches hold
 * are given back until there is less than the limit, or nothing is left to give.
 *
 * The hard limit makes malloc and its kin return NULL with ENOMEM (operator new throws) instead of taking more,
 * after all that is free was given back. Memory freed can be had again. salloc's own records are counted,
 * but never refused, so they alone may pass it.
 *
 * A limit below what is in use is accepted: what is free is given back at once, and nothing more is taken. Of a
 * hard limit below the soft one, the hard one holds.
 *
 * @param bytes SALLOC_NO_LIMIT for none.
 * @return 0, or -1 with errno EINVAL (no such limit, or 0 bytes), ERANGE (more than a process can have), EAGAIN
 * (another thread forks).
 */
int salloc_set_memory_limit(enum salloc_memory_limit which, size_t bytes);

/** The limit, or SALLOC_NO_LIMIT. */
size_t salloc_get_memory_limit(enum salloc_memory_limit which);

/**
 * Has the program told when it passes the soft limit and giving free memory back was not enough: once, and
 * again only after there was clearly less (a 32nd of the limit) in between. The call comes from inside of
 * malloc, calloc, realloc, free, new or delete, or from setting a limit, in whichever thread passes it, with none of
 * salloc's locks held. It may allocate and free; it is never called by two threads at once, nor within itself. It must
 * not throw, nor wait for what a thread that allocates may hold.
 *
 * @param callback NULL: nobody is told. It may still be called once if another thread was about to.
 * @return 0, or -1 with errno EAGAIN (another thread forks).
 */
int salloc_set_soft_limit_callback(void (*callback)(void *arg), void *arg);

/**
 * Gives free memory back at this rate, whether or not it is likely to be needed again, as long as there is any. Without a
 * rate (0, as at first) it goes back when it has not been needed for two seconds.
 *
 * @return 0, or -1 with errno ERANGE.
 */
int salloc_set_release_rate(size_t bytes_per_second);
size_t salloc_get_release_rate(void);

/**
 * Starts a thread that does what is otherwise done now and then by whoever calls malloc or free: give back what is
 * free. Only a program that frees much and then calls neither for long gains by it. The thread handles no
 * signals and runs nothing of the program's; a child of fork gets its own when it allocates. As the option
 * maintenance_thread:on, but at once.
 *
 * @return 0, also if it runs already; -1 with errno EAGAIN (no thread can be had), EBUSY (it is being stopped).
 */
int salloc_start_maintenance_thread(void);

/**
 * Ends the thread, and waits for that: for what a process with threads may not do (unshare, setns). Where pressure is
 * watched that may take two seconds.
 *
 * @return 0, also if there is none; -1 with errno EBUSY (another thread is doing it).
 */
int salloc_stop_maintenance_thread(void);

/**
 * Does at once what that thread does now and then, for programs that have a thread of their own for such things.
 *
 * @return the milliseconds after which to call again: 500, or 4000 when nothing has happened for a while.
 */
unsigned salloc_process_background_actions(void);

/**
 * Bytes that malloc(size) would occupy: by how much bytes in use by the application would grow. In a hardened program that
 * is more than the block's usable size. 0 if it would fail for any state of the heap.
 */
size_t salloc_get_estimated_allocated_size(size_t size);

/**
 * Bytes that a block occupies: usable size, as malloc_usable_size gives it.
 *
 * @return 0 for NULL and for what is not the start of a block of salloc's. A block that was freed
 * already cannot be told from a live one in every case.
 */
size_t salloc_get_allocated_size(const void *p);

enum salloc_ownership {
    SALLOC_NOT_OWNED = 0, /**< not memory that malloc gave out */
    SALLOC_OWNED = 1,     /**< the start of a block of salloc's */
};

/** Whether a pointer is the start of a block of salloc's. Safe for any pointer. */
enum salloc_ownership salloc_get_ownership(const void *p);

/**
 * Asks hwloc for the last-level-cache domains and splits the transfer cache by them, as the
 * option llc_domains:on does. hwloc (libhwloc.so.15) is loaded for this; it allocates, opens files
 * and takes the dynamic loader's lock, so call it where those are allowed.
 *
 * @return the number of domains now in use (1: there is one, or it was not split), or -1 with errno
 * ENOENT if hwloc is not installed, ENOMEM.
 */
int salloc_discover_topology(void);

#ifdef __cplusplus
}
#endif

#endif
