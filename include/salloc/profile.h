/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Profiles of the heap: which code has allocated how much, estimated from a random sample of all
 * allocations, with confidence intervals. Sampling is on by default, with an interval of 2 MiB:
 * each allocated byte brings its block into the sample with probability 1 in 2 MiB. doc/sampling.md
 * explains the numbers, doc/sampling_proofs.md derives the formulas.
 *
 * Without code: SALLOC_CONF="profile:heap.%p.pb.gz,profile_type:heap" (doc/tuning.md).
 *
 * Unless a function says otherwise, any thread may call it at any time, but a signal handler must
 * not. On success a function returns 0 or a pointer. On failure it returns -1 or NULL, sets errno,
 * and writes no result. Functions need 12 KiB of stack, salloc_profile_write_file 16 KiB.
 */
#ifndef SALLOC_PROFILE_H
#define SALLOC_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum salloc_profile_type {
    SALLOC_PROFILE_HEAP = 0,          /**< blocks in use; and per stack, ever allocated */
    SALLOC_PROFILE_FRAGMENTATION = 1, /**< free memory held up by blocks in use */
    SALLOC_PROFILE_PEAK_HEAP = 2,     /**< blocks in use at the peak */
    SALLOC_PROFILE_ALLOCATIONS = 3,   /**< blocks allocated between start and stop */
    SALLOC_PROFILE_LIFETIMES = 4, /**< blocks allocated, and mostly freed, between start and stop */
    SALLOC_PROFILE_EVENTS = 5,    /**< each sample and each free of one, in order */
};

/**
 * Estimators: how a sample is extrapolated. All are unbiased; the first has the least variance.
 * doc/sampling_proofs.md derives them and their variances. Their signs: a, the bytes that the
 * block occupies; T, the sampling interval; p, the probability that the block is sampled; f, the
 * position of the first sampled byte in the block, from 1.
 */
enum salloc_estimator {
    SALLOC_ESTIMATE_WEIGHTED = 0, /**< a sample stands for 1/p blocks (Horvitz-Thompson) */
    SALLOC_ESTIMATE_OFFSET = 1,   /**< T + a - f bytes (tcmalloc) */
    SALLOC_ESTIMATE_POISSON = 2,  /**< T bytes for each sampled byte of the block (heapprofd) */
    SALLOC_ESTIMATE_FAILED = 3,   /**< failed trials before it, and the rest of the block (.NET) */
};

/** The kind of function that allocated a block. */
enum salloc_allocation_kind {
    SALLOC_KIND_MALLOC = 0,
    SALLOC_KIND_NEW = 1,     /**< C++ operator new */
    SALLOC_KIND_ALIGNED = 2, /**< aligned_alloc and its relatives, aligned operator new */
};

/**
 * Whether a sample is guarded (doc/hardening.md), or why not. Numbers and meanings are those of
 * google/tcmalloc.
 */
enum salloc_guarded_status {
    SALLOC_GUARDED_FILTERED = -7,             /**< its stack had its share recently */
    SALLOC_GUARDED_MPROTECT_FAILED = -6,      /**< the kernel refused */
    SALLOC_GUARDED_NO_AVAILABLE_SLOTS = -5,   /**< all slots are in use */
    SALLOC_GUARDED_RATE_LIMITED = -3,         /**< not selected, or too soon after another */
    SALLOC_GUARDED_DISABLED = -2,             /**< guarded_sample:0 */
    SALLOC_GUARDED_LARGER_THAN_ONE_PAGE = -1, /**< too large, or aligned too much, for a slot */
    SALLOC_GUARDED_NOT_ATTEMPTED = 0,         /**< not known */
    SALLOC_GUARDED_REQUESTED = 1,             /**< never a result: selected, not yet guarded */
    SALLOC_GUARDED_GUARDED = 10,
};

/**
 * A profile. It belongs to the caller, who frees it with salloc_profile_free. A profile does not
 * change, so several threads may read it at a time.
 */
typedef struct salloc_profile salloc_profile;

/**
 * A running recording. A token is a name, not memory: it becomes invalid when the recording is
 * stopped.
 */
typedef struct salloc_profile_token salloc_profile_token;

/**
 * A bucket: the samples of one stack that have all other properties in common. Or one single sample
 * (salloc_profile_iterate_samples). All pointers belong to the profile, and are valid until it is
 * freed. Sizes are in bytes, and times in nanoseconds. Only the library makes such structs. Later
 * versions may add fields at the end.
 */
struct salloc_profile_sample {
    size_t size;              /**< of this struct in the library: fields beyond it do not exist */
    const void *const *stack; /**< return addresses, the allocating function's caller first */
    size_t depth;             /**< 0: the stack was not kept */
    const void *const
        *free_stack; /**< where it was freed; lifetimes of freed blocks only, else NULL */
    size_t free_depth;
    enum salloc_allocation_kind kind;
    size_t allocated_size; /**< bytes that each block occupies; 0: a sum over blocks of all sizes */
    size_t requested_size; /**< requested bytes */
    size_t alignment;      /**< requested; 0: none */
    double probability;    /**< of such a block to be sampled; 0: a sum over blocks of all sizes */
    double interval;       /**< T: mean distance of sampled bytes among blocks of this size */
    uint64_t samples;      /**< number of samples; for certain blocks (probability 1) of blocks */
    /** Weighted estimates of blocks and their bytes, in use and ever allocated. */
    double inuse_count, inuse_bytes, alloc_count, alloc_bytes;
    double resident_bytes, swapped_bytes; /**< estimate, heap profiles only */
    double fragmentation_bytes;           /**< estimate, fragmentation profiles only */
    /** Only for a single sample. 0 for a bucket of several, and where the value is not known. */
    const void *address; /**< of the block */
    int64_t time_ns;     /**< of its allocation, since 1970; to a few milliseconds */
    /**
     * Lifetimes only. 1: these blocks were still allocated at the stop, and their lifetime is until
     * then.
     */
    int censored;
    int same_cpu, same_thread; /**< freed where it was allocated: 1, 0, or -1 (not freed) */
    /** Of the row's samples, in ns; the deviation is the square root of the variance. */
    double lifetime_mean, lifetime_deviation;
    uint64_t lifetime_min, lifetime_max;
    enum salloc_guarded_status guarded_status;
    /**
     * As same_cpu, also -1 where the kernel does not tell. vCPU: the kernel's concurrency number
     * (mm_cid).
     */
    int same_vcpu, same_l3, same_numa;
    /**
     * Parts of resident_bytes: locked into memory (mlock), and on pages full of zeros. Estimates,
     * heap profiles only; 0 where the kernel does not tell.
     */
    double locked_bytes, zero_bytes;
    /**
     * The kernel's numbers of the thread that allocated and (lifetimes) of the thread that freed. 0
     * unless this is a single sample, or salloc_set_profile_threads separates buckets by thread.
     * The kernel reuses the numbers of threads that have ended.
     */
    unsigned thread, free_thread;
};

/**
 * An estimate with its confidence interval. The ends allow for blocks of which no sample was taken:
 * they are quantiles of a negative binomial distribution (doc/sampling.md, "Intervals"). A set
 * without samples has the estimate 0 and the lower end 0, but a positive upper end. An upper end is
 * infinite if blocks may have been allocated while sampling was off.
 */
struct salloc_estimate {
    uint64_t samples;
    double count, count_low, count_high;
    double bytes, bytes_low, bytes_high;
};

/** The metrics of salloc_profile_estimate_matching. */
enum salloc_metric {
    SALLOC_METRIC_COUNT = 0, /**< blocks: in use, or allocated, as the profile's type says */
    SALLOC_METRIC_BYTES = 1, /**< bytes that these occupy */
    SALLOC_METRIC_FRAGMENTATION = 2, /**< free bytes beside them; fragmentation profiles only */
    SALLOC_METRIC_RESIDENT = 3,      /**< bytes in memory; heap profiles only */
    SALLOC_METRIC_SWAPPED = 4,       /**< bytes in swap; heap profiles only */
    SALLOC_METRIC_LIFETIME = 5,      /**< mean nanoseconds of a block's life; lifetimes only */
    SALLOC_METRIC_LOCKED = 6,        /**< bytes locked into memory; heap profiles only */
    SALLOC_METRIC_ZERO = 7,          /**< bytes of pages full of zeros; heap profiles only */
};

/** An estimate of one metric, with its confidence interval, as in struct salloc_estimate. */
struct salloc_interval {
    uint64_t samples;
    double value, low, high;
};

/** A question about a set of samples. Set unused fields to zero. */
struct salloc_profile_query {
    size_t size; /**< sizeof(struct salloc_profile_query) */
    /**
     * Tells whether a sample is in the set. salloc calls it once for each single sample if the
     * profile has them (salloc_profile_iterate_samples), else once for each bucket
     * (salloc_profile_iterate). NULL: all samples are in the set.
     */
    int (*match)(const struct salloc_profile_sample *sample, void *arg);
    void *arg;
    enum salloc_metric metric;
    enum salloc_estimator estimator; /**< of COUNT and BYTES; of other metrics only WEIGHTED */
    double level;                    /**< as 0.95 for 95 % */
    /**
     * COUNT only: the smallest bytes that any block of the set can occupy, because of what match
     * selects. One sample stands for many small blocks, so the upper end is lower if the set cannot
     * contain small ones. 0: it can.
     */
    size_t smallest_block;
};

/**
 * Returns the mean distance in bytes between sampled bytes. 0: sampling is off; 1: every block is
 * sampled.
 */
int64_t salloc_get_sampling_interval(void);

/**
 * Sets the sampling interval, at once in all threads. Earlier samples keep the probability with
 * which they were taken.
 *
 * @param bytes mean distance between sampled bytes; 1: sample every block; 0 or less: sampling is
 *         off.
 * @return 0, or -1 with errno EAGAIN (a fork is in progress).
 */
int salloc_set_sampling_interval(int64_t bytes);

/**
 * Sets whether samples of different threads have buckets of their own in profiles, with the label
 * thread_id. The default is the option profile_threads (off). Recordings use the setting when they
 * take a sample, other profiles when they are made.
 */
void salloc_set_profile_threads(int on);

/**
 * Starts recording allocations. Up to 64 recordings may run at a time.
 *
 * A child of fork has the recordings of its parent, with their contents so far. The same tokens
 * stop them in both processes, each for itself. From the fork on, a recording has the allocations
 * of its own process.
 *
 * @return a token for salloc_profile_token_stop, or NULL with errno EAGAIN (64 recordings run
 *         already, memory is short, or a fork is in progress).
 */
salloc_profile_token *salloc_start_allocation_profile(void);

/** As salloc_start_allocation_profile, but records how long blocks live. */
salloc_profile_token *salloc_start_lifetime_profile(void);

/**
 * Starts recording each sample and each free of one, in order, with times, threads, CPUs, stacks
 * and sizes: an event trace. The recording keeps the last events that fit into its memory, 120
 * bytes each, and counts the older ones. Its profile has the type EVENTS, and lists the events
 * (salloc_profile_iterate_events). Buckets, estimates and most formats of files are about the
 * allocations among them. Files .pb and .pb.gz have all events, and .json is for Perfetto.
 *
 * @param max_bytes memory for events, at least a page and at most 16 GiB. It becomes resident as it
 *         is filled.
 * @return as salloc_start_allocation_profile; EINVAL also for 0 bytes.
 */
salloc_profile_token *salloc_start_event_trace(size_t max_bytes);

/**
 * Stops a recording.
 *
 * @return its profile, which the caller frees with salloc_profile_free, or NULL with errno EINVAL
 *         (the token is null or was stopped before), ENOMEM or EAGAIN (a fork is in progress).
 *         After ENOMEM and EAGAIN the recording goes on, and can be stopped later.
 */
salloc_profile *salloc_profile_token_stop(salloc_profile_token *token);

/**
 * Makes a profile of the present state.
 *
 * @param type HEAP, FRAGMENTATION or PEAK_HEAP. ALLOCATIONS gives what each stack has allocated
 *         since the program began.
 * @return the profile, which the caller frees with salloc_profile_free, or NULL with errno EINVAL
 *         (another type), ENOMEM, EAGAIN (a fork is in progress).
 */
salloc_profile *salloc_snapshot_profile(enum salloc_profile_type type);

/**
 * Calls callback for every bucket of the profile, in no particular order, until callback returns
 * non-zero. The struct is valid during the call only; its pointers are valid until the profile is
 * freed.
 *
 * @return the last return value of callback, or 0 without a call; -1 with errno EINVAL for a null
 *         argument.
 */
int salloc_profile_iterate(const salloc_profile *profile,
                           int (*callback)(const struct salloc_profile_sample *sample, void *arg),
                           void *arg);

/**
 * Calls callback for every single sample of a HEAP, FRAGMENTATION or PEAK_HEAP profile, until
 * callback returns non-zero. The estimates are those of the sample itself, and add up to those of
 * the buckets. A PEAK_HEAP profile includes samples of blocks freed since. Some of these are
 * merged: `samples` is more than 1, and the address is 0. Recordings have no single samples.
 *
 * @return as salloc_profile_iterate; EINVAL also for another type of profile.
 */
int salloc_profile_iterate_samples(const salloc_profile *profile,
                                   int (*callback)(const struct salloc_profile_sample *sample,
                                                   void *arg),
                                   void *arg);

/**
 * Estimates blocks and bytes of one stack, or of the whole profile, with a confidence interval. For
 * HEAP, PEAK_HEAP and FRAGMENTATION these are the blocks in use (for wasted bytes, use
 * salloc_profile_estimate_matching). For LIFETIMES these are the blocks allocated, freed since or
 * not. A stack that is not in the profile is a set without samples.
 *
 * @param stack return addresses as in struct salloc_profile_sample; NULL with depth 0: the whole
 *         profile.
 * @param level confidence level between 0 and 1: 0.95 for 95 %.
 * @return 0, or -1 with errno EINVAL (null argument, NULL stack with a depth, level not between 0
 *         and 1, unknown estimator).
 */
int salloc_profile_estimate(const salloc_profile *profile, const void *const *stack, size_t depth,
                            enum salloc_estimator estimator, double level,
                            struct salloc_estimate *ret);

/**
 * Estimates one metric of any set of samples, with a confidence interval: of a function with its
 * callees, of a module, of a range of sizes, of a thread.
 *
 * - FRAGMENTATION: the upper end is wide, because one small block may hold up a span. It is at most
 *   all free bytes of spans, unless the estimate is higher.
 * - LIFETIME: the interval is approximate (doc/sampling.md, "Any set of samples"). Blocks that are
 *   still allocated at the stop count with their time until then. With fewer than 4 samples the
 *   interval is 0 to infinity, unless all samples are certain.
 *
 * @return 0, or -1 with errno EINVAL (null argument, unknown size of the query, metric that the
 *         profile does not have, unknown estimator or one that the metric does not allow, level not
 *         between 0 and 1), ENODATA (RESIDENT and its parts, SWAPPED: the kernel does not tell).
 */
int salloc_profile_estimate_matching(const salloc_profile *profile,
                                     const struct salloc_profile_query *query,
                                     struct salloc_interval *ret);

/**
 * Writes the profile to a file. The ending of the path selects the format:
 *
 *   .pb.gz, .pb            profile.proto for pprof and others, in a gzip container or plain
 *   .heap                  gperftools' text for google-pprof, jeprof, go tool pprof
 *   .jeprof                jemalloc's text for jeprof
 *   .collapsed, .folded    a line for each stack, for flame graphs
 *   .txt                   a table for people, with confidence intervals
 *   .json                  Trace Event Format for Perfetto; EVENTS profiles only
 *
 * salloc replaces %p by the PID, %e by the name of the executable, %n by a number that grows with
 * each file of the process, and %% by %. Only the owner can read the file. The file replaces a file
 * of that name, and appears when it is complete, or not at all. A device, a pipe or a socket of
 * that name is written to. A link stays: it leads to one of these. The function needs 16 KiB of
 * stack. stderr, stdout and fd:N are open descriptors. An ending of fd:N selects a
 * format, too (doc/tuning.md).
 *
 * @return 0, or -1 with errno EINVAL (null argument, unknown ending or placeholder), ENAMETOOLONG,
 *         or the error of creating or writing the file.
 */
int salloc_profile_write_file(const salloc_profile *profile, const char *path);

/**
 * Writes the profile to an open descriptor, in a format that is named by its ending (".pb.gz"), as
 * for salloc_profile_write_file. The descriptor stays open, and must not be a socket that does not
 * block: EAGAIN is an error. A pipe without a reader gives EPIPE and no signal. A write that fails
 * may have written a part.
 *
 * @return as salloc_profile_write_file.
 */
int salloc_profile_write_fd(const salloc_profile *profile, int fd, const char *format);

/**
 * Passes the bytes of such a file to a function, one piece of at most 64 KiB after the other, until
 * it returns non-zero.
 *
 * @return 0, or -1 with errno: the number that `write` has returned, if it is positive; ECANCELED
 *         if it is negative; EINVAL (null argument, unknown format); ENOMEM.
 */
int salloc_profile_write(const salloc_profile *profile, const char *format,
                         int (*write)(void *arg, const void *data, size_t size), void *arg);

/** What salloc_profile_get_info tells. Later versions may add fields at the end. */
struct salloc_profile_info {
    size_t size; /**< set by the caller: sizeof(struct salloc_profile_info) */
    enum salloc_profile_type type;
    int64_t time_ns;     /**< since 1970: start of the recording, the peak, or the snapshot */
    int64_t duration_ns; /**< of a recording; 0: a profile of one moment */
    int64_t interval;    /**< sampling interval in bytes when the profile was made; 0: off */
    uint64_t samples;    /**< in the profile */
    /** Losses since the program began: samples for which there was no memory, samples whose stack
     * had no room, and samples whose stack made room for others after their block was freed. */
    uint64_t samples_dropped, stacks_dropped, stacks_evicted;
    uint64_t events;      /**< in an EVENTS profile */
    uint64_t events_lost; /**< older ones, for which its memory was too small */
};

/**
 * Stores what a profile is about. A library that is older than the program's header sets the fields
 * that it does not know to 0.
 *
 * @return 0, or -1 with errno EINVAL (null argument, or a size that no version has).
 */
int salloc_profile_get_info(const salloc_profile *profile, struct salloc_profile_info *info);

enum salloc_event {
    SALLOC_EVENT_ALLOCATED = 0, /**< a block was allocated, and is sampled */
    SALLOC_EVENT_FREED = 1,     /**< a sampled block is being freed */
};

/**
 * A sample that is taken, or whose block is freed. Times are in nanoseconds since 1970. Only the
 * library makes such structs. Later versions may add fields at the end.
 */
struct salloc_sample_event {
    size_t size; /**< of this struct in the library: fields beyond it do not exist */
    enum salloc_event event;
    enum salloc_allocation_kind kind; /**< of the allocation */
    /** Number of the sample, from 1, in the order of allocation. It names the block from its
     * allocation to its free, while addresses are used again. */
    uint64_t handle;
    const void *address;                              /**< of the block */
    size_t requested_size, allocated_size, alignment; /**< as in struct salloc_profile_sample */
    double weight;                 /**< the allocations that the sample stands for: 1/p */
    const void *const *stack;      /**< of the allocation: return addresses, the caller first */
    size_t depth;                  /**< 0: the stack was not kept */
    const void *const *free_stack; /**< FREED: of the free; NULL: not known */
    size_t free_depth;
    /** Of the allocation; to a few milliseconds if nothing wanted the time when it came. */
    int64_t time_ns;
    int64_t free_time_ns;         /**< FREED: of the free */
    unsigned thread, free_thread; /**< the kernel's numbers of the threads */
    int cpu, free_cpu;            /**< -1: not known */
};

/**
 * Calls callback for every event of an EVENTS profile, oldest first, until callback returns
 * non-zero. A free may be that of a block whose allocation is not in the profile.
 *
 * @return as salloc_profile_iterate; EINVAL also for another type of profile.
 */
int salloc_profile_iterate_events(const salloc_profile *profile,
                                  int (*callback)(const struct salloc_sample_event *event,
                                                  void *arg),
                                  void *arg);

/**
 * Adds a function that is called for each sample (when the block was allocated, before the program
 * gets it) and for each free of a sampled block (before the memory is used again). A block that
 * realloc moves is freed and allocated, and so is a large block whose pages become more or fewer. A
 * block that stays as it is has no event; its free has the requested size of the last realloc. At
 * most 8 hooks exist.
 *
 * The call comes from inside malloc, free and their kin, in the thread that called them. That
 * thread holds no lock of salloc's. Hooks may run in several threads at a time.
 *
 * - A hook may allocate and free. What it allocates is not sampled. If it frees a sampled block, it
 *   is called for that, inside the call.
 * - It must not pass the block's address to malloc's family, malloc_usable_size included: the block
 *   is not yet, or no longer, the program's.
 * - It must not fork, nor throw, nor leave by longjmp, nor be cancelled: a thread that may be
 *   cancelled disables that while the hook calls a cancellation point, such as write.
 * - It must not wait for a lock that another thread may hold while it allocates, frees or forks.
 * - The struct, and the stacks, are valid during the call only.
 *
 * A child of fork keeps the hooks.
 *
 * @return 0, or -1 with errno EINVAL (null function), EAGAIN (8 hooks exist).
 */
int salloc_add_sample_hook(void (*hook)(const struct salloc_sample_event *event, void *arg),
                           void *arg);

/**
 * Removes a hook that was added with this argument. A thread that was about to call it may still do
 * so once.
 *
 * @return 0, or -1 with errno ENOENT (there is none).
 */
int salloc_remove_sample_hook(void (*hook)(const struct salloc_sample_event *event, void *arg),
                              void *arg);

/** Frees a profile and all that its structs point to. NULL is allowed. */
void salloc_profile_free(salloc_profile *profile);

#ifdef __cplusplus
}
#endif

#endif
