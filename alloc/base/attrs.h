/* SPDX-License-Identifier: Apache-2.0 */
/* Compiler attributes and the few constants that every layer shares. */
#ifndef SA_BASE_ATTRS_H
#define SA_BASE_ATTRS_H

#define SA_LIKELY(x)   __builtin_expect(!!(x), 1)
#define SA_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SA_INLINE      static inline __attribute__((always_inline))
#define SA_NOINLINE    __attribute__((noinline))
#define SA_COLD        __attribute__((noinline, cold))
#define SA_NORETURN    __attribute__((noreturn))
#define SA_EXPORT      __attribute__((visibility("default")))
/* Declarations need it too: -fvisibility covers definitions only, and aarch64 then goes through the
 * GOT. */
#define SA_HIDDEN __attribute__((visibility("hidden")))
#define SA_WEAK   __attribute__((weak))

#define SA_TEXT(name)  SA_TEXT_(name)
#define SA_TEXT_(name) #name

/* A second, hidden name of an exported function: ours, whatever the loader finds for the first
 * name. */
#if defined(__has_attribute) && __has_attribute(copy)
#define SA_OWN_NAME_OF(function) SA_HIDDEN __attribute__((alias(SA_TEXT(function)), copy(function)))
#else
#define SA_OWN_NAME_OF(function) SA_HIDDEN __attribute__((alias(SA_TEXT(function))))
#endif

/*
 * What every process runs and writes at start, also one that never allocates: code beside the
 * symbol table and variables beside the relocated ones, on pages that the loader has touched
 * already. There is also room for small variables that the first allocation writes.
 */
#define SA_START_CODE __attribute__((noinline, section(".text.startup")))
#define SA_START_DATA __attribute__((section(".data.start")))

/*
 * Functions that few programs run, or seldom, in files of others that every program runs. They lie
 * apart, with those of whole files that are cold (alloc/cold.ld), so that the pages that every
 * program has in memory are few. SA_ONCE: what most programs run once, soon after their start.
 */
#define SA_RARE __attribute__((section(".text.unlikely.rare")))
#define SA_ONCE __attribute__((section(".text.startup.once")))

/* Assumed size of a cache line; only performance depends on it. */
#define SA_CACHELINE 64

/*
 * Make the compiler forget where a pointer came from, so that every access through it uses the
 * one register instead of a fresh PC-relative address each.
 */
#define SA_OPAQUE(p) __asm__("" : "+r"(p))

/* Which sanitizer the build is for: compilers have two ways to say. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SA_ASAN 1
#elif __has_feature(thread_sanitizer)
#define SA_TSAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SA_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define SA_TSAN 1
#endif
#ifndef SA_ASAN
#define SA_ASAN 0
#endif
#ifndef SA_TSAN
#define SA_TSAN 0
#endif

/*
 * Functions that read what others may write at the same moment, in plain loads because of its
 * length. Their callers believe nothing of it before they have looked again. ThreadSanitizer would
 * call that a race.
 */
#define SA_RACES __attribute__((no_sanitize("thread")))

#define SA_STATIC_ASSERT(c, msg) _Static_assert(c, msg)

#endif
