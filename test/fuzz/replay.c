/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without a fuzzer: on every file of a corpus folder, in the order of their
 * names, then on pseudo-random inputs, which are the same in every run: strings of bytes, a few of
 * them long, and files of the corpus that were changed here and there. Says how many there were; if
 * an input ends the process, which it was, and puts it into the file that FUZZ_KEEP names.
 * usage: replay FOLDER [COUNT]          random inputs, 1000 if not said
 *        replay FILE                    this one only
 */
#include "test/fuzz/fuzz.h"
#include "test/support/random.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX  1000
#define BYTES_MAX  4096
#define LONG       16384 /* one in LONG_EVERY */
#define LONG_EVERY 100

static struct input {
    char *name;
    uint8_t *data;
    size_t size;
} files[FILES_MAX];
static size_t count;

static char current[300]; /* what runs */
static const uint8_t *current_data;
static size_t current_size;

__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

/* And keeps it, where the environment says. */
static void say_which(void)
{
    const char *keep = getenv("FUZZ_KEEP");
    int fd = keep ? open(keep, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
    ssize_t n = write(2, current, strlen(current));

    if (fd >= 0)
        n = write(fd, current_data, current_size);
    (void)n;
}

/* Of the sanitizers; otherwise signals tell. */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void on_signal(int signal_number)
{
    say_which();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void watch(void)
{
    static const int deaths[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGALRM};

    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(say_which);
    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++)
        if (!__sanitizer_set_death_callback || deaths[i] == SIGABRT || deaths[i] == SIGALRM)
            signal(deaths[i], on_signal);
}

static void run(const char *what, size_t number, const uint8_t *data, size_t size)
{
    /* A copy that ends where its memory ends. */
    uint8_t *copy = malloc(size ? size : 1);

    FUZZ_CHECK(copy);
    if (size)
        memcpy(copy, data, size);
    snprintf(current, sizeof(current), "input: %.200s %zu\n", what, number);
    current_data = copy;
    current_size = size;
    alarm(60); /* none takes a hundredth of that */
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void read_file(const char *path)
{
    struct input *input = &files[count];
    FILE *f = fopen(path, "rb");

    FUZZ_CHECK(f);
    input->name = strdup(path);
    input->data = malloc(1 << 20);
    FUZZ_CHECK(count < FILES_MAX && input->name && input->data);
    input->size = fread(input->data, 1, 1 << 20, f);
    input->data = realloc(input->data, input->size + 1);
    fclose(f);
    count++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct input *)a)->name, ((const struct input *)b)->name);
}

static void read_folder(const char *path)
{
    DIR *folder = opendir(path);
    char name[4096];

    if (!folder)
        FUZZ_FAIL("no corpus: %s", path);
    for (struct dirent *e; (e = readdir(folder));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        read_file(name);
    }
    closedir(folder);
    qsort(files, count, sizeof(files[0]), by_name);
}

static size_t random_bytes(struct test_random *r, uint8_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)test_random_next(r);
    return n;
}

/* The start of one file and the rest of another, with some bytes changed. */
static size_t changed_file(struct test_random *r, uint8_t *to)
{
    const struct input *a = &files[test_random_below(r, count)];
    const struct input *b = &files[test_random_below(r, count)];
    size_t a_max = a->size < BYTES_MAX ? a->size : BYTES_MAX;
    size_t b_max = b->size < BYTES_MAX ? b->size : BYTES_MAX;
    size_t keep = test_random_below(r, 2) ? a_max : test_random_below(r, a_max + 1), n = keep;

    memcpy(to, a->data, keep);
    if (keep < b_max) {
        memcpy(to + keep, b->data + keep, b_max - keep);
        n = b_max;
    }
    for (size_t i = test_random_below(r, 8); n && i > 0; i--)
        to[test_random_below(r, n)] = (uint8_t)test_random_next(r);
    return n;
}

static void run_random(size_t inputs)
{
    static uint8_t bytes[LONG];
    struct test_random r = {0xf0221};

    for (size_t i = 0; i < inputs; i++) {
        size_t n = i % LONG_EVERY == 0 ? random_bytes(&r, bytes, LONG)
                   : count && i % 2    ? changed_file(&r, bytes)
                                       : random_bytes(&r, bytes, test_random_size(&r, 11));

        run("random number", i, bytes, n);
    }
}

int main(int argc, char **argv)
{
    struct stat st;
    size_t inputs = 0;

    if (argc < 2 || stat(argv[1], &st) != 0) {
        fprintf(stderr, "usage: %s FOLDER [COUNT] | FILE\n", argv[0]);
        return 2;
    }
    watch();
    LLVMFuzzerInitialize(&argc, &argv);
    if (S_ISDIR(st.st_mode)) {
        read_folder(argv[1]);
        inputs = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    } else {
        read_file(argv[1]);
    }
    for (size_t i = 0; i < count; i++)
        run(files[i].name, files[i].size, files[i].data, files[i].size);
    run_random(inputs);
    printf("%zu files and %zu random inputs\n", count, inputs);
    return 0;
}
