/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of loaded objects at the last look (unloads.h). The thread that has made `busy` 1 owns
 * all of it; another one that looks meanwhile does nothing, as a later look finds the same. In a
 * child of fork whose parent was looking nothing is noticed any more.
 */
#include "sampling/symbolize/unloads.h"

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "sampling/estimate/rates.h"
#include "sampling/stack/stack.h"
#include "sampling/stack/unloaded.h"
#include "sampling/symbolize/mappings.h"

#include <link.h>
#include <string.h>

#define OBJECTS_MIN 128
#define OBJECTS_MAX 16384

struct object {
    uintptr_t start, end, base;
    char name[SA_UNLOADED_NAME];
};

struct list {
    struct object *of;
    size_t count, cap;
    unsigned long long adds, subs; /* of the loader: objects ever loaded, and unloaded */
};

static uint32_t busy; /* atomic */
static struct list last;

static size_t list_bytes(size_t cap)
{
    return sa_align_up(cap * sizeof(struct object), sa_max(sa_vm.page_bytes, 4096));
}

static void list_free(struct list *l)
{
    if (l->of)
        sa_vm_unmap(l->of, list_bytes(l->cap));
}

/* Makes room for one more object. False: no memory, or too many. */
static bool list_grow(struct list *l)
{
    struct list more = {.cap = l->cap ? 2 * l->cap : OBJECTS_MIN};

    if (l->count < l->cap)
        return true;
    more.of =
        more.cap <= OBJECTS_MAX ? sa_vm_map(NULL, list_bytes(more.cap), "salloc:objects") : NULL;
    if (!more.of)
        return false;
    if (l->count)
        memcpy(more.of, l->of, l->count * sizeof(*l->of));
    list_free(l);
    l->of = more.of;
    l->cap = more.cap;
    return true;
}

static int read_counts(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct list *l = arg;

    (void)bytes;
    l->adds = info->dlpi_adds;
    l->subs = info->dlpi_subs;
    return 1;
}

static int add_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct list *l = arg;
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    struct object o = {.start = UINTPTR_MAX, .base = info->dlpi_addr};

    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type != PT_LOAD)
            continue;
        o.start = sa_min(o.start, info->dlpi_addr + p->p_vaddr);
        o.end = sa_max(o.end, info->dlpi_addr + p->p_vaddr + p->p_memsz);
    }
    for (size_t i = 0; name[i] && i < sizeof(o.name) - 1; i++)
        o.name[i] = name[i];
    if (!list_grow(l))
        return -1;
    l->of[l->count++] = o;
    l->adds = info->dlpi_adds;
    l->subs = info->dlpi_subs;
    return 0;
}

/* The loader adds objects at the end of its list, so most are where they were. */
static bool list_has(const struct list *l, const struct object *o, size_t at)
{
    if (at < l->count && memcmp(&l->of[at], o, sizeof(*o)) == 0)
        return true;
    for (size_t i = 0; i < l->count; i++)
        if (memcmp(&l->of[i], o, sizeof(*o)) == 0)
            return true;
    return false;
}

static void look(void)
{
    struct list now = {NULL, 0, 0, 0, 0};

    if (sa_mappings_each(add_object, &now) != 0) {
        list_free(&now);
        return;
    }
    for (size_t i = 0; i < last.count; i++) {
        const struct object *o = &last.of[i];

        if (o->start < o->end && !list_has(&now, o, i))
            sa_stack_unload(o->start, o->end, o->base, o->name);
    }
    list_free(&last);
    last = now;
}

void sa_unloads_look(bool loaded)
{
    struct list now = {NULL, 0, 0, 0, 0};

    if (!sa_rates_interval())
        return;
    sa_mappings_each(read_counts, &now);
    if (now.subs == sa_load_relaxed(&last.subs) &&
        (!loaded || now.adds == sa_load_relaxed(&last.adds)))
        return;
    if (sa_xchg_acquire(&busy, 1))
        return;
    look();
    sa_store_release(&busy, 0);
}
