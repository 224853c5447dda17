/* SPDX-License-Identifier: Apache-2.0 */
/* The options in effect, for reports; see options_text.h. Reads what other modules have in use, by
 * their own functions; has no variables. */
#include "alloc/api/control/background.h"
#include "alloc/api/options/options_text.h"
#include "alloc/api/control/output.h"
#include "alloc/base/bits.h"
#include "alloc/base/hardening.h"
#include "alloc/base/layout.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/hardening/quarantine.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/maintain/release_rate.h"
#include "alloc/os/rseq.h"
#include "alloc/page_heap/account/limits.h"
#include "sampling/estimate/rates.h"
#include "sampling/record/recording.h"

#include <string.h>

/* What reports show. */
SA_LAYOUT = {
#define SA_OPTION(key, kind, value, min, max, help) SA_LAYOUT_STATE("sa_options", sa_options, key),
#include "alloc/api/options/options.def"
#undef SA_OPTION
};
SA_LAYOUT_ADDRESS(sa_options);

/* Adds a path. Characters other than printable ASCII, and those that JSON would need to escape, are
 * shown as "?". */
static void add_path(struct sa_fmt *f, const char *path)
{
    for (; *path; path++)
        sa_fmt_add(f, "%c",
                   *path < ' ' || *path > '~' || *path == '"' || *path == '\\' ? '?' : *path);
}

/* Returns a limit as the option has it: 0 means none. */
static size_t limit_in_effect(enum sa_limit_kind kind)
{
    size_t bytes = sa_limits_own(kind);

    return bytes == SA_NO_LIMIT ? 0 : bytes;
}

/* Copies the options, with the values that functions have set since the start, and those that the
 * build or the system has decided. */
static void read_effective(struct sa_options *o)
{
    struct sa_quarantine_stats quarantine;
    int64_t interval = sa_rates_interval();

    *o = sa_options;
    o->per_cpu = sa_rseq.per_cpu;
    o->cpu_cache = sa_cpu_cache_limit();
    o->sample_interval = (size_t)sa_max(interval, 0);
    o->hardening = sa_hardening.canaries;
    o->junk =
        (sa_hardening.junk_new ? SA_JUNK_ALLOC : 0) | (sa_hardening.junk_freed ? SA_JUNK_FREE : 0);
    sa_quarantine_stats(&quarantine);
    o->quarantine = quarantine.limit_bytes;
    o->skip_subrelease_interval = 0; /* these have no effect */
    o->skip_subrelease_short_interval = 0;
    o->skip_subrelease_long_interval = 0;
    o->profile_threads = sa_sample_by_thread_get();
    o->soft_limit = limit_in_effect(SA_LIMIT_SOFT);
    o->hard_limit = limit_in_effect(SA_LIMIT_HARD);
    o->release_rate = sa_release_rate_get();
    o->maintenance_thread = sa_background_choice();
}

/* Adds the types of the profiles, in the order of their paths. */
static void add_types(struct sa_fmt *f, const struct sa_option_info *info,
                      const struct sa_options *o)
{
    const char *path = o->profile.text;

    for (size_t i = 0; i == 0 || (*path && i < SA_PROFILES_MAX); i++) {
        sa_fmt_add(f, i ? "," : "");
        sa_option_add_value(f, info, o->profile_type.of[i]);
        path += strcspn(path, ",");
        path += *path == ',';
    }
}

/* Adds "key": value. */
static void add_json(struct sa_fmt *f, const struct sa_option_info *info,
                     const struct sa_options *o)
{
    sa_fmt_add(f, "\"%s\": ", info->key);
    switch (info->kind) {
    case SA_OPTION_path:
        sa_fmt_add(f, "\"");
        add_path(f, (const char *)o + info->offset);
        sa_fmt_add(f, "\"");
        break;
    case SA_OPTION_flag:
        sa_fmt_add(f, "%s", sa_option_load(info, o) ? "true" : "false");
        break;
    case SA_OPTION_types:
        sa_fmt_add(f, "\"");
        add_types(f, info, o);
        sa_fmt_add(f, "\"");
        break;
    case SA_OPTION_hugepages:
    case SA_OPTION_mixed:
    case SA_OPTION_hardening:
    case SA_OPTION_thread:
    case SA_OPTION_junk:
        sa_fmt_add(f, "\"");
        sa_option_add_value(f, info, sa_option_load(info, o));
        sa_fmt_add(f, "\"");
        break;
    default:
        sa_fmt_add(f, "%llu", (unsigned long long)sa_option_load(info, o));
        break;
    }
}

/* Adds a value as text. */
static void add_value(struct sa_fmt *f, const struct sa_option_info *info,
                      const struct sa_options *o)
{
    const char *path = (const char *)o + info->offset;

    if (info->kind == SA_OPTION_types)
        add_types(f, info, o);
    else if (info->kind != SA_OPTION_path)
        sa_option_add_value(f, info, sa_option_load(info, o));
    else if (*path)
        add_path(f, path);
    else
        sa_fmt_add(f, "none");
}

/* Adds a line "PARAMETER salloc_KEY VALUE". */
static void add_text(struct sa_fmt *f, const struct sa_option_info *info,
                     const struct sa_options *o)
{
    sa_fmt_add(f, "PARAMETER salloc_%s ", info->key);
    add_value(f, info, o);
    if (info->kind == SA_OPTION_signal && sa_option_load(info, o) &&
        sa_output_signal_is_replaced((enum sa_option_key)(info - sa_option_infos)))
        sa_fmt_add(f, ", replaced by the program");
    sa_fmt_add(f, "\n");
}

void sa_options_report_one(struct sa_fmt *f, const struct sa_option_info *info)
{
    struct sa_options o;

    read_effective(&o);
    add_value(f, info, &o);
}

void sa_options_report(struct sa_fmt *f, bool json)
{
    struct sa_options o;

    read_effective(&o);
    for (size_t i = 0; i < SA_OPTIONS; i++) {
        if (json)
            sa_fmt_add(f, i ? ", " : "{");
        (json ? add_json : add_text)(f, &sa_option_infos[i], &o);
    }
    if (json)
        sa_fmt_add(f, "}");
}
