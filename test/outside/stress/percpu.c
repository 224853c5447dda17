/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The critical sections themselves, on slabs of this test's own. They are compiled with a delay
 * before the commit, so that most preemptions, migrations and signals hit one; more threads than
 * CPUs push and pop objects one by one and in batches and replace headers, signal handlers do the
 * same in between, and one thread all the time stops a CPU with the real fence, looks at its slab,
 * takes from it, gives to it and lets it go on.
 *
 * Proves that every object has one owner at every moment and that none is lost: each carries its
 * owner, who exchanges it on taking and giving, and at the end all are counted. A run in which no
 * section was restarted proves nothing and fails.
 */
#include "alloc/base/atomic.h"
#include "alloc/hot/hot.h"
#include "alloc/os/rseq.h"
#include "test/outside/check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum {
    CLASSES = 4,
    OBJECTS = 20000,
    THREADS_MAX = 256,
    STOCK = 64,
    CAP_MAX = 200,
    THREADS_A_CPU = 6
};

/* Owners: a thread's number, or one of these. */
enum { IN_CACHE = 0, STOPPER = 1, FIRST_THREAD = 2, HANDLER = 1 << 16, LOOSE = 1 << 20 };

struct object {
    uint32_t owner; /* atomic */
    uint32_t cls;   /* const: objects never change classes */
};

struct worker {
    pthread_t thread;
    uint32_t number;
    uint64_t seed;
    struct object *stock[CLASSES + 1][STOCK];
    int n[CLASSES + 1];
    struct object *kept[CLASSES + 1]; /* the handler's */
};

__attribute__((visibility("hidden"))) int sa_percpu_delay; /* turns; read inside every section */

static struct object objects[OBJECTS];
static struct sa_slab empty;
static struct sa_slab *slabs[SA_SLABS];
static void **first_slots[SA_SLABS][CLASSES + 1]; /* of the two places of each class */
static struct worker workers[THREADS_MAX];
static _Thread_local struct worker *self;
static cpu_set_t allowed;
static int stop;                                          /* atomic */
static long operations, fences, handled, replaced, moved; /* atomic */

static void own(struct object *o, uint32_t cls, uint32_t from, uint32_t to)
{
    uint32_t was;

    REQUIRE(o >= objects && o < objects + OBJECTS && o->cls == cls);
    was = __atomic_exchange_n(&o->owner, to, __ATOMIC_ACQ_REL);
    if (was != from) {
        check_say("object %ld: owned by %u, taken from %u for %u", (long)(o - objects), was, from,
                  to);
        abort();
    }
}

static void pop_one(struct worker *w, uint32_t cls)
{
    struct object *o = sa_percpu_pop(cls);

    if (!o)
        return;
    own(o, cls, IN_CACHE, w->number);
    w->stock[cls][w->n[cls]++] = o;
}

static void push_one(struct worker *w, uint32_t cls)
{
    struct object *o = w->stock[cls][w->n[cls] - 1];
    enum sa_push pushed;

    own(o, cls, w->number, IN_CACHE);
    pushed = sa_percpu_push(cls, o);
    REQUIRE(pushed != SA_PUSH_TWICE);
    if (pushed == SA_PUSHED)
        w->n[cls]--;
    else
        own(o, cls, IN_CACHE, w->number);
}

static void pop_many(struct worker *w, uint32_t cls, size_t n)
{
    void *out[STOCK];
    size_t got = sa_percpu_pop_batch(cls, out, n);

    REQUIRE(got <= n);
    for (size_t i = 0; i < got; i++) {
        own(out[i], cls, IN_CACHE, w->number);
        w->stock[cls][w->n[cls]++] = out[i];
    }
}

static void push_many(struct worker *w, uint32_t cls, size_t n)
{
    void *objs[STOCK];
    size_t put;

    for (size_t i = 0; i < n; i++) {
        objs[i] = w->stock[cls][--w->n[cls]];
        own(objs[i], cls, w->number, IN_CACHE);
    }
    put = sa_percpu_push_batch(cls, objs, n);
    REQUIRE(put <= n);
    for (size_t i = put; i < n; i++) {
        own(objs[i], cls, IN_CACHE, w->number);
        w->stock[cls][w->n[cls]++] = objs[i];
    }
}

/* Changes capacity and countdown, as a slow path does: from a header read earlier, if it still
 * holds. */
static void change_header(struct worker *w, uint32_t cls)
{
    int32_t cpu = sa_percpu_cpu();
    struct sa_slab *slab = sa_load_acquire(&sa_hot.slabs[cpu]);
    uint64_t h = sa_load_relaxed(&slab->header[cls].state);
    uint32_t avail = sa_state_avail(h), cap = (uint32_t)(check_random(&w->seed) % CAP_MAX) + 1;

    if (slab == &empty)
        return;
    if (cap < avail)
        cap = avail;
    if (check_random(&w->seed) % 8 == 0)
        sched_yield(); /* time for the header to change */
    if (sa_percpu_replace(cpu, slab, cls, h, sa_state_make(avail, 500, cap)))
        sa_add_relaxed(&replaced, 1);
}

/* Empties a class and moves its slots to the other place that it has. */
static void move_slots(struct worker *w, uint32_t cls)
{
    int32_t cpu = sa_percpu_cpu();
    struct sa_slab *slab = sa_load_acquire(&sa_hot.slabs[cpu]);
    void **from, **first;
    uint64_t h;

    if (slab == &empty)
        return;
    first = first_slots[cpu][cls];
    from = sa_load_relaxed(&slab->header[cls].slots);
    if (STOCK - w->n[cls] > 0)
        pop_many(w, cls, (size_t)(STOCK - w->n[cls]));
    h = sa_load_relaxed(&slab->header[cls].state);
    if (check_random(&w->seed) % 8 == 0)
        sched_yield();
    if (sa_state_avail(h) == 0 &&
        sa_percpu_move(cpu, slab, cls, h, from == first ? first + CAP_MAX + 1 : first))
        sa_add_relaxed(&moved, 1);
}

/* In the middle of anything, also of another section: takes an object and gives it back. */
static void handle(int number)
{
    struct worker *w = self;
    uint32_t cls;

    (void)number;
    if (!w)
        return;
    cls = (uint32_t)(sa_load_relaxed(&handled) % CLASSES) + 1;
    if (!w->kept[cls]) {
        struct object *o = sa_percpu_pop(cls);

        if (o)
            own(o, cls, IN_CACHE, HANDLER + w->number);
        w->kept[cls] = o;
    } else {
        struct object *o = w->kept[cls];
        enum sa_push pushed;

        own(o, cls, HANDLER + w->number, IN_CACHE);
        pushed = sa_percpu_push(cls, o);
        REQUIRE(pushed != SA_PUSH_TWICE);
        if (pushed == SA_PUSHED)
            w->kept[cls] = NULL;
        else
            own(o, cls, IN_CACHE, HANDLER + w->number);
    }
    sa_add_relaxed(&handled, 1);
}

static void move_cpu(struct worker *w)
{
    unsigned cpu = (unsigned)(check_random(&w->seed) % CPU_SETSIZE);
    cpu_set_t one;

    while (!CPU_ISSET(cpu, &allowed))
        cpu = (cpu + 1) % CPU_SETSIZE;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    if (check_random(&w->seed) % 4 == 0)
        sched_setaffinity(0, sizeof(allowed), &allowed);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    long n = 0;

    self = w;
    for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
        uint64_t r = check_random(&w->seed);
        uint32_t cls = (uint32_t)(r % CLASSES) + 1;
        size_t room = (size_t)(STOCK - w->n[cls]), have = (size_t)w->n[cls],
               some = (r >> 8) % 32 + 1;

        switch (r >> 20 & 15) {
        case 0:
            if (room)
                pop_many(w, cls, some < room ? some : room);
            break;
        case 1:
            if (have)
                push_many(w, cls, some < have ? some : have);
            break;
        case 2:
            change_header(w, cls);
            break;
        case 4:
            move_slots(w, cls);
            break;
        case 3:
            if (r >> 32 & 1)
                sched_yield();
            else if (r >> 33 & 1)
                move_cpu(w);
            break;
        default:
            if (r >> 30 & 1 && room)
                pop_one(w, cls);
            else if (have)
                push_one(w, cls);
            break;
        }
    }
    __atomic_fetch_add(&operations, n, __ATOMIC_RELAXED);
    return NULL;
}

/* Looks at a stopped slab: what a section never committed is not there, what it committed is
 * whole. */
static void inspect(struct sa_slab *slab, uint64_t *seed, struct object *(*loose)[OBJECTS], int *n)
{
    for (uint32_t cls = 1; cls <= CLASSES; cls++) {
        struct sa_header *header = &slab->header[cls];
        uint32_t avail = sa_state_avail(header->state), cap = sa_state_cap(header->state);

        REQUIRE(avail <= cap && cap <= CAP_MAX);
        REQUIRE(header->slots[-1] == NULL);
        for (uint32_t i = 0; i < avail; i++) {
            struct object *o = header->slots[i];

            REQUIRE(o >= objects && o < objects + OBJECTS && o->cls == cls);
            REQUIRE(__atomic_load_n(&o->owner, __ATOMIC_ACQUIRE) == IN_CACHE);
        }
        switch (check_random(seed) % 3) {
        case 0: /* takes all */
            for (uint32_t i = 0; i < avail; i++) {
                own(header->slots[i], cls, IN_CACHE, STOPPER);
                loose[cls][n[cls]++] = header->slots[i];
            }
            avail = 0;
            break;
        case 1: /* fills it */
            while (avail < cap && n[cls]) {
                header->slots[avail] = loose[cls][--n[cls]];
                own(header->slots[avail++], cls, STOPPER, IN_CACHE);
            }
            break;
        }
        header->state = sa_state_make(avail, 500, cap);
    }
}

static struct object *loose[CLASSES + 1][OBJECTS];
static int loose_n[CLASSES + 1];

static void *stopper(void *arg)
{
    uint64_t seed = 77;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        int cpu = (int)(check_random(&seed) % sa_rseq.cpus);

        if (!slabs[cpu])
            continue;
        sa_store_release(&sa_hot.slabs[cpu], &empty);
        REQUIRE(sa_rseq_fence(check_random(&seed) % 4 ? cpu : -1));
        inspect(slabs[cpu], &seed, loose, loose_n);
        sa_store_release(&sa_hot.slabs[cpu], slabs[cpu]);
        fences++;
        usleep((useconds_t)(check_random(&seed) % 300));
    }
    return arg;
}

/* Slabs for the CPUs that this process may use; on others every operation finds nothing. */
static int make_slabs(void)
{
    int n = 0;

    sa_hot.slab_guard[0] = sa_hot.slab_guard[1] = &empty;
    for (unsigned cpu = 0; cpu < sa_rseq.cpus; cpu++) {
        sa_hot.slabs[cpu] = &empty;
        if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed))
            continue;
        slabs[cpu] = calloc(1, sizeof(struct sa_slab));
        REQUIRE(slabs[cpu]);
        for (uint32_t cls = 1; cls <= CLASSES; cls++) {
            void **slots = calloc(2 * (CAP_MAX + 1), sizeof(void *));

            REQUIRE(slots);
            slabs[cpu]->header[cls].slots = first_slots[cpu][cls] = slots + 1;
            slabs[cpu]->header[cls].state = sa_state_make(0, 500, 50 * cls);
        }
        sa_hot.slabs[cpu] = slabs[cpu];
        n++;
    }
    return n;
}

/* Counts every object where it is; each must be found once. */
static void count(int threads)
{
    int found = 0;

    for (unsigned cpu = 0; cpu < sa_rseq.cpus; cpu++)
        for (uint32_t cls = 1; slabs[cpu] && cls <= CLASSES; cls++)
            for (uint32_t i = 0; i < sa_state_avail(slabs[cpu]->header[cls].state); i++, found++)
                own(slabs[cpu]->header[cls].slots[i], cls, IN_CACHE, LOOSE);
    for (uint32_t cls = 1; cls <= CLASSES; cls++) {
        for (int i = 0; i < loose_n[cls]; i++, found++)
            own(loose[cls][i], cls, STOPPER, LOOSE);
        for (int t = 0; t < threads; t++) {
            struct worker *w = &workers[t];

            for (int i = 0; i < w->n[cls]; i++, found++)
                own(w->stock[cls][i], cls, w->number, LOOSE);
            if (w->kept[cls]) {
                own(w->kept[cls], cls, HANDLER + w->number, LOOSE);
                found++;
            }
        }
    }
    CHECK_SAYS(found == OBJECTS, "%d of %d objects", found, OBJECTS);
}

int main(void)
{
    static const int delays[] = {0, 20, 300, 3000, 20000};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    pthread_t stopping;
    uint64_t seed = 1;
    double end = check_now() + check_seconds(8);
    int threads;

    sa_rseq_init(true);
    if (!sa_rseq.per_cpu)
        SKIP("%s", sa_rseq.reason);
    sa_hot.rseq_offset = sa_rseq.offset;
    REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
    threads = make_slabs() * THREADS_A_CPU;
    threads = threads > THREADS_MAX ? THREADS_MAX : threads;
    for (int i = 0; i < OBJECTS; i++) {
        struct object *o = &objects[i];

        o->cls = (uint32_t)(i % CLASSES) + 1;
        o->owner = STOPPER;
        loose[o->cls][loose_n[o->cls]++] = o;
    }
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    REQUIRE(pthread_create(&stopping, NULL, stopper, NULL) == 0);
    for (int i = 0; i < threads; i++) {
        workers[i].number = FIRST_THREAD + (uint32_t)i;
        workers[i].seed = (uint64_t)i;
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (unsigned turn = 0; check_now() < end; turn++) {
        __atomic_store_n(&sa_percpu_delay, delays[turn / 1000 % 5], __ATOMIC_RELAXED);
        pthread_kill(workers[check_random(&seed) % (unsigned)threads].thread, SIGUSR1);
        usleep(50);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_join(stopping, NULL);
    count(threads);
    check_say("%d threads, %ld operations, %lu restarts, %ld fences, %ld signals, %ld headers "
              "replaced, %ld moved",
              threads, operations, (unsigned long)sa_hot.aborts, fences, handled, replaced, moved);
    CHECK(sa_hot.aborts > 0); /* otherwise inconclusive */
    CHECK(fences > 0 && handled > 0 && replaced > 0 && moved > 0);
    return check_end();
}
