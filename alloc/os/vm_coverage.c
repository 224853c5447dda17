/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a range is resident, by the kernel's own tables; see vm.h. No state, no lock. */
#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/os/filter.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/scratch.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_ENTRIES 512 /* entries read at a time: those of a hugepage */

/* Uses calls that the loader makes at start-up. Filters of launchers allow them, unlike mincore. */
SA_RARE size_t sa_vm_resident(const void *p, size_t bytes)
{
    size_t at = (uintptr_t)p / sa_vm.page_bytes, pages = 0;
    size_t end = sa_align_up((uintptr_t)p + bytes, sa_vm.page_bytes) / sa_vm.page_bytes;
    uint64_t few[16], *block = sa_scratch_take(), *entry = block ? block : few;
    size_t most = block ? PAGEMAP_ENTRIES : sizeof(few) / sizeof(*few);
    int fd = sa_filtered() ? -1 : sa_own_proc_open("pagemap");

    while (fd >= 0 && at < end) {
        long got =
            sa_sys_pread(fd, entry, sa_min(end - at, most) * sizeof(*entry), at * sizeof(*entry)) /
            (long)sizeof(*entry);

        if (got <= 0)
            break;
        for (long i = 0; i < got; i++)
            pages += (entry[i] & PAGEMAP_PRESENT) != 0;
        at += (size_t)got;
    }
    sa_scratch_give(block);
    if (fd >= 0)
        sa_sys_close(fd);
    return at < end ? 0 : pages * sa_vm.page_bytes;
}

/* The kernel's interface (PAGEMAP_SCAN), which older headers do not have. */
struct scan_range {
    uint64_t start, end, categories;
};

struct scan {
    uint64_t size, flags, start, end, walk_end, ranges, count, max;
    uint64_t inverted, all_of, any_of, wanted; /* categories */
};

#define SCAN_REQUEST _IOWR('f', 16, struct scan)
#define SCAN_PRESENT 8
#define SCAN_HUGE    64
#define SCAN_RANGES  64

/* Parses the number at *text, and moves *text behind it. */
static uintptr_t smaps_number(const char **text, unsigned base)
{
    uintptr_t n = 0;

    for (;; (*text)++) {
        char c = **text;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 99;

        if (digit >= base)
            return n;
        n = n * base + digit;
    }
}

/* Adds the numbers of a line to *sum. *inside: whether the mapping that the lines describe overlaps
 * the range; set by the first line of a mapping. */
static void smaps_line(const char *line, uintptr_t start, uintptr_t end, bool *inside,
                       struct sa_vm_coverage *sum)
{
    static const char resident[] = "Rss:", huge[] = "AnonHugePages:";
    bool is_resident = strncmp(line, resident, sizeof(resident) - 1) == 0;
    const char *at = line;
    uintptr_t first = smaps_number(&at, 16);

    if (at > line && *at == '-') {
        at++;
        *inside = first < end && smaps_number(&at, 16) > start;
    } else if (*inside && (is_resident || strncmp(line, huge, sizeof(huge) - 1) == 0)) {
        at = line + strcspn(line, "0123456789");
        *(is_resident ? &sum->resident : &sum->huge) += smaps_number(&at, 10) << 10;
    }
}

SA_RARE bool sa_vm_mappings_coverage(uintptr_t start, uintptr_t end, struct sa_vm_coverage *ret)
{
    char text[2048], line[64]; /* the beginning of a line is enough */
    struct sa_vm_coverage sum = {0, 0};
    int fd = sa_own_proc_open("smaps");
    bool inside = false;
    size_t length = 0;
    long n;

    if (fd < 0)
        return false;
    while ((n = sa_sys_read(fd, text, sizeof(text))) > 0 || n == -EINTR) {
        for (long i = 0; i < n; i++) {
            if (text[i] != '\n') {
                line[length] = text[i];
                length += length + 1 < sizeof(line);
                continue;
            }
            line[length] = '\0';
            length = 0;
            smaps_line(line, start, end, &inside, &sum);
        }
    }
    sa_sys_close(fd);
    if (n == 0)
        *ret = sum;
    return n == 0;
}

SA_RARE bool sa_vm_coverage(uintptr_t start, uintptr_t end, struct sa_vm_coverage *ret)
{
    struct scan_range found[SCAN_RANGES];
    struct scan scan = {.size = sizeof(scan),
                        .start = start,
                        .end = end,
                        .ranges = (uintptr_t)found,
                        .count = SCAN_RANGES,
                        .all_of = SCAN_PRESENT,
                        .wanted = SCAN_PRESENT | SCAN_HUGE};
    struct sa_vm_coverage sum = {0, 0};
    int fd = sa_filtered() ? -1 : sa_own_proc_open("pagemap"), n = 0;

    if (fd < 0)
        return false;
    while (scan.start < end && (n = sa_sys_ioctl(fd, SCAN_REQUEST, &scan)) >= 0) {
        for (int i = 0; i < n; i++) {
            size_t bytes = found[i].end - found[i].start;

            sum.resident += bytes;
            sum.huge += found[i].categories & SCAN_HUGE ? bytes : 0;
        }
        if (scan.walk_end <= scan.start)
            break;
        scan.start = scan.walk_end;
    }
    sa_sys_close(fd);
    if (scan.start < end)
        return sa_vm_mappings_coverage(start, end, ret);
    *ret = sum;
    return true;
}
