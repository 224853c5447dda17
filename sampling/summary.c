/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a profile; see summary.h. */
#include "sampling/summary.h"

#include "alloc/os/sys.h"

#define LEVEL 0.95

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

static void add_bytes(const struct sa_profile *profile, const struct sa_by_stack *all,
                      struct sa_fmt *f)
{
    struct salloc_estimate e;

    sa_estimate(&all->sums, SALLOC_ESTIMATE_WEIGHTED, LEVEL, &e);
    if (profile->type == SALLOC_PROFILE_FRAGMENTATION)
        sa_fmt_add(f, "%llu bytes wasted; in use ", (unsigned long long)all->bytes);
    sa_fmt_add(f, "%llu bytes (95 %% interval %.0F to %.0F)",
               profile->type == SALLOC_PROFILE_FRAGMENTATION ? (unsigned long long)all->inuse_bytes
                                                             : (unsigned long long)all->bytes,
               e.bytes_low, e.bytes_high);
    sa_fmt_add(f, " in %llu blocks (%.0F to %.0F), from %llu samples",
               (unsigned long long)all->count, e.count_low, e.count_high,
               (unsigned long long)e.samples);
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
            sa_fmt_add(f, "sampling is off");
        return true;
    case 5:
        sa_fmt_add(f, "not kept: %llu samples, the stacks of %llu",
                   (unsigned long long)profile->samples_dropped,
                   (unsigned long long)profile->stacks_dropped);
        return true;
    default:
        return false;
    }
}
