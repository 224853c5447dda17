/* SPDX-License-Identifier: Apache-2.0 */
/* The sampling rates of a target; see rates.h. What is made of them is what sa_rates_unseen makes.
 */
#include "tool/samples/rates.h"

#include <math.h>
#include <string.h>

#define CLASSES_MAX 256
#define TIMES       8 /* a change of the rates is waited for */

struct places {
    uint64_t rates, classes;
    struct sa_field generation, copy, interval, of, bytes_weight, blocks_weight, bytes, p, t;
    struct sa_field class_count, class_of, class_size;
    uint64_t copies, copy_bytes, rate_bytes;
};

static bool find_places(const struct sa_table *table, struct places *ret, struct sa_error *e)
{
    ret->rates = sa_table_variable(table, "rates", e);
    ret->classes = sa_table_variable(table, "sa_size_classes", e);
    ret->generation = sa_table_field(table, "struct rates", "generation", e);
    ret->copy = sa_table_field(table, "struct rates", "copy", e);
    ret->interval = sa_table_field(table, "struct rates_copy", "interval", e);
    ret->of = sa_table_field(table, "struct rates_copy", "of", e);
    ret->bytes_weight = sa_table_field(table, "struct rates_copy", "past.bytes_weight", e);
    ret->blocks_weight = sa_table_field(table, "struct rates_copy", "past.blocks_weight", e);
    ret->bytes = sa_table_field(table, "struct rates_copy", "past.bytes", e);
    ret->p = sa_table_field(table, "struct class_rate", "p", e);
    ret->t = sa_table_field(table, "struct class_rate", "interval", e);
    ret->class_count = sa_table_field(table, "struct sa_size_classes", "count", e);
    ret->class_of = sa_table_field(table, "struct sa_size_classes", "of", e);
    ret->class_size = sa_table_field(table, "struct sa_class", "size", e);
    ret->copies = sa_table_constant(table, "SA_RATE_COPIES", e);
    ret->copy_bytes = sa_table_constant(table, "struct rates_copy", e);
    ret->rate_bytes = sa_table_constant(table, "struct class_rate", e);
    if (!e->code && (!ret->copies || ret->copies > 64 || ret->copy_bytes > 1 << 20))
        sa_error_set(e, SA_EXIT_VERSION, "rates of its library are not what this sallocctl knows");
    return !e->code;
}

static bool read_double(struct sa_target *t, uint64_t record, struct sa_field field, double *ret)
{
    uint64_t bits;

    if (field.bytes != sizeof(*ret) || !sa_field_read(t, record, field, &bits))
        return false;
    memcpy(ret, &bits, sizeof(bits));
    return !isnan(*ret) && *ret >= 0;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static bool read_copy(struct sa_target *t, const struct places *at, uint64_t copy, uint64_t classes,
                      int64_t *ret_interval, struct sa_unseen *ret)
{
    uint64_t interval;
    double p, distance;

    if (!sa_field_read(t, copy, at->interval, &interval) || (int64_t)interval < 0)
        return false;
    *ret_interval = (int64_t)interval;
    *ret = (struct sa_unseen){.bytes = interval > 1 ? (double)interval : 0};
    for (uint64_t cls = 1; cls < classes; cls++) {
        uint64_t rate = copy + at->of.offset + cls * at->rate_bytes;

        if (!read_double(t, rate, at->p, &p) || !read_double(t, rate, at->t, &distance))
            return false;
        if (p < 1) {
            ret->bytes = larger(ret->bytes, p > 0 ? distance : INFINITY);
            ret->blocks = larger(ret->blocks, p > 0 ? 1 / p : INFINITY);
        }
    }
    return read_double(t, copy, at->bytes_weight, &ret->past_bytes_weight) &&
           read_double(t, copy, at->blocks_weight, &ret->past_blocks_weight) &&
           read_double(t, copy, at->bytes, &ret->past_bytes);
}

bool sa_rates_read(struct sa_target *t, const struct sa_table *table, int64_t *ret_interval,
                   struct sa_unseen *ret, struct sa_error *e)
{
    uint64_t class_bytes = sa_table_constant(table, "struct sa_class", e), size = 0;
    uint64_t generation, after, classes;
    struct places at;

    if (!find_places(table, &at, e))
        return false;
    for (int i = 0; i < TIMES; i++) {
        uint64_t copies = at.rates + at.copy.offset;

        if (!sa_field_read(t, at.classes, at.class_count, &classes) || classes > CLASSES_MAX ||
            !sa_field_read(t, at.classes + at.class_of.offset + class_bytes, at.class_size,
                           &size) ||
            !size || !sa_field_read(t, at.rates, at.generation, &generation) || !generation ||
            !read_copy(t, &at, copies + (generation - 1) % at.copies * at.copy_bytes, classes,
                       ret_interval, ret) ||
            !sa_field_read(t, at.rates, at.generation, &after))
            break;
        if (after != generation)
            continue;
        ret->past_blocks = ret->past_bytes / (double)size;
        return true;
    }
    sa_error_set(e, SA_EXIT_DAMAGED, "the sampling rates cannot be read");
    return false;
}
