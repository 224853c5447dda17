/* SPDX-License-Identifier: Apache-2.0 */
/* The section of the stats page about limits and what else gives memory back; see
 * report_internal.h. */
#include "stats/report_internal.h"

static void limit(struct sa_fmt *f, const struct sa_limit_stats *l, const char *parameter,
                  const char *name)
{
    sa_fmt_add(f, "PARAMETER %s %zu\n", parameter, l->bytes);
    sa_fmt_add(f, "Number of times %s limit was hit: %llu\n", name, l->hits);
    sa_fmt_add(f, "Number of times memory shrank below %s limit: %llu\n", name, l->shrinks);
    sa_fmt_add(f, "Number of pages released after %s limit hits: %llu\n", name,
               l->released_bytes >> SA_PAGE_SHIFT);
}

void sa_report_limits(struct sa_fmt *f, const struct sa_snapshot *s)
{
    static const char watched[][16] = {"not watched", "read", "by a trigger"};

    sa_fmt_add(f, SA_REPORT_RULE "Configured limits and related statistics\n" SA_REPORT_RULE);
    limit(f, &s->soft, "desired_usage_limit_bytes", "soft");
    limit(f, &s->hard, "hard_usage_limit_bytes", "hard");
    sa_fmt_add(f, "Number of times the program was told of the soft limit: %llu\n", s->soft_calls);
    sa_fmt_add(f, "Control group: limit %zu, %zu left, soft limit %zu, %llu looks\n",
               s->group.limit_bytes, s->group.room_bytes, s->group.soft_bytes, s->group.looks);
    sa_fmt_add(f, "Number of pages released by request: %llu\n",
               s->maintain.requested_bytes >> SA_PAGE_SHIFT);
    sa_fmt_add(f, "PARAMETER background_release_rate %zu\n", s->release_rate);
    sa_fmt_add(f, "Number of pages released at that rate: %llu\n",
               s->maintain.steady_bytes >> SA_PAGE_SHIFT);
    sa_fmt_add(f, "Memory pressure: %s, %llu times; %llu pages released\n",
               watched[s->pressure_watched], s->maintain.pressures,
               s->maintain.pressure_bytes >> SA_PAGE_SHIFT);
}
