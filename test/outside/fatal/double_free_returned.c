/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two frees in a row of a block on a mixed span, in every pair of forms, while mixed spans grow:
 * the first may give the block back to its span at once. The allocation fits the first form. Runs
 * with mixed_spans:always.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 1088,2000,20000 0-6 0-6
 */
#include "test/outside/fatal/fatal.h"

#define BYTES (20ul << 20)

void *_Znwm(size_t size);
void *_ZnwmSt11align_val_t(size_t size, size_t align);
void _ZdlPv(void *p);
void _ZdlPvm(void *p, size_t size);
void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t align);

static void *blocks[BYTES / 1088];

static void *allocate_for(size_t form, size_t size)
{
    switch (form) {
    case 2:
        return aligned_alloc(64, size);
    case 4:
    case 5:
        return _Znwm(size);
    case 6:
        return _ZnwmSt11align_val_t(size, 64);
    default:
        return malloc(size);
    }
}

static void free_by(size_t form, void *p, size_t size)
{
    switch (form) {
    case 0:
        free(p);
        break;
    case 1:
        free_sized(p, size);
        break;
    case 2:
        free_aligned_sized(p, 64, size);
        break;
    case 3:
        FATAL_IGNORE(realloc(p, 0));
        break;
    case 4:
        _ZdlPv(p);
        break;
    case 5:
        _ZdlPvm(p, size);
        break;
    default:
        _ZdlPvmSt11align_val_t(p, size, 64);
    }
}

int main(int argc, char **argv)
{
    size_t size = fatal_arg(argc, argv, 1), form = fatal_arg(argc, argv, 2), n = BYTES / size;
    void *p;

    fatal_pin();
    _ZdlPv(_Znwm(1));
    for (size_t i = 0; i < n; i++)
        blocks[i] = allocate_for(form, size);
    p = fatal_names(blocks[n / 2]);
    free_by(form, p, size);
    free_by(fatal_arg(argc, argv, 3), p, size);
    return FATAL_SURVIVED;
}
