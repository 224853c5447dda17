/* SPDX-License-Identifier: Apache-2.0 */
/* The table of inclusion probabilities; see rates.h. */
#include "sampling/estimate/rates.h"

#include "alloc/base/atomic.h"
#include "alloc/base/layout.h"
#include "alloc/base/math.h"
#include "alloc/base/size_class.h"
#include "sampling/estimate/estimate.h"
#include "sampling/estimate/random_variates.h"

#include <math.h>
#include <stdbool.h>

#define LOG_CERTAIN -5 /* where this is log(1-p), p is certainly above SA_RATE_CERTAIN */

struct class_rate {
    double p, interval, log_fail; /* atomic, relaxed: see rates.h */
};

static struct rates {
    uint32_t generation; /* atomic: published with release */
    struct rates_copy {
        int64_t interval; /* atomic, relaxed */
        double log_fail;  /* the same: log(1-1/T), of a byte not to be sampled */
        struct class_rate of[SA_CLASSES_MAX];
        struct past {
            double bytes_weight, blocks_weight, bytes; /* the same: as in struct sa_unseen */
        } past;
    } copy[SA_RATE_COPIES];
} rates;

SA_LAYOUT = {
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

static double real_load(const double *p)
{
    double v;

    __atomic_load(p, &v, __ATOMIC_RELAXED);
    return v;
}

static void real_store(double *p, double v)
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

/* The rate that follows from p for blocks of the size. */
static struct sa_rate rate_from(double p, double bytes)
{
    struct sa_rate r = {.p = p, .interval = 1};

    if (p > 0 && p < 1) {
        r.log_fail = sa_log1p(-p);
        r.interval = -1 / sa_expm1(r.log_fail / bytes);
    }
    return r;
}

/* The rate of blocks of the size under an interval, given log(1-1/T): what is known need not be
 * computed. */
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
    real_store(&copy->of[cls].p, r.p);
    real_store(&copy->of[cls].interval, r.interval);
    real_store(&copy->of[cls].log_fail, r.log_fail);
}

static void rates_publish(int64_t interval, const double *p)
{
    uint32_t generation = sa_load_relaxed(&rates.generation) + 1;
    struct rates_copy *copy = copy_of(generation);
    double log_fail = interval > 1 ? sa_log1p(-1 / (double)interval) : 0;

    /* Who sees any of the stores below sees the generation before, too: it makes the copy
     * invalid. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    sa_store_relaxed(&copy->interval, interval);
    real_store(&copy->log_fail, log_fail);
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
 * What the rates of a copy may miss; what was before them is left out. Blocks without a class are
 * no rarer than the smallest class, as they have the same T; only where classes have rates of their
 * own can they be.
 */
SA_RARE static void copy_unseen(const struct rates_copy *copy, struct sa_unseen *ret)
{
    int64_t interval = sa_load_relaxed(&copy->interval);

    *ret = (struct sa_unseen){.bytes = interval > 1 ? (double)interval : 0};
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        double p = real_load(&copy->of[cls].p), t = real_load(&copy->of[cls].interval);

        if (p < 1) {
            ret->bytes = larger(ret->bytes, p > 0 ? t : INFINITY);
            ret->blocks = larger(ret->blocks, p > 0 ? 1 / p : INFINITY);
        }
    }
}

/* As rates_publish, but first writes down what the rates until now may miss. */
SA_RARE static void rates_set(int64_t interval, const double *p)
{
    uint32_t generation = sa_load_relaxed(&rates.generation);
    const struct rates_copy *before = copy_of(generation);
    struct past *past = &copy_of(generation + 1)->past;
    struct sa_unseen u;

    copy_unseen(before, &u);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    real_store(&past->bytes_weight, larger(before->past.bytes_weight, u.bytes));
    real_store(&past->blocks_weight, larger(before->past.blocks_weight, u.blocks));
    real_store(&past->bytes, INFINITY);
    rates_publish(interval, p);
}

SA_RARE void sa_rates_set_interval(int64_t interval)
{
    rates_set(interval > 0 ? interval : 0, NULL);
}

SA_RARE void sa_rates_set_classes(const double *p)
{
    rates_set(sa_rates_interval(), p);
}

SA_RARE void sa_rates_bound_past(double bytes)
{
    real_store(&copy_of(sa_load_relaxed(&rates.generation))->past.bytes, bytes);
}

/* Whether what was read from the copy of a generation was read before it can have been
 * overwritten. */
static bool copy_was_valid(uint32_t generation)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return sa_load_relaxed(&rates.generation) - generation < SA_RATE_COPIES - 1;
}

/* False: it was too late. */
static bool read_class(unsigned cls, uint32_t generation, struct sa_rate *ret)
{
    const struct class_rate *from = &copy_of(generation)->of[cls];

    ret->generation = generation;
    ret->p = real_load(&from->p);
    ret->interval = real_load(&from->interval);
    ret->log_fail = real_load(&from->log_fail);
    return copy_was_valid(generation);
}

struct sa_rate sa_rate_of_class(unsigned cls)
{
    struct sa_rate r;

    while (!read_class(cls, sa_load_acquire(&rates.generation), &r))
        ;
    return r;
}

bool sa_rate_of_class_then(unsigned cls, uint32_t generation, uint32_t mask, struct sa_rate *ret)
{
    uint32_t now = sa_load_acquire(&rates.generation);

    return read_class(cls, now - ((now - generation) & mask), ret);
}

int64_t sa_rates_interval(void)
{
    uint32_t generation;
    int64_t interval;

    do {
        generation = sa_load_acquire(&rates.generation);
        interval = sa_load_relaxed(&copy_of(generation)->interval);
    } while (!copy_was_valid(generation));
    return interval;
}

/* The interval, and log(1-1/T) of it. */
static uint32_t read_interval(double *ret_interval, double *ret_log_fail)
{
    uint32_t generation;

    do {
        const struct rates_copy *copy;

        generation = sa_load_acquire(&rates.generation);
        copy = copy_of(generation);
        *ret_interval = (double)sa_load_relaxed(&copy->interval);
        *ret_log_fail = real_load(&copy->log_fail);
    } while (!copy_was_valid(generation));
    return generation;
}

bool sa_rate_try_size(size_t bytes, uint64_t *rng, struct sa_rate *ret)
{
    double interval, log_fail, u = 0;
    uint32_t generation = read_interval(&interval, &log_fail);

    if (interval < 1)
        return false;
    if (interval > 1 && log_fail * (double)bytes >= LOG_CERTAIN) {
        u = sa_variate_uniform(rng);
        if (u > -log_fail * (double)bytes) /* which is above p */
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
        ret->past_bytes_weight = real_load(&from->past.bytes_weight);
        ret->past_blocks_weight = real_load(&from->past.blocks_weight);
        ret->past_bytes = real_load(&from->past.bytes);
    } while (!copy_was_valid(generation));
    ret->past_blocks = ret->past_bytes / sa_size_classes.of[1].size;
}

uint32_t sa_rates_generation(void)
{
    return sa_load_acquire(&rates.generation);
}
