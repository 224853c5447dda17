/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose memory lies: what is read of it is changed at random before the reader sees it.
 * Whatever comes, reading ends, in bounded time and memory, with a profile or with an error; a
 * profile can be written in every format. The same for leaks and their report.
 * usage: hostile PID|CORE ROUNDS
 */
#include "alloc/api/options/options.h"
#include "alloc/base/size_class.h"
#include "alloc/os/percpu.h"
#include "alloc/os/vdso.h"
#include "alloc/os/vm.h"
#include "sampling/export/write.h"
#include "tool/leaks/leak_report.h"
#include "tool/reading/reading.h"
#include "tool/stats/stats_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUND_SECONDS 20 /* far more than any takes */
#define KEPT          64

static const struct sa_target_kind *honest;
static struct sa_target_kind liar;
static uint64_t seed, one_in, lies;
static uint64_t kept[KEPT];         /* words that were read: pointers among them */
static unsigned searches;           /* for leaks, that came to an end */
static uint64_t lost;               /* samples that were called lost */
static uint64_t commas, commas_end; /* place of paths that are to be commas; 0: none are */
static unsigned pages;              /* of stats */
static FILE *nowhere;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static uint64_t false_word(uint64_t true_word)
{
    switch (draw() % 8) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
        return true_word ^ 1ull << draw() % 64;
    case 3:
        return true_word + draw() % 256 - 128;
    case 4:
        return draw();
    case 5:
        return draw() >> draw() % 64;
    default:
        return kept[draw() % KEPT];
    }
}

static bool lying_read(struct sa_target *t, uint64_t address, void *buffer, size_t bytes)
{
    if (!honest->read(t, address, buffer, bytes) || draw() % (one_in * 8) == 0)
        return false;
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t word;

        memcpy(&word, (char *)buffer + at, 8);
        if (draw() % 16 == 0)
            kept[draw() % KEPT] = word;
        if (draw() % one_in)
            continue;
        word = false_word(word);
        memcpy((char *)buffer + at, &word, 8);
        lies++;
    }
    for (size_t at = 0; commas && at < bytes; at++)
        if (address + at >= commas && address + at < commas_end)
            ((char *)buffer)[at] = ',';
    return true;
}

static int swallow(void *arg, const void *data, size_t bytes)
{
    (void)data;
    *(size_t *)arg += bytes;
    return 0;
}

static size_t write_all(const struct sa_profile *profile)
{
    int (*const writers[])(const struct sa_profile *, struct sa_sink *) = {
        sa_write_proto, sa_write_collapsed, sa_write_report};
    size_t written = 0;

    for (size_t i = 0; i < sizeof(writers) / sizeof(*writers); i++) {
        struct sa_sink *out = sa_sink_open(swallow, &written, false);

        if (!out || writers[i](profile, out) != 0 || sa_sink_close(out) != 0)
            exit(1);
    }
    return written;
}

/* Searches the heap of a target for leaks, with registers that say anything. */
static void search(struct sa_reading *r, const struct sa_outside_profile *p, struct sa_error *e)
{
    struct sa_target_thread thread = {.sp = kept[draw() % KEPT], .pointer = kept[draw() % KEPT]};
    struct sa_threads threads = {.threads = &thread, .count = 1, .general = {kept, KEPT, KEPT}};
    struct sa_leaks leaks;

    if (sa_leaks_open(&leaks, r, &p->live, e) && sa_leaks_find(&leaks, r, &threads, e) &&
        sa_leaks_find_holders(&leaks, e)) {
        if (sa_leak_report(&leaks, &p->profile, p->live.samples, 0, nowhere) != 0)
            exit(1);
        searches++;
    }
    lost += leaks.lost;
    sa_leaks_close(&leaks);
}

/* Whether a page has more types of profiles than there can be profiles. */
static bool has_many_types(const struct sa_buffer *page)
{
    static const char name[] = "PARAMETER salloc_profile_type ";
    const char *at = memmem(page->data, page->used, name, sizeof(name) - 1);
    const char *end = at ? memchr(at, '\n', (size_t)(page->data + page->used - at)) : NULL;
    unsigned count = 0;

    for (; end && at < end; at++)
        count += *at == ',';
    return count >= SA_PROFILES_MAX;
}

/* Makes a stats page of a target, in each format in turn. */
static void report(struct sa_reading *r)
{
    struct sa_error e = {SA_EXIT_DONE, ""}, none = {SA_EXIT_DONE, ""};
    struct sa_buffer page = {NULL, 0, 0};
    uint64_t profile = sa_table_constant(&r->table, "=sa_options.profile", &none);

    commas = 0;
    if (draw() % 4 == 0) { /* no lie but one: paths of commas only, as of a thousand profiles */
        commas = sa_table_variable(&r->table, "sa_options", &none) + (uint32_t)profile;
        commas_end = commas + (profile >> 32);
        one_in = 1ull << 60;
    }
    /* Its description of itself may lie, too. */
    for (uint64_t i = commas ? 0 : draw() % 4; i; i--) {
        struct sa_table_entry *entry = &r->table.entries[draw() % r->table.count];

        entry->value = false_word(entry->value);
    }
    if (sa_stats_page(&r->target, &r->table, (enum sa_report_kind)(draw() % SA_REPORT_KINDS), NULL,
                      &page, NULL, &e)) {
        if (page.used < 1000 || has_many_types(&page))
            exit(1);
        pages++;
    }
    /* A check of the library may end the child by SIGABRT; debug builds have many. */
    if (strstr(e.text, ": signal ") && !strstr(e.text, ": signal 6 ")) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    sa_buffer_free(&page);
}

/* Reads a target that lies from its first or its second step on. */
static enum sa_exit one_round(const char *what, bool early, enum salloc_profile_type type)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_outside_profile p;
    struct sa_source source;
    struct sa_reading r;

    memset(&r, 0, sizeof(r));
    if (!sa_source_parse(what, &source, &e) || !sa_target_open(&r.target, source, &e))
        exit(1);
    honest = r.target.kind;
    liar = *honest;
    liar.read = lying_read;
    if (early)
        r.target.kind = &liar;
    if (sa_objects_collect(&r.target, &r.objects, &e) &&
        sa_table_read(&r.target, &r.objects, &r.table, &e) &&
        sa_stacks_open(&r.stacks, &r.target, &r.table, &e)) {
        r.target.kind = &liar;
        if (sa_reading_profile(&r, type, &p, &e) && write_all(&p.profile) < 100)
            exit(1);
        if (!e.code && type == SALLOC_PROFILE_HEAP)
            search(&r, &p, &e);
        sa_outside_profile_free(&p);
        if (draw() % 2 == 0) /* 80 rounds have 11 pages on average, and none once in 60,000 runs */
            report(&r);
    }
    r.target.kind = honest;
    sa_reading_close(&r);
    return e.code;
}

int main(int argc, char **argv)
{
    unsigned results[16] = {0}, rounds = argc == 3 ? (unsigned)atoi(argv[2]) : 0;

    nowhere = fopen("/dev/null", "w");
    if (!nowhere)
        return 1;
    sa_vm_init();
    sa_vdso_init();
    sa_size_class_init(sa_vm.page_bytes, SA_SLAB_BEGIN / 8, sizeof(struct sa_slab) / 8);
    for (unsigned i = 0; i < rounds; i++) {
        static const enum salloc_profile_type types[] = {
            SALLOC_PROFILE_PEAK_HEAP,     SALLOC_PROFILE_HEAP, SALLOC_PROFILE_HEAP,
            SALLOC_PROFILE_FRAGMENTATION, SALLOC_PROFILE_HEAP, SALLOC_PROFILE_HEAP};
        static const uint64_t rates[] = {3, 20, 200, 2000, 50000};

        alarm(ROUND_SECONDS);
        seed = 0x9e3779b97f4a7c15 * (i + 1);
        one_in = rates[i % 5];
        results[one_round(argv[1], i % 2, types[i % 6]) % 16]++;
    }
    printf("%u rounds, %llu lies: %u profiles, %u errors, %u searches with %llu samples lost, "
           "%u stats pages\n",
           rounds, (unsigned long long)lies, results[SA_EXIT_DONE], rounds - results[SA_EXIT_DONE],
           searches, (unsigned long long)lost, pages);
    fclose(nowhere);
    /* Some of both, or nothing was tried; and no word for what it was not. */
    return !rounds || !searches || !pages || !results[SA_EXIT_DONE] ||
           results[SA_EXIT_DONE] == rounds || results[SA_EXIT_USAGE] || results[SA_EXIT_NONE] ||
           results[SA_EXIT_REFUSED];
}
