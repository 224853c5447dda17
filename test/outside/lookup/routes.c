/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of libc's malloc family that a program looks up by name, by every route: what they
 * return and what they free is the same heap as everywhere else. Every function of libc's that
 * this library has is found here, and nothing else changes.
 * usage: routes FOLDER  (where libfound.so is)
 */
#include "test/outside/check.h"
#include "test/outside/lookup/find.h"

#include <errno.h>
#include <link.h>

static void *libc, *libm, *base, *plugin;

static void *by_libm(const char *name)
{
    return dlsym(libm, name);
}

static void *by_base(const char *name)
{
    return dlsym(base, name);
}

static void *by_found_dlsym(const char *name)
{
    void *(*f)(void *, const char *) = (void *(*)(void *, const char *))dlsym(libc, "dlsym");

    return f(libc, name);
}

static void *by_found_dlvsym(const char *name)
{
    void *(*f)(void *, const char *, const char *) =
        (void *(*)(void *, const char *, const char *))dlvsym(libc, "dlvsym", BASE_VERSION);

    return f(libc, name, BASE_VERSION);
}

static void *by_default_version(const char *name)
{
    return dlvsym(RTLD_DEFAULT, name, BASE_VERSION);
}

static void *by_found_dlopen(const char *name)
{
    void *(*f)(const char *, int) = (void *(*)(const char *, int))dlsym(libc, "dlopen");
    void *handle = f("libc.so.6", RTLD_NOW | RTLD_DEEPBIND);

    return handle ? dlsym(handle, name) : NULL;
}

/* From a library that was loaded later, whose RTLD_NEXT is a search of its own. */
static void *by_plugin(enum find_route route, const char *name)
{
    void *(*f)(enum find_route, const char *) =
        (void *(*)(enum find_route, const char *))dlsym(plugin, "helper_find_by");

    return f(route, name);
}

static void *by_plugin_next(const char *name)
{
    return by_plugin(FIND_NEXT, name);
}

static void *by_plugin_next_version(const char *name)
{
    return by_plugin(FIND_NEXT_VERSION, name);
}

static void *by_plugin_handle(const char *name)
{
    return by_plugin(FIND_HANDLE, name);
}

static void *by_plugin_default_version(const char *name)
{
    return by_plugin(FIND_OTHER_LIBRARY, name);
}

static void *by_next(const char *name)
{
    return find_by(FIND_NEXT, name);
}

static void *by_next_version(const char *name)
{
    return find_by(FIND_NEXT_VERSION, name);
}

static void *by_handle(const char *name)
{
    return find_by(FIND_HANDLE, name);
}

static void *by_handle_version(const char *name)
{
    return find_by(FIND_HANDLE_VERSION, name);
}

static const struct route {
    const char *what;
    void *(*find)(const char *name);
} routes[] = {
    {"dlsym(libc)", by_handle},
    {"dlvsym(libc)", by_handle_version},
    {"dlsym(libm)", by_libm},
    {"dlsym(dlmopen(LM_ID_BASE, libc))", by_base},
    {"dlsym(RTLD_NEXT)", by_next},
    {"dlvsym(RTLD_NEXT)", by_next_version},
    {"dlvsym(RTLD_DEFAULT)", by_default_version},
    {"dlsym found by handle", by_found_dlsym},
    {"dlvsym found by handle", by_found_dlvsym},
    {"dlopen found by handle", by_found_dlopen},
    {"plugin, dlsym(RTLD_NEXT)", by_plugin_next},
    {"plugin, dlvsym(RTLD_NEXT)", by_plugin_next_version},
    {"plugin, dlsym(libc)", by_plugin_handle},
    {"plugin, dlvsym(RTLD_DEFAULT)", by_plugin_default_version},
};

static const char *object_of(const void *address)
{
    Dl_info info;
    const char *slash;

    if (!dladdr(address, &info))
        return "?";
    slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

static bool is_salloc(const void *address)
{
    return strncmp(object_of(address), "libsalloc.so", 12) == 0;
}

static void test_addresses(const struct route *r)
{
    static const char *const ours[] = {
        "malloc",         "dlclose",         "free",          "calloc",
        "realloc",        "memalign",        "aligned_alloc", "posix_memalign",
        "valloc",         "pvalloc",         "reallocarray",  "malloc_usable_size",
        "mallinfo",       "mallopt",         "malloc_trim",   "malloc_stats",
        "malloc_info",    "__libc_malloc",   "__libc_free",   "__libc_calloc",
        "__libc_realloc", "__libc_memalign", "prctl",         "madvise",
        "mprotect",       "vfork",           "clone",         "dlopen",
        "dlmopen",        "dlsym",           "dlvsym",        "syscall",
    };
    static const char *const others[] = {"strdup", "printf", "getline", "mmap",
                                         "fork",   "dladdr", "environ", "posix_spawn"};
    unsigned found = 0;

    for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++) {
        void *f = r->find(ours[i]);

        found += f != NULL; /* a version is not that of each function */
        CHECK_SAYS(!f || is_salloc(f), "%s: %s is in %s", r->what, ours[i], object_of(f));
    }
    CHECK_SAYS(found >= 20, "%s: %u found", r->what, found);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        void *f = r->find(others[i]);

        CHECK_SAYS(!f || strncmp(object_of(f), "libc.so", 7) == 0, "%s: %s is in %s", r->what,
                   others[i], object_of(f));
    }
    dlerror();
    CHECK(!r->find("no_function_has_this_name"));
    CHECK_SAYS(strstr(dlerror() ?: "", "no_function_has_this_name"), "%s", r->what);
}

/* Blocks from functions of libc and of the linker, freed by what was found, and the reverse. */
static void test_blocks(const struct route *r)
{
    void *(*get)(size_t) = (void *(*)(size_t))r->find("malloc");
    void *(*resize)(void *, size_t) = (void *(*)(void *, size_t))r->find("realloc");
    void (*release)(void *) = (void (*)(void *))r->find("free");
    void *(*libc_get)(size_t) = (void *(*)(size_t))r->find("__libc_malloc");
    void (*libc_release)(void *) = (void (*)(void *))r->find("__libc_free");
    size_t (*size)(void *) = (size_t(*)(void *))r->find("malloc_usable_size");
    char *line = NULL;
    size_t cap = 0;
    FILE *f;

    REQUIRE(get && resize && release && libc_get && libc_release && size);
    for (size_t n = 1; n < 3000000; n *= 13) {
        free(get(n));
        release(malloc(n));
        free(libc_get(n));
        libc_release(malloc(n));
        free(resize(malloc(n), n * 2));
        release(realloc(get(n), n * 2));
        line = malloc(n);
        CHECK(size(line) == malloc_usable_size(line));
        release(line);
    }
    release(strdup("text"));
    release(getcwd(NULL, 0));
    release(realpath("/", NULL));
    line = NULL;
    CHECK(asprintf(&line, "%d", 5) == 1);
    release(line);
    line = get(10);
    cap = 10;
    f = fopen("/proc/self/status", "r");
    REQUIRE(f);
    while (getline(&line, &cap, f) > 0)
        ;
    fclose(f);
    release(line);
    f = open_memstream(&line, &cap);
    fprintf(f, "%5000d", 1);
    fclose(f);
    release(line);
}

/* The caller of a lookup is the program, as libc sees it. */
static void test_errors(void)
{
    CHECK(dlsym(libc, "malloc") && !dlerror());
    CHECK(!dlvsym(libc, "malloc", "GLIBC_9.9") && strstr(dlerror(), "GLIBC_9.9"));
    CHECK(!dlvsym(RTLD_DEFAULT, "malloc", "GLIBC_9.9") && dlerror());
    errno = 12345;
    CHECK(dlsym(libc, "free") && errno == 12345);
    CHECK(dlsym(RTLD_DEFAULT, "malloc") == (void *)malloc);
    CHECK(dlsym(dlopen(NULL, RTLD_NOW), "malloc") == (void *)malloc);
}

/* Another libc, which the program has loaded for itself, keeps its functions. */
static void test_namespace(void)
{
    void *other = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    void *(*get)(size_t);
    void (*release)(void *);

    if (!other) {
        check_say("no other namespace: %s", dlerror());
        return;
    }
    get = (void *(*)(size_t))dlsym(other, "malloc");
    release = (void (*)(void *))dlvsym(other, "free", BASE_VERSION);
    REQUIRE(get && release);
    CHECK(!is_salloc((void *)get) && !is_salloc((void *)release));
    release(get(100));
}

int main(int argc, char **argv)
{
    char path[4096];

    REQUIRE(argc == 2);
    check_begin();
    snprintf(path, sizeof(path), "%s/libfound.so", argv[1]);
    libc = dlopen("libc.so.6", RTLD_LAZY);
    libm = dlopen("libm.so.6", RTLD_LAZY);
    base = dlmopen(LM_ID_BASE, "libc.so.6", RTLD_NOW | RTLD_DEEPBIND);
    plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(libc && libm && base && plugin);
    for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++) {
        test_addresses(&routes[i]);
        test_blocks(&routes[i]);
    }
    test_errors();
    test_namespace();
    return check_end();
}
