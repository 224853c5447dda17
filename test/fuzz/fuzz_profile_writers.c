/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made-up profiles in every format. profile.proto, taken out of its gzip blocks (whose sums must be
 * right), is decoded: numbers refer to what is there, strings are UTF-8, each sample has a value
 * for each type. The totals of all formats are the same: those of profile.proto, which are those of
 * the buckets.
 */
#include "sampling/export/write.h"

#include "alloc/base/utf8.h"
#include "alloc/os/vm.h"
#include "sampling/export/proto_singles.h"
#include "sampling/export/sums_field.h"
#include "sampling/export/values.h"
#include "test/fuzz/fuzz.h"

#include <math.h>

#define STACKS 6
#define ROWS   16
#define TYPES  8

static struct sa_profile profile;
static struct sa_bucket buckets[ROWS];
static struct sa_total totals[STACKS];
static _Alignas(
    16) char stack_bytes[STACKS][sizeof(struct sa_stack) + SA_STACK_MAX * sizeof(uintptr_t)];

static struct sa_stack *stack_at(size_t i)
{
    return (struct sa_stack *)stack_bytes[i];
}

/* --- profiles --------------------------------------------------------------------------------- */

static void make_stacks(struct fuzz_input *in)
{
    uint8_t mix = fuzz_byte(in);

    for (size_t i = 0; i < STACKS; i++) {
        struct sa_stack *s = stack_at(i);

        s->depth = (uint16_t)fuzz_below(in, fuzz_byte(in) % 8 ? 5 : SA_STACK_MAX + 1);
        s->hash = i;
        for (unsigned k = 0; k < s->depth; k++)
            s->pc[k] = 1 + (mix & 1    ? (uintptr_t)make_stacks + fuzz_below(in, 65536)
                            : k % 4    ? fuzz_number(in, 2)
                            : mix & 16 ? fuzz_number(in, 8) >> 1
                                       : fuzz_number(in, 6));
    }
}

static void make_bucket(struct fuzz_input *in, struct sa_bucket *r)
{
    double interval = (double)((uint64_t)1 << fuzz_below(in, 41));
    size_t allocated = fuzz_size(in, 32);

    memset(r, 0, sizeof(*r));
    r->key.stack = stack_at(fuzz_below(in, STACKS));
    r->key.allocated = allocated;
    r->key.requested = allocated - fuzz_below(in, allocated < 16 ? 1 : 16);
    r->key.align = fuzz_byte(in) % 4 ? 0 : (size_t)1 << fuzz_below(in, 20);
    r->key.kind = (uint8_t)fuzz_below(in, 3);
    r->key.p = -expm1((double)allocated * log1p(-1 / interval));
    if (interval == 1 || r->key.p > 0.99)
        r->key.p = interval = 1;
    r->key.interval = interval;
    r->key.same_cpu = r->key.same_vcpu = r->key.same_l3 = r->key.same_numa = r->key.same_thread =
        -1;
    r->key.guarded = (int8_t)((int)fuzz_below(in, 20) - 8);
    r->key.tid = fuzz_byte(in) % 4 ? 0 : 1 + (uint32_t)fuzz_below(in, 200);
    r->samples = fuzz_size(in, 10);
    r->offsets = (double)r->samples * (double)allocated / 2;
    r->hits = (double)r->samples;
    if (profile.type == SALLOC_PROFILE_HEAP) {
        r->resident = (double)fuzz_number(in, 3);
        r->swapped = (double)fuzz_number(in, 2);
        r->locked = (double)fuzz_number(in, 3);
        r->zero = (double)fuzz_number(in, 3);
    }
    if (profile.type == SALLOC_PROFILE_FRAGMENTATION)
        r->waste = (double)fuzz_number(in, 2) / 16;
    if (profile.type == SALLOC_PROFILE_LIFETIMES) {
        double life = (double)fuzz_number(in, 5), n = (double)r->samples;

        r->life_min = r->life_max = (uint64_t)life;
        r->life_sum = life * n;
        r->life_squares = life * life * n;
        r->key.censored = fuzz_byte(in) % 2;
        if (!r->key.censored) {
            r->key.free_stack = fuzz_byte(in) % 4 ? stack_at(fuzz_below(in, STACKS)) : NULL;
            r->key.same_cpu = (int8_t)fuzz_below(in, 2);
            r->key.same_vcpu = (int8_t)((int)fuzz_below(in, 4) - 2);
            r->key.same_l3 = (int8_t)((int)fuzz_below(in, 4) - 2);
            r->key.same_numa = (int8_t)((int)fuzz_below(in, 4) - 2);
            r->key.same_thread = (int8_t)fuzz_below(in, 2);
        }
    }
}

static void make_profile(struct fuzz_input *in)
{
    memset(&profile, 0, sizeof(profile));
    profile.type = (enum salloc_profile_type)fuzz_below(in, SALLOC_PROFILE_LIFETIMES + 1);
    profile.time_ns = (int64_t)(fuzz_number(in, 8) >> 1);
    profile.duration_ns = (int64_t)fuzz_number(in, 6);
    profile.interval = (int64_t)fuzz_number(in, 4);
    profile.knows = (uint8_t)fuzz_below(in, 8);
    profile.stacks_dropped = fuzz_number(in, 8);
    profile.samples_dropped = fuzz_number(in, 8);
    make_stacks(in);
    profile.buckets = buckets;
    profile.totals = totals;
    profile.bucket_count = fuzz_below(in, ROWS + 1);
    for (size_t i = 0; i < profile.bucket_count; i++)
        make_bucket(in, &buckets[i]);
    if (profile.type == SALLOC_PROFILE_HEAP)
        profile.total_count = fuzz_below(in, STACKS + 1);
    for (size_t i = 0; i < profile.total_count; i++) {
        struct sa_bucket more;
        struct sa_group group;

        make_bucket(in, &more);
        group = sa_bucket_group(&more);
        memset(&totals[i], 0, sizeof(totals[i]));
        totals[i].stack = stack_at(i);
        sa_sums_add(&totals[i].sums, &group);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

struct text {
    uint8_t *data; /* terminated */
    size_t bytes;
};

static int sink(void *arg, const void *data, size_t n)
{
    struct text *t = arg;

    t->data = realloc(t->data, t->bytes + n + 1);
    FUZZ_CHECK(t->data);
    memcpy(t->data + t->bytes, data, n);
    t->bytes += n;
    t->data[t->bytes] = '\0';
    return 0;
}

static struct text write_with(int (*write)(const struct sa_profile *, struct sa_sink *), bool gzip)
{
    struct text t = {NULL, 0};
    struct sa_sink *out = sa_sink_open(sink, &t, gzip);

    FUZZ_CHECK(out && write(&profile, out) == 0 && sa_sink_close(out) == 0);
    return t.data ? t : (sink(&t, "", 0), t);
}

static uint32_t crc_of(const uint8_t *data, size_t n)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static uint32_t word(const uint8_t *p, unsigned n)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < n; i++)
        v |= (uint32_t)p[i] << 8 * i;
    return v;
}

/* What is in the stored blocks of a gzip file, in place. */
static void unpack(struct text *t)
{
    const uint8_t *at = t->data + 10, *end = t->data + t->bytes;
    size_t n = 0;
    bool last = false;

    FUZZ_CHECK(t->bytes >= 18 && word(t->data, 3) == 0x088b1f);
    while (!last) {
        uint32_t length;

        FUZZ_CHECK(end - at >= 5 && at[0] <= 1);
        last = at[0];
        length = word(at + 1, 2);
        FUZZ_EQUAL(length ^ word(at + 3, 2), 0xffff);
        FUZZ_CHECK(length <= (size_t)(end - at - 5));
        memmove(t->data + n, at + 5, length);
        n += length;
        at += 5 + length;
    }
    FUZZ_EQUAL(end - at, 8);
    FUZZ_EQUAL(word(at, 4), crc_of(t->data, n));
    FUZZ_EQUAL(word(at + 4, 4), n);
    t->bytes = n;
}

/* --- profile.proto ---------------------------------------------------------------------------- */

struct message {
    const uint8_t *at, *end;
};

struct field {
    unsigned number, wire;
    uint64_t value;
    struct message inside;
};

static uint64_t varint(struct message *m)
{
    uint64_t v = 0;

    for (unsigned shift = 0;; shift += 7) {
        FUZZ_CHECK(m->at < m->end && shift < 64);
        v |= (uint64_t)(*m->at & 0x7f) << shift;
        if (!(*m->at++ & 0x80))
            return v;
    }
}

static bool next(struct message *m, struct field *f)
{
    uint64_t tag;

    if (m->at == m->end)
        return false;
    tag = varint(m);
    f->number = (unsigned)(tag >> 3);
    f->wire = tag & 7;
    f->value = varint(m);
    FUZZ_CHECK(f->wire == 0 || f->wire == 2);
    f->inside = (struct message){NULL, NULL};
    if (f->wire == 2) {
        FUZZ_CHECK(f->value <= (size_t)(m->end - m->at));
        f->inside = (struct message){m->at, m->at + f->value};
        m->at += f->value;
    }
    return true;
}

static uint64_t number_in(struct message m, unsigned number)
{
    struct field f;

    while (next(&m, &f))
        if (f.number == number)
            return f.value;
    return 0;
}

/* How many there are of each field of the profile. */
static size_t there_are[16];

static void check_sample(struct message m, uint64_t *sums)
{
    struct field f;
    size_t values = 0, locations = 0;

    while (next(&m, &f)) {
        FUZZ_CHECK(f.wire == 2 && (f.number <= 3 || f.number == SA_SUMS_FIELD));
        if (f.number == SA_SUMS_FIELD) {
            FUZZ_EQUAL((size_t)(f.inside.end - f.inside.at), sizeof(struct sa_sums_field));
            continue;
        }
        if (f.number == 3) {
            FUZZ_CHECK(number_in(f.inside, 1) < there_are[6] &&
                       number_in(f.inside, 2) < there_are[6] &&
                       number_in(f.inside, 4) < there_are[6]);
            continue;
        }
        while (f.inside.at < f.inside.end) {
            uint64_t v = varint(&f.inside);

            if (f.number == 1)
                FUZZ_CHECK(v >= 1 && v <= there_are[4] && ++locations <= SA_STACK_MAX);
            else
                sums[values++] += v;
            FUZZ_CHECK(values <= there_are[1]);
        }
    }
    FUZZ_EQUAL(values, there_are[1]);
    FUZZ_CHECK(locations > 0);
}

static void check_string(struct message m)
{
    size_t n = (size_t)(m.end - m.at), length;

    for (size_t i = 0; i < n; i += length) {
        length = sa_utf8_length((const char *)m.at + i, n - i);
        FUZZ_CHECK(length);
    }
}

static void check_proto(const struct text *t, uint64_t sums[TYPES])
{
    struct message all = {t->data, t->data + t->bytes}, m = all;
    size_t seen[16] = {0};
    struct field f;

    memset(there_are, 0, sizeof(there_are));
    while (next(&m, &f)) {
        FUZZ_CHECK((f.number >= 1 && f.number <= 14) || f.number == SA_PROTO_SINGLES);
        if (f.number != SA_PROTO_SINGLES)
            there_are[f.number]++;
    }
    FUZZ_CHECK(there_are[1] <= TYPES);
    for (m = all; next(&m, &f);) {
        if (f.number == SA_PROTO_SINGLES)
            continue;
        seen[f.number]++;
        switch (f.number) {
        case 2:
            check_sample(f.inside, sums);
            break;
        case 3:
        case 5: /* names are strings that are there */
            FUZZ_CHECK(number_in(f.inside, f.number == 3 ? 5 : 2) < there_are[6]);
            /* fall through */
        case 4: /* counted from 1 without gaps */
            FUZZ_EQUAL(number_in(f.inside, 1), seen[f.number]);
            FUZZ_CHECK(f.number != 4 || number_in(f.inside, 2) <= there_are[3]);
            break;
        case 6:
            check_string(f.inside);
            break;
        default:
            break;
        }
    }
}

/* --- the others ------------------------------------------------------------------------------- */

/* Count and bytes, of what the profile mainly tells of, and of what ever was allocated. */
struct sums {
    uint64_t count, bytes, alloc_count, alloc_bytes;
};

static struct sums sums_of_buckets(void)
{
    struct sums s = {0, 0, 0, 0};

    for (size_t i = 0; i < profile.bucket_count; i++) {
        double weight = 1 / buckets[i].key.p, bytes = weight * (double)buckets[i].key.allocated;
        double blocks = (double)buckets[i].samples * weight;
        struct sa_values v;

        sa_values_of_bucket(&buckets[i], &v);
        FUZZ_CHECK(fabs((double)v.count - blocks) < 1 + 1e-12 * blocks);
        s.count += v.count;
        s.bytes += (uint64_t)((profile.type == SALLOC_PROFILE_FRAGMENTATION
                                   ? buckets[i].waste * bytes
                                   : (double)buckets[i].samples * bytes) +
                              0.5);
    }
    for (size_t i = 0; i < profile.total_count; i++) {
        struct sa_values v;

        sa_values_of_total(&totals[i], &v);
        s.alloc_count += v.count;
        s.alloc_bytes += v.bytes;
    }
    return s;
}

static void check_totals(const uint64_t *proto, const struct sums *s)
{
    switch (profile.type) {
    case SALLOC_PROFILE_HEAP:
    case SALLOC_PROFILE_PEAK_HEAP:
        FUZZ_CHECK(proto[0] == s->alloc_count && proto[1] == s->alloc_bytes);
        /* Between them is what is known of residency. */
        proto += there_are[1] - 2;
        FUZZ_CHECK(proto[0] == s->count && proto[1] == s->bytes);
        break;
    case SALLOC_PROFILE_LIFETIMES: /* freed, and not */
        FUZZ_CHECK(proto[0] + proto[4] == s->count && proto[1] + proto[5] == s->bytes);
        FUZZ_CHECK(proto[0] == proto[2] && proto[1] == proto[3]);
        break;
    default:
        FUZZ_CHECK(proto[0] == s->count && proto[1] == s->bytes);
    }
}

static void check_gperftools(const struct sums *s)
{
    struct text t = write_with(sa_write_gperftools, false);
    unsigned long long head[4], n[4], sum[4] = {0, 0, 0, 0};
    const char *at;

    FUZZ_EQUAL(sscanf((char *)t.data, "heap profile: %llu: %llu [%llu: %llu] @ heapprofile\n",
                      &head[0], &head[1], &head[2], &head[3]),
               4);
    for (at = strchr((char *)t.data, '\n') + 1; *at != '\n'; at = strchr(at, '\n') + 1) {
        if (*at == '#') /* the summary */
            continue;
        FUZZ_EQUAL(sscanf(at, "%llu: %llu [%llu: %llu] @ 0x", &n[0], &n[1], &n[2], &n[3]), 4);
        for (int i = 0; i < 4; i++)
            sum[i] += n[i];
    }
    FUZZ_CHECK(memcmp(sum, head, sizeof(sum)) == 0);
    FUZZ_CHECK(sum[0] == s->count && sum[1] == s->bytes);
    FUZZ_CHECK(sum[2] == s->alloc_count && sum[3] == s->alloc_bytes);
    FUZZ_CHECK(strncmp(at, "\nMAPPED_LIBRARIES:\n", 19) == 0);
    free(t.data);
}

static void check_collapsed(const struct sums *s)
{
    struct text t = write_with(sa_write_collapsed, false);
    unsigned long long sum = 0;

    for (char *line = (char *)t.data, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        FUZZ_CHECK(end);
        *end = '\0';
        FUZZ_CHECK(strrchr(line, ' ') > line);
        sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
    }
    FUZZ_EQUAL(sum, s->bytes);
    free(t.data);
}

/* What jeprof makes of the numbers: never less than ours, and more by what rounding costs only. */
static void check_jeprof(const struct sums *s)
{
    struct text t = write_with(sa_write_jeprof, false);
    double count = 0, bytes = 0, slack;
    int lines = 0;

    FUZZ_CHECK(strncmp((char *)t.data, "heap_v2/1\n", 10) == 0);
    for (const char *at = strstr((char *)t.data, "\n@"); at; at = strstr(at + 1, "\n@"), lines++) {
        unsigned long long n[4];
        double factor = 1;

        FUZZ_EQUAL(sscanf(strchr(at + 1, '\n'), " t*: %llu: %llu [%llu: %llu]", &n[0], &n[1], &n[2],
                          &n[3]),
                   4);
        if (n[0])
            factor = 1 / -expm1(-(double)n[1] / (double)n[0]);
        count += (double)n[0] * factor;
        bytes += (double)n[1] * factor;
    }
    slack = 4 + 2 * lines;
    FUZZ_CHECK(s->bytes == 0 || fabs(bytes - (double)s->bytes) <= slack + 1e-9 * (double)s->bytes);
    FUZZ_CHECK(profile.type == SALLOC_PROFILE_FRAGMENTATION ||
               fabs(count - (double)s->count) <= slack + 1e-9 * (double)s->count);
    free(t.data);
}

static void check_report(void)
{
    struct text t = write_with(sa_write_report, false);

    for (size_t i = 0; i < t.bytes; i++)
        FUZZ_CHECK(t.data[i] == '\n' || t.data[i] >= ' ');
    FUZZ_CHECK(t.data[t.bytes - 1] == '\n');
    free(t.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    uint64_t proto[TYPES] = {0};
    struct text plain, packed;
    struct sums s;

    if (!sa_vm.page_bytes)
        sa_vm_init();
    make_profile(&in);
    s = sums_of_buckets();
    plain = write_with(sa_write_proto, false);
    packed = write_with(sa_write_proto, true);
    unpack(&packed);
    FUZZ_CHECK(plain.bytes == packed.bytes && memcmp(plain.data, packed.data, plain.bytes) == 0);
    check_proto(&plain, proto);
    check_totals(proto, &s);
    check_gperftools(&s);
    check_collapsed(&s);
    check_jeprof(&s);
    check_report();
    free(plain.data);
    free(packed.data);
    return 0;
}
