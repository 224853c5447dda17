/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the summary of a profile, line by line (summary.h). */
#include "sampling/export/summary.h"

#include "alloc/os/sys.h"
#include "sampling/snapshot/matching.h"
#include "sampling/snapshot/residency.h"

#define LEVEL 0.95 /* of all confidence intervals */

/* The hint suggests a sampling interval with which at least this many samples are expected, but not
 * a smaller interval than this, in bytes. */
#define SAMPLES_ENOUGH 100
#define INTERVAL_MIN   1024

#define LIFE_MAX_NS 1e20 /* 3,000 years. A larger upper end is printed as none */

static const struct {
    const char *name, *what;
} types[] = {
    [SALLOC_PROFILE_HEAP] = {"heap", "what is allocated now"},
    [SALLOC_PROFILE_FRAGMENTATION] = {"fragmentation",
                                      "free memory held up by what is allocated now"},
    [SALLOC_PROFILE_PEAK_HEAP] = {"peak heap", "what was allocated when most was"},
    [SALLOC_PROFILE_ALLOCATIONS] = {"allocations", "what was allocated"},
    [SALLOC_PROFILE_LIFETIMES] = {"lifetimes", "blocks allocated, and mostly freed"},
    [SALLOC_PROFILE_EVENTS] = {"events", "what was allocated, and each free"},
};

/* Adds the date and time of nanoseconds since 1970. */
static void add_time(struct sa_fmt *f, int64_t ns)
{
    int64_t seconds = ns / 1000000000, days = seconds / 86400, of_day = seconds % 86400;
    int64_t era, day_of_era, year_of_era, day_of_year, month;

    /* Years begin in March here, so that the leap day is the last of its year, and are counted in
     * eras of 400, which all have 146097 days. 719468 days are from March 1 of year 0 to 1970. */
    days += 719468;
    era = days / 146097;
    day_of_era = days % 146097;
    year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    month = (5 * day_of_year + 2) / 153;
    sa_fmt_add(f, "%d-%02d-%02d %02d:%02d:%02d UTC", (int)(year_of_era + era * 400 + (month >= 10)),
               (int)(month < 10 ? month + 3 : month - 9),
               (int)(day_of_year - (153 * month + 2) / 5 + 1), (int)(of_day / 3600),
               (int)(of_day / 60 % 60), (int)(of_day % 60));
}

/* Estimates the main numbers of all stacks. */
static void estimate(const struct sa_profile *profile, const struct sa_by_stack *all,
                     struct salloc_estimate *ret)
{
    sa_estimate(&all->sums, &profile->unseen, SALLOC_ESTIMATE_WEIGHTED, LEVEL, ret);
}

/* Adds " (95 % interval 10 to 20)", or only the lower end if the upper end is unknown. */
static void add_interval(struct sa_fmt *f, const char *what, double low, double high)
{
    if (high < SA_ESTIMATE_UNKNOWN)
        sa_fmt_add(f, " (%s%.0F to %.0F)", what, low, high);
    else
        sa_fmt_add(f, " (at least %.0F, no upper end is known)", low);
}

/* Estimates a metric over all samples. False: the profile does not have it, or the kernel did not
 * tell. */
static bool estimate_metric(const struct sa_profile *profile, enum salloc_metric metric,
                            struct salloc_interval *ret)
{
    struct salloc_profile_query query = {.size = sizeof(query), .metric = metric, .level = LEVEL};

    return sa_profile_estimate_matching(profile, &query, ret) == 0;
}

/* Returns whether the profile has the single samples from which values are added up. */
static bool has_singles(const struct sa_profile *profile)
{
    return profile->singles || !profile->bucket_count;
}

/* Adds the line of the total. */
static void add_bytes(const struct sa_profile *profile, const struct sa_by_stack *all,
                      struct sa_fmt *f)
{
    struct salloc_estimate e;
    struct salloc_interval waste;

    estimate(profile, all, &e);
    if (profile->type == SALLOC_PROFILE_FRAGMENTATION) {
        sa_fmt_add(f, "%llu bytes wasted", (unsigned long long)all->bytes);
        if (has_singles(profile) && estimate_metric(profile, SALLOC_METRIC_FRAGMENTATION, &waste))
            add_interval(f, "95 % interval ", waste.low, waste.high);
        sa_fmt_add(f, "; in use ");
    }
    sa_fmt_add(f, "%llu bytes",
               profile->type == SALLOC_PROFILE_FRAGMENTATION ? (unsigned long long)all->inuse_bytes
                                                             : (unsigned long long)all->bytes);
    add_interval(f, "95 % interval ", e.bytes_low, e.bytes_high);
    sa_fmt_add(f, " in %llu blocks", (unsigned long long)all->count);
    add_interval(f, "", e.count_low, e.count_high);
    sa_fmt_add(f, ", from %llu samples", (unsigned long long)e.samples);
}

/* Adds the residency of the blocks in use, as far as the kernel tells. */
static void add_residency(const struct sa_profile *profile, struct sa_fmt *f)
{
    struct sa_values all = {0}, bucket;
    const struct {
        enum salloc_metric metric;
        char name[10];
        const uint64_t *bytes;
    } parts[] = {{SALLOC_METRIC_RESIDENT, "resident", &all.resident},
                 {SALLOC_METRIC_SWAPPED, "swapped", &all.swapped},
                 {SALLOC_METRIC_LOCKED, "locked", &all.locked},
                 {SALLOC_METRIC_ZERO, "zero", &all.zero}};
    const char *separator = "", *what = "95 % interval ";
    struct salloc_interval x;

    for (size_t i = 0; i < profile->bucket_count; i++) {
        sa_values_of_bucket(&profile->buckets[i], &bucket);
        all.resident += bucket.resident;
        all.swapped += bucket.swapped;
        all.locked += bucket.locked;
        all.zero += bucket.zero;
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (!estimate_metric(profile, parts[i].metric, &x))
            continue;
        sa_fmt_add(f, "%s%s %llu bytes", separator, parts[i].name,
                   (unsigned long long)*parts[i].bytes);
        add_interval(f, what, x.low, x.high);
        separator = ", ";
        what = "";
    }
}

const char *sa_summary_life(double ns, double *ret)
{
    static const struct {
        double ns;
        char name[4];
    } units[] = {{1, "ns"},     {1e3, "us"},   {1e6, "ms"},   {1e9, "s"},
                 {60e9, "min"}, {3600e9, "h"}, {86400e9, "d"}};
    size_t unit = 0;

    /* A time that would be printed as 1000.00 of a unit is 1.00 of the next. */
    while (unit + 1 < sizeof(units) / sizeof(*units) && ns >= 0.999995 * units[unit + 1].ns)
        unit++;
    *ret = ns / units[unit].ns;
    return units[unit].name;
}

/* Adds a time with its unit, behind a text. */
static void add_life(struct sa_fmt *f, const char *before, double ns)
{
    double span;
    const char *unit = sa_summary_life(ns, &span);

    sa_fmt_add(f, "%s%.2F %s", before, span, unit);
}

/* Adds the mean of all lives. The life of a block that is still live ends at the stop. */
static void add_mean_life(const struct sa_profile *profile, struct sa_fmt *f)
{
    struct salloc_interval x;

    if (!estimate_metric(profile, SALLOC_METRIC_LIFETIME, &x))
        return;
    add_life(f, "mean life, of blocks still live until the stop: ", x.value);
    if (x.high > LIFE_MAX_NS) /* as for fewer than 4 samples */
        return;
    add_life(f, " (95 % interval ", x.low);
    add_life(f, " to ", x.high);
    sa_fmt_add(f, ")");
}

/* Returns whether the profile has metrics besides the line of the total. */
static bool has_metrics(const struct sa_profile *profile)
{
    if (profile->type == SALLOC_PROFILE_HEAP)
        return profile->knows && has_singles(profile);
    if (profile->type == SALLOC_PROFILE_EVENTS)
        return true;
    if (profile->type == SALLOC_PROFILE_FRAGMENTATION)
        return profile->mixed_saved != 0;
    if (profile->type == SALLOC_PROFILE_LIFETIMES)
        for (size_t i = 0; i < profile->bucket_count; i++)
            if (profile->buckets[i].samples)
                return true;
    return false;
}

/* Adds the line of these metrics. */
static void add_metrics(const struct sa_profile *profile, struct sa_fmt *f)
{
    if (profile->type == SALLOC_PROFILE_HEAP)
        add_residency(profile, f);
    else if (profile->type == SALLOC_PROFILE_FRAGMENTATION)
        sa_fmt_add(f, "mixed spans save %llu bytes", (unsigned long long)profile->mixed_saved);
    else if (profile->type == SALLOC_PROFILE_EVENTS)
        sa_fmt_add(f, "%zu events; %llu older ones did not fit",
                   sa_event_ring_count(&profile->events),
                   (unsigned long long)sa_event_ring_lost(&profile->events));
    else
        add_mean_life(profile, f);
}

/*
 * If the interval of the total is wider than the estimate, adds a sampling interval that would make
 * it narrow: a power of two, below the present one. False: no hint is needed.
 */
static bool add_hint(const struct sa_profile *profile, const struct sa_by_stack *all,
                     struct sa_fmt *f)
{
    bool of_now =
        profile->type == SALLOC_PROFILE_HEAP || profile->type == SALLOC_PROFILE_FRAGMENTATION;
    struct salloc_estimate e;
    double bytes;
    int64_t interval = 1ll << 62;

    estimate(profile, all, &e);
    bytes = e.samples ? e.bytes : e.bytes_high;
    if (profile->interval <= 1 || e.bytes_high >= SA_ESTIMATE_UNKNOWN ||
        e.bytes_high - e.bytes_low <= e.bytes)
        return false;
    if (of_now && profile->used_bytes && bytes > (double)profile->used_bytes)
        bytes = (double)profile->used_bytes;
    while (interval > INTERVAL_MIN &&
           (interval >= profile->interval || bytes / (double)interval < SAMPLES_ENOUGH))
        interval /= 2;
    if (interval >= profile->interval)
        return false;
    sa_fmt_add(f, "few samples: sample_interval:%llu%s would give %s %.0F",
               (unsigned long long)interval >> (interval % 1048576 ? 10 : 20),
               interval % 1048576 ? "k" : "m", e.samples ? "about" : "up to",
               bytes / (double)interval);
    return true;
}

bool sa_summary_line(const struct sa_profile *profile, const struct sa_by_stack *all, unsigned line,
                     struct sa_fmt *f)
{
    switch (line) {
    case 0:
        sa_fmt_add(f, "salloc " SALLOC_VERSION ", pid %d",
                   profile->origin ? profile->origin->pid : (int)sa_sys_pid());
        return true;
    case 1:
        sa_fmt_add(f, "%s profile: %s", types[profile->type].name, types[profile->type].what);
        return true;
    case 2:
        sa_fmt_add(f, "time ");
        add_time(f, profile->time_ns);
        if (profile->duration_ns > 0)
            sa_fmt_add(f, ", for %.3F s", (double)profile->duration_ns / 1e9);
        return true;
    case 3:
        add_bytes(profile, all, f);
        return true;
    case 4:
        if (profile->interval > 0)
            sa_fmt_add(f, "sampling interval %llu bytes", (unsigned long long)profile->interval);
        else
            sa_fmt_add(f, "sampling is off: blocks allocated meanwhile are not in the numbers");
        return true;
    case 5:
        sa_fmt_add(f, "not kept: %llu samples, the stacks of %llu",
                   (unsigned long long)profile->samples_dropped,
                   (unsigned long long)(profile->stacks_dropped + profile->stacks_evicted));
        if (profile->stacks_evicted)
            sa_fmt_add(f, " (%llu of them after the block was freed)",
                       (unsigned long long)profile->stacks_evicted);
        return true;
    case 6:
        if (!has_metrics(profile))
            return add_hint(profile, all, f);
        add_metrics(profile, f);
        return true;
    case 7:
        return has_metrics(profile) && add_hint(profile, all, f);
    default:
        return false;
    }
}

void sa_summary_put(const struct sa_profile *profile, const struct sa_by_stack *all,
                    const char *prefix, struct sa_sink *out)
{
    char text[512];
    struct sa_fmt f;

    for (unsigned i = 0;; i++) {
        sa_fmt_init(&f, text, sizeof(text));
        if (!sa_summary_line(profile, all, i, &f))
            break;
        sa_sink_string(out, prefix);
        sa_sink_string(out, text);
        sa_sink_string(out, "\n");
    }
}
