/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile of the page: what tool/page/flame.c wrote, decoded, and the sums of its stacks for a
 * metric and a filter. Nothing here touches the page.
 */

/* An array of tuples as an array for each element. */
function columnsOf(array, count) {
    return Array.from({length: count},
                      (_, k) => Int32Array.from(array.filter((_, i) => i % count === k)));
}

const NO_FILTER = {thread: -1, least: 0, most: Infinity, decade: null};

class Profile {
    constructor(data) {
        this.data = data;
        this.names = data.names;
        this.libraries = data.libraries;
        this.metrics = data.metrics;
        this.period = data.period;
        [this.nameOf, this.libraryOf, this.fileOf] = columnsOf(data.frames, 3);
        [this.frameOf, this.lineOf] = columnsOf(data.places, 2);
        this.decodeStacks(data.stacks);
        this.rowCount = data.stack.length;
        this.everOf = new Map((data.ever || []).map((sums) => [sums[0], sums]));
        this.sizeOf = Float64Array.from(data.block, (i) => data.blocks[2 * i]);
        this.decadeOf = (data.lives ? data.lives[0] : []).map(decadeOf);
        this.sizes = [...new Set(this.sizeOf)].sort((a, b) => a - b);
    }

    /* Stacks are what differs from the one before: common, count, places (root first). */
    decodeStacks(flat) {
        let stacks = 0, places = 0, depth = 0;

        for (let i = 0; i < flat.length; i += 2 + flat[i + 1], stacks++)
            places += flat[i] + flat[i + 1];
        this.stackCount = stacks;
        this.stackBegin = new Int32Array(stacks + 1);
        this.stackPlaces = new Int32Array(places);
        for (let i = 0, stack = 0, at = 0, before = 0; stack < stacks; stack++) {
            const common = flat[i++], count = flat[i++];

            this.stackBegin[stack] = at;
            this.stackPlaces.copyWithin(at, before, before + common);
            before = at;
            at += common;
            for (let k = 0; k < count; k++)
                this.stackPlaces[at++] = flat[i++];
            depth = Math.max(depth, common + count);
        }
        this.stackBegin[stacks] = places;
        const frames = this.data.compared ? this.sameFrames() : this.frameOf;
        this.stackFrames = this.stackPlaces.map((place) => frames[place]);
        this.depth = depth;
    }

    /* For each place the first frame of its name and library, wherever the library and its source
     * lie: two builds of a program are compared. */
    sameFrames() {
        const first = new Map();
        const same = this.nameOf.map((name, frame) => {
            const key = `${name} ${baseName(this.libraries[this.libraryOf[frame]])}`;

            if (!first.has(key))
                first.set(key, frame);
            return first.get(key);
        });

        return this.frameOf.map((frame) => same[frame]);
    }

    /* Where a place is, as text: file and line; "" if that is not known. */
    sourceOf(place) {
        const file = this.data.files[this.fileOf[this.frameOf[place]]], line = this.lineOf[place];

        return file && line ? `${file}:${line}` : file;
    }

    /* filter: {thread, least, most, decade}: an index or -1, bytes of a block, and the power of ten
     * of lifetimes or null. */
    passes(row, filter) {
        return (filter.decade === null || this.decadeOf[row] === filter.decade) &&
            (filter.thread < 0 || this.data.thread[row] === filter.thread) &&
            this.sizeOf[row] >= filter.least && this.sizeOf[row] <= filter.most;
    }

    /* Adds each row that counts to a set of the table. */
    addRows(metric, filter, setOf, table) {
        const {data} = this, values = data.values[metric], samples = data.samples[metric];
        const {kind: named, unit} = this.metrics[metric], {side} = data;
        const ever = named === "ever", blocks = unit === "count";
        const kind = !ever ? named : blocks ? "blocks" : "bytes";

        for (let row = 0; row < this.rowCount; row++) {
            if (values[row] === 0 || !this.passes(row, filter))
                continue;
            const a = data.blocks[2 * data.block[row]], p = data.blocks[2 * data.block[row] + 1];
            const from = side ? side[row] * SUMS.length : 0;
            if (ever && values[row] > 0 && this.everOf.has(row))
                table.addSums(setOf(row), values[row], this.everOf.get(row), blocks, from);
            else if (side)
                table.addRow(setOf(row), values[row], kind, samples[row] ?? -1, a, p, from);
            else
                table.addRow(setOf(row), values[row], kind, samples[row] || -1, a, p);
            if (data.lives)
                table.addLife(setOf(row), this.blocksOf(metric, row), data.lives[0][row],
                              data.lives[1][row], data.lives[2][row]);
        }
    }

    /* The sums of each stack. */
    stackSums(metric, filter) {
        const table = this.newTable(this.stackCount);

        this.addRows(metric, filter, (row) => this.data.stack[row], table);
        return table;
    }

    newTable(count) {
        return this.data.side ? new PairTable(count)
            : this.data.lives ? new LifeTable(count) : new SumsTable(count);
    }

    /* How many blocks a row has of a metric; 1 if that is not known. */
    blocksOf(metric, row) {
        const {objects} = this.metrics[metric];

        return objects < 0 ? 1 : this.data.values[objects][row];
    }

    /* What one sample stands for of the rarest blocks that pass the filter, for sets that may have
     * blocks without a sample. */
    unseenWeight(metric, filter) {
        const {unseen} = this.data, bytes = this.metrics[metric].unit !== "count";

        if (filter.least > 0 && unseen.bytes === this.period) { /* all blocks have this interval */
            const p = this.probability(filter.least);

            return bytes ? p === 1 ? 0 : unseen.bytes : Math.min(1 / p, unseen.blocks);
        }
        return (bytes ? unseen.bytes : unseen.blocks) ?? Infinity;
    }

    /* That a block of so many bytes is sampled (sampling/estimate/rates.h). */
    probability(bytes) {
        const p = this.period > 1 ? -Math.expm1(bytes * Math.log1p(-1 / this.period)) : 1;

        return p > 0.99 ? 1 : p;
    }

    isSampled(metric) {
        return this.metrics[metric].kind !== "other";
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

/* The sums of functions, libraries, lines: flat, and with all that they call. A stack counts once
 * for each, also under recursion. keyOf: of each element of the stacks: of frames, or of places. */
function sumsByFrame(profile, stackSums, keyOf, count, stacks = profile.stackFrames) {
    const flat = stackSums.like(count), total = stackSums.like(count);
    const last = new Int32Array(count).fill(-1);
    const {stackBegin} = profile;

    for (let stack = 0; stack < profile.stackCount; stack++) {
        const begin = stackBegin[stack], end = stackBegin[stack + 1];

        if (begin === end || stackSums.isEmpty(stack))
            continue;
        flat.add(keyOf[stacks[end - 1]], stackSums, stack);
        for (let i = begin; i < end; i++) {
            const key = keyOf[stacks[i]];

            if (last[key] !== stack) {
                last[key] = stack;
                total.add(key, stackSums, stack);
            }
        }
    }
    return {flat, total};
}

/* The sums of the stacks for which `has` is not 0; of all without it. */
function sumOfStacks(profile, stackSums, has) {
    const table = stackSums.like(1);

    for (let stack = 0; stack < profile.stackCount; stack++)
        if (!has || has[stack])
            table.add(0, stackSums, stack);
    return table.get(0);
}

/* For each stack 1 if a place of it is one of these. */
function stacksWith(profile, isPlace) {
    const has = new Uint8Array(profile.stackCount);
    const {stackBegin, stackPlaces} = profile;

    for (let stack = 0; stack < profile.stackCount; stack++)
        for (let i = stackBegin[stack + 1]; i-- > stackBegin[stack];)
            if (isPlace[stackPlaces[i]]) {
                has[stack] = 1;
                break;
            }
    return has;
}
