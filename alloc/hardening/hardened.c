/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of objects; see hardened.h. No state. */
#include "alloc/hardening/hardened.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/hardening/quarantine.h"
#include "alloc/os/thread.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/sample_quarantine.h"

#include <string.h>

static size_t object_bytes(unsigned cls)
{
    return sa_size_classes.of[cls].size;
}

/* True if `what`, the beginning of a message, comes from a call that frees. */
static bool is_free_call(const char *what)
{
    return strcmp(what, "invalid free") == 0;
}

SA_NORETURN SA_COLD static void written_after_free(const void *object, size_t bytes,
                                                   const void *where)
{
    sa_fatal("use after free", where,
             "was written, at offset %zu of a freed block of %zu bytes at %p",
             (size_t)((uintptr_t)where - (uintptr_t)object), bytes, object);
}

/* Checks the junk that filled the object when it was freed. */
static void check_junk(const void *object, unsigned cls)
{
    size_t bytes = object_bytes(cls) - sa_hardening.tail;
    const void *where = sa_junk_damage(object, bytes);

    if (SA_UNLIKELY(where != NULL))
        written_after_free(object, bytes, where);
}

void sa_hardened_check_free(void *object, unsigned cls)
{
    size_t size;

    SA_DCHECK(sa_hardening.on && cls);
    if (SA_UNLIKELY(sa_pagemap_class((uintptr_t)object) != cls))
        sa_fatal("heap corruption", object, "was handed out as a block of %zu bytes, and is none",
                 object_bytes(cls));
    if (!sa_hardening.canaries)
        return;
    switch (sa_canary_read(object, object_bytes(cls), &size)) {
    case SA_CANARY_FREE:
        check_junk(object, cls);
        break;
    case SA_CANARY_FRESH:
        break;
    case SA_CANARY_USED:
        sa_fatal("heap corruption", object, "is free and in use (block of %zu bytes)", size);
    case SA_CANARY_BROKEN:
        check_junk(object, cls);
        written_after_free(object, object_bytes(cls) - SA_CANARY_BYTES,
                           (char *)object + object_bytes(cls) - SA_CANARY_BYTES);
    }
}

void sa_hardened_change(void *block, unsigned cls, size_t size, unsigned origin)
{
    SA_DCHECK(sa_hardening.on && size <= object_bytes(cls) - sa_hardening.tail);
    if (sa_hardening.canaries)
        sa_canary_use(block, object_bytes(cls), sa_max(size, 1), origin);
}

void sa_hardened_begin(void *object, unsigned cls, size_t size, unsigned origin)
{
    /* The slack is written before the canary says that the block is in use, because a signal
     * handler may look in between. Meanwhile the object is fresh. */
    if (sa_hardening.canaries)
        sa_canary_fresh(object, object_bytes(cls));
    sa_signal_fence();
    sa_hardened_change(object, cls, size, origin);
}

unsigned sa_hardened_origin(const void *block, unsigned cls)
{
    SA_DCHECK(sa_hardening.canaries);
    return sa_canary_origin(block, object_bytes(cls));
}

/* Reports a broken canary. Only the class tells the block's size. */
SA_NORETURN SA_COLD static void canary_broken(const void *block, size_t bytes)
{
    sa_fatal("heap buffer overflow", (char *)block + bytes - SA_CANARY_BYTES,
             "was written, behind the end of a block of at most %zu bytes at %p",
             bytes - SA_CANARY_BYTES, block);
}

/* Checks the slack between `size` and `end`. */
static void check_slack(const void *block, size_t size, size_t end)
{
    const char *where = sa_slack_damage((const char *)block + size, end - size);

    if (SA_UNLIKELY(where != NULL))
        sa_fatal("heap buffer overflow", where,
                 "was written, %zu bytes behind the end of a block of %zu bytes at %p",
                 (size_t)((uintptr_t)where - (uintptr_t)block) - size, size, block);
}

size_t sa_hardened_size(const void *block, unsigned cls, const char *what)
{
    size_t bytes = object_bytes(cls), size = 0;

    SA_DCHECK(sa_hardening.canaries);
    switch (sa_canary_read(block, bytes, &size)) {
    case SA_CANARY_USED:
        check_slack(block, size, bytes - SA_CANARY_BYTES);
        break;
    case SA_CANARY_FREE:
        sa_fatal(is_free_call(what) ? "double free" : what, block,
                 "was freed before (block of at most %zu bytes)", bytes - SA_CANARY_BYTES);
    case SA_CANARY_FRESH:
        sa_fatal(what, block, "was not allocated (block of at most %zu bytes)",
                 bytes - SA_CANARY_BYTES);
    case SA_CANARY_BROKEN:
        canary_broken(block, bytes);
    }
    return size;
}

size_t sa_hardened_size_if_used(const void *block, unsigned cls)
{
    size_t size;

    switch (sa_canary_read(block, object_bytes(cls), &size)) {
    case SA_CANARY_USED:
        return size;
    case SA_CANARY_BROKEN:
        return object_bytes(cls) - SA_CANARY_BYTES;
    default:
        return 0;
    }
}

void sa_hardened_end(void *block, unsigned cls)
{
    size_t bytes = object_bytes(cls);

    /* Another thread may have freed the block since it was checked. */
    if (sa_hardening.canaries && SA_UNLIKELY(sa_canary_free(block, bytes) != SA_CANARY_USED))
        sa_fatal("double free", block, "was freed before (block of at most %zu bytes)",
                 bytes - SA_CANARY_BYTES);
    if (sa_hardening.junk_freed)
        sa_junk_fill(block, bytes - sa_hardening.tail);
}

/* Frees a block that has left the quarantine. */
static void release(struct sa_quarantined b) SA_INSIDE_GATE
{
    if (!b.cls) {
        struct sa_span *span = sa_pagemap_span((uintptr_t)b.block);

        SA_CHECK(span);
        sa_sample_quarantine_return(span, true);
        return;
    }
    /* Objects with a canary are checked when they are used again, which also covers the time until
     * then. */
    if (sa_hardening.junk_freed && !sa_hardening.canaries)
        check_junk(b.block, b.cls);
    sa_cpu_cache_return(b.cls, b.block);
}

/* Puts a block into the quarantine, and frees blocks in excess. False: the block does not enter. */
static bool quarantine(struct sa_quarantined b) SA_INSIDE_GATE
{
    enum sa_quarantine_result result;
    struct sa_quarantined out;

    if (!sa_hardening.quarantine_bytes)
        return false;
    result = sa_quarantine_put(b);
    if (SA_UNLIKELY(result == SA_QUARANTINE_TWICE))
        sa_fatal("double free", b.block, "was freed before (block of %zu bytes)",
                 object_bytes(b.cls));
    while (sa_quarantine_take(b.cls == 0, false, &out))
        release(out);
    return result == SA_QUARANTINE_TAKEN;
}

void sa_hardened_free(void *object, unsigned cls)
{
    SA_DCHECK(sa_thread.gate_depth && sa_hardening.on);
    if (quarantine((struct sa_quarantined){object, cls}))
        sa_cpu_cache_count_free(cls);
    else
        sa_cpu_cache_free(cls, object);
}

bool sa_hardened_quarantine_large(void *block)
{
    return quarantine((struct sa_quarantined){block, 0});
}

/* A block of 0 bytes counts as 1 byte, which malloc_usable_size returns for it. */
SA_ONCE void sa_hardened_arm_large(void *block, size_t size, size_t bytes)
{
    size = sa_max(size, 1);
    SA_DCHECK(sa_hardening.inspect && size <= bytes);
    sa_slack_fill((char *)block + size, bytes - size);
}

void sa_hardened_check_large(const void *block, size_t size, size_t bytes)
{
    SA_DCHECK(sa_hardening.inspect && sa_max(size, 1) <= bytes);
    check_slack(block, sa_max(size, 1), bytes);
}

const void *sa_hardened_junk_damage(const void *object, unsigned cls)
{
    return sa_junk_damage(object, object_bytes(cls) - sa_hardening.tail);
}

const void *sa_hardened_slack_damage(const void *block, unsigned cls, size_t size)
{
    return sa_slack_damage((const char *)block + size, object_bytes(cls) - SA_CANARY_BYTES - size);
}

void sa_hardened_say_written(const void *object, unsigned cls, const void *where)
{
    written_after_free(object, object_bytes(cls) - sa_hardening.tail, where);
}

void sa_hardened_say_broken(const void *block, unsigned cls)
{
    canary_broken(block, object_bytes(cls));
}

void sa_hardened_flush(void)
{
    struct sa_quarantined out;

    SA_DCHECK(sa_thread.gate_depth);
    while (sa_hardening.quarantine_bytes &&
           (sa_quarantine_take(false, true, &out) || sa_quarantine_take(true, true, &out)))
        release(out);
}
