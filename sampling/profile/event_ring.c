/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of events; see event_ring.h, which has the argument for readers without a lock. */
#include "sampling/profile/event_ring.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/layout.h"
#include "alloc/os/vm.h"

SA_LAYOUT = {
    SA_LAYOUT_FIELD(struct sa_event_ring, records),
    SA_LAYOUT_FIELD(struct sa_event_ring, cap),
    SA_LAYOUT_FIELD(struct sa_event_ring, begun),
    SA_LAYOUT_FIELD(struct sa_event_ring, written),
    SA_LAYOUT_SIZE(struct sa_ring_event),
    SA_LAYOUT_FIELD(struct sa_ring_event, handle),
    SA_LAYOUT_FIELD(struct sa_ring_event, time_ns),
    SA_LAYOUT_FIELD(struct sa_ring_event, free_time_ns),
    SA_LAYOUT_FIELD(struct sa_ring_event, stack),
    SA_LAYOUT_FIELD(struct sa_ring_event, free_stack),
    SA_LAYOUT_FIELD(struct sa_ring_event, p),
    SA_LAYOUT_FIELD(struct sa_ring_event, interval),
    SA_LAYOUT_FIELD(struct sa_ring_event, offset),
    SA_LAYOUT_FIELD(struct sa_ring_event, hits),
    SA_LAYOUT_FIELD(struct sa_ring_event, address),
    SA_LAYOUT_FIELD(struct sa_ring_event, requested),
    SA_LAYOUT_FIELD(struct sa_ring_event, allocated),
    SA_LAYOUT_FIELD(struct sa_ring_event, align),
    SA_LAYOUT_FIELD(struct sa_ring_event, tid),
    SA_LAYOUT_FIELD(struct sa_ring_event, free_tid),
    SA_LAYOUT_FIELD(struct sa_ring_event, cpu),
    SA_LAYOUT_FIELD(struct sa_ring_event, free_cpu),
    SA_LAYOUT_FIELD(struct sa_ring_event, kind),
    SA_LAYOUT_FIELD(struct sa_ring_event, guarded),
};

SA_STATIC_ASSERT(sizeof(struct sa_ring_event) == 120, "include/salloc/profile.h says so");

static size_t page_bytes(void)
{
    return sa_max(sa_vm.page_bytes, 4096);
}

bool sa_event_ring_open(struct sa_event_ring *ring, size_t bytes)
{
    bytes = sa_align_up(sa_max(sa_min(bytes, SA_EVENT_RING_MAX), 1), page_bytes());
    *ring = (struct sa_event_ring){.cap = bytes / sizeof(*ring->records), .bytes = bytes};
    ring->records = sa_vm_map(NULL, bytes, "salloc:events");
    return ring->records != NULL;
}

static void event_unref(const struct sa_ring_event *event)
{
    sa_stack_unref(event->stack);
    if (event->free_stack)
        sa_stack_unref(event->free_stack);
}

void sa_event_ring_add(struct sa_event_ring *ring, const struct sa_ring_event *event)
{
    uint64_t n = ring->written;
    struct sa_ring_event *place = &ring->records[n % ring->cap];

    sa_stack_ref(event->stack);
    if (event->free_stack)
        sa_stack_ref(event->free_stack);
    sa_store_relaxed(&ring->begun, n + 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    if (n >= ring->cap)
        event_unref(place);
    *place = *event;
    sa_store_release(&ring->written, n + 1);
}

void sa_event_ring_trim(struct sa_event_ring *ring)
{
    size_t used =
        sa_max(sa_align_up(sa_event_ring_count(ring) * sizeof(*ring->records), page_bytes()),
               page_bytes());

    if (ring->written >= ring->cap || used >= ring->bytes)
        return;
    sa_vm_unmap((char *)ring->records + used, ring->bytes - used);
    ring->bytes = used;
    ring->cap = used / sizeof(*ring->records);
}

void sa_event_ring_close(struct sa_event_ring *ring)
{
    for (size_t i = 0; i < sa_event_ring_count(ring); i++)
        event_unref(sa_event_ring_get(ring, i));
    if (ring->records)
        sa_vm_unmap(ring->records, ring->bytes);
    *ring = (struct sa_event_ring){0};
}
