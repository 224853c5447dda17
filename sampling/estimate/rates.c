/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of rates (rates.h). Its words are read by any thread and written by the holder of
 * RATES, so all of them are relaxed atomics. The generation orders them: publication is a release,
 * and a reader's first load of it is an acquire.
 */
#include "sampling/estimate/rates.h"

#include "alloc/base/atomic.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/base/math.h"
#include "alloc/base/size_class.h"
#include "sampling/estimate/estimate.h"
#include "sampling/estimate/random_variates.h"

#include <math.h>
#include <stdbool.h>

#define LOG_CERTAIN -5 /* log(1-p) of a p that is above SA_RATE_CERTAIN: 0.9933 */

struct class_rate {
    double p, interval, log_fail; /* atomic, relaxed; as in struct sa_rate */
};

/* Written under RATES. */
static struct rates {
    uint32_t generation; /* atomic; published with release. The first table is 1 */
    struct rates_copy {
        int64_t interval; /* T; atomic, relaxed */
        double log_fail;  /* log(1-1/T), 0 for T of at most 1; atomic, relaxed */
        struct class_rate of[SA_CLASSES_MAX];
        struct past {
            /* The past_ fields of struct sa_unseen; atomic, relaxed. */
            double bytes_weight, blocks_weight, bytes;
        } past;
    } copy[SA_RATE_COPIES];
} rates;

SA_LAYOUT = {
    SA_LAYOUT_STATE("rates", rates, generation),
    SA_LAYOUT_STATE("rates", rates, copy),
    SA_LAYOUT_VALUE(SA_RATE_COPIES),
    SA_LAYOUT_FIELD(struct rates, generation),
    SA_LAYOUT_FIELD(struct rates, copy),
    SA_LAYOUT_SIZE(struct rates_copy),
    SA_LAYOUT_FIELD(struct rates_copy, interval),
    SA_LAYOUT_FIELD(struct rates_copy, of),
    SA_LAYOUT_FIELD(struct rates_copy, past.bytes_weight),
    SA_LAYOUT_FIELD(struct rates_copy, past.blocks_weight),
    SA_LAYOUT_FIELD(struct rates_copy, past.bytes),
    SA_LAYOUT_SIZE(struct class_rate),
    SA_LAYOUT_FIELD(struct class_rate, p),
    SA_LAYOUT_FIELD(struct class_rate, interval),
};
SA_LAYOUT_STATIC_ADDRESS("rates", rates);

static struct rates_copy *copy_of(uint32_t generation)
{
    return &rates.copy[(generation - 1) % SA_RATE_COPIES];
}

static double double_load(const double *p)
{
    double v;

    __atomic_load(p, &v, __ATOMIC_RELAXED);
    return v;
}

static void double_store(double *p, double v)
{
    __atomic_store(p, &v, __ATOMIC_RELAXED);
}

SA_RARE double sa_rate_probability(double interval, double bytes)
{
    double p;

    if (interval <= 0)
        return 0;
    if (interval <= 1)
        return 1;
    p = -sa_expm1(bytes * sa_log1p(-1 / interval));
    return p > SA_RATE_CERTAIN ? 1 : p;
}

/* Returns the rate of blocks of `bytes` with probability p. Its interval is the T that gives p. */
static struct sa_rate rate_from(double p, double bytes)
{
    struct sa_rate r = {.p = p, .interval = 1};

    SA_DCHECK(p >= 0 && p <= 1 && bytes > 0);
    if (p > 0 && p < 1) {
        r.log_fail = sa_log1p(-p);
        r.interval = -1 / sa_expm1(r.log_fail / bytes);
    }
    return r;
}

/* Returns the rate of blocks of `bytes` under an interval. byte_log_fail: log(1-1/T), which callers
 * know already. */
static struct sa_rate rate_default(double interval, double byte_log_fail, double bytes)
{
    struct sa_rate r = {.interval = 1};

    if (interval <= 1) {
        r.p = interval > 0;
        return r;
    }
    r.log_fail = bytes * byte_log_fail;
    r.p = r.log_fail < LOG_CERTAIN ? 1 : -sa_expm1(r.log_fail);
    if (r.p > SA_RATE_CERTAIN)
        r.p = 1;
    else
        r.interval = interval;
    return r;
}

static void copy_set_class(struct rates_copy *copy, unsigned cls, struct sa_rate r)
{
    double_store(&copy->of[cls].p, r.p);
    double_store(&copy->of[cls].interval, r.interval);
    double_store(&copy->of[cls].log_fail, r.log_fail);
}

/* Fills the next copy of the table and makes it the current one. p: the probability of each class;
 * NULL: the interval gives it. */
static void rates_publish(int64_t interval, const double *p)
{
    uint32_t generation = sa_load_relaxed(&rates.generation) + 1;
    struct rates_copy *copy = copy_of(generation);
    double log_fail = interval > 1 ? sa_log1p(-1 / (double)interval) : 0;

    /* A reader that sees one of the stores below also sees the current generation. That generation
     * tells a reader of the copy's former contents that they are invalid (copy_was_valid). */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    sa_store_relaxed(&copy->interval, interval);
    double_store(&copy->log_fail, log_fail);
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        copy_set_class(copy, cls,
                       p ? rate_from(p[cls], sa_size_classes.of[cls].size)
                         : rate_default((double)interval, log_fail, sa_size_classes.of[cls].size));
    sa_store_release(&rates.generation, generation);
}

void sa_rates_init(int64_t interval)
{
    copy_of(rates.generation + 1)->past = (struct past){0, 0, 0};
    rates_publish(interval > 0 ? interval : 0, NULL);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/*
 * Stores the weights of the rarest blocks under the rates of the copy in *ret, without the past.
 * Blocks without a class have the default T. Their 1/p is at most that of the smallest class,
 * unless classes have rates of their own.
 */
SA_RARE static void copy_unseen(const struct rates_copy *copy, struct sa_unseen *ret)
{
    int64_t interval = sa_load_relaxed(&copy->interval);

    *ret = (struct sa_unseen){.bytes = interval > 1 ? (double)interval : 0};
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        double p = double_load(&copy->of[cls].p), t = double_load(&copy->of[cls].interval);

        if (p < 1) {
            ret->bytes = larger(ret->bytes, p > 0 ? t : INFINITY);
            ret->blocks = larger(ret->blocks, p > 0 ? 1 / p : INFINITY);
        }
    }
}

/* Publishes a table as rates_publish does. Before, it stores the weights of the rates until now as
 * those of the past. The bytes of the past are unknown until sa_rates_bound_past. */
SA_RARE static void rates_set(int64_t interval, const double *p)
{
    uint32_t generation = sa_load_relaxed(&rates.generation);
    const struct rates_copy *before = copy_of(generation);
    struct past *past = &copy_of(generation + 1)->past;
    struct sa_unseen u;

    copy_unseen(before, &u);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    double_store(&past->bytes_weight, larger(before->past.bytes_weight, u.bytes));
    double_store(&past->blocks_weight, larger(before->past.blocks_weight, u.blocks));
    double_store(&past->bytes, INFINITY);
    rates_publish(interval, p);
}

SA_RARE void sa_rates_set_interval(int64_t interval)
{
    SA_DCHECK_HELD(SA_RANK_RATES);
    rates_set(interval > 0 ? interval : 0, NULL);
}

SA_RARE void sa_rates_set_classes(const double *p)
{
    SA_DCHECK_HELD(SA_RANK_RATES);
    rates_set(sa_rates_interval(), p);
}

SA_RARE void sa_rates_bound_past(double bytes)
{
    SA_DCHECK_HELD(SA_RANK_RATES);
    double_store(&copy_of(sa_load_relaxed(&rates.generation))->past.bytes, bytes);
}

/* Returns whether all that the caller has read from the copy of this generation was read before a
 * change began to overwrite the copy. The fence keeps the caller's loads before that of the
 * generation. */
static bool copy_was_valid(uint32_t generation)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return sa_load_relaxed(&rates.generation) - generation < SA_RATE_COPIES - 1;
}

/* Reads the rate of the class from the copy of the generation. False: a change has overwritten the
 * copy. */
static bool read_class(unsigned cls, uint32_t generation, struct sa_rate *ret)
{
    const struct class_rate *from = &copy_of(generation)->of[cls];

    SA_DCHECK(cls > 0 && cls < sa_size_classes.count);
    ret->generation = generation;
    ret->p = double_load(&from->p);
    ret->interval = double_load(&from->interval);
    ret->log_fail = double_load(&from->log_fail);
    return copy_was_valid(generation);
}

struct sa_rate sa_rate_of_class(unsigned cls)
{
    struct sa_rate r;

    while (!read_class(cls, sa_load_acquire(&rates.generation), &r))
        ;
    return r;
}

bool sa_rate_of_class_at(unsigned cls, uint32_t generation, uint32_t mask, struct sa_rate *ret)
{
    uint32_t now = sa_load_acquire(&rates.generation);

    return read_class(cls, now - ((now - generation) & mask), ret);
}

SA_RARE int64_t sa_rates_interval(void)
{
    uint32_t generation;
    int64_t interval;

    do {
        generation = sa_load_acquire(&rates.generation);
        interval = sa_load_relaxed(&copy_of(generation)->interval);
    } while (!copy_was_valid(generation));
    return interval;
}

/* Stores T and log(1-1/T) of the current table. Returns its generation. */
static uint32_t read_interval(double *ret_interval, double *ret_log_fail)
{
    uint32_t generation;

    do {
        const struct rates_copy *copy;

        generation = sa_load_acquire(&rates.generation);
        copy = copy_of(generation);
        *ret_interval = (double)sa_load_relaxed(&copy->interval);
        *ret_log_fail = double_load(&copy->log_fail);
    } while (!copy_was_valid(generation));
    return generation;
}

bool sa_rate_decide_size(size_t bytes, uint64_t *rng, struct sa_rate *ret)
{
    double interval, log_fail, u = 0;
    uint32_t generation = read_interval(&interval, &log_fail);

    if (interval < 1)
        return false;
    if (interval > 1 && log_fail * (double)bytes >= LOG_CERTAIN) {
        u = sa_variate_uniform(rng);
        if (u > -log_fail * (double)bytes) /* above p, as -x >= 1-exp(x): saves the exponential */
            return false;
    }
    *ret = rate_default(interval, log_fail, (double)bytes);
    ret->generation = generation;
    return u <= ret->p;
}

SA_RARE void sa_rates_unseen(struct sa_unseen *ret)
{
    uint32_t generation;

    do {
        const struct rates_copy *from;

        generation = sa_load_acquire(&rates.generation);
        from = copy_of(generation);
        copy_unseen(from, ret);
        ret->past_bytes_weight = double_load(&from->past.bytes_weight);
        ret->past_blocks_weight = double_load(&from->past.blocks_weight);
        ret->past_bytes = double_load(&from->past.bytes);
    } while (!copy_was_valid(generation));
    ret->past_blocks = ret->past_bytes / sa_size_classes.of[1].size;
}

uint32_t sa_rates_generation(void)
{
    return sa_load_acquire(&rates.generation);
}
