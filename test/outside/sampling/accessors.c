/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile tells of itself, and a profile written to a descriptor and to a function: the same
 * bytes as in a file. usage: accessors FOLDER */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>

#define BLOCKS 64

static void *blocks[BLOCKS];

/* What a program that was built with a later version passes. */
struct later_info {
    struct salloc_profile_info known;
    uint64_t more[3];
};

static void test_info(const salloc_profile *profile)
{
    struct later_info later;
    struct salloc_profile_info info = {.size = sizeof(info)}, shorter;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    REQUIRE(salloc_profile_get_info(profile, &info) == 0);
    CHECK(info.size == sizeof(info) && info.type == SALLOC_PROFILE_HEAP);
    CHECK(info.time_ns / 1000000000 - now.tv_sec <= 1 &&
          now.tv_sec - info.time_ns / 1000000000 < 60);
    CHECK(info.duration_ns == 0 && info.interval == 1);
    CHECK_SAYS(info.samples >= BLOCKS, "%llu samples", (unsigned long long)info.samples);
    CHECK(info.stacks_dropped == 0);

    memset(&later, 0xff, sizeof(later));
    later.known.size = sizeof(later);
    REQUIRE(salloc_profile_get_info(profile, &later.known) == 0);
    CHECK(later.known.samples == info.samples && later.known.size == sizeof(later));
    CHECK(later.more[0] == 0 && later.more[2] == 0);

    memset(&shorter, 0xff, sizeof(shorter));
    shorter.size = offsetof(struct salloc_profile_info, samples_dropped);
    REQUIRE(salloc_profile_get_info(profile, &shorter) == 0);
    CHECK(shorter.samples == info.samples && shorter.samples_dropped == UINT64_MAX);

    shorter.size = 0;
    errno = 0;
    CHECK(salloc_profile_get_info(profile, &shorter) == -1 && errno == EINVAL);
    shorter.size = (size_t)-1;
    CHECK(salloc_profile_get_info(profile, &shorter) == -1 && errno == EINVAL);
    CHECK(salloc_profile_get_info(NULL, &info) == -1 && errno == EINVAL);
    CHECK(salloc_profile_get_info(profile, NULL) == -1 && errno == EINVAL);
}

/* What a function got: kept in a mapping of the test's, as large as no profile here is. */
static struct {
    char bytes[1 << 20];
    size_t used;
    int pieces, stop_at, result;
} got;

static int take(void *arg, const void *data, size_t size)
{
    CHECK(arg == blocks && size <= 65536);
    REQUIRE(got.used + size <= sizeof(got.bytes));
    memcpy(got.bytes + got.used, data, size);
    got.used += size;
    return ++got.pieces == got.stop_at ? got.result : 0;
}

static size_t read_file(const char *path, char *to, size_t cap)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, to, cap);

    REQUIRE(n > 0);
    close(fd);
    return (size_t)n;
}

static void test_write(const salloc_profile *profile, const char *folder)
{
    static char bytes[1 << 20];
    char path[4096];
    size_t n;
    int fd;

    snprintf(path, sizeof(path), "%s/accessors.%d.pb.gz", folder, (int)getpid());
    REQUIRE(salloc_profile_write_file(profile, path) == 0);
    n = read_file(path, bytes, sizeof(bytes));
    REQUIRE(salloc_profile_write(profile, ".pb.gz", take, blocks) == 0);
    CHECK_SAYS(got.used == n && memcmp(got.bytes, bytes, n) == 0, "%zu and %zu bytes", got.used, n);

    fd = open(path, O_RDWR | O_TRUNC);
    REQUIRE(salloc_profile_write_fd(profile, fd, ".pb.gz") == 0);
    CHECK(fcntl(fd, F_GETFD) >= 0 && lseek(fd, 0, SEEK_CUR) == (off_t)n);
    close(fd);
    CHECK(read_file(path, bytes, sizeof(bytes)) == n && memcmp(got.bytes, bytes, n) == 0);
    unlink(path);
}

static void test_errors(const salloc_profile *profile)
{
    int ends[2];

    got.used = 0;
    got.stop_at = got.pieces + 1;
    got.result = EDQUOT;
    CHECK(salloc_profile_write(profile, ".pb.gz", take, blocks) == -1 && errno == EDQUOT);
    got.stop_at = got.pieces + 1;
    got.result = -5;
    CHECK(salloc_profile_write(profile, ".pb.gz", take, blocks) == -1 && errno == ECANCELED);
    CHECK(got.pieces == got.stop_at);
    CHECK(salloc_profile_write(profile, ".xyz", take, blocks) == -1 && errno == EINVAL);
    CHECK(salloc_profile_write(profile, NULL, take, blocks) == -1 && errno == EINVAL);
    CHECK(salloc_profile_write(profile, ".pb", NULL, blocks) == -1 && errno == EINVAL);
    CHECK(salloc_profile_write(NULL, ".pb", take, blocks) == -1 && errno == EINVAL);
    CHECK(salloc_profile_write_fd(profile, -1, ".pb") == -1 && errno == EBADF);
    CHECK(salloc_profile_write_fd(profile, 1, "pb") == -1 && errno == EINVAL);
    CHECK(salloc_profile_write_fd(NULL, 1, ".pb") == -1 && errno == EINVAL);

    REQUIRE(pipe(ends) == 0);
    close(ends[0]);
    CHECK(salloc_profile_write_fd(profile, ends[1], ".txt") == -1 && errno == EPIPE);
    close(ends[1]);
}

static void test_recording(void)
{
    struct salloc_profile_info info = {.size = sizeof(info)};
    salloc_profile_token *token = salloc_start_allocation_profile();
    salloc_profile *profile;

    REQUIRE(token);
    for (int i = 0; i < BLOCKS; i++)
        free(malloc(100));
    usleep(20000);
    profile = salloc_profile_token_stop(token);
    REQUIRE(profile && salloc_profile_get_info(profile, &info) == 0);
    CHECK(info.type == SALLOC_PROFILE_ALLOCATIONS && info.samples >= BLOCKS);
    CHECK(info.duration_ns >= 20000000 && info.duration_ns < 60000000000);
    salloc_profile_free(profile);
}

int main(int argc, char **argv)
{
    salloc_profile *profile;

    check_begin();
    REQUIRE(argc == 2);
    CHECK(strcmp(salloc_version(), SALLOC_VERSION_STRING) == 0);
    CHECK(SALLOC_VERSION_NUMBER >= 200);
    salloc_set_sampling_interval(1);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(200);
    profile = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    REQUIRE(profile);
    test_info(profile);
    test_write(profile, argv[1]);
    test_errors(profile);
    test_recording();
    salloc_profile_free(profile);
    return check_end();
}
