/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of alloc/os/percpu.h in plain C: a stand-in for the critical sections of an
 * architecture that has none yet. They are right for a cache per thread only, where no other code
 * works on the slab (doc/porting.md, "Order of work").
 */
#ifndef SA_TEST_LINT_PORT_PERCPU_PLAIN_H
#define SA_TEST_LINT_PORT_PERCPU_PLAIN_H

#ifndef SA_OS_PERCPU_H
#error "include alloc/os/percpu.h"
#endif

#include <string.h>

SA_INLINE void *sa_thread_pointer(void)
{
    return __builtin_thread_pointer();
}

SA_INLINE int32_t sa_plain_cpu(const void *hot)
{
    return *(const int32_t *)((char *)sa_thread_pointer() + SA_PERCPU_AREA_OFFSET(hot) +
                              SA_RSEQ_CPU_ID);
}

SA_INLINE struct sa_slab *sa_plain_slab(const void *hot)
{
    return ((struct sa_slab *const *)((const char *)hot + SA_HOT_SLABS))[sa_plain_cpu(hot)];
}

SA_INLINE struct sa_header *sa_plain_header(const void *hot, size_t cls)
{
    return (struct sa_header *)((char *)sa_plain_slab(hot) + cls);
}

/* Changes the lower half of the state only: other threads may read the upper half meanwhile. */
SA_INLINE void sa_plain_commit(struct sa_header *header, uint32_t count)
{
    memcpy(&header->state, &count, sizeof(count));
}

#define SA_PERCPU_POP(hot_, cls, obj, slow, again)                                                 \
    do {                                                                                           \
        struct sa_header *header_ = sa_plain_header(hot_, cls);                                    \
        uint32_t count_ = (uint32_t)header_->state - SA_POP_ONE;                                   \
                                                                                                   \
        if (false)                                                                                 \
            goto again;                                                                            \
        if (count_ & SA_BORROWS)                                                                   \
            goto slow;                                                                             \
        (obj) = header_->slots[(count_ & SA_FILLED_MASK) / 8];                                     \
        sa_plain_commit(header_, count_);                                                          \
    } while (0)

#define SA_PERCPU_PUSH(hot_, cls, obj, full, twice, again)                                         \
    do {                                                                                           \
        struct sa_header *header_ = sa_plain_header(hot_, cls);                                    \
        uint32_t filled_ = (uint32_t)header_->state & SA_FILLED_MASK;                              \
        void **top_;                                                                               \
                                                                                                   \
        if (false)                                                                                 \
            goto again;                                                                            \
        if (filled_ >= (header_->state >> 32 & 0xffff))                                            \
            goto full;                                                                             \
        top_ = header_->slots + filled_ / 8;                                                       \
        if (top_[-1] == (obj))                                                                     \
            goto twice;                                                                            \
        *top_ = (obj);                                                                             \
        sa_plain_commit(header_, (uint32_t)header_->state + 8);                                    \
    } while (0)

SA_INLINE size_t sa_percpu_push_batch_at(void *hot, size_t cls, void *const *objs, size_t n)
{
    struct sa_header *header = sa_plain_header(hot, cls);
    uint32_t filled = (uint32_t)header->state & SA_FILLED_MASK;
    uint32_t cap = header->state >> 32 & 0xffff;
    size_t room = filled < cap ? (cap - filled) / 8 : 0, k = n < room ? n : room;

    memcpy(header->slots + filled / 8, objs, k * sizeof(*objs));
    sa_plain_commit(header, (uint32_t)header->state + (uint32_t)k * 8);
    return k;
}

SA_INLINE size_t sa_percpu_pop_batch_at(void *hot, size_t cls, void **out, size_t n)
{
    struct sa_header *header = sa_plain_header(hot, cls);
    size_t held = ((uint32_t)header->state & SA_FILLED_MASK) / 8, k = n < held ? n : held;

    memcpy(out, header->slots + held - k, k * sizeof(*out));
    sa_plain_commit(header, (uint32_t)header->state - (uint32_t)k * 8);
    return k;
}

SA_INLINE bool sa_percpu_store_at(void *hot, int32_t cpu, struct sa_slab *expect_slab, size_t cls,
                                  uint64_t expect, void *word, uint64_t value)
{
    if (sa_plain_cpu(hot) != cpu || sa_plain_slab(hot) != expect_slab ||
        sa_plain_header(hot, cls)->state != expect)
        return false;
    memcpy(word, &value, sizeof(value));
    return true;
}

#endif
