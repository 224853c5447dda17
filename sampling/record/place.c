/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places; see place.h. State: the table of caches, and whether the rseq area has more fields than
 * the CPU. Both are atomic, relaxed: every thread that writes an entry writes the same value.
 */
#include "sampling/record/place.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fmt.h"
#include "alloc/os/percpu.h"
#include "alloc/os/rseq.h"
#include "alloc/os/sys.h"
#include "alloc/os/vdso.h"

#include <sys/auxv.h>

/* Further offsets in the kernel's struct rseq, and the size of the part that has these fields. The
 * kernel announces the size of the part that it writes. */
#define RSEQ_NODE_ID      20
#define RSEQ_MM_CID       24
#define RSEQ_BYTES        28
#define AUX_RSEQ_FEATURES 27 /* AT_RSEQ_FEATURE_SIZE, of Linux 6.3 */
#define CPU_LIST_BYTES    1024
#define CACHE_PATH        "/sys/devices/system/cpu/cpu%u/cache/index3/shared_cpu_list"
#define NUMBER_MAX        INT16_MAX

enum { FEATURES_UNKNOWN, FEATURES_ABSENT, FEATURES_PRESENT };

static uint8_t features;
static uint16_t l3_of[SA_SLABS]; /* [CPU]: the first CPU of its L3 cache plus 1; 0: unknown */

/* True if the kernel writes the node and the virtual CPU into the rseq area. */
static bool has_features(void)
{
    uint8_t f = sa_load_relaxed(&features);

    if (SA_UNLIKELY(f == FEATURES_UNKNOWN)) {
        f = getauxval(AUX_RSEQ_FEATURES) >= RSEQ_BYTES ? FEATURES_PRESENT : FEATURES_ABSENT;
        sa_store_relaxed(&features, f);
    }
    return f == FEATURES_PRESENT;
}

static int16_t number(unsigned n)
{
    return n <= NUMBER_MAX ? (int16_t)n : -1;
}

void sa_place_here(struct sa_place *ret)
{
    const char *area = (const char *)sa_thread_pointer() + sa_rseq.offset;
    int32_t current = *(const volatile int32_t *)(area + SA_RSEQ_CPU_ID);
    unsigned cpu, node;

    *ret = (struct sa_place){-1, -1, -1};
    if (sa_rseq.per_cpu && has_features() && current >= 0) {
        ret->cpu = number((unsigned)current);
        ret->node = number(*(const volatile uint32_t *)(area + RSEQ_NODE_ID));
        ret->vcpu = number(*(const volatile uint32_t *)(area + RSEQ_MM_CID));
    } else if (sa_vdso_cpu(&cpu, &node) == 0) {
        ret->cpu = number(cpu);
        ret->node = number(node);
    }
}

/* Reads the next range of a list such as "0-3,8,10-11\n", and advances *at. False: there is none.
 */
static bool list_next(const char **at, unsigned *ret_first, unsigned *ret_last)
{
    const char *s = *at;
    unsigned n[2] = {0, 0};

    for (int i = 0; i < 2; i++) {
        if (*s < '0' || *s > '9')
            return false;
        while (*s >= '0' && *s <= '9' && n[i] < SA_SLABS)
            n[i] = 10 * n[i] + (unsigned)(*s++ - '0');
        if (i == 0 && *s != '-') {
            n[1] = n[0];
            break;
        }
        s += i == 0;
    }
    *at = s + (*s == ',');
    *ret_first = n[0];
    *ret_last = sa_min(n[1], SA_SLABS - 1);
    return *s == ',' || *s == '\n' || *s == '\0';
}

/* Reads the L3 cache of a CPU, for all CPUs that share it. */
static void learn_cache(unsigned cpu)
{
    char path[sizeof(CACHE_PATH) + 16], list[CPU_LIST_BYTES];
    unsigned first, last, name = SA_SLABS;
    const char *at = list;
    struct sa_fmt f;

    sa_fmt_init(&f, path, sizeof(path));
    sa_fmt_add(&f, CACHE_PATH, cpu);
    if (sa_sys_read_file(path, list, sizeof(list)) <= 0)
        return;
    while (list_next(&at, &first, &last)) {
        name = sa_min(name, first);
        for (unsigned c = first; c <= last; c++)
            sa_store_relaxed(&l3_of[c], (uint16_t)(name + 1));
    }
}

void sa_place_learn_caches(void)
{
    char online[CPU_LIST_BYTES];
    const char *at = online;
    unsigned first, last;

    if (sa_sys_read_file("/sys/devices/system/cpu/online", online, sizeof(online)) <= 0)
        return;
    while (list_next(&at, &first, &last))
        for (unsigned cpu = first; cpu <= last; cpu++)
            if (!sa_load_relaxed(&l3_of[cpu]))
                learn_cache(cpu);
}

int sa_place_l3(int cpu)
{
    return cpu >= 0 && cpu < SA_SLABS ? (int)sa_load_relaxed(&l3_of[cpu]) - 1 : -1;
}
