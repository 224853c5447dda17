/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a report; see misuse_frames.h. No state. */
#include "sampling/guard/misuse_frames.h"

#include "alloc/base/fmt.h"
#include "alloc/base/fatal.h"
#include "sampling/guard/reporting.h"
#include "sampling/stack/loaded_object.h"
#include "sampling/stack/stack.h"
#include "sampling/stack/unloaded.h"
#include "sampling/symbolize/mappings.h"
#include "sampling/symbolize/symbols.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* A frame with its names. path and name are offsets in a buffer of names; 0: unknown. */
struct frame {
    uintptr_t offset; /* in the file of its object */
    size_t path, name;
};

/* Copies a path to names. Returns its offset; 0: no memory. */
static size_t copy_path(struct sa_buffer *names, const char *path)
{
    size_t bytes = strlen(path) + 1, at = names->used;
    char *copy = sa_buffer_add(names, bytes);

    if (!copy)
        return 0;
    memcpy(copy, path, bytes);
    return at;
}

/* Looks up all frames that are in the same loaded object as frame `first`. */
static void look_up(const uintptr_t *pc, struct frame *frames, unsigned depth, unsigned first,
                    struct sa_buffer *names)
{
    struct sa_symbol symbols[SA_STACK_MAX];
    unsigned frame_of[SA_STACK_MAX], n = 0;
    const struct sa_object *object;
    struct sa_mappings m;
    size_t path;

    if (sa_mappings_of(pc[first] - 1, &m) != 0)
        return;
    object = sa_mappings_object(&m, 0);
    path = copy_path(names, sa_mappings_name(&m, object));
    for (unsigned i = first; i < depth; i++) {
        unsigned at;

        if (frames[i].path || !sa_mappings_find(&m, pc[i] - 1))
            continue;
        frames[i].path = path;
        frames[i].offset = pc[i] - 1 - object->base;
        /* Sorted by address, as sa_symbols_find requires. */
        SA_DCHECK(n < SA_STACK_MAX);
        for (at = n++; at && symbols[at - 1].address > frames[i].offset; at--) {
            symbols[at] = symbols[at - 1];
            frame_of[at] = frame_of[at - 1];
        }
        symbols[at] = (struct sa_symbol){.address = frames[i].offset};
        frame_of[at] = i;
    }
    if (!object->vdso && !sa_reporting_late() && sa_symbols_find(&m, object, symbols, n, names))
        for (unsigned i = 0; i < n; i++)
            frames[frame_of[i]].name = symbols[i].name;
    sa_mappings_free(&m);
}

/* Writes a frame outside of all objects, or in one that was unloaded. */
static void bare_frame(uintptr_t pc, unsigned i)
{
    char name[SA_UNLOADED_NAME + 48];
    struct sa_fmt f;

    sa_fmt_init(&f, name, sizeof(name));
    if (sa_unloaded_is(pc))
        sa_unloaded_format(&sa_unloaded, pc, &f);
    else
        sa_fmt_add(&f, "0x%zx", (size_t)(pc - 1));
    sa_reporting_line("    #%u %s", i, name);
}

/* Writes a frame from the tables of the loader, without opening a file. */
static void plain_frame(uintptr_t pc, unsigned i)
{
    const struct link_map *map = NULL;
    struct sa_loaded_object found;

    if (sa_loaded_object_find(pc - 1, &found))
        map = found.map;
    if (map)
        sa_reporting_line("    #%u %s+0x%zx", i,
                          map->l_name[0] ? map->l_name : sa_reporting_program(),
                          (size_t)(pc - 1 - map->l_addr));
    else
        bare_frame(pc, i);
}

void sa_misuse_frames(const uintptr_t *pc, unsigned depth)
{
    struct frame frames[SA_STACK_MAX];
    struct sa_buffer names = {NULL, 0, 0};

    depth = depth < SA_STACK_MAX ? depth : SA_STACK_MAX;
    memset(frames, 0, sizeof(frames));
    if (sa_reporting_confined()) {
        for (unsigned i = 0; i < depth; i++)
            plain_frame(pc[i], i);
        return;
    }
    if (depth && sa_buffer_add(&names, 1)) /* offset 0 means unknown */
        for (unsigned i = 0; i < depth; i++)
            if (!frames[i].path)
                look_up(pc, frames, depth, i, &names);
    for (unsigned i = 0; i < depth; i++) {
        if (!frames[i].path)
            bare_frame(pc[i], i);
        else
            sa_reporting_line("    #%u %s+0x%zx %s", i, names.data + frames[i].path,
                              (size_t)frames[i].offset,
                              frames[i].name ? names.data + frames[i].name : "");
    }
    if (!depth)
        sa_reporting_line("    (the stack is not known)");
    sa_buffer_free(&names);
}
