/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a profile; see summary.h. */
#include "sampling/export/summary.h"

#include "alloc/os/sys.h"

#define LEVEL 0.95

/* A sampling interval is suggested with which at least so many samples are expected. */
#define SAMPLES_ENOUGH 100
#define INTERVAL_MIN   1024

static const struct {
    const char *name, *what;
} types[] = {
    [SALLOC_PROFILE_HEAP] = {"heap", "what is allocated now"},
    [SALLOC_PROFILE_FRAGMENTATION] = {"fragmentation",
                                      "free memory held up by what is allocated now"},
    [SALLOC_PROFILE_PEAK_HEAP] = {"peak heap", "what was allocated when most was"},
    [SALLOC_PROFILE_ALLOCATIONS] = {"allocations", "what was allocated"},
    [SALLOC_PROFILE_LIFETIMES] = {"lifetimes", "blocks allocated, and mostly freed"},
};

const char *sa_summary_type(enum salloc_profile_type type)
{
    return types[type].name;
}

static void add_time(struct sa_fmt *f, int64_t ns)
{
    int64_t seconds = ns / 1000000000, days = seconds / 86400, of_day = seconds % 86400;
    int64_t era, day_of_era, year_of_era, day_of_year, month;

    /* Years that begin in March, in eras of 400: leap days then come last. */
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

static void estimate(const struct sa_profile *profile, const struct sa_by_stack *all,
                     struct salloc_estimate *ret)
{
    sa_estimate(&all->sums, &profile->unseen, SALLOC_ESTIMATE_WEIGHTED, LEVEL, ret);
}

/* "95 % interval 10 to 20", or what there is of it. */
static void add_interval(struct sa_fmt *f, const char *what, double low, double high)
{
    if (high < SA_ESTIMATE_UNKNOWN)
        sa_fmt_add(f, " (%s%.0F to %.0F)", what, low, high);
    else
        sa_fmt_add(f, " (at least %.0F, no upper end is known)", low);
}

static void add_bytes(const struct sa_profile *profile, const struct sa_by_stack *all,
                      struct sa_fmt *f)
{
    struct salloc_estimate e;

    estimate(profile, all, &e);
    if (profile->type == SALLOC_PROFILE_FRAGMENTATION)
        sa_fmt_add(f, "%llu bytes wasted; in use ", (unsigned long long)all->bytes);
    sa_fmt_add(f, "%llu bytes",
               profile->type == SALLOC_PROFILE_FRAGMENTATION ? (unsigned long long)all->inuse_bytes
                                                             : (unsigned long long)all->bytes);
    add_interval(f, "95 % interval ", e.bytes_low, e.bytes_high);
    sa_fmt_add(f, " in %llu blocks", (unsigned long long)all->count);
    add_interval(f, "", e.count_low, e.count_high);
    sa_fmt_add(f, ", from %llu samples", (unsigned long long)e.samples);
}

/* Where the interval is wider than the estimate: what would make it narrow. False: nothing to
 * say. */
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
        sa_fmt_add(f, "salloc " SALLOC_VERSION ", pid %d", sa_sys_pid());
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
        return add_hint(profile, all, f);
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
