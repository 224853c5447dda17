/* SPDX-License-Identifier: Apache-2.0 */
/* A new that fails ends as the standard says, under a library that replaces dlsym. */
#include <cstdio>
#include <new>

static volatile unsigned long much = 1ul << 60;
static int handled;

int main()
{
    int failures = 0;
    char *volatile p = new (std::nothrow) char[much];

    if (p)
        failures++;
    for (int i = 0; i < 3; i++) {
        try {
            p = new char[much];
            failures++;
        } catch (const std::bad_alloc &) {
        }
        try {
            p = static_cast<char *>(operator new(much, std::align_val_t(64)));
            failures++;
        } catch (const std::bad_alloc &) {
        }
    }
    std::set_new_handler([] {
        if (++handled == 3)
            std::set_new_handler(nullptr);
    });
    try {
        p = new char[much];
        failures++;
    } catch (const std::bad_alloc &) {
    }
    if (handled != 3)
        failures++;
    delete[] new int[10];
    if (failures)
        std::puts("a new did not fail as it should");
    return failures;
}
