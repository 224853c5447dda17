/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses every part of the allocator, then asks for the reports: all sizes, from several threads,
 * freed in part and by others, sampled blocks freed some time ago, blocks of many hugepages, memory
 * given back. Writes to the folder that is named:
 *
 *   text.0 json.0 prom.0 text.1 json.1 ...   reports taken one after the other, nothing else
 *   happening
 *   info                                     what malloc_info writes
 *   properties                               "name value" of each name in the file `names` of the
 *                                            folder
 *
 * usage: everything FOLDER
 */
#include "test/outside/check.h"

#include <pthread.h>

#define BLOCKS 20000
#define ROUNDS 100

static void *blocks[BLOCKS];
static const char *folder;

static void write_file(const char *name, int round, const char *text)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof(path), round < 0 ? "%s/%s" : "%s/%s.%d", folder, name, round);
    f = fopen(path, "w");
    REQUIRE(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void *work(void *arg)
{
    size_t from = (size_t)arg;

    for (size_t i = from; i < BLOCKS; i += 4) {
        size_t size = i % 500 == 0 ? 300000 + i * 50 : 16 + i * 7919 % 5000;

        blocks[i] = malloc(size);
        REQUIRE(blocks[i]);
        memset(blocks[i], 1, size);
    }
    return NULL;
}

static void free_some(size_t part)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 7 == part) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
}

static void use_all(void)
{
    pthread_t threads[4];
    void *huge[6];

    for (size_t i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < 6; i++) {
        huge[i] = malloc((i + 1) * 3500000);
        REQUIRE(huge[i]);
        memset(huge[i], 1, (i + 1) * 3500000);
    }
    free_some(1);
    for (size_t i = 0; i < 6; i += 2)
        free(huge[i]);
    huge[1] = realloc(huge[1], 9000000);
    REQUIRE(huge[1]);
    free_some(2);
    usleep(1100000); /* some of what is free has been so for more than a second */
    free_some(3);
}

typedef char *get_function(void);
typedef size_t release_function(size_t);
typedef int property_function(const char *name, size_t *value);

static void write_properties(property_function *get)
{
    char path[4096], name[200], text[65536];
    size_t used = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/names", folder);
    f = fopen(path, "r");
    if (!f)
        return;
    while (fscanf(f, "%199s", name) == 1) {
        size_t value = 0;
        int got = get(name, &value);

        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s %s%zu\n", name,
                                 got ? "missing " : "", value);
    }
    fclose(f);
    write_file("properties", -1, text);
}

static void write_info(void)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s/info", folder);
    f = fopen(path, "w");
    REQUIRE(f && malloc_info(0, f) == 0 && fclose(f) == 0);
}

int main(int argc, char **argv)
{
    get_function *text = (get_function *)dlsym(RTLD_DEFAULT, "salloc_get_stats");
    get_function *json = (get_function *)dlsym(RTLD_DEFAULT, "salloc_get_stats_json");
    get_function *prom = (get_function *)dlsym(RTLD_DEFAULT, "salloc_get_stats_openmetrics");
    release_function *release =
        (release_function *)dlsym(RTLD_DEFAULT, "salloc_release_free_memory");
    property_function *property =
        (property_function *)dlsym(RTLD_DEFAULT, "salloc_get_numeric_property");

    REQUIRE(argc == 2 && text && json && prom && release && property);
    folder = argv[1];
    use_all();
    release(1ul << 30); /* as much as there is, of both heaps */
    free_some(4);
    for (int round = 0; round < ROUNDS; round++) {
        static char copies[3][1 << 20];
        get_function *const get[] = {text, json, prom};

        /* Each of the three finds the heap in the same state, unless maintenance has come by. */
        for (size_t i = 0; i < 3; i++) {
            char *report = get[i]();

            REQUIRE(report && strlen(report) < sizeof(copies[i]));
            strcpy(copies[i], report);
            free(report);
        }
        write_file("text", round, copies[0]);
        write_file("json", round, copies[1]);
        write_file("prom", round, copies[2]);
    }
    write_info();
    write_properties(property);
    return 0;
}
