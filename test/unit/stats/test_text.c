/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats page as text and as JSON, of the same made-up snapshot: every number of the page that
 * has a metric is that metric's value in JSON. And without memory for a snapshot, each format says
 * so.
 *
 * The program is linked with --wrap for the CPUs' counters, which are read while a report is made.
 */
#include "stats/text.h"

#include "alloc/base/size_class.h"
#include "stats/json.h"
#include "stats/openmetrics.h"
#include "stats/report.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <stdlib.h>
#include <string.h>

#define CPUS 3

static struct sa_report_input in;
static struct sa_cpu_cache_stats cpus[CPUS];
static struct test_random source = {0x7e87};

int __wrap_sa_cpu_cache_count(void);
void __wrap_sa_cpu_cache_stats(int cpu, struct sa_cpu_cache_stats *ret);

int __wrap_sa_cpu_cache_count(void)
{
    return CPUS;
}

void __wrap_sa_cpu_cache_stats(int cpu, struct sa_cpu_cache_stats *ret)
{
    *ret = cpus[cpu];
}

/*
 * The lines of the page, in their order, without blanks. {name} is the value of a metric; {name
 * unit} the same in MiB with a decimal, in whole mebibytes, pages or hugepages; '#' any number. The
 * metrics of a line are of one set: see struct set.
 */
static const char *const whole[] = {
    "MALLOC: {allocated_bytes} ({allocated_bytes MiB} MiB) Bytes in use by application",
    "MALLOC: + {page_heap_free_bytes} ({page_heap_free_bytes MiB} MiB) Bytes in page heap freelist",
    "MALLOC: + {central_free_bytes} ({central_free_bytes MiB} MiB) Bytes in central cache freelist",
    "MALLOC: + {cpu_free_bytes} ({cpu_free_bytes MiB} MiB) Bytes in per-CPU cache freelist",
    "MALLOC: + {transfer_free_bytes} ({transfer_free_bytes MiB} MiB) Bytes in transfer cache "
    "freelist",
    "MALLOC: + {thread_free_bytes} ({thread_free_bytes MiB} MiB) Bytes in thread cache freelists",
    "MALLOC: + {quarantine_bytes} ({quarantine_bytes MiB} MiB) Bytes in quarantine",
    "MALLOC: + {metadata_bytes} ({metadata_bytes MiB} MiB) Bytes in malloc metadata",
    "MALLOC: + {metadata_unallocated_bytes} ({metadata_unallocated_bytes MiB} MiB) Bytes in malloc "
    "metadata Arena unallocated",
    "MALLOC: + {metadata_unavailable_bytes} ({metadata_unavailable_bytes MiB} MiB) Bytes in malloc "
    "metadata Arena unavailable",
    "MALLOC: = {physical_bytes} ({physical_bytes MiB} MiB) Actual memory used (physical + swap)",
    "MALLOC: + {released_bytes} ({released_bytes MiB} MiB) Bytes released to OS (aka unmapped)",
    "MALLOC: = {virtual_bytes} ({virtual_bytes MiB} MiB) Virtual address space used",
    "MALLOC: {spans_in_use} Spans in use",
    "MALLOC: {spans_made} (# MiB) Spans created",
    "MALLOC: {thread_heaps_in_use} Thread heaps in use",
    "MALLOC: {thread_heaps_made} (# MiB) Thread heaps created",
    "MALLOC: {stack_traces_in_use} Stack traces in use",
    "MALLOC: {stack_traces_made} (# MiB) Stack traces created",
    "MALLOC: {call_stacks} Table buckets in use",
    "MALLOC: # ({call_stack_bytes MiB} MiB) Table buckets created",
    "MALLOC: {pagemap_bytes} ({pagemap_bytes MiB} MiB) Pagemap bytes used",
    "MALLOC: {pagemap_root_resident_bytes} ({pagemap_root_resident_bytes MiB} MiB) Pagemap root "
    "resident bytes",
    "MALLOC: {slab_bytes} ({slab_bytes MiB} MiB) per-CPU slab bytes used",
    "MALLOC: {peak_physical_bytes} ({peak_physical_bytes MiB} MiB) Actual memory used at peak",
    "MALLOC: {peak_allocated_bytes} ({peak_allocated_bytes MiB} MiB) Estimated in-use at peak",
    "MALLOC: {page_bytes} Tcmalloc page size",
    "MALLOC: {hugepage_bytes} Tcmalloc hugepage size",
    "MALLOC: {kernel_page_bytes} Kernel page size",
    "MALLOC SAMPLED PROFILES: {estimated_bytes} bytes (current), {internal_fragmentation_bytes} "
    "bytes (internal fragmentation), # bytes (peak), {samples_taken} count (total)",
    "MALLOC: caches are per CPU (rseq); {sections_restarted} restarts, {fences} fences",
    "MALLOC: {transfer_domains} transfer cache domain(s)",
    "MALLOC: {allocations} allocations of {allocations_bytes} bytes, {frees} frees of "
    "{frees_bytes} bytes since the start",
    "MALLOC: {mappings_failed} mappings failed, {releases_refused} releases refused, "
    "{blocks_grown_in_place} blocks grown in place",
    "MALLOC: sampling interval {sampling_interval_bytes} bytes; {samples_taken} samples taken, "
    "{samples_lost} lost",
    "MALLOC: {live_samples} samples live, for {estimated_bytes} bytes; {sampled_objects} objects "
    "in {sampled_bytes} bytes of pages",
    "MALLOC: {call_stacks} call stacks in {call_stack_bytes} of at most {call_stack_limit_bytes} "
    "bytes; {call_stacks_dropped} dropped, {call_stacks_evicted} evicted",
    "MALLOC: sampling rates optimized {rate_optimizations} times; variance reduced # times",
    "TOTAL: {process_resident_bytes} ({process_resident_bytes MiB} MiB) Bytes resident (physical "
    "memory used)",
    "TOTAL: {process_virtual_bytes} ({process_virtual_bytes MiB} MiB) Bytes mapped (virtual "
    "memory used)",
    "Successful Allocations: {guarded_allocations}",
    "Failed Allocations: {guarded_failures}",
    "Skipped Allocations (Filtered): {guarded_skipped}",
    "Skipped Allocations (Too Large): {guarded_too_large}",
    "Slots Currently Allocated: {guarded_slots_allocated}",
    "Slots Currently Quarantined: {guarded_slots_quarantined}",
    "PARAMETER desired_usage_limit_bytes {soft_limit_bytes}",
    "Number of times soft limit was hit: {soft_limit_hits}",
    "Number of times memory shrank below soft limit: {soft_limit_shrinks}",
    "Number of pages released after soft limit hits: {soft_limit_released_bytes pages}",
    "PARAMETER hard_usage_limit_bytes {hard_limit_bytes}",
    "Number of times hard limit was hit: {hard_limit_hits}",
    "Number of times memory shrank below hard limit: {hard_limit_shrinks}",
    "Number of pages released after hard limit hits: {hard_limit_released_bytes pages}",
    "Number of times the program was told of the soft limit: {soft_limit_calls}",
    "Control group: limit {group_limit_bytes}, {group_room_bytes} left, soft limit "
    "{group_soft_bytes}, {group_looks} looks",
    "Number of pages released by request: {requested_released_bytes pages}",
    "PARAMETER background_release_rate {release_rate_bytes}",
    "Number of pages released at that rate: {steady_released_bytes pages}",
    "Memory pressure: by a trigger, {pressure_events} times; {pressure_released_bytes pages} pages "
    "released",
    "MmapSysAllocator: {system_bytes} bytes ({system_bytes MiB} MiB) allocated",
};

static const char *const hugepages[] = {
    "HugePageAware: filler {filler_used_bytes MiB} MiB used, {filler_free_bytes MiB} MiB free, "
    "{filler_unmapped_bytes MiB} MiB unmapped",
    "HugePageAware: region {region_used_bytes MiB} MiB used, {region_free_bytes MiB} MiB free, "
    "{region_unmapped_bytes MiB} MiB unmapped",
    "HugePageAware: cache {large_used_bytes MiB} MiB used, # MiB free, # MiB unmapped",
    "HugePageFiller: {filler_hugepages} total, {filler_full} full, {filler_partial} partial, "
    "{filler_released} released ({filler_partly_released} partially), 0 quarantined",
    "HugePageFiller: {filler_free_bytes pages} pages free in {filler_hugepages} hugepages, # free",
    "HugePageFiller: {filler_released} hugepages partially released, # released",
    "HugePageFiller: Since startup, {filler_subreleased_bytes pages} pages subreleased, "
    "{filler_subreleased_hugepages} hugepages broken",
    "HugePageFiller: realized fragmentation: {filler_min_backed_bytes MiB} MiB",
    "HugePageFiller: minimum free pages: {filler_min_free_bytes pages} "
    "({filler_min_backed_bytes pages} backed)",
    "HugePageFiller: Since the start of the execution, {subreleases_skipped} subreleases (# pages) "
    "were skipped due to either recent ({skip_peak_seconds}s) peaks, or the sum of short-term "
    "({skip_short_seconds}s) fluctuations and long-term ({skip_long_seconds}s) trends..",
    "HugeRegionSet: {regions} total regions",
    "HugeRegionSet: {region_backed_hugepages} hugepages backed out of {region_hugepages} total",
    "HugeRegionSet: {region_free_bytes pages} pages free in backed region, # free",
    "HugeCache: {cache_hugepages} / {cache_limit_hugepages} hugepages cached / cache limit (# hit "
    "rate, # overflow rate)",
    "HugeCache: {cache_fast_released_bytes whole} MiB fast unbacked, "
    "{cache_periodic_released_bytes whole} MiB periodic",
    "HugeAddressMap: treap {address_nodes} / {address_nodes_made} nodes used / created",
    "HugeAddressMap: {address_longest_hugepages} contiguous hugepages available",
    "HugeAllocator: {address_requested_hugepages} requested - {address_in_use_hugepages} in use = "
    "{address_free_hugepages} hugepages free",
    "HugePageAware: {collapses_tried} hugepages asked of the kernel, {collapses_made} made; "
    "{collapses_left} left, too little in memory",
    "HugePageAware: {advised_bytes hugepages} hugepages advised, {thp_disabled_bytes hugepages} "
    "excluded; advice not given {advice_refused} times",
    "HugePageAware: the kernel says {kernel_resident_bytes} bytes resident, "
    "{kernel_hugepage_bytes} of them on hugepages, #",
    "HugePageAware: {small_live_bytes pages} pages live small allocation",
    "HugePageAware: {slack_bytes pages} pages of slack on large allocations",
    "HugePageAware: largest seen allocation {largest_request_bytes pages} pages",
};

static const char *const class_7[] = {
    "class 7 [ # bytes ] : # objs; # MiB; # cum MiB; {pages} live pages; spans: {spans_returned} "
    "ret / {spans_requested} req = #;",
    "class 7 [ # bytes ] : {transfer_objects} objs; # MiB; # cum MiB; {transfer_capacity} "
    "capacity; {transfer_capacity_allowed} max_capacity; {insert_hits} insert hits; "
    "{insert_misses} insert misses ({insert_partial} partial); {remove_hits} remove hits; "
    "{remove_misses} remove misses ({remove_partial} partial);",
    "class 7 [ # bytes ] : {cpu_capacity_min} (minimum), # (average), {cpu_capacity_max} "
    "(maximum), {cpu_capacity_allowed} maximum allowed capacity",
};

static const char *const cpu_1[] = {
    "cpu 1: {cached_bytes} bytes ({cached_bytes MiB} MiB) with {unallocated_bytes} bytes "
    "unallocated",
    "cpu 1: {underflows} underflows, {overflows} overflows, overflows / underflows: #, {reclaims} "
    "reclaims",
};

/* Lines whose metrics are in one part of the JSON, from its first text to its last. */
struct set {
    const char *first, *last;
    const char *const *lines;
    size_t count;
};

static const struct set sets[] = {
    {"\n\"gauges\": ", "\"hugepages\": ", whole, TEST_COUNT(whole)},
    {"\"hugepages\": ", "\"classes\": ", hugepages, TEST_COUNT(hugepages)},
    {"{\"class\": 7, ", "{\"class\": 8, ", class_7, TEST_COUNT(class_7)},
    {"{\"cpu\": 1, ", "{\"cpu\": 2, ", cpu_1, TEST_COUNT(cpu_1)},
};

/* Words of at most 40 bits: no sum of a few, and no bytes of so many pages, is too large. */
static void make_up(void *of, size_t bytes)
{
    for (uint64_t *word = of; bytes >= sizeof(*word); word++, bytes -= sizeof(*word))
        *word = test_random_next(&source) >> 24;
}

/* A snapshot that no two numbers of are the same; what follows from others does here, too. */
static void make_up_all(void)
{
    struct sa_huge_stats *h = &in.huge;

    make_up(&in, sizeof(in));
    make_up(cpus, sizeof(cpus));
    for (int cpu = 0; cpu < CPUS; cpu++)
        cpus[cpu].populated = true;
    in.has_huge = true;
    in.seconds = 1;
    in.s.classes = sa_size_classes.count;
    in.s.pressure_watched = 2;
    in.s.rates.optimised = true;
    in.s.rates.variance = 2;
    in.s.live.bytes = 1234567;
    in.s.live.peak_bytes = 2345678;
    in.s.live.slack_bytes = 34567;
    in.s.experiment[SA_EXPERIMENT_PER_CPU] = 1;
    for (unsigned cls = 1; cls < in.s.classes; cls++)
        in.cls[cls].cpu.average = 3;
    for (size_t i = 0; i < SA_AGE_LENGTHS; i++)
        in.sampled_ages.backed[i].idle_s = in.sampled_ages.released[i].idle_s =
            h->ages.backed[i].idle_s = h->ages.released[i].idle_s = 1;
}

static char page[1 << 20], json[1 << 20];

static void format(void)
{
    struct sa_fmt f;
    char *to = page;

    sa_fmt_init(&f, page, sizeof(page));
    sa_text_format(&f, &in);
    assert_false(f.truncated);
    for (const char *from = page; *from; from++)
        if (*from != ' ')
            *to++ = *from;
    *to = '\0';
    sa_fmt_init(&f, json, sizeof(json));
    sa_json_format(&f, &in);
    assert_false(f.truncated);
}

static uint64_t metric(const struct set *set, const char *name, size_t len)
{
    const char *from = strstr(json, set->first), *to, *at;
    char member[100] = "\"";

    assert_non_null(from);
    to = strstr(from, set->last);
    assert_non_null(to);
    strncat(member, name, len);
    strcat(member, "\": ");
    at = strstr(from, member);
    if (!at || at > to)
        fail_msg("no %s in the JSON", member);
    return strtoull(at + strlen(member), NULL, 10);
}

/* A placeholder of a line, as it should be on the page; what follows it. */
static const char *expand(const struct set *set, const char *at, struct sa_fmt *f)
{
    size_t len = strcspn(at + 1, " }");
    const char *unit = at + 1 + len, *end = strchr(at, '}');
    uint64_t value = metric(set, at + 1, len);

    if (strncmp(unit, " MiB}", 5) == 0)
        sa_fmt_add(f, "%m", value);
    else if (strncmp(unit, " whole}", 7) == 0)
        sa_fmt_add(f, "%llu", value >> 20);
    else if (strncmp(unit, " pages}", 7) == 0)
        sa_fmt_add(f, "%llu", value >> SA_PAGE_SHIFT);
    else if (strncmp(unit, " hugepages}", 11) == 0)
        sa_fmt_add(f, "%llu", value / SA_HUGE_BYTES);
    else
        sa_fmt_add(f, "%llu", value);
    return end + 1;
}

/* Whether the text begins with what a line should be; '#' stands for a number. */
static bool begins(const char *text, const char *line)
{
    for (; *line; line++) {
        size_t number = *line == '#' ? strspn(text, "0123456789.") : 0;

        if (number ? false : *text != *line)
            return false;
        text += number ? number : 1;
    }
    return *text == '\n' || strncmp(text, "active\n", 7) == 0;
}

/* Finds a line after another; the place behind it. */
static const char *find(const struct set *set, const char *line, const char *after)
{
    char expected[1000];
    struct sa_fmt f;

    sa_fmt_init(&f, expected, sizeof(expected));
    for (const char *at = line; *at;) {
        if (*at == '{') {
            at = expand(set, at, &f);
        } else {
            if (*at != ' ')
                sa_fmt_add(&f, "%c", *at);
            at++;
        }
    }
    for (const char *at = after; (at = strchr(at, '\n')); at++)
        if (begins(at + 1, expected))
            return at + 1;
    fail_msg("not on the page, or not in its place: %s", expected);
    return NULL;
}

static void test_text_has_the_metrics_of_the_json(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        make_up_all();
        format();
        for (size_t i = 0; i < TEST_COUNT(sets); i++) {
            const char *at = page;

            for (size_t k = 0; k < sets[i].count; k++)
                at = find(&sets[i], sets[i].lines[k], at);
        }
    }
}

static const char *without_input(void (*format_as)(struct sa_fmt *, const struct sa_report_input *))
{
    struct sa_fmt f;

    sa_fmt_init(&f, page, sizeof(page));
    format_as(&f, NULL);
    return page;
}

static void test_every_format_does_without_memory(void **state)
{
    struct sa_fmt f;

    (void)state;
    assert_string_equal(without_input(sa_text_format), "salloc: no memory for a stats page\n");
    assert_non_null(strstr(without_input(sa_json_format), "\"error\": \"out of memory\"}\n"));
    assert_string_equal(without_input(sa_openmetrics_format), "# EOF\n");
    sa_fmt_init(&f, page, sizeof(page));
    sa_prometheus_format(&f, NULL, "");
    assert_string_equal(page, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_has_the_metrics_of_the_json),
        cmocka_unit_test(test_every_format_does_without_memory),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
