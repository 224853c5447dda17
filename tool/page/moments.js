/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A time line: the rows of the profile have other numbers of samples at each moment
 * (tool/page/flame_moments.h). Nothing here touches the page.
 */

/* The metrics of a time line: those in use. To be called before the profile is made. */
function prepareMoments(data) {
    const shown = data.metrics[data.shown].name;

    data.metrics = data.metrics.filter(({kind}) => kind === "blocks" || kind === "bytes");
    data.shown = data.metrics.findIndex((metric) => metric.name === shown);
    data.values = data.metrics.map(() => new Float64Array(data.stack.length));
    data.samples = data.metrics.map(() => new Int32Array(data.stack.length));
}

class Moments {
    constructor(profile) {
        this.profile = profile;
        this.data = profile.data.moments;
        this.times = this.data.times;
        this.count = this.times.length;
    }

    /* Calls what(row, samples, samples before) for each change of a moment. */
    forChanges(moment, counts, what) {
        const changes = this.data.changes[moment];

        for (let i = 0, row = 0; i < changes.length; i += 2) {
            row += changes[i];
            what(row, changes[i + 1], counts[row]);
            counts[row] = changes[i + 1];
        }
    }

    /* The estimate of so many samples of a row. Bytes are rounded as in the library's files;
     * numbers of blocks, which may be small, are not. */
    valueOf(metric, row, samples) {
        const {data, metrics} = this.profile, at = 2 * data.block[row];
        const weight = 1 / data.blocks[at + 1];

        return metrics[metric].kind === "blocks"
            ? samples * weight : Math.floor(samples * weight * data.blocks[at] + 0.5);
    }

    /* Makes the profile that of a moment. */
    apply(moment) {
        const {data, metrics} = this.profile, counts = new Int32Array(this.profile.rowCount);
        const [bytes, blocks] = this.data.unseen[moment];

        for (let at = 0; at <= moment; at++)
            this.forChanges(at, counts, () => {});
        metrics.forEach((_, metric) => {
            data.samples[metric] = counts;
            for (let row = 0; row < counts.length; row++)
                data.values[metric][row] = counts[row] && this.valueOf(metric, row, counts[row]);
        });
        data.unseen = {bytes, blocks};
        data.time = this.times[moment];
    }

    /* What one sample of each row adds to sums. */
    units(metric) {
        const {data, metrics, rowCount} = this.profile, table = new SumsTable(rowCount);

        for (let row = 0; row < rowCount; row++)
            table.addRow(row, 0, metrics[metric].kind, 1, data.blocks[2 * data.block[row]],
                         data.blocks[2 * data.block[row] + 1]);
        return table;
    }

    /* What each stack holds over all moments, added up. */
    stackWeights(metric, filter) {
        const {profile} = this, {rowCount} = profile;
        const weights = new Float64Array(profile.stackCount);
        const counts = new Int32Array(rowCount), since = new Int32Array(rowCount);
        const add = (row, samples, until) => {
            if (samples && profile.passes(row, filter))
                weights[profile.data.stack[row]] +=
                    this.valueOf(metric, row, samples) * (until - since[row]);
            since[row] = until;
        };

        for (let at = 0; at < this.count; at++)
            this.forChanges(at, counts, (row, _, before) => add(row, before, at));
        counts.forEach((samples, row) => add(row, samples, this.count));
        return weights;
    }

    /* The sums of sets of stacks at each moment: tables of sets 0..count-1, and the set of all
     * behind them. setOf: of each stack, or -1. */
    series(metric, filter, setOf, count) {
        const {profile} = this, units = this.units(metric), table = new SumsTable(count + 1);
        const counts = new Int32Array(profile.rowCount), {cells} = table, result = [];

        for (let at = 0; at < this.count; at++) {
            this.forChanges(at, counts, (row, now, before) => {
                if (!profile.passes(row, filter))
                    return;
                const set = setOf[profile.data.stack[row]];
                const value = this.valueOf(metric, row, now) - this.valueOf(metric, row, before);
                for (const to of set < 0 ? [count] : [set, count]) {
                    for (let k = 1; k < SUMS.length; k++)
                        cells[to * SUMS.length + k] +=
                            (now - before) * units.cells[row * SUMS.length + k];
                    cells[to * SUMS.length + VALUE] += value;
                }
            });
            const copy = table.like(count + 1);
            copy.cells.set(cells);
            this.clean(copy, count + 1);
            result.push(copy);
        }
        return result;
    }

    /* Sums of no samples are 0, whatever rounding left of them. */
    clean(table, count) {
        for (let set = 0; set < count; set++) {
            const at = set * SUMS.length, {cells} = table;

            if (cells[at + SAMPLES] === 0)
                cells.fill(0, at, at + SUMS.length);
            else if (cells[at + SAMPLES] === cells[at + SOLID])
                for (const column of [KNOWN, MEAN, VARIANCE, SQUARES, BYTES])
                    cells[at + column] = 0;
        }
    }

    /* The moment at which the most is in use. */
    peak(metric) {
        const none = new Int32Array(this.profile.stackCount).fill(-1);
        const sums = this.series(metric, {...NO_FILTER}, none, 0);

        return sums.reduce((best, table, at) =>
            table.value(0) > sums[best].value(0) ? at : best, 0);
    }

    /* The one nearest to a time. */
    nearest(time) {
        return this.times.reduce((best, at, i) =>
            Math.abs(at - time) < Math.abs(this.times[best] - time) ? i : best, 0);
    }
}

const BAND_SHARE = 0.4; /* of all; a larger band is divided */

/*
 * The bands of a node: subtrees that no stack shares. A large one is divided where the tree divides
 * next. {of: [{node, name}], setOf: of each stack}, the largest first; the last one is the rest, if
 * there is any. weights: of the stacks.
 */
function bandsOf(tree, node, weights, most) {
    const {order, begin, end} = tree, sums = new Float64Array(order.length + 1);
    const weight = (of) => sums[end[of]] - sums[begin[of]];
    const byWeight = (a, b) => weight(b) - weight(a) || a - b;

    order.forEach((stack, at) => { sums[at + 1] = sums[at] + weights[stack]; });
    /* What is below a node, or below what holds nearly all of it; null: it is not divided. */
    const divide = (of) => {
        for (;;) {
            const list = [];

            for (let child = tree.child[of]; child; child = tree.sibling[child])
                if (weight(child) > 0)
                    list.push(child);
            list.sort(byWeight);
            if (!list.length)
                return null;
            if (weight(list[0]) < 0.98 * weight(of))
                return list;
            of = list[0];
        }
    };
    let shown = divide(node) || [node], stays = 0; /* the first ones are not divided */

    while (stays < shown.length && weight(shown[stays]) > BAND_SHARE * weight(node)) {
        const parts = divide(shown[stays]);

        if (parts)
            shown = [...shown.filter((_, i) => i !== stays), ...parts].sort(byWeight);
        else
            stays++;
    }
    shown = shown.slice(0, most);
    const held = shown.reduce((sum, of) => sum + weight(of), 0);
    const setOf = new Int32Array(weights.length).fill(-1);
    const put = (of, set) => {
        for (let at = begin[of]; at < end[of]; at++)
            setOf[order[at]] = set;
    };

    put(node, shown.length);
    shown.forEach(put);
    const bands = shown.map((of) => ({node: of, name: tree.name(of)}));
    if (held < weight(node) * (1 - 1e-9))
        bands.push({node, name: "others"});
    return {of: bands, setOf: setOf.map((set) => set < bands.length ? set : -1)};
}
