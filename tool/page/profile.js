/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile of the page: what tool/flame.c wrote, decoded, and the sums of its stacks for a
 * metric and a filter. Nothing here touches the page.
 */

class Profile {
    constructor(data) {
        this.data = data;
        this.names = data.names;
        this.libraries = data.libraries;
        this.metrics = data.metrics;
        this.period = data.period;
        this.nameOf = Int32Array.from(data.frames.filter((_, i) => i % 2 === 0));
        this.libraryOf = Int32Array.from(data.frames.filter((_, i) => i % 2 === 1));
        this.decodeStacks(data.stacks);
        this.rowCount = data.stack.length;
        this.sizeOf = Float64Array.from(data.size, (i) => data.sizes[2 * i]);
    }

    /* Stacks are what differs from the one before: common, count, frames (root first). */
    decodeStacks(flat) {
        let stacks = 0, frames = 0, depth = 0;

        for (let i = 0; i < flat.length; i += 2 + flat[i + 1], stacks++)
            frames += flat[i] + flat[i + 1];
        this.stackCount = stacks;
        this.stackBegin = new Int32Array(stacks + 1);
        this.stackFrames = new Int32Array(frames);
        for (let i = 0, stack = 0, at = 0, before = 0; stack < stacks; stack++) {
            const common = flat[i++], count = flat[i++];

            this.stackBegin[stack] = at;
            this.stackFrames.copyWithin(at, before, before + common);
            before = at;
            at += common;
            for (let k = 0; k < count; k++)
                this.stackFrames[at++] = flat[i++];
            depth = Math.max(depth, common + count);
        }
        this.stackBegin[stacks] = frames;
        this.depth = depth;
    }

    /* filter: {thread, least, most}: an index or -1, and bytes of a block. */
    passes(row, filter) {
        return (filter.thread < 0 || this.data.thread[row] === filter.thread) &&
            this.sizeOf[row] >= filter.least && this.sizeOf[row] <= filter.most;
    }

    /* Calls add(set, value, n, a, y, p) for each row that counts; set: setOf(row). */
    eachRow(metric, filter, setOf, table) {
        const {data} = this, values = data.values[metric], samples = data.samples[metric];
        const {unit, sampled} = this.metrics[metric];

        for (let row = 0; row < this.rowCount; row++) {
            if (values[row] === 0 || !this.passes(row, filter))
                continue;
            const a = data.sizes[2 * data.size[row]], p = data.sizes[2 * data.size[row] + 1];
            table.addRow(setOf(row), values[row], sampled ? samples[row] : 0, a,
                         unit === "bytes" ? a : 1, p);
        }
    }

    /* The sums of each stack. */
    stackSums(metric, filter) {
        const table = new SumsTable(this.stackCount);

        this.eachRow(metric, filter, (row) => this.data.stack[row], table);
        return table;
    }

    /* What one sample stands for of the rarest blocks that pass the filter, for sets that may have
     * blocks without a sample. */
    unseenWeight(metric, filter) {
        const {unseen} = this.data, p = this.probability(filter.least);

        if (this.metrics[metric].unit === "bytes")
            return p === 1 ? 0 : unseen.bytes;
        return filter.least > 0 ? Math.min(1 / p, unseen.blocks) : unseen.blocks;
    }

    /* That a block of so many bytes is sampled (sampling/estimate/rates.h). */
    probability(bytes) {
        const p = this.period > 1 ? -Math.expm1(bytes * Math.log1p(-1 / this.period)) : 1;

        return p > 0.99 ? 1 : p;
    }

    isSampled(metric) {
        return this.metrics[metric].sampled;
    }

    /*
     * Whether chance alone may explain what a set has. If it held one sampling interval T in small
     * blocks, 4 or more of these would be sampled with a probability of 1.9 % only. Fewer samples
     * whose blocks have less than T bytes therefore do not show that the set holds T.
     */
    isWeak(samples, solid, bytes) {
        return solid === 0 && samples > 0 && samples < 4 && bytes < this.period;
    }
}

/* The sums of functions and of libraries: flat, and with all that they call. A stack counts once
 * for each, also under recursion. */
function sumsByFrame(profile, stackSums, keyOf, count) {
    const flat = new SumsTable(count), total = new SumsTable(count);
    const last = new Int32Array(count).fill(-1);
    const {stackBegin, stackFrames} = profile;

    for (let stack = 0; stack < profile.stackCount; stack++) {
        const begin = stackBegin[stack], end = stackBegin[stack + 1];

        if (begin === end || isEmpty(stackSums, stack))
            continue;
        flat.add(keyOf[stackFrames[end - 1]], stackSums, stack);
        for (let i = begin; i < end; i++) {
            const key = keyOf[stackFrames[i]];

            if (last[key] !== stack) {
                last[key] = stack;
                total.add(key, stackSums, stack);
            }
        }
    }
    return {flat, total};
}

function isEmpty(table, set) {
    const at = set * SUMS.length;

    return !table.cells[at + VALUE] && !table.cells[at + SAMPLES] && !table.cells[at + UNKNOWN];
}

/* The sums of the stacks for which `has` is not 0; of all without it. */
function sumOfStacks(profile, stackSums, has) {
    const table = new SumsTable(1);

    for (let stack = 0; stack < profile.stackCount; stack++)
        if (!has || has[stack])
            table.add(0, stackSums, stack);
    return table.get(0);
}

/* For each stack 1 if a frame of it is one of these. */
function stacksWith(profile, isFrame) {
    const has = new Uint8Array(profile.stackCount);
    const {stackBegin, stackFrames} = profile;

    for (let stack = 0; stack < profile.stackCount; stack++)
        for (let i = stackBegin[stack + 1]; i-- > stackBegin[stack];)
            if (isFrame[stackFrames[i]]) {
                has[stack] = 1;
                break;
            }
    return has;
}
