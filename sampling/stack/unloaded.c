/* SPDX-License-Identifier: Apache-2.0 */
/* Names of objects that were unloaded (unloaded.h), and the change of a table's stacks. */
#include "sampling/stack/unloaded.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fmt.h"
#include "alloc/base/layout.h"
#include "sampling/stack/stack_table_internal.h"

#include <string.h>

SA_LAYOUT_USED struct sa_unloaded sa_unloaded;

SA_LAYOUT = {
    SA_LAYOUT_SIZE(struct sa_unloaded),
    SA_LAYOUT_FIELD(struct sa_unloaded, count),
    SA_LAYOUT_FIELD(struct sa_unloaded, names),
};
SA_LAYOUT_ADDRESS(sa_unloaded);

void sa_unloaded_format(const struct sa_unloaded *names, uintptr_t pc, struct sa_fmt *f)
{
    uint32_t number = (uint32_t)((pc & ~SA_UNLOADED_BIT) >> SA_UNLOADED_SHIFT);
    bool known = number < sa_min(sa_load_acquire(&names->count), SA_UNLOADED_NAMES);

    sa_fmt_add(f, "[unloaded %s+0x%zx]", known ? names->names[number] : "object",
               (size_t)((pc & SA_UNLOADED_OFFSET) - 1));
}

/* Returns the number of a name, which is added if it is new. All names beyond the first
 * SA_UNLOADED_NAMES - 1 have one number. */
static uint32_t number_of(const char *name) SA_REQUIRES(SA_RANK_STACKS)
{
    uint32_t count = sa_unloaded.count;

    for (uint32_t i = 0; i < count; i++)
        if (strncmp(sa_unloaded.names[i], name, SA_UNLOADED_NAME - 1) == 0)
            return i;
    if (count == SA_UNLOADED_NAMES - 1) /* the rest have the number behind the last name */
        return count;
    for (size_t i = 0; name[i] && i < SA_UNLOADED_NAME - 1; i++)
        sa_unloaded.names[count][i] = name[i];
    sa_store_release(&sa_unloaded.count, count + 1);
    return count;
}

/* Changes the frames that a stack has in the object. False: it has none. */
static bool change(struct sa_stack *s, uintptr_t start, uintptr_t end, uintptr_t base,
                   const char *name) SA_REQUIRES(SA_RANK_STACKS)
{
    bool any = false;

    for (unsigned i = 0; i < s->depth; i++)
        if (s->pc[i] - 1 - start < end - start) {
            sa_store_relaxed(&s->pc[i], sa_unloaded_place(number_of(name), s->pc[i] - base));
            any = true;
        }
    return any;
}

void sa_stack_table_unload(struct stack_table *t, uintptr_t start, uintptr_t end, uintptr_t base,
                           const char *name)
{
    struct sa_stack *moved = NULL, *next;

    for (unsigned i = 0; t->buckets && i < t->used; i++)
        for (struct sa_stack **at = &t->buckets[i]; *at;) {
            struct sa_stack *s = *at;

            if (change(s, start, end, base, name)) {
                *at = s->next;
                s->next = moved;
                moved = s;
            } else {
                at = &s->next;
            }
        }
    for (; moved; moved = next) {
        struct sa_stack **bucket;

        next = moved->next;
        moved->hash = stack_hash_of(moved->pc, moved->depth);
        bucket = stack_bucket_of(t, moved->hash);
        moved->next = *bucket;
        *bucket = moved;
    }
}
