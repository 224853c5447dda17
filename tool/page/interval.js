/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates with 95 % intervals, in the page: the formulas of sampling/estimate/interval.c and
 * negative_binomial.c, for the weighted estimator. doc/sampling_proofs.md derives them.
 * test/outside/tool/page.py compares both. All functions are pure.
 *
 * Sums of a set of samples. y is what a sample has of the metric: 1 for blocks, a for bytes; with
 * the probability p. Of rows whose samples are not known, only `value` and `unknown`:
 *
 *   value    what the file has          samples  1
 *   certain  y, for p = 1               known    y, for p < 1, as all below
 *   mean     y (1-p)/p                  variance y^2 (1-p)/p^2
 *   squares  y^2 (1-p)/p                unknown  1, for rows
 *   solid    1, for p = 1               bytes    a, for p < 1; of a part: y
 */

const INTERVAL_ERROR = 0.05;
const MANY_SAMPLES = 1e5; /* from here on the normal distribution serves */
const WEIGHT_MAX = 1e18; /* a sample with a larger weight gives no upper end */
const LOW_SHARE = 7 / 8; /* of the error, while the upper end cannot be wrong */

/* Sets of samples, numbered, in one array. */
const SUMS = ["value", "samples", "certain", "known", "mean", "variance", "squares", "unknown",
              "solid", "bytes"];
const [VALUE, SAMPLES, CERTAIN, KNOWN, MEAN, VARIANCE, SQUARES, UNKNOWN, SOLID, BYTES] =
    SUMS.keys();

class SumsTable {
    constructor(count, stride = SUMS.length) {
        this.stride = stride; /* cells of a set */
        this.cells = new Float64Array(count * stride);
        this.inTree = [VALUE, SAMPLES, SOLID, BYTES, UNKNOWN]; /* what the tree adds up */
    }

    /* An empty table of the same kind. */
    like(count) {
        return new this.constructor(count);
    }

    /* Adds a row of the file: n samples of blocks of a bytes with p; n < 0: not known. kind: of the
     * metric, as in tool/file/file_interval.h. from: the first of the set's cells. */
    addRow(set, value, kind, n, a, p, from = 0) {
        const c = this.cells, at = set * this.stride + from, missed = 1 / p - 1;
        let sum = n, squares = n;

        c[at + VALUE] += value;
        if (n < 0 || value < 0) {
            c[at + UNKNOWN] += 1;
            return;
        }
        if (n === 0)
            return;
        if (kind === "bytes") {
            sum = n * a;
            squares = sum * a;
        } else if (kind === "part") { /* of which the largest variance is taken */
            sum = Math.min(value * p, n * a);
            const whole = Math.floor(sum / a), rest = sum - whole * a;
            squares = whole * a * a + rest * rest;
        }
        c[at + SAMPLES] += n;
        if (p >= 1) {
            c[at + CERTAIN] += sum;
            c[at + SOLID] += n;
            return;
        }
        c[at + KNOWN] += sum;
        c[at + MEAN] += sum * missed;
        c[at + VARIANCE] += squares * missed / p;
        c[at + SQUARES] += squares * missed;
        c[at + BYTES] += kind === "part" ? sum : n * a;
    }

    /* Adds a row with sums of its own: [row, samples, certain, certain bytes, sampled bytes,
     * missed, missed bytes, variance of blocks and of bytes, squares of bytes]. */
    addSums(set, value, sums, blocks, from = 0) {
        const c = this.cells, at = set * this.stride + from;
        const [, samples, certain, certainBytes, bytes, missed, missedBytes, ...more] = sums;

        c[at + VALUE] += value;
        c[at + SAMPLES] += samples + certain;
        c[at + SOLID] += certain;
        c[at + BYTES] += bytes;
        c[at + CERTAIN] += blocks ? certain : certainBytes;
        c[at + KNOWN] += blocks ? samples : bytes;
        c[at + MEAN] += blocks ? missed : missedBytes;
        c[at + VARIANCE] += blocks ? more[0] : more[1];
        c[at + SQUARES] += blocks ? missed : more[2];
    }

    /* Adds a set of another table. */
    add(set, table, other) {
        const {stride} = this;

        for (let k = 0, to = set * stride, from = other * stride; k < stride; k++)
            this.cells[to + k] += table.cells[from + k];
    }

    value(set) {
        return this.cells[set * this.stride + VALUE];
    }

    isEmpty(set) {
        const at = set * this.stride, c = this.cells;

        return !c[at + VALUE] && !c[at + SAMPLES] && !c[at + UNKNOWN];
    }

    get(set, from = 0) {
        const sums = {};

        SUMS.forEach((name, k) => { sums[name] = this.cells[set * this.stride + from + k]; });
        return sums;
    }
}

/* The error of Stirling's formula for log n!. Below 10 by recurrence, since JavaScript has no
 * function for log n!. */
function stirlingError(n) {
    let sum = 0;

    for (; n < 10; n++)
        sum += (n + 0.5) * Math.log1p(1 / n) - 1;
    const i = 1 / n, i2 = i * i;
    return sum + i * (1 / 12 - i2 * (1 / 360 -
        i2 * (1 / 1260 - i2 * (1 / 1680 - i2 * (1 / 1188 - i2 * (691 / 360360))))));
}

/* Loader's deviance x log(x / mean) - d, where d = x - mean. */
function deviance(x, mean, d) {
    const v = d / (x + mean), v2 = v * v;

    if (v2 > 0.01)
        return x * Math.log(x / mean) - d;
    let sum = d * v, term = 2 * x * v;
    for (let i = 3; i < 40; i += 2) {
        const before = sum;

        term *= v2;
        sum += term / i;
        if (sum === before)
            break;
    }
    return sum;
}

/* P(exactly k successes in n trials). */
function binomialPoint(k, n, p) {
    const rest = n - k, mean = n * p, d = k - mean;

    if (k <= 0)
        return Math.exp(n * Math.log1p(-p));
    if (rest <= 0)
        return Math.exp(n * Math.log(p));
    const e = stirlingError(n) - stirlingError(k) - stirlingError(rest) - deviance(k, mean, d) -
        deviance(rest, p < 0.5 ? n - mean : n * (1 - p), -d);
    return Math.sqrt(n / (2 * Math.PI * k * rest)) * Math.exp(e);
}

/* I_x(a, b) B(a, b) / (x^a y^b), y = 1-x: the continued fraction DLMF 8.17.22, two steps in one. */
function betaFraction(x, y, a, b) {
    const difference = a * y - b * x + 1;
    let c = a * difference / (a + 1), d = 0, h = c;

    for (let m = 1; m < 20000; m++) {
        const k = a + 2 * m, square = (k - 1) * (k - 1);
        const over = (a + m - 1) * (a + b + m - 1) * m * (b - m) * x * x / square;
        const under =
            m + m * (b - m) * x / (k - 1) + (a + m) * (difference + m * (1 + y)) / (k + 1);

        d = 1 / (under + over * d);
        c = under + over / c;
        const step = c * d;
        h *= step;
        if (Math.abs(step - 1) < 1e-15)
            break;
    }
    return 1 / h;
}

/* P(at most f failures before success number s), given binomialPoint(s, s + f, p). */
function negativeBinomial(f, s, p, point) {
    const q = 1 - p, b = f + 1;

    if (p * (s + b) <= s)
        return point * s * q * betaFraction(p, q, s, b);
    return 1 - point * s * q * betaFraction(q, p, b, s);
}

/* The chances of at least s samples among s + f blocks; `middle`: of s samples counts half;
 * `ifAny`: given at least one. */
function chance(fit, s, f, middle, ifAny) {
    const point = binomialPoint(s, s + f, fit.p);
    const any = ifAny ? -Math.expm1((s + f) * fit.logQ) : 1;
    const value = negativeBinomial(f, s, fit.p, point) - (middle ? point / 2 : 0);

    return {value: value / any, slope: Math.max(point * s / (s + f), 1e-300) / any};
}

/* The f >= 0 with which such a chance is `target`, or 0: Newton's method within a bracket. */
function solve(fit, s, target, middle, ifAny) {
    let low = 0, high = -1, f = s * (1 - fit.p) / fit.p;

    if ((s < 4 || fit.p > 0.01) && chance(fit, s, 0, middle, ifAny).value >= target)
        return 0;
    for (let i = 0; i < 200; i++) {
        const at = chance(fit, s, f, middle, ifAny), error = at.value - target;

        if (error < 0)
            low = f;
        else
            high = f;
        let next = f - error / at.slope;
        if (!(next > low && (high < 0 ? next < 4 * f + 4 : next < high)))
            next = high < 0 ? 2 * f + 1 : (low + high) / 2;
        const step = next - f;
        f = next;
        if (Math.abs(step) < 1e-8 * (f + 1))
            break;
    }
    return f;
}

/* The z below which the normal distribution is with this probability, of at least 1/2: bisection on
 * the tail, as in negative_binomial.c. */
function normalQuantile(probability) {
    let low = 0, high = 40;

    for (let i = 0; i < 48; i++) {
        const z = (low + high) / 2, density = Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI);
        let beyond = 0;

        if (z > 1.5) {
            let t = z;

            for (let k = 60; k > 0; k--)
                t = z + k / t;
            beyond = density / t;
        } else {
            let term = z, sum = z;

            for (let k = 1; k < 30; k++)
                sum += (term *= z * z / (2 * k + 1));
            beyond = 0.5 - sum * density;
        }
        if (beyond > 1 - probability)
            low = z;
        else
            high = z;
    }
    return low;
}

/* The ends in blocks of s samples. error: 1 - level of the interval, here and below. */
function lowerEnd(fit, s, error) {
    const middle = s + solve(fit, s, error / 2, true, false);

    if (s > 50)
        return middle;
    const maxOfOne = 2 + solve(fit, 2, 1 - error / 2, false, true);
    if (middle >= maxOfOne)
        return middle;
    return Math.min(s + solve(fit, s, LOW_SHARE * error, true, true), maxOfOne);
}

function upperEnd(fit, s, error) {
    const all = s + 1 + solve(fit, s + 1, 1 - error / 2, false, true);

    if (all * Math.log(fit.p) <= Math.log(error))
        return all;
    return s + 1 + solve(fit, s + 1, 1 - error, false, true);
}

/* The negative binomial distribution with this mean and variance. */
function fitTo(mean, variance, p) {
    p = Math.min(Math.max(p, 1e-15), 1 - 1e-9);
    return {p, logQ: Math.log1p(-p), s: mean * mean / (variance * (1 - p)),
            scale: p * variance / mean};
}

/* The upper end with one more sample, which stands for `weight`. */
function unseenHigh(sums, p, weight, error) {
    const mean = sums.mean + weight - 1, variance = sums.variance + weight * (weight - 1);

    if (!(weight > 1))
        return sums.known;
    if (weight > WEIGHT_MAX)
        return Infinity;
    const fit = fitTo(mean, variance, (p * sums.variance + weight - 1) / variance);
    if (fit.s > MANY_SAMPLES)
        return sums.known + 1 + mean + normalQuantile(1 - error / 2) * Math.sqrt(variance);
    return sums.known + 1 + fit.scale * solve(fit, fit.s, 1 - error / 2, false, false);
}

/*
 * The interval of a set: {low, high}, or null if it is not known. weight: what one sample stands
 * for of the rarest blocks that the set may have without a sample of their kind. 0: all blocks of
 * the set are like its samples.
 */
function intervalOf(sums, weight, error = INTERVAL_ERROR) {
    if (sums.unknown)
        return null;
    let low = sums.known, high = sums.known;
    const p = sums.variance > 0 ? sums.squares / sums.variance : 0;
    if (sums.mean > 0 && sums.variance > 0) {
        const fit = fitTo(sums.mean, sums.variance, p);

        if (fit.s > MANY_SAMPLES) {
            const deviation = normalQuantile(1 - error / 2) * Math.sqrt(sums.variance);

            low += sums.mean - deviation;
            high += sums.mean + deviation;
        } else {
            low += Math.min(fit.scale * (lowerEnd(fit, fit.s, error) - fit.s), sums.mean);
            high += Math.max(fit.scale * (upperEnd(fit, fit.s, error) - fit.s), sums.mean);
        }
    }
    /* One sample of unseen blocks counts if it stands for more than those that are there. */
    if (weight * sums.mean > sums.variance * (1 + 1e-6) || !(sums.mean > 0))
        high = Math.max(high, unseenHigh(sums, p, weight, error));
    return {low: sums.certain + low, high: sums.certain + high};
}
