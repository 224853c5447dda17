/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numeric properties: tcmalloc's names with tcmalloc's meanings, every metric as salloc.<name>, and
 * two values that the kernel computes. No state.
 */
#include "stats/properties.h"

#include "alloc/fork/fork_gate.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"
#include "stats/metrics.h"
#include "stats/report_input.h"

#include <string.h>

static const char experiment_prefix[] = "tcmalloc.experiment.", own_prefix[] = "salloc.";

/* The rest of a name behind a prefix; NULL: the name does not begin with the prefix. */
static const char *after(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(name, prefix, len) == 0 ? name + len : NULL;
}

static bool read_named(const struct sa_snapshot *s, const char *name, size_t *ret)
{
    size_t actual = sa_snapshot_actual(s), heap_free = sa_snapshot_page_heap_free(s);
    const struct {
        const char *name;
        size_t value;
    } table[] = {
        {"generic.current_allocated_bytes", s->in_use_bytes},
        {"generic.bytes_in_use_by_app", s->in_use_bytes},
        {"generic.heap_size", s->heap.mapped_bytes - s->heap.released_bytes},
        {"generic.physical_memory_used", actual},
        {"generic.virtual_memory_used", actual + s->released_bytes},
        {"generic.peak_memory_usage", s->peak.used_bytes},
        {"generic.realized_fragmentation", (size_t)(sa_snapshot_fragmentation(s) * 100)},
        {"tcmalloc.pageheap_free_bytes", heap_free},
        {"tcmalloc.page_heap_free", heap_free},
        {"tcmalloc.pageheap_unmapped_bytes", s->released_bytes},
        {"tcmalloc.page_heap_unmapped", s->released_bytes},
        {"tcmalloc.slack_bytes", heap_free + s->released_bytes},
        {"tcmalloc.central_cache_free", s->central_bytes},
        {"tcmalloc.transfer_cache_free", s->transfer_bytes - s->sharded_bytes},
        {"tcmalloc.sharded_transfer_cache_free", s->sharded_bytes},
        {"tcmalloc.cpu_free", s->cpu_bytes},
        {"tcmalloc.thread_cache_free", s->thread_bytes},
        {"tcmalloc.current_total_thread_cache_bytes", s->thread_bytes},
        {"tcmalloc.thread_cache_count", s->threads_in_use},
        {"tcmalloc.local_bytes", s->cpu_bytes + s->thread_bytes},
        {"tcmalloc.max_total_thread_cache_bytes", s->threads_limit},
        {"tcmalloc.metadata_bytes",
         s->metadata_bytes + s->arena.unallocated_bytes + s->arena.unavailable_bytes},
        {"tcmalloc.external_fragmentation_bytes", actual - s->in_use_bytes},
        {"tcmalloc.required_bytes", actual - heap_free},
        {"tcmalloc.per_cpu_caches_active", s->experiment[SA_EXPERIMENT_PER_CPU]},
        {"tcmalloc.max_per_cpu_cache_size", s->cpu_cache_limit},
        {"tcmalloc.skip_subrelease_interval", 0},
        {"tcmalloc.skip_subrelease_short_interval", 0},
        {"tcmalloc.skip_subrelease_long_interval", 0},
        {"tcmalloc.sampled_internal_fragmentation", (size_t)s->live.slack_bytes},
        {"tcmalloc.num_released_total_bytes", s->heap.released_ever_bytes},
        {"tcmalloc.num_released_release_memory_to_system_bytes", s->maintain.requested_bytes},
        {"tcmalloc.page_algorithm", s->hugepage_aware},
        {"tcmalloc.experiment.TCMALLOC_TEMERAIRE", s->hugepage_aware},
        {"tcmalloc.experiment.TCMALLOC_TEMERAIRE_WITH_SUBRELEASE_V3", s->hugepage_aware},
        {"tcmalloc.security_partitioning_active", 0},
        {"tcmalloc.background_release_rate", s->release_rate},
        {"tcmalloc.num_released_process_background_actions_bytes", s->maintain.steady_bytes},
        {"tcmalloc.desired_usage_limit_bytes", s->soft.bytes},
        {"tcmalloc.hard_usage_limit_bytes", s->hard.bytes},
        {"tcmalloc.soft_limit_hits", s->soft.hits},
        {"tcmalloc.hard_limit_hits", s->hard.hits},
        {"tcmalloc.successful_shrinks_after_soft_limit_hit", s->soft.shrinks},
        {"tcmalloc.successful_shrinks_after_hard_limit_hit", s->hard.shrinks},
        {"tcmalloc.num_released_soft_limit_exceeded_bytes", s->soft.released_bytes},
        {"tcmalloc.num_released_hard_limit_exceeded_bytes", s->hard.released_bytes},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(name, table[i].name) == 0) {
            *ret = table[i].value;
            return true;
        }
    }
    return false;
}

static bool read_experiment(const struct sa_snapshot *s, const char *name, size_t *ret)
{
    for (size_t i = 0; i < SA_EXPERIMENTS; i++) {
        if (strcmp(name, sa_experiment_names[i]) == 0) {
            *ret = s->experiment[i];
            return true;
        }
    }
    return false;
}

/* The name that a metric has now, for one that it had before; else the name itself. */
static const char *current_name(const char *name)
{
    static const struct {
        char before[28], now[32];
    } table[] = {
        {"rates_chosen", "rate_optimizations"},
        {"filler_broken", "filler_subreleased_hugepages"},
        {"filler_least_free_bytes", "filler_min_free_bytes"},
        {"filler_least_backed_bytes", "filler_min_backed_bytes"},
        {"kept_out_bytes", "thp_disabled_bytes"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(name, table[i].before) == 0)
            return table[i].now;
    return name;
}

static bool read_metric(const struct sa_snapshot *s, const char *name, size_t *ret)
{
    union sa_metric_values values;

    for (size_t i = 0; i < SA_METRICS; i++) {
        if (strcmp(name, sa_metrics[i].name) == 0) {
            sa_metrics_read(s, &values);
            *ret = values.of[i];
            return true;
        }
    }
    return false;
}

/* Metrics of the hugepage-aware heap. They need a report input, which is too large for the stack.
 */
static bool read_huge(const char *name, size_t *ret)
{
    union sa_huge_metric_values values;
    struct sa_report_input *r;
    size_t i = 0;
    bool ok;

    while (i < SA_HUGE_METRICS && strcmp(name, sa_huge_metrics[i].name) != 0)
        i++;
    if (i == SA_HUGE_METRICS)
        return false;
    r = sa_report_input_take();
    if (!r)
        return false;
    ok = r->has_huge;
    if (ok) {
        sa_huge_metrics_read(r, &values);
        *ret = values.of[i];
    }
    sa_report_input_release(r);
    return ok;
}

/* Values that take the kernel too long for a report that is polled. */
static bool read_coverage(const char *name, size_t *ret)
{
    bool huge = strcmp(name, "heap_hugepage_bytes") == 0, ok;
    struct sa_vm_coverage coverage;

    if ((!huge && strcmp(name, "heap_resident_bytes") != 0) || !sa_fork_gate_enter())
        return false;
    ok = sa_page_heap_coverage(&sa_page_heap_ordinary, &coverage);
    sa_fork_gate_leave();
    if (ok)
        *ret = huge ? coverage.huge : coverage.resident;
    return ok;
}

bool sa_property_read(const struct sa_snapshot *s, const char *name, size_t *ret)
{
    const char *rest = after(name, own_prefix);

    if (rest) {
        rest = current_name(rest);
        return read_metric(s, rest, ret) || read_huge(rest, ret) || read_coverage(rest, ret);
    }
    rest = after(name, experiment_prefix);
    return (rest && read_experiment(s, rest, ret)) || read_named(s, name, ret);
}
