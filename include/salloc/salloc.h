/* SPDX-License-Identifier: Apache-2.0 */
/**
 * salloc: a malloc replacement. A program needs nothing from this header to use salloc: link with
 * -lsalloc or preload libsalloc.so. This header adds reports, limits, and questions about blocks.
 *
 * Unless a function says otherwise, any thread may call it at any time, but a signal handler must
 * not. On success a function returns 0 or a pointer. On failure it returns -1 or NULL, sets errno,
 * and writes no result. Sizes are in bytes.
 */
#ifndef SALLOC_SALLOC_H
#define SALLOC_SALLOC_H

#include <salloc/profile.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this header. SALLOC_VERSION_NUMBER grows with each release: for #if. */
#define SALLOC_VERSION_MAJOR  0
#define SALLOC_VERSION_MINOR  2
#define SALLOC_VERSION_PATCH  0
#define SALLOC_VERSION_STRING "0.2.0"
#define SALLOC_VERSION_NUMBER                                                                      \
    (SALLOC_VERSION_MAJOR * 10000 + SALLOC_VERSION_MINOR * 100 + SALLOC_VERSION_PATCH)

/** Version of the running library, as "major.minor.patch". The string is static: do not free it. */
const char *salloc_version(void);

/**
 * Returns the stats page: a text in the malloc-stats layout that shows where memory is.
 * doc/stats.md explains every line. The numbers are exact while no other thread allocates, else
 * approximate. The rows of the summary always add up.
 *
 * At the hard limit, reports may exceed the limit: all reports that are still held together by
 * about 7 MiB, and by 1 MiB more for each 1000 CPUs.
 *
 * @return a string that the caller frees with free(), or NULL with errno ENOMEM.
 */
char *salloc_get_stats(void);

/**
 * Returns the metrics of the stats page as a JSON object: integers by name, sizes in bytes,
 * counters apart from gauges, and arrays of classes and of CPUs. salloc(7) lists the names. A
 * name does not change while "schema_version" stays the same.
 *
 * @return as salloc_get_stats.
 */
char *salloc_get_stats_json(void);

/**
 * Returns the same metrics in the text format of OpenMetrics 1.0, for Prometheus and other readers
 * of that format.
 *
 * @return as salloc_get_stats.
 */
char *salloc_get_stats_openmetrics(void);

/**
 * Returns the same metrics in the text format of Prometheus 0.0.4, for node_exporter's textfile
 * collector. The format has no units, and uses the type "gauge" where OpenMetrics uses "info".
 *
 * @return as salloc_get_stats.
 */
char *salloc_get_stats_prometheus(void);

/**
 * Reads a property by name. Sizes are in bytes. Where tcmalloc has a property of the same name, the
 * meaning is tcmalloc's:
 *
 *   generic.current_allocated_bytes    bytes in use by the application
 *   generic.bytes_in_use_by_app        the same
 *   generic.heap_size                  address space of the heap, without released parts
 *   generic.physical_memory_used       heap_size plus metadata, used or only mapped
 *   generic.virtual_memory_used        physical_memory_used plus released memory
 *   generic.peak_memory_usage          high-water mark of physical_memory_used
 *   generic.realized_fragmentation     memory used beyond the bytes in use, at that peak, in
 *                                      percent of those, estimated
 *   tcmalloc.pageheap_free_bytes       free backed spans; also tcmalloc.page_heap_free
 *   tcmalloc.pageheap_unmapped_bytes   unbacked ones, and address space reserved for the
 *                                      radix map; also tcmalloc.page_heap_unmapped
 *   tcmalloc.slack_bytes               the sum of the two
 *   tcmalloc.central_cache_free        free objects in central free lists
 *   tcmalloc.transfer_cache_free       in transfer caches that all CPUs share
 *   tcmalloc.sharded_transfer_cache_free   in the shards of CPUs, for small blocks
 *   tcmalloc.cpu_free                  in per-CPU caches
 *   tcmalloc.thread_cache_free         in per-thread caches (where rseq is missing); also
 *                                      tcmalloc.current_total_thread_cache_bytes
 *   tcmalloc.max_total_thread_cache_bytes  maximum bytes of all of those together
 *   tcmalloc.thread_cache_count        number of those in use
 *   tcmalloc.local_bytes               cpu_free plus thread_cache_free
 *   tcmalloc.metadata_bytes            salloc's own records, and mappings for more of them
 *   tcmalloc.external_fragmentation_bytes  physical_memory_used minus bytes in use
 *   tcmalloc.required_bytes            physical_memory_used minus pageheap_free_bytes
 *   tcmalloc.num_released_total_bytes  released to the system since the start
 *   tcmalloc.num_released_release_memory_to_system_bytes   of that, by salloc_release_free_memory
 *                                      and malloc_trim
 *   tcmalloc.desired_usage_limit_bytes the soft limit, settable; SIZE_MAX: none
 *   tcmalloc.hard_usage_limit_bytes    the hard limit, settable
 *   tcmalloc.soft_limit_hits           times that usage exceeded the soft limit
 *   tcmalloc.hard_limit_hits           requests that did not fit under the hard limit
 *   tcmalloc.successful_shrinks_after_soft_limit_hit, ..._hard_limit_hit
 *                                      of those, the times when releasing memory was enough
 *   tcmalloc.num_released_soft_limit_exceeded_bytes, ..._hard_limit_exceeded_bytes
 *                                      memory released because of them
 *   tcmalloc.background_release_rate   bytes per second released in any case, settable
 *   tcmalloc.num_released_process_background_actions_bytes   released because of it
 *   tcmalloc.per_cpu_caches_active     1 or 0
 *   tcmalloc.max_per_cpu_cache_size    limit of each per-CPU cache, settable
 *   tcmalloc.skip_subrelease_interval, ..._short_interval, ..._long_interval
 *                                      0; settable without effect
 *   tcmalloc.sampled_internal_fragmentation   bytes in use beyond the requested sizes, estimated
 *                                      from the samples
 *   tcmalloc.page_algorithm            1: the page heap is aware of hugepages; 0: it is not
 *   tcmalloc.security_partitioning_active     0
 *   tcmalloc.experiment.NAME           1 or 0: the MALLOC EXPERIMENTS of the stats page, and
 *                                      TCMALLOC_TEMERAIRE and
 *                                      TCMALLOC_TEMERAIRE_WITH_SUBRELEASE_V3: as
 *                                      tcmalloc.page_algorithm
 *   salloc.NAME                        every metric of salloc(7) except those of
 *                                      classes and CPUs: salloc.allocated_bytes, ...
 *
 * @return 0, or -1 with errno ENOENT for an unknown name, EINVAL for a null argument.
 */
int salloc_get_numeric_property(const char *name, size_t *value);

/**
 * Sets a settable property of salloc_get_numeric_property:
 *
 * - tcmalloc.max_per_cpu_cache_size: bytes, at most 1 GiB;
 * - tcmalloc.skip_subrelease_...interval: seconds, at most 300, without effect;
 * - the two limits: bytes, as salloc_set_memory_limit does;
 * - tcmalloc.background_release_rate: bytes per second, as salloc_set_release_rate does.
 *
 * @return 0, or -1 with errno ENOENT (unknown name), EPERM (not settable), EINVAL (null name, or
 *         value out of range), ERANGE (limit or rate out of range), EAGAIN (another thread forks).
 */
int salloc_set_numeric_property(const char *name, size_t value);

/**
 * Sets an option of SALLOC_CONF by its name, with a value as SALLOC_CONF takes it: "64m", "on".
 * These options can change at run time: cpu_cache, hard_limit, maintenance_thread, profile_threads,
 * release_rate, sample_interval, soft_limit, and without effect the three
 * skip_subrelease_...interval. Other functions set some of them, too; the last call counts.
 *
 * @return 0, or -1 with errno ENOENT (no such option), EPERM (the option cannot change), EINVAL
 *         (null argument, or a value that SALLOC_CONF would not take), EAGAIN (another thread
 *         forks, or a thread cannot be created), EBUSY (another thread is stopping the maintenance
 *         thread).
 */
int salloc_set_option(const char *name, const char *value);

/**
 * Stores the value in effect of any option of SALLOC_CONF, as text, as the stats page has it
 * (doc/stats.md, "Options in effect"). An option without a path or signal is "none".
 *
 * @param size bytes of the buffer `value`; 64 are enough for all but paths.
 * @return 0, or -1 with errno ENOENT (no such option), EINVAL (null argument), ERANGE (the value
 *         does not fit; the buffer has its beginning).
 */
int salloc_get_option(const char *name, char *value, size_t size);

/**
 * Empties the caches and releases free memory to the system.
 *
 * @param bytes how much to release at least, if that much is free. SIZE_MAX: all free memory.
 * @return bytes released: fewer than requested if less is free; 0 also if another thread forks.
 */
size_t salloc_release_free_memory(size_t bytes);

enum salloc_memory_limit {
    SALLOC_SOFT_LIMIT = 0, /**< beyond it, salloc releases free memory, then calls the callback */
    SALLOC_HARD_LIMIT = 1, /**< beyond it, allocations fail with ENOMEM */
};

#define SALLOC_NO_LIMIT SIZE_MAX

/**
 * Limits the memory that salloc uses: "actual memory used" of the stats page
 * (generic.physical_memory_used). Blocks of the program count whether or not the program has
 * touched them. At first no limit is set. The limit of the control group applies nevertheless
 * (group_limit in doc/tuning.md).
 *
 * Soft limit: if usage would exceed it, salloc releases free pages, then empties its caches, until
 * usage is below the limit or nothing is left to release. No allocation fails.
 *
 * Hard limit: if usage would exceed it after salloc has released all free memory, malloc and its
 * kin return NULL with ENOMEM (operator new throws). Freed blocks can be allocated again. salloc's
 * own records count but are never refused, so they alone may exceed the limit.
 *
 * A limit below the current usage is valid: salloc releases free memory at once and takes no more.
 * If the hard limit is below the soft one, the hard limit applies.
 *
 * @param bytes the limit, or SALLOC_NO_LIMIT.
 * @return 0, or -1 with errno EINVAL (no such limit, or 0 bytes), ERANGE (more than PTRDIFF_MAX),
 *         EAGAIN (another thread forks).
 */
int salloc_set_memory_limit(enum salloc_memory_limit which, size_t bytes);

/**
 * Returns the limit in bytes that the program or an option has set, or SALLOC_NO_LIMIT. The limit
 * of the control group, which group_limit follows, is not such a limit.
 */
size_t salloc_get_memory_limit(enum salloc_memory_limit which);

/**
 * Sets a function that salloc calls if usage exceeds the soft limit and releasing free memory did
 * not help. salloc calls it once for each crossing: before the next call, usage must have fallen by
 * 1/32 of the limit below the limit.
 *
 * The call comes from inside malloc, calloc, realloc, free, new or delete, or from setting a limit,
 * in the thread that crosses the limit. That thread holds none of salloc's locks. The function may
 * allocate and free. It never runs in two threads at once, nor recursively. It must not throw. It
 * must not wait for a lock that an allocating thread may hold.
 *
 * @param callback NULL removes the function. A thread that was about to call the old one may still
 *         do so once.
 * @return 0, or -1 with errno EAGAIN (another thread forks).
 */
int salloc_set_soft_limit_callback(void (*callback)(void *arg), void *arg);

/**
 * Sets the rate at which salloc releases free memory whether or not demand for it is likely, as
 * long as any is free. At rate 0, the default, memory goes back when no allocation has needed it
 * for two seconds.
 *
 * @param bytes_per_second the rate, at most PTRDIFF_MAX; 0: none.
 * @return 0, or -1 with errno ERANGE.
 */
int salloc_set_release_rate(size_t bytes_per_second);
/** Returns the rate of salloc_set_release_rate, in bytes per second. */
size_t salloc_get_release_rate(void);

/**
 * Starts the maintenance thread, which releases free memory. Without it, calls of malloc and free
 * do that work from time to time. With the option maintenance_thread:auto, a thread that the
 * library starts by itself does it in an idle process that would keep more than about 24 MiB; the
 * maintenance thread replaces that one. It handles no signals and runs no code of the program. A
 * child of fork gets a thread of its own when it allocates. The option maintenance_thread:on has
 * the same effect, but starts the thread later.
 *
 * @return 0, also if the thread runs already; -1 with errno EAGAIN (the thread cannot be created),
 *         EBUSY (another thread is stopping it).
 */
int salloc_start_maintenance_thread(void);

/**
 * Stops the maintenance thread and waits for its end. The library starts no other one by itself.
 * Some calls fail in a process with several threads (unshare, setns). If the thread watches memory
 * pressure, the wait may take two seconds.
 *
 * @return 0, also if there is no thread; -1 with errno EBUSY (another thread is stopping it).
 */
int salloc_stop_maintenance_thread(void);

/**
 * Does the work of the maintenance thread once, for programs with a thread of their own for such
 * work.
 *
 * @return milliseconds after which to call again: 500, or 4000 if nothing has happened for a while.
 */
unsigned salloc_process_background_actions(void);

/**
 * Returns the bytes that malloc(size) would occupy: the growth of "in use by application". In a
 * hardened program this is more than the block's usable size.
 *
 * @return bytes, or 0 if malloc(size) fails in every state of the heap.
 */
size_t salloc_get_estimated_allocated_size(size_t size);

/**
 * Returns the bytes that a block occupies: its usable size, as malloc_usable_size returns it.
 *
 * @return bytes, or 0 for NULL and for a pointer that is not the start of a block of salloc's. The
 *         function cannot distinguish a freed block from a live one in every case.
 */
size_t salloc_get_allocated_size(const void *p);

enum salloc_ownership {
    SALLOC_NOT_OWNED = 0, /**< not memory that malloc gave out */
    SALLOC_OWNED = 1,     /**< the start of a block of salloc's */
};

/** Tells whether a pointer is the start of a block of salloc's. Safe for any pointer. */
enum salloc_ownership salloc_get_ownership(const void *p);

/**
 * Tells a program that can move its blocks whether moving this one would help to give memory back:
 * its span is sparse, and other spans of the size class have room for what is in use there. For
 * caches, column stores and language runtimes, which ask for each block in turn and then call
 * salloc_move. The answer is a hint: other threads allocate meanwhile.
 *
 * @return 1, or 0: also for large, sampled and guarded blocks, in the hardened mode, and for any
 *         pointer that is not the start of a block.
 */
int salloc_worth_moving(const void *p);

/**
 * Moves a block to a fuller span: copies all of its usable size to a new block, and frees the old
 * one. Past the caches, which would hand the same memory out again. Ask salloc_worth_moving first.
 * The program must not use the old block in other threads meanwhile, and replaces all its pointers.
 *
 * @param p a block in use; not NULL.
 * @return the new block, of the same usable size and alignment; NULL if there is no better place:
 *         the block stays valid and where it is. errno is not changed.
 */
void *salloc_move(void *p);

/** What a size class would give back if its blocks lay as densely as possible. */
struct salloc_defragment_target {
    size_t block_bytes;  /**< size of the class */
    size_t spans;        /**< spans of the class, without mixed spans */
    size_t free_blocks;  /**< free blocks on these */
    size_t excess_bytes; /**< bytes of the spans that they would fill; new spans do not count */
};

/**
 * Lists the size classes whose blocks are worth moving: those with the most excess bytes first.
 * Each class is exact at one moment, not all at the same.
 *
 * @param targets an array for the first `count` of them; NULL if count is 0.
 * @param target_bytes sizeof(struct salloc_defragment_target): a later version may have more
 * fields.
 * @return how many classes have excess bytes, which may be more than count; 0 with errno EINVAL if
 *         targets is NULL, or target_bytes is not a size that this version knows, EAGAIN if another
 *         thread forks.
 */
size_t salloc_defragment_targets(struct salloc_defragment_target *targets, size_t count,
                                 size_t target_bytes);

/**
 * Asks hwloc for the last-level-cache domains and splits the transfer cache by them, as the option
 * llc_domains:on does. The function loads hwloc (libhwloc.so.15), which allocates, opens files and
 * takes the dynamic loader's lock. Call it only where these are allowed.
 *
 * @return the number of domains now in use (1: only one exists, or the cache was not split), or -1
 *         with errno ENOENT (hwloc is not installed, or this library was built without it, or the
 *         program is static), ENOMEM (hwloc failed). While another thread asks: the domains in use.
 */
int salloc_discover_topology(void);

#ifdef __cplusplus
}
#endif

#endif
