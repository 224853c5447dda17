/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By what factor optimal rates lower the variance of the estimate of live bytes, at equal numbers of samples.
 * usage: salloc-trace-rates INTERVAL < table
 * The table has lines of kind (class or large), size, allocations, live blocks. Large blocks keep the default
 * rate, and their share of the variance is in both figures. Prints the samples expected, the standard deviation
 * relative to the live bytes by default and with optimal rates, and the factor.
 */
#include "sampling/optimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOOR   0.1
#define CERTAIN 0.99

int main(int argc, char **argv)
{
    static struct sa_optimal_class classes[512];
    double interval = argc > 1 ? atof(argv[1]) : 0, size, allocations, live;
    double samples = 0, bytes = 0, large = 0, before = 0, after = 0;
    size_t count = 0;
    char kind[16];

    if (interval <= 1) {
        fprintf(stderr, "usage: %s INTERVAL < table\n", argv[0]);
        return 2;
    }
    while (count < 512 && scanf("%15s %lf %lf %lf", kind, &size, &allocations, &live) == 4) {
        double p = -expm1(size * log1p(-1 / interval));

        p = p > CERTAIN ? 1 : p;
        samples += p < 1 ? allocations * p : 0;
        bytes += size * live;
        if (!strcmp(kind, "large"))
            large += size * size * live * (1 - p) / p;
        else
            classes[count++] = (struct sa_optimal_class){size, allocations, live, p, p};
    }
    sa_optimal_rates(classes, count, FLOOR);
    for (size_t i = 0; i < count; i++) {
        struct sa_optimal_class *c = &classes[i];

        before += c->size * c->size * c->live * (1 - c->p_default) / c->p_default;
        after += c->size * c->size * c->live * (1 - c->p) / c->p;
    }
    printf("%.0f %.5f %.5f %.3f\n", samples, sqrt(before + large) / bytes,
           sqrt(after + large) / bytes, (before + large) / (after + large));
    return 0;
}
