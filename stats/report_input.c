/* SPDX-License-Identifier: Apache-2.0 */
/* Report inputs and their memory; see report_input.h. State: the library's own instance, whether it
 * is in use, and the last coverage from the kernel (each atomic). */
#include "stats/report_input.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/os/clock.h"
#include "alloc/os/vm.h"

#include <string.h>

static struct sa_report_input own;
static uint32_t own_used; /* atomic: acquired by the thread that uses `own` */

static size_t input_bytes(void)
{
    return sa_align_up(sizeof(struct sa_report_input), sa_max(sa_vm.page_bytes, 4096));
}

/*
 * The kernel walks its page tables to compute the coverage, which may take milliseconds. Such walks
 * take at most 1/COVERAGE_FRACTION of the time. In between, reports show the last result.
 */
#define COVERAGE_FRACTION 100

static struct sa_vm_coverage read_coverage(void)
{
    static struct {
        uint32_t used;    /* atomic: acquired by the thread that asks the kernel */
        uint64_t next_ns; /* no walk before this time; atomic, relaxed, as are the next two */
        size_t resident, huge;
    } last;
    uint64_t now = sa_clock_ns();
    struct sa_vm_coverage c;

    if (now >= sa_load_relaxed(&last.next_ns) && !sa_xchg_acquire(&last.used, 1)) {
        if (!sa_page_heap_coverage(&sa_page_heap_ordinary, &c))
            c = (struct sa_vm_coverage){0, 0};
        sa_store_relaxed(&last.resident, c.resident);
        sa_store_relaxed(&last.huge, c.huge);
        sa_store_relaxed(&last.next_ns, now + (sa_clock_ns() - now) * COVERAGE_FRACTION);
        sa_store_release(&last.used, 0);
    }
    return (struct sa_vm_coverage){sa_load_relaxed(&last.resident), sa_load_relaxed(&last.huge)};
}

static void read_heaps(struct sa_report_input *r)
{
    uint64_t now;

    if (!sa_fork_gate_enter()) {
        memset(&r->has_huge, 0, sizeof(*r) - offsetof(struct sa_report_input, has_huge));
        return;
    }
    r->has_huge = sa_page_heap_huge_stats(&sa_page_heap_ordinary, &r->huge);
    r->coverage = sa_snapshot_subject ? (struct sa_vm_coverage){0, 0} : read_coverage();
    sa_page_heap_walk(&sa_page_heap_sampled, &r->sampled_sizes, &r->sampled_ages);
    sa_fork_gate_leave();
    now = sa_snapshot_subject ? sa_snapshot_subject->clock_ns : sa_clock_coarse_ns();
    r->seconds = r->has_huge && r->huge.started_ns && now > r->huge.started_ns
                     ? (double)(now - r->huge.started_ns) * 1e-9
                     : 0;
}

struct sa_report_input *sa_report_input_take(void)
{
    struct sa_report_input *r = &own;

    if (sa_xchg_acquire(&own_used, 1))
        r = sa_vm_map(NULL, input_bytes(), "salloc report");
    if (r) {
        sa_snapshot_take_detailed(&r->s, r->cls);
        read_heaps(r);
    }
    return r;
}

void sa_report_input_release(struct sa_report_input *r)
{
    if (r == &own) {
        SA_DCHECK(sa_load_relaxed(&own_used));
        sa_store_release(&own_used, 0);
    } else {
        sa_vm_unmap(r, input_bytes());
    }
}
