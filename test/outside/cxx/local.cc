// SPDX-License-Identifier: Apache-2.0
// A library for local.c: runs out of memory in operator new and catches what is thrown.

#include <new>

extern "C" __attribute__((visibility("default"))) int local_try(unsigned long size)
{
    try {
        char *volatile p = new char[size];
        delete[] p;
        return 1;
    } catch (const std::bad_alloc &) {
        return 0;
    }
}
