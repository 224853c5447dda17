/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks hwloc for the domains of the last-level cache; see topology.h. hwloc is large, and no
 * program should pay for it at start. So the library is loaded for the question and closed
 * afterwards.
 *
 * The flag `discovering` ensures that one thread asks at a time, and guards the static array. It is
 * no lock of lock_ranks.def, because hwloc allocates.
 */
#include "alloc/middle/topology.h"

#include "alloc/base/atomic.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/loader.h"
#include "alloc/os/percpu.h"
#include "alloc/os/sys.h"

#include <errno.h>
#include <string.h>

/* 1: a thread asks; atomic: acquired by exchange, released by a store with release order */
static SA_START_DATA uint8_t discovering;

bool sa_topology_may_matter(void)
{
    char shared[256], online[256];

    if (sa_sys_read_file("/sys/devices/system/cpu/online", online, sizeof(online)) <= 0)
        return false;
    if (sa_sys_read_file("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", shared,
                         sizeof(shared)) <= 0 &&
        sa_sys_read_file("/sys/devices/system/cpu/cpu0/cache/index2/shared_cpu_list", shared,
                         sizeof(shared)) <= 0)
        return false;
    return strcmp(shared, online) != 0;
}

#if SA_HWLOC

#include <dlfcn.h>
#include <hwloc.h>

struct hwloc_functions {
    __typeof__(hwloc_topology_init) *init;
    __typeof__(hwloc_topology_load) *load;
    __typeof__(hwloc_topology_destroy) *destroy;
    __typeof__(hwloc_get_type_depth) *type_depth;
    __typeof__(hwloc_get_nbobjs_by_depth) *count;
    __typeof__(hwloc_get_obj_by_depth) *object;
    __typeof__(hwloc_bitmap_next) *next;
};

/* Looks up hwloc's functions. False: one is missing. */
static bool topology_find(void *library, struct hwloc_functions *f)
{
    f->init = (__typeof__(f->init))sa_loader_dlsym(library, "hwloc_topology_init");
    f->load = (__typeof__(f->load))sa_loader_dlsym(library, "hwloc_topology_load");
    f->destroy = (__typeof__(f->destroy))sa_loader_dlsym(library, "hwloc_topology_destroy");
    f->type_depth = (__typeof__(f->type_depth))sa_loader_dlsym(library, "hwloc_get_type_depth");
    f->count = (__typeof__(f->count))sa_loader_dlsym(library, "hwloc_get_nbobjs_by_depth");
    f->object = (__typeof__(f->object))sa_loader_dlsym(library, "hwloc_get_obj_by_depth");
    f->next = (__typeof__(f->next))sa_loader_dlsym(library, "hwloc_bitmap_next");
    return f->init && f->load && f->destroy && f->type_depth && f->count && f->object && f->next;
}

/* The depth of the outermost cache level that hwloc knows; -1: it knows none. */
static int topology_depth(const struct hwloc_functions *f, hwloc_topology_t topology)
{
    static const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE,
                                              HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE};

    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        int depth = f->type_depth(topology, levels[i]);

        if (depth >= 0)
            return depth;
    }
    return -1;
}

/* Passes the domain of each CPU to `apply`. Returns the domains in use. */
static int topology_apply(const struct hwloc_functions *f, hwloc_topology_t topology,
                          sa_topology_apply *apply)
{
    static uint8_t domain_of[SA_SLABS]; /* guarded by `discovering` */
    int depth = topology_depth(f, topology);
    unsigned domains = depth < 0 ? 0 : f->count(topology, depth);

    if (domains < 2 || domains > UINT8_MAX)
        return 1;
    for (unsigned d = 0; d < domains; d++) {
        hwloc_obj_t cache = f->object(topology, depth, d);

        for (int cpu = f->next(cache->cpuset, -1); cpu >= 0 && cpu < SA_SLABS;
             cpu = f->next(cache->cpuset, cpu))
            domain_of[cpu] = (uint8_t)d;
    }
    apply(domain_of, SA_SLABS, domains);
    return (int)sa_transfer_domains();
}

/* Lets hwloc read the topology. Returns the domains in use, or a negative errno. */
static int topology_ask(void *library, sa_topology_apply *apply)
{
    struct hwloc_functions f;
    hwloc_topology_t topology;
    int domains = -ENOMEM;

    if (!topology_find(library, &f))
        return -ENOENT;
    if (f.init(&topology) != 0)
        return -ENOMEM;
    if (f.load(topology) == 0)
        domains = topology_apply(&f, topology, apply);
    f.destroy(topology);
    return domains;
}

typedef void *(*dlopen_function)(const char *, int);

/* Loads hwloc, asks it, and closes it. dlopen is looked up by name: a static library that refers to
 * dlopen makes the linker warn in each program. A static program finds no dlopen here, and goes
 * without hwloc. */
static int topology_load(sa_topology_apply *apply)
{
    dlopen_function open = (dlopen_function)sa_loader_dlsym(RTLD_DEFAULT, "dlopen");
    void *library = open ? open("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL) : NULL;
    int domains;

    if (!library)
        return -ENOENT;
    domains = topology_ask(library, apply);
    dlclose(library);
    return domains;
}

#else

static int topology_load(sa_topology_apply *apply)
{
    (void)apply;
    return -ENOENT;
}

#endif

SA_FORK void sa_topology_after_fork(void)
{
    sa_store_changed(&discovering, 0);
}

int sa_topology_discover(sa_topology_apply *apply)
{
    int domains;

    if (sa_xchg_acquire(&discovering, 1))
        return (int)sa_transfer_domains();
    domains = topology_load(apply);
    sa_store_release(&discovering, 0);
    return domains;
}
