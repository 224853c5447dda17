/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates of 200 call sites against the truth: the total within 3 standard errors and every site
 * within 5, blocks and bytes, live and ever allocated, by every estimator. The standard errors are
 * those that follow from the truth (truth.h).
 *
 * The seed is fixed (SALLOC_CONF), and the rest of what draws depend on too: the clock is the
 * test's, threads take turns. Only a restartable sequence that the kernel restarts between a draw
 * and its store makes another draw, so that the seed does not fix the outcome where there are such;
 * then 5 standard errors are allowed for the total, too. Where samples are guarded, which depends
 * on addresses of code, machines have outcomes of their own. With `print` nothing is checked but
 * the figures are written, for bias.py.
 *
 *   estimates MODE INTERVAL 3|5|print [LEAST]: so many samples must have been guarded
 */
#include "test/outside/estimates/truth.h"

#include "test/outside/check.h"
#include "test/outside/estimates/same.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#define ROUNDS       50
#define SAMPLES_SITE 200 /* expected of each site, so many as fit into BLOCKS_MAX */
#define MISSES_SITE  60
#define BLOCKS_MAX   60000
#define BLOCKS_MIN   50
#define LIVE_MAX     (1u << 22)

/* --- the load --- */

static struct truth truth;
static struct truth_block *blocks; /* live */
static size_t live;
static double interval;
static uint64_t random_state = 0x5eed;

static size_t below(size_t n)
{
    return check_random(&random_state) % n;
}

static void set_interval(double t)
{
    interval = t;
    REQUIRE(salloc_set_sampling_interval((int64_t)t) == 0);
}

/* Blocks that a site allocates in a round. */
static size_t site_blocks(unsigned site, double t)
{
    double p = -expm1((double)site_size(site) * log1p(-1 / t)), n = SAMPLES_SITE / p;

    if (p < 0.99 && n < MISSES_SITE / (1 - p))
        n = MISSES_SITE / (1 - p);
    n = n > BLOCKS_MAX ? BLOCKS_MAX : n < BLOCKS_MIN ? BLOCKS_MIN : n;
    return (size_t)n / ROUNDS;
}

static void allocate(unsigned site, enum how how)
{
    size_t size = site_size(site);
    bool costly = how == BY_CALLOC && size > 262144; /* gigabytes would be written */
    void *p = site_function[site](costly ? BY_MALLOC : how, NULL, size);

    same_now_ns += 100;
    REQUIRE(p && live < LIVE_MAX);
    truth_add(&truth, &blocks[live++], site, p, size, interval);
}

static void release(size_t i)
{
    static void (*free_sized)(void *p, size_t size);
    struct truth_block b = blocks[i];

    if (!free_sized)
        free_sized = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    truth_remove(&truth, &b);
    blocks[i] = blocks[--live];
    same_now_ns += 50;
    if (below(2) && free_sized && b.usable <= 262144)
        free_sized(b.p, malloc_usable_size(b.p));
    else
        free(b.p);
}

/* A block becomes one of another site, unless it stays what it is. */
static void resize(size_t i, unsigned site)
{
    struct truth_block *b = &blocks[i];
    void *p = site_function[site](BY_REALLOC, b->p, site_size(site));

    same_now_ns += 200;
    REQUIRE(p != NULL);
    if (p == b->p && malloc_usable_size(p) == b->usable)
        return;
    truth_remove(&truth, b);
    truth_add(&truth, b, site, p, site_size(site), interval);
}

static void round_of_all(double t, unsigned hows)
{
    for (unsigned site = 0; site < SITES; site++) {
        size_t n = site_blocks(site, t);

        for (size_t i = 0; i < n; i++) {
            allocate(site, (enum how)below(hows));
            if (below(2))
                release(below(live));
        }
    }
}

static void mode_plain(double t)
{
    for (int round = 0; round < ROUNDS; round++)
        round_of_all(t, BY_MALLOC + 1);
}

static void mode_mixed(double t)
{
    for (int round = 0; round < ROUNDS; round++)
        round_of_all(t, BY_ALIGNED + 1);
}

/* Also off for a while: what is allocated then is nowhere. */
static void mode_interval(double t)
{
    static const double factor[] = {1, 4, 0, 0.25, 16, 0.5};

    for (int round = 0; round < ROUNDS; round++) {
        if (round % 3 == 0)
            set_interval(t * factor[round / 3 % 6]);
        round_of_all(t, BY_ALIGNED + 1);
    }
}

static void mode_realloc(double t)
{
    for (int round = 0; round < ROUNDS; round++) {
        round_of_all(t, BY_MALLOC + 1);
        for (size_t i = 0; i < live / 16; i++) {
            size_t which = below(live);
            unsigned site = blocks[which].site;

            /* Mostly near by, so that classes and large blocks of all sizes are met in their own
             * places. */
            site = below(3) ? (site + (unsigned)below(20)) % SITES : (unsigned)below(site + 1);
            resize(which, site);
        }
    }
}

/* One object after the other, which only ever is in this CPU's cache. */
static void cycle(double t, uint64_t pause_ns)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned site = 0; site < SITES; site++) {
            size_t n = site_blocks(site, t);

            for (size_t i = 0; i < n; i++) {
                allocate(site, BY_MALLOC);
                release(live - 1);
                same_now_ns += pause_ns;
            }
        }
    }
}

static void mode_cycle(double t)
{
    cycle(t, 0);
}

/* So slowly that countdowns are short. */
static void mode_slow(double t)
{
    cycle(t, 10000000);
}

/* --- threads that take turns --- */

#define THREADS 4

static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static int turn;

static cpu_set_t allowed; /* at the beginning */

/* The allowed CPU of a number, modulo how many there are. */
static void pin(int number)
{
    cpu_set_t one;
    int seen = 0;

    number %= CPU_COUNT(&allowed);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && seen++ == number)
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static double turn_interval;

static void *thread_main(void *arg)
{
    int self = (int)(intptr_t)arg;

    pin(self % 2);
    for (int round = 0; round < ROUNDS / THREADS; round++) {
        pthread_mutex_lock(&turn_lock);
        while (turn % THREADS != self)
            pthread_cond_wait(&turn_changed, &turn_lock);
        round_of_all(turn_interval, BY_ALIGNED + 1); /* frees what anybody has allocated */
        turn++;
        pthread_cond_broadcast(&turn_changed);
        pthread_mutex_unlock(&turn_lock);
    }
    /* The end of a thread also works on caches. */
    pthread_mutex_lock(&turn_lock);
    while (turn < ROUNDS / THREADS * THREADS)
        pthread_cond_wait(&turn_changed, &turn_lock);
    pthread_mutex_unlock(&turn_lock);
    return NULL;
}

static void mode_threads(double t)
{
    pthread_t id[THREADS];

    turn_interval = t;
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&id[i], NULL, thread_main, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
}

/* --- what is checked --- */

static const char *const estimator_name[] = {"weighted", "offset", "poisson", "failed"};
static const char *const span_name[] = {"live", "ever"};
static const char *const unit_name[] = {"blocks", "bytes"};

/* most: standard errors that are allowed for a total; 0: prints. */
static void report(const struct truth_z *z, double max)
{
    for (int span = 0; span < SPANS; span++) {
        for (int e = 0; e < ESTIMATORS; e++) {
            for (int unit = 0; unit < UNITS; unit++) {
                double total = z->total[span][e][unit], worst = z->worst[span][e][unit];

                if (max <= 0)
                    printf("%s-%s-%s %.4f %.4f %u\n", span_name[span], estimator_name[e],
                           unit_name[unit], total, worst, z->sites[span]);
                else
                    CHECK_SAYS(fabs(total) <= max && fabs(worst) <= 5,
                               "%s %s, %s: total %+.2f standard errors, the worst of %u sites "
                               "%+.2f",
                               span_name[span], unit_name[unit], estimator_name[e], total,
                               z->sites[span], worst);
            }
        }
    }
}

/* --- recordings --- */

static salloc_profile_token *recording[2]; /* of the whole run: allocations, lifetimes */

static struct salloc_estimate all_of(salloc_profile *profile)
{
    struct salloc_estimate e;

    REQUIRE(profile != NULL);
    REQUIRE(salloc_profile_estimate(profile, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, 0.95, &e) == 0);
    return e;
}

static int count_censored(const struct salloc_profile_sample *sample, void *arg)
{
    double *bytes = arg;

    if (sample->depth && site_of(sample->stack[0]) < SITES)
        bytes[sample->censored != 0] += sample->alloc_bytes;
    CHECK(sample->lifetime_min <= sample->lifetime_max &&
          sample->lifetime_mean >= (double)sample->lifetime_min * (1 - 1e-9) &&
          sample->lifetime_mean <= (double)sample->lifetime_max * (1 + 1e-9));
    CHECK(sample->censored ? !sample->free_stack : sample->free_stack != NULL);
    return 0;
}

/*
 * Recordings have seen what the totals have, which began a moment earlier: the bytes are the same
 * but for what the program had allocated by then. What was live at the stop is what was censored.
 */
static void check_recordings(const struct salloc_estimate *before)
{
    salloc_profile *ever = salloc_snapshot_profile(SALLOC_PROFILE_ALLOCATIONS), *p;
    salloc_profile *heap = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    struct salloc_estimate e = all_of(ever), h = all_of(heap), r;
    double bytes[2] = {0, 0};

    for (int i = 0; i < 2; i++) {
        p = salloc_profile_token_stop(recording[i]);
        r = all_of(p);
        CHECK_SAYS(fabs(r.bytes + before->bytes - e.bytes) <= 1e-6 * e.bytes,
                   "recording %d: %.0f, after %.0f; ever %.0f", i, r.bytes, before->bytes, e.bytes);
        if (i == 1)
            REQUIRE(salloc_profile_iterate(p, count_censored, bytes) == 0);
        CHECK(salloc_profile_token_stop(recording[i]) == NULL);
        salloc_profile_free(p);
    }
    /* Nothing else is live that lived before, but for what main has. */
    CHECK_SAYS(fabs(bytes[1] - h.bytes) <= 1e-6 * e.bytes + 2e6, "censored %.0f, live %.0f",
               bytes[1], h.bytes);
    CHECK(bytes[0] > 0);
    salloc_profile_free(ever);
    salloc_profile_free(heap);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(double t);
    } modes[] = {{"plain", mode_plain},     {"mixed", mode_mixed}, {"interval", mode_interval},
                 {"realloc", mode_realloc}, {"cycle", mode_cycle}, {"slow", mode_slow},
                 {"threads", mode_threads}};
    struct salloc_estimate before;
    salloc_profile *profile;
    struct truth_z z;
    size_t mode = 0;
    double t;

    REQUIRE(argc == 4 || argc == 5);
    same_addresses(argv);
    t = strtod(argv[2], NULL);
    while (mode < sizeof(modes) / sizeof(modes[0]) && strcmp(modes[mode].name, argv[1]) != 0)
        mode++;
    REQUIRE(mode < sizeof(modes) / sizeof(modes[0]) && t > 1);
    check_begin();
    sched_getaffinity(0, sizeof(allowed), &allowed);
    pin(0);
    blocks = mmap(NULL, LIVE_MAX * sizeof(*blocks), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(blocks != MAP_FAILED);
    set_interval(t);
    profile = salloc_snapshot_profile(SALLOC_PROFILE_ALLOCATIONS);
    before = all_of(profile);
    salloc_profile_free(profile);
    recording[0] = salloc_start_allocation_profile();
    recording[1] = salloc_start_lifetime_profile();
    modes[mode].run(t);
    CHECK(same_clock_asked);
    truth_compare(&truth, &z);
    check_recordings(&before);
    report(&z, strtod(argv[3], NULL));
    if (argc == 5)
        CHECK(check_property("salloc.guarded_allocations") >= strtoul(argv[4], NULL, 10));
    return check_end();
}
