/* SPDX-License-Identifier: Apache-2.0 */
/* Finds loaded objects (loaded_object.h) where the C library has no _dl_find_object, by a walk of
 * the loader's list. */
#include "sampling/stack/loaded_object.h"

#include "alloc/base/bits.h"

#include <link.h>

#if !SA_FIND_OBJECT

struct search {
    uintptr_t address;
    struct sa_loaded_object *ret;
};

/* Returns the loader's record of an object that dl_iterate_phdr shows. Both refer to the same
 * string of its name, so the pointers are compared. */
static const struct link_map *map_of(const struct dl_phdr_info *info)
{
    const struct link_map *map = _r_debug.r_map;

    while (map && (map->l_addr != info->dlpi_addr || map->l_name != info->dlpi_name))
        map = map->l_next;
    return map;
}

/* Stores the object in *ret and returns 1 if one of its segments has the address: ends the walk. */
static int look_at(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct search *s = arg;
    uintptr_t start = UINTPTR_MAX, end = 0, index = 0;
    bool has = false;

    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
            index = at;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        start = sa_min(start, at - info->dlpi_phdr[i].p_vaddr % info->dlpi_phdr[i].p_align);
        end = sa_max(end, at + info->dlpi_phdr[i].p_memsz);
        has |= s->address - at < info->dlpi_phdr[i].p_memsz;
    }
    if (!has)
        return 0;
    *s->ret = (struct sa_loaded_object){start, end, map_of(info), (const uint8_t *)index};
    return 1;
}

bool sa_loaded_object_find(uintptr_t address, struct sa_loaded_object *ret)
{
    return dl_iterate_phdr(look_at, &(struct search){address, ret}) != 0;
}

#endif
