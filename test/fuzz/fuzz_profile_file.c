/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of profile files: profiles of the library's own writer, of each type, with changes; or
 * bytes as they come. Reading ends with a model whose every index is in bounds and which can be
 * written in each format, or with an error that has a name.
 */
#include "alloc/os/vm.h"
#include "sampling/export/write.h"
#include "test/fuzz/patches.h"
#include "test/support/made_profile.h"
#include "test/support/profile_file_walk.h"

#define BYTES_MAX 65536
#define TYPES     4

static struct {
    uint8_t data[BYTES_MAX];
    size_t bytes;
} good[TYPES];
static FILE *nowhere;

static int keep(void *arg, const void *data, size_t bytes)
{
    size_t type = *(size_t *)arg;

    FUZZ_CHECK(good[type].bytes + bytes <= BYTES_MAX);
    memcpy(good[type].data + good[type].bytes, data, bytes);
    good[type].bytes += bytes;
    return 0;
}

static bool try(const uint8_t *data, size_t bytes)
{
    struct sa_error e = {SA_EXIT_DONE, ""};
    struct sa_profile_file f;

    if (sa_profile_file_parse(&f, data, bytes, &e)) {
        profile_file_walk(&f);
        profile_file_write_all(&f, nowhere);
        sa_profile_file_free(&f);
        return true;
    }
    FUZZ_CHECK(e.code != SA_EXIT_DONE && e.text[0]);
    return false;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const enum salloc_profile_type types[TYPES] = {
        SALLOC_PROFILE_HEAP, SALLOC_PROFILE_PEAK_HEAP, SALLOC_PROFILE_ALLOCATIONS,
        SALLOC_PROFILE_LIFETIMES};

    (void)argc, (void)argv;
    sa_vm_init();
    nowhere = fopen("/dev/null", "w");
    FUZZ_CHECK(nowhere);
    for (size_t i = 0; i < TYPES; i++) {
        struct sa_sink *out = sa_sink_open(keep, &i, false);

        FUZZ_CHECK(out);
        FUZZ_EQUAL(sa_write_proto(made_profile(types[i]), out), 0);
        FUZZ_EQUAL(sa_sink_close(out), 0);
        FUZZ_CHECK(try(good[i].data, good[i].bytes));
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    static uint8_t changed[BYTES_MAX];
    size_t which = fuzz_below(&in, TYPES + 1), bytes;
    uint8_t *copy;

    if (which == TYPES) {
        copy = fuzz_bytes(&in, BYTES_MAX, &bytes);
    } else {
        bytes = good[which].bytes;
        memcpy(changed, good[which].data, bytes);
        fuzz_patch(&in, changed, &bytes, BYTES_MAX);
        in = (struct fuzz_input){changed, changed + bytes};
        copy = fuzz_bytes(&in, BYTES_MAX, &bytes); /* whose end a sanitizer sees */
    }
    try(copy, bytes);
    free(copy);
    return 0;
}
