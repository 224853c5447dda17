/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes between two profiles, with intervals: the formulas of tool/diff/, for sets of samples
 * that only the earlier profile has (gone), and only the later one (come). doc/sampling.md,
 * "Differences", derives them. All functions are pure.
 */

const COARSE = 0.5; /* from this mean probability on, the number of missed blocks is coarse */
const GROWTH_MIN = 1e-4; /* of the samples of a total, so that their sums are off by 0.1 % */
const CHANGE_ERROR = 0.05; /* of an interval, and of all frames together that are coloured */

/* Sums of both profiles, and what the width of a frame is. */
const AFTER = SUMS.length, WEIGHT = 2 * SUMS.length;
const SCREENED = [VALUE, SAMPLES, CERTAIN, KNOWN, MEAN, VARIANCE, UNKNOWN, SOLID];

class PairTable extends SumsTable {
    constructor(count) {
        super(count, 2 * SUMS.length + 1);
        this.inTree = [WEIGHT, ...SCREENED, ...SCREENED.map((column) => AFTER + column)];
    }

    /* byChange: frames are as wide as the stacks' changes, else as what they hold at both times. */
    setWeights(byChange) {
        const {cells, stride} = this;

        for (let at = 0; at < cells.length; at += stride) {
            const before = cells[at + VALUE], after = cells[at + AFTER + VALUE];

            cells[at + WEIGHT] = byChange ? Math.abs(after - before) : before + after;
        }
    }

    value(set) {
        return this.cells[set * this.stride + WEIGHT];
    }

    isEmpty(set) {
        const at = set * this.stride, c = this.cells;

        return !c[at + VALUE] && !c[at + AFTER + VALUE];
    }

    get(set) {
        return {before: super.get(set), after: super.get(set, AFTER)};
    }
}

/* What one sample of a set stands for on average, each weighted by that; 0: there is none. */
function meanWeight(before, after) {
    const missed = before.mean + after.mean;

    return missed > 0 ? (before.variance + after.variance) / missed : 0;
}

/* The mean block of samples that are likely to be taken; 0: they are not. */
function coarseBlock({before, after}, blocks) {
    const samples = before.samples - before.solid + after.samples - after.solid;
    const p = samples
        ? (before.squares + after.squares) / (before.variance + after.variance) : 0;

    if (!(p > COARSE))
        return 0;
    return blocks ? 1 : (before.known + after.known) / samples;
}

const estimateOf = (sums) => sums.certain + sums.known + sums.mean;

/* The interval of a change. weight: what a block stands for that a set without samples may have;
 * total: what a sample of the rarest blocks of the heap stands for, or null for a part of it. */
function changeInterval(pair, blocks, weight, total, error) {
    const rangeOf = (sums) => {
        const ends = intervalOf(sums, total ?? (sums.samples ? 0 : weight), error);

        return {value: estimateOf(sums), ...ends};
    };
    const gone = pair.noneGone ? {value: 0, low: 0, high: 0} : rangeOf(pair.before);
    const come = rangeOf(pair.after);
    const value = come.value - gone.value, more = coarseBlock(pair, blocks);

    return {low: value - Math.hypot(come.value - come.low, gone.high - gone.value) - more,
            high: value + Math.hypot(come.high - come.value, gone.value - gone.low) + more};
}

/* Of sums that only grow, as what a process ever allocated: those of the time in between as a pair
 * of which nothing has gone; null: they do not grow, or by less than they are accurate. */
function growthOf({before, after}) {
    const come = {...after}, none = {};

    for (const name of SUMS) {
        none[name] = 0;
        if (name !== "value" && name !== "unknown")
            come[name] = after[name] - before[name];
    }
    const samples = come.samples - come.solid, all = after.samples - after.solid;
    const pair = {before: {...none, value: before.value, unknown: before.unknown}, after: come,
                  noneGone: true};

    if (samples < 0 || come.solid < 0)
        return null;
    if (!samples) {
        for (const name of ["known", "mean", "variance", "squares", "bytes"])
            come[name] = 0;
        return pair;
    }
    return samples >= GROWTH_MIN * all && come.known > 0 && come.mean > 0 && come.squares > 0 &&
        come.squares < come.variance ? pair : null;
}

/* The least error at which so many samples can tell a change from none. */
function leastError({before, after}) {
    if (before.solid !== after.solid || before.certain !== after.certain)
        return 0;
    return 2 ** (1 - (before.samples - before.solid + after.samples - after.solid));
}

/* Whether a change is within 1.4 deviations, and so within the interval of any error up to 5 %. */
function isSmallChange({before, after}) {
    return (estimateOf(after) - estimateOf(before)) ** 2 <= 2 * (before.variance + after.variance);
}

/* The error of each interval with which all together have CHANGE_ERROR (Tarone). errors: the least
 * ones, as a Float64Array, which gets sorted. */
function sharedError(errors) {
    let share = 1, count = errors.length;

    errors.sort();
    for (;; share++) {
        while (count && errors[count - 1] > CHANGE_ERROR / share)
            count--;
        if (count <= share)
            return CHANGE_ERROR / share;
    }
}

const NOT_KNOWN = 3; /* a direction: of what has no interval */

const hasUnknown = ({before, after}) => before.unknown > 0 || after.unknown > 0;

/* 1: it grows, -1: it shrinks, 0: chance may explain that; or NOT_KNOWN. */
function directionOf(pair, blocks, weight, error) {
    if (hasUnknown(pair))
        return NOT_KNOWN;
    if (leastError(pair) > error || isSmallChange(pair))
        return 0;
    const {low, high} = changeInterval(pair, blocks, weight, null, error);

    return low > 0 ? 1 : high < 0 ? -1 : 0;
}

/*
 * Which frames of a tree have changed. Frames of the same stacks are one set, so a chain of them
 * counts once. weightOf(pair): as in changeInterval.
 */
class TreeChanges {
    constructor(tree, blocks, weightOf) {
        Object.assign(this, {tree, blocks, weightOf});
        this.directions = new Int8Array(tree.nodeCount).fill(2);
        this.error = this.findError();
    }

    /* The outermost node of the same stacks; that of all stacks is the total's, which is no row. */
    outermost(node) {
        const {parent, begin, end} = this.tree;

        while (parent[node] > 0 && begin[parent[node]] === begin[node] &&
               end[parent[node]] === end[node])
            node = parent[node];
        return node;
    }

    /* Sums of a node as far as leastError needs them. */
    screen(node) {
        const at = (column) => this.tree.difference(1 + column, node);
        const side = (from) => ({samples: at(from + 1), certain: at(from + 2),
                                 solid: at(from + 7), unknown: at(from + 6)});

        return {before: side(0), after: side(SCREENED.length)};
    }

    findError() {
        const {tree} = this, errors = new Float64Array(tree.nodeCount);
        let count = 0;

        for (let node = 1; node < tree.nodeCount; node++) {
            if (this.outermost(node) !== node)
                continue;
            const pair = this.screen(node);
            if (!hasUnknown(pair))
                errors[count++] = leastError(pair);
        }
        return sharedError(errors.subarray(0, count));
    }

    direction(node) {
        const {directions} = this;

        if (directions[node] === 2) {
            const first = this.outermost(node);

            if (directions[first] === 2) {
                const pair = this.tree.sumsOf(first), screened = this.screen(first);

                directions[first] = hasUnknown(screened) ? NOT_KNOWN
                    : leastError(screened) > this.error ? 0
                    : directionOf(pair, this.blocks, this.weightOf(pair), this.error);
            }
            directions[node] = directions[first];
        }
        return directions[node];
    }
}
