/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Profiles of the heap: which code has allocated what, estimated from a random sample of all allocations, with
 * error bars. Sampling is always on, at 2 MiB unless set otherwise: every allocated byte has a chance of
 * 1 in 2 MiB to bring its block into the sample. doc/sampling.md explains the numbers.
 *
 * Without code: SALLOC_CONF="profile:heap.%p.pb.gz,profile_type:heap" (doc/tuning.md).
 *
 * Unless a function says otherwise it may be called from any thread at any time but not from a signal handler,
 * returns 0 or a pointer on success and -1 or NULL with errno on failure, and writes no result on failure. Functions need
 * 12 KiB of stack, salloc_profile_write_file 16 KiB.
 */
#ifndef SALLOC_PROFILE_H
#define SALLOC_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum salloc_profile_type {
    SALLOC_PROFILE_HEAP = 0,          /**< what is allocated now; and per stack, what ever was */
    SALLOC_PROFILE_FRAGMENTATION = 1, /**< free memory held up by what is allocated now */
    SALLOC_PROFILE_PEAK_HEAP = 2,     /**< what was allocated when most was */
    SALLOC_PROFILE_ALLOCATIONS = 3,   /**< what was allocated between start and stop */
    SALLOC_PROFILE_LIFETIMES = 4, /**< blocks allocated, and mostly freed, between start and stop */
};

/** How a sample is extrapolated. All are unbiased; the first has the least variance. */
enum salloc_estimator {
    SALLOC_ESTIMATE_WEIGHTED = 0, /**< a sample stands for 1/p blocks (Horvitz-Thompson) */
    SALLOC_ESTIMATE_OFFSET = 1,   /**< T + a - f bytes (tcmalloc) */
    SALLOC_ESTIMATE_POISSON = 2,  /**< T bytes for each sampled byte of the block (heapprofd) */
    SALLOC_ESTIMATE_FAILED = 3,   /**< failed trials before it, and the rest of the block (.NET) */
};

/** How a block was asked for. */
enum salloc_allocation_kind {
    SALLOC_KIND_MALLOC = 0,
    SALLOC_KIND_NEW = 1,     /**< C++ operator new */
    SALLOC_KIND_ALIGNED = 2, /**< aligned_alloc and its relatives, aligned operator new */
};

/** Whether a sample is guarded (doc/hardening.md), or why not. Numbers and meanings are google/tcmalloc's. */
enum salloc_guarded_status {
    SALLOC_GUARDED_FILTERED = -7,             /**< its stack had its share lately */
    SALLOC_GUARDED_MPROTECT_FAILED = -6,      /**< the kernel refused */
    SALLOC_GUARDED_NO_AVAILABLE_SLOTS = -5,   /**< all slots are in use */
    SALLOC_GUARDED_RATE_LIMITED = -3,         /**< it was not its turn, or too soon after another */
    SALLOC_GUARDED_DISABLED = -2,             /**< guarded_sample:0 */
    SALLOC_GUARDED_LARGER_THAN_ONE_PAGE = -1, /**< too large for a slot, or aligned to too much */
    SALLOC_GUARDED_NOT_ATTEMPTED = 0,         /**< not known */
    SALLOC_GUARDED_REQUESTED = 1,             /**< never a result: chosen, but not yet guarded */
    SALLOC_GUARDED_GUARDED = 10,
};

/** A profile. Belongs to the caller, who frees it with salloc_profile_free. It does not change. */
typedef struct salloc_profile salloc_profile;

/** A running recording. Not memory: a name that becomes invalid when it is stopped. */
typedef struct salloc_profile_token salloc_profile_token;

/**
 * Samples of one stack that have everything else in common, too; or a single one
 * (salloc_profile_iterate_samples). All pointers are valid until the profile is freed. Sizes are in bytes, times in
 * nanoseconds. Only the library makes such structs, and fields may be added at the end.
 */
struct salloc_profile_sample {
    size_t size;              /**< of this struct in the library: what lies beyond is not there */
    const void *const *stack; /**< return addresses, the allocating function's caller first */
    size_t depth;             /**< 0: the stack could not be kept */
    const void *const
        *free_stack; /**< where it was freed; lifetimes of freed blocks only, else NULL */
    size_t free_depth;
    enum salloc_allocation_kind kind;
    size_t allocated_size; /**< bytes that each block occupies; 0: a sum over blocks of all sizes */
    size_t requested_size; /**< bytes that were asked for */
    size_t alignment;      /**< asked for; 0: none */
    double probability;    /**< of such a block to be sampled; 0: a sum over blocks of all sizes */
    double interval;       /**< T: mean distance of sampled bytes among blocks of this size */
    uint64_t samples; /**< how many there are; for a certain block (probability 1) the blocks */
    /** Estimates of blocks and their bytes (weighted), in use and ever allocated. */
    double inuse_count, inuse_bytes, alloc_count, alloc_bytes;
    double resident_bytes, swapped_bytes; /**< estimate, heap profiles only */
    double fragmentation_bytes;           /**< estimate, fragmentation profiles only */
    /** Of a single sample only; 0 of several, and where it is not known. */
    const void *address; /**< of the block */
    int64_t time_ns;     /**< of its allocation, since 1970; to a few milliseconds */
    /** Lifetimes only, of these blocks. A censored one was still allocated at the stop: its time is until then. */
    int censored;
    int same_cpu, same_thread; /**< freed where it was allocated: 1, 0, or -1 (not freed) */
    double lifetime_mean, lifetime_deviation;
    uint64_t lifetime_min, lifetime_max;
    enum salloc_guarded_status guarded_status;
    /** As same_cpu. vCPU: the kernel's concurrency number (mm_cid). -1 also where the kernel does not tell. */
    int same_vcpu, same_l3, same_numa;
    /**
     * Parts of resident_bytes: locked into memory (mlock), and in pages that hold nothing but zeros. Estimates, heap
     * profiles only; 0 where the kernel does not tell.
     */
    double locked_bytes, zero_bytes;
    /**
     * The kernel's number of the thread that allocated, and (lifetimes) of the one that freed; 0 unless it is a single
     * sample, or rows are told apart by thread: salloc_set_profile_threads. The kernel gives numbers of threads that have
     * ended to others.
     */
    unsigned thread, free_thread;
};

/**
 * An estimate with its confidence interval. Ends allow for blocks of which no sample was taken (doc/sampling.md): for a
 * set without samples the estimate is 0, and so is the lower end, but not the upper one. Upper ends are infinite where
 * blocks may have been allocated while sampling was off.
 */
struct salloc_estimate {
    uint64_t samples;
    double count, count_low, count_high;
    double bytes, bytes_low, bytes_high;
};

/** What an interval may be of. */
enum salloc_metric {
    SALLOC_METRIC_COUNT = 0,         /**< blocks: in use, or allocated, as the profile's type is */
    SALLOC_METRIC_BYTES = 1,         /**< bytes that these occupy */
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

/** A question about a set of samples. Zero what is not used. */
struct salloc_profile_query {
    size_t size; /**< sizeof(struct salloc_profile_query) */
    /**
     * Whether a sample is in the set. Called once for each single sample in profiles that have them
     * (salloc_profile_iterate_samples), else for each row (salloc_profile_iterate). NULL: all are.
     */
    int (*match)(const struct salloc_profile_sample *sample, void *arg);
    void *arg;
    enum salloc_metric metric;
    enum salloc_estimator estimator; /**< of COUNT and BYTES; of other metrics only WEIGHTED */
    double level;                    /**< as 0.95 for 95 % */
    /**
     * For COUNT: no block of the set occupies less, as the match says by its nature. The upper end of a number of
     * blocks is narrower if small blocks, of which a sample stands for many, cannot be in the set. 0: they can.
     */
    size_t smallest_block;
};

/**
 * Mean distance in bytes between sampled bytes; 0: sampling is off; 1: every block is sampled.
 */
int64_t salloc_get_sampling_interval(void);

/**
 * Sets the interval: 1 samples every block, 0 or less none. Takes effect at once in all threads. What was
 * sampled before keeps the probability with which it was.
 *
 * @return 0, or -1 with errno EAGAIN (a fork is in progress).
 */
int salloc_set_sampling_interval(int64_t bytes);

/**
 * Whether samples of different threads are rows of their own in profiles, with the label thread_id. At first as the
 * option profile_threads says: off. Recordings apply it to each sample when it is taken, other profiles when made.
 */
void salloc_set_profile_threads(int on);

/**
 * Starts recording allocations. Any number of recordings up to 64 may run at a time.
 *
 * A child made by fork has the recordings of its parent, with what they hold so far. The same tokens stop them in either
 * process, each for itself: from the fork on a recording has what its own process does.
 *
 * @return a token for salloc_profile_token_stop, or NULL with errno EAGAIN (64 run already, or a fork is in
 * progress), ENOMEM.
 */
salloc_profile_token *salloc_start_allocation_profile(void);

/** As salloc_start_allocation_profile, but records how long blocks live. */
salloc_profile_token *salloc_start_lifetime_profile(void);

/**
 * Stops a recording.
 *
 * @return its profile, or NULL with errno EINVAL if the token is null or was stopped before; ENOMEM or EAGAIN
 * (a fork is in progress): the recording goes on and can be stopped later.
 */
salloc_profile *salloc_profile_token_stop(salloc_profile_token *token);

/**
 * A profile of the moment: of type HEAP, FRAGMENTATION or PEAK_HEAP. ALLOCATIONS gives what was allocated
 * since the program began, per stack.
 *
 * @return the profile, or NULL with errno EINVAL (another type), ENOMEM, EAGAIN (a fork is in progress).
 */
salloc_profile *salloc_snapshot_profile(enum salloc_profile_type type);

/**
 * Calls callback for every row of the profile, in no particular order, until it returns non-zero.
 *
 * @return what the last call returned, 0 if there was none; -1 with errno EINVAL for a null argument.
 */
int salloc_profile_iterate(const salloc_profile *profile,
                           int (*callback)(const struct salloc_profile_sample *sample, void *arg),
                           void *arg);

/**
 * Calls callback for every single sample of a HEAP, FRAGMENTATION or PEAK_HEAP profile, until it returns non-zero.
 * Estimates in what it is given are the sample's own, and add up to those of the rows. A PEAK_HEAP profile has
 * samples of blocks freed since, some of them merged (`samples` is more than 1, and the address 0). Recordings have no
 * single samples.
 *
 * @return as salloc_profile_iterate; EINVAL also for another type of profile.
 */
int salloc_profile_iterate_samples(const salloc_profile *profile,
                                   int (*callback)(const struct salloc_profile_sample *sample,
                                                   void *arg),
                                   void *arg);

/**
 * Estimates blocks and bytes of one stack, or of everything (stack NULL, depth 0), with a confidence
 * interval at the level given (0.95 for 95 %). For HEAP, PEAK_HEAP and FRAGMENTATION what is in use (of what is wasted
 * see salloc_profile_estimate_matching); for LIFETIMES what was allocated, freed since or not. A stack that is not in
 * the profile is a set without samples.
 *
 * @return 0, or -1 with errno EINVAL (null argument, level not between 0 and 1, unknown estimator).
 */
int salloc_profile_estimate(const salloc_profile *profile, const void *const *stack, size_t depth,
                            enum salloc_estimator estimator, double level,
                            struct salloc_estimate *ret);

/**
 * Estimates one metric of any set of samples, with a confidence interval: of a function with all it calls, of a module,
 * of some sizes, of a thread. The upper end of FRAGMENTATION is wide, as one small block may hold up a span, but never above all
 * free bytes that there are. Of LIFETIME the interval is approximate (doc/sampling.md). The mean life is of the samples as they are, those still allocated at the stop
 * with their time until then; its interval is 0 to infinity if there are fewer than 4 samples.
 *
 * @return 0, or -1 with errno EINVAL (null argument, unknown size of the query, metric that the profile does not
 * have, unknown or unfit estimator, level not between 0 and 1), ENODATA (RESIDENT and what follows from it: the kernel does not tell).
 */
int salloc_profile_estimate_matching(const salloc_profile *profile,
                                     const struct salloc_profile_query *query,
                                     struct salloc_interval *ret);

/**
 * Writes the profile. The end of the path names the format:
 *
 *   .pb.gz, .pb            profile.proto for pprof and others, compressed or not
 *   .heap                  gperftools' text for google-pprof, jeprof, go tool pprof
 *   .jeprof                jemalloc's text for jeprof
 *   .collapsed, .folded    a line for each stack, for flame graphs
 *   .txt                   a table for people, with confidence intervals
 *
 * In the path %p is replaced by the process's number, %e by the name of its executable, %n by a number that
 * grows with each file written by the process, %% by %. The file is readable by its owner only, replaces a
 * file (or symbolic link) of the name, and appears when it is complete or not at all. Needs 16 KiB of stack.
 * stderr, stdout and fd:N, the last also with one of these endings, are open descriptors (doc/tuning.md).
 *
 * @return 0, or -1 with errno EINVAL (null argument, unknown ending or placeholder), ENAMETOOLONG, or whatever
 * creating and writing the file gave.
 */
int salloc_profile_write_file(const salloc_profile *profile, const char *path);

/** Frees a profile. NULL is allowed. */
void salloc_profile_free(salloc_profile *profile);

#ifdef __cplusplus
}
#endif

#endif
