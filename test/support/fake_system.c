/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is only numbers; see fake_system.h. */
#include "test/support/fake_system.h"

#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/cmocka.h"
#include "test/support/page_heap_walk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

struct fake_system fake;

static bool fails(size_t of_100)
{
    return of_100 && test_random_below(&fake.random, 100) < of_100;
}

size_t fake_page(const void *p)
{
    size_t page = ((uintptr_t)p - SA_HOME_START) >> SA_PAGE_SHIFT;

    assert_true(page < FAKE_PAGES);
    return page;
}

static bool is_heap(const void *p)
{
    return (uintptr_t)p >= SA_HOME_START && (uintptr_t)p < SA_HOME_START + SA_HOME_BYTES;
}

void *__real_sa_vm_map_space(void *hint, size_t bytes, const char *name);
void *__wrap_sa_vm_map_space(void *hint, size_t bytes, const char *name);
void __wrap_sa_vm_unmap_space(void *p, size_t bytes);
bool __wrap_sa_vm_release(void *p, size_t bytes);
bool __wrap_sa_vm_release_runs(const struct iovec *runs, unsigned count);
enum sa_vm_renewal __wrap_sa_vm_renew(void *p, size_t bytes, const char *name);
bool __wrap_sa_vm_no_hugepages(void *p, size_t bytes);
bool __wrap_sa_vm_hugepages(void *p, size_t bytes);
bool __wrap_sa_vm_collapse(void *p, size_t bytes);
void __wrap_sa_vm_touch(void *p);
size_t __wrap_sa_vm_resident(const void *p, size_t bytes);
long __wrap_sa_sys_read_file(const char *path, char *buf, size_t cap);

void *__wrap_sa_vm_map_space(void *hint, size_t bytes, const char *name)
{
    size_t first;

    if (strcmp(name, "salloc:heap") != 0)
        return __real_sa_vm_map_space(hint, bytes, name);
    if (fails(fake.map_fails) ||
        ((uintptr_t)hint - SA_HOME_START + bytes) >> SA_PAGE_SHIFT > FAKE_PAGES)
        return NULL;
    first = fake_page(hint);
    for (size_t i = 0; i < bytes >> SA_PAGE_SHIFT; i++) {
        if (fake.pages[first + i]) /* the hint is taken: no other place is given here */
            return NULL;
    }
    memset(fake.pages + first, FAKE_MAPPED, bytes >> SA_PAGE_SHIFT);
    sa_vm.space_bytes += bytes;
    fake.first = sa_min(fake.first, first);
    fake.end = sa_max(fake.end, first + (bytes >> SA_PAGE_SHIFT));
    page_heap_mapped(hint, bytes);
    return hint;
}

static void set_free(void *p, size_t bytes, unsigned char set)
{
    size_t first = fake_page(p);

    for (size_t i = 0; i < bytes >> SA_PAGE_SHIFT; i++) {
        assert_int_equal(fake.pages[first + i] & (FAKE_MAPPED | FAKE_OWNED), FAKE_MAPPED);
        fake.pages[first + i] =
            set | (set ? fake.pages[first + i] & (FAKE_NO_HUGEPAGES | FAKE_ADVISED) : 0);
    }
}

void __wrap_sa_vm_unmap_space(void *p, size_t bytes)
{
    set_free(p, bytes, 0);
    sa_vm.space_bytes -= bytes;
    page_heap_unmapped(p, bytes);
}

bool __wrap_sa_vm_release(void *p, size_t bytes)
{
    if (fails(fake.release_fails))
        return false;
    set_free(p, bytes, FAKE_MAPPED);
    return true;
}

/* One system call for several ranges: the kernel cannot, so that each range comes by itself. */
bool __wrap_sa_vm_release_runs(const struct iovec *runs, unsigned count)
{
    (void)runs;
    (void)count;
    return false;
}

enum sa_vm_renewal __wrap_sa_vm_renew(void *p, size_t bytes, const char *name)
{
    size_t first = fake_page(p);
    bool span = (uintptr_t)p == fake.giving;

    (void)name;
    fake.giving = 0;
    if (fails(fake.renew_loses)) {
        if (!span) /* free memory is lost, and not the heap's any more */
            __wrap_sa_vm_unmap_space(p, bytes);
        return SA_VM_LOST;
    }
    if (fails(fake.renew_fails))
        return SA_VM_UNCHANGED;
    for (size_t i = 0; i < bytes >> SA_PAGE_SHIFT; i++)
        fake.pages[first + i] = (fake.pages[first + i] & FAKE_OWNED) | FAKE_MAPPED;
    return SA_VM_ZEROED;
}

/* A refusal may come after part of the range was changed. */
static bool set_advice(void *p, size_t bytes, unsigned char set)
{
    size_t first, n = bytes >> SA_PAGE_SHIFT;
    bool ok = !fails(fake.advise_fails);

    if (!is_heap(p)) /* sampled spans */
        return true;
    assert_int_equal((uintptr_t)p % SA_HUGE_BYTES, 0);
    assert_int_equal(bytes % SA_HUGE_BYTES, 0);
    first = fake_page(p);
    for (size_t i = first; i < first + (ok ? n : n / 2); i++) {
        unsigned char was = fake.pages[i] & (unsigned char)~(FAKE_NO_HUGEPAGES | FAKE_ADVISED);

        assert_true(was & FAKE_MAPPED);
        fake.pages[i] = was | set;
    }
    fake.advised += ok;
    return ok;
}

bool __wrap_sa_vm_no_hugepages(void *p, size_t bytes)
{
    return set_advice(p, bytes, FAKE_NO_HUGEPAGES);
}

bool __wrap_sa_vm_hugepages(void *p, size_t bytes)
{
    return set_advice(p, bytes, FAKE_ADVISED);
}

size_t __wrap_sa_vm_resident(const void *p, size_t bytes)
{
    size_t count = 0;

    for (size_t i = 0, first = fake_page(p); i < bytes >> SA_PAGE_SHIFT; i++)
        count += (fake.pages[first + i] & FAKE_MEMORY) != 0;
    return count << SA_PAGE_SHIFT;
}

bool __wrap_sa_vm_collapse(void *p, size_t bytes)
{
    size_t first = fake_page(p);

    assert_int_equal((uintptr_t)p % SA_HUGE_BYTES, 0);
    if (fake.collapse_fails)
        return false;
    for (size_t i = 0; i < bytes >> SA_PAGE_SHIFT; i++)
        if (fake.pages[first + i] & FAKE_NO_HUGEPAGES)
            return false;
    for (size_t i = 0; i < bytes >> SA_PAGE_SHIFT; i++) {
        assert_true(fake.pages[first + i] & FAKE_MAPPED);
        fake.pages[first + i] |= FAKE_MEMORY;
    }
    fake.collapses++;
    return true;
}

long __wrap_sa_sys_read_file(const char *path, char *buf, size_t cap)
{
    assert_string_equal(path, "/sys/kernel/mm/transparent_hugepage/enabled");
    assert_true(strlen(fake.mode) < cap);
    strcpy(buf, fake.mode);
    return (long)strlen(fake.mode);
}

void fake_own(uintptr_t start, size_t pages, bool owned)
{
    unsigned char *page = &fake.pages[fake_page((void *)start)];

    for (size_t i = 0; i < pages; i++) {
        assert_int_equal(page[i] & (FAKE_MAPPED | FAKE_OWNED),
                         owned ? FAKE_MAPPED : FAKE_MAPPED | FAKE_OWNED);
        page[i] = owned ? page[i] | FAKE_OWNED : page[i] & (unsigned char)~FAKE_OWNED;
    }
}

/* The first page of a hugepage that is written to brings memory for all of it, where it may. */
static void touch_hugepage(size_t first)
{
    for (size_t i = first; i < first + SA_HUGE_PAGES; i++)
        if (fake.pages[i] & (FAKE_MEMORY | FAKE_NO_HUGEPAGES) ||
            !(fake.eager || fake.pages[i] & FAKE_ADVISED))
            return;
    for (size_t i = first; i < first + SA_HUGE_PAGES; i++)
        fake.pages[i] |= FAKE_MEMORY;
}

void __wrap_sa_vm_touch(void *p)
{
    size_t page = fake_page(p);

    fake.touches++;
    fake.small_touches += !fake.eager && !(fake.pages[page] & FAKE_ADVISED);
    if (!(fake.pages[page] & FAKE_MEMORY))
        touch_hugepage(sa_align_down(page, SA_HUGE_PAGES));
    fake.pages[page] |= FAKE_MEMORY; /* which stays zero */
}

void fake_touch(uintptr_t start, size_t pages)
{
    size_t first = fake_page((void *)start);

    for (size_t i = first; i < first + pages; i++) {
        if (!(fake.pages[i] & FAKE_MEMORY))
            touch_hugepage(sa_align_down(i, SA_HUGE_PAGES));
        fake.pages[i] |= FAKE_MEMORY | FAKE_DIRTY;
    }
}

size_t fake_held(void)
{
    size_t held = 0;

    for (size_t i = fake.first; i < fake.end; i++)
        held += (fake.pages[i] & (FAKE_MAPPED | FAKE_OWNED | FAKE_MEMORY)) ==
                (FAKE_MAPPED | FAKE_MEMORY);
    return held;
}

void fake_check_advice(void)
{
    struct sa_huge_heap *h = sa_page_heap_ordinary.huge;
    size_t on = 0, off = 0, edges = 0;
    enum sa_thp_policy before = SA_ADVICE_NONE;

    for (size_t i = 0; i <= FAKE_PAGES; i += SA_HUGE_PAGES) {
        enum sa_thp_policy a = sa_hugepage_map_advice(&h->owners, (SA_HOME_START >> SA_HUGE_SHIFT) +
                                                                      i / SA_HUGE_PAGES);

        on += a == SA_ADVICE_ON;
        off += a == SA_ADVICE_OFF;
        edges += a != before || a == SA_ADVICE_MIXED;
        before = a;
        for (size_t k = i; k < i + SA_HUGE_PAGES && k < FAKE_PAGES && a != SA_ADVICE_MIXED; k++)
            assert_int_equal(fake.pages[k] & (FAKE_ADVISED | FAKE_NO_HUGEPAGES),
                             a == SA_ADVICE_ON    ? FAKE_ADVISED
                             : a == SA_ADVICE_OFF ? FAKE_NO_HUGEPAGES
                                                  : 0);
    }
    assert_int_equal(h->collapse.advised, on);
    assert_int_equal(h->collapse.thp_disabled, off);
    assert_int_equal(h->advisor.edges, edges);
}

void fake_begin(void)
{
    fake.pages = calloc(FAKE_PAGES, 1);
    fake.mode = "always [madvise] never\n";
    fake.random.state = 1;
    fake.first = FAKE_PAGES;
}

static void clear_range(uintptr_t start, uintptr_t end)
{
    memset(&fake.pages[fake_page((void *)start)], 0, (end - start) >> SA_PAGE_SHIFT);
}

void fake_again(void)
{
    unsigned char *pages = fake.pages;

    page_heap_each_range(clear_range);
    page_heap_forget();
    memset(&fake, 0, sizeof(fake));
    fake.pages = pages;
    fake.mode = "always [madvise] never\n";
    fake.random.state = 1;
    fake.first = FAKE_PAGES;
}
