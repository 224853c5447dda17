/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetimes, in profiles of these: sets of samples have the mean, the shortest and the longest life
 * of their blocks, as `sallocctl report` has them. Nothing here touches the page. */

const [LIFE_BLOCKS, LIFE_SUM, LIFE_MIN, LIFE_MAX] = [0, 1, 2, 3].map((k) => SUMS.length + k);

class LifeTable extends SumsTable {
    constructor(count) {
        super(count, SUMS.length + 4);
    }

    /* Adds blocks of a row of the file; times in nanoseconds. */
    addLife(set, blocks, mean, min, max) {
        this.addLives(set * this.stride, blocks, blocks * mean, min, max);
    }

    addLives(at, blocks, sum, min, max) {
        const c = this.cells;

        if (!c[at + LIFE_BLOCKS] || c[at + LIFE_MIN] > min)
            c[at + LIFE_MIN] = min;
        c[at + LIFE_MAX] = Math.max(c[at + LIFE_MAX], max);
        c[at + LIFE_BLOCKS] += blocks;
        c[at + LIFE_SUM] += sum;
    }

    add(set, table, other) {
        const {stride, cells} = this, to = set * stride, from = other * stride, c = table.cells;

        for (let k = 0; k < SUMS.length; k++)
            cells[to + k] += c[from + k];
        if (c[from + LIFE_BLOCKS])
            this.addLives(to, c[from + LIFE_BLOCKS], c[from + LIFE_SUM], c[from + LIFE_MIN],
                          c[from + LIFE_MAX]);
    }

    get(set) {
        const at = set * this.stride, c = this.cells, blocks = c[at + LIFE_BLOCKS];

        return {...super.get(set), life: {mean: blocks ? c[at + LIFE_SUM] / blocks : 0,
                                          min: c[at + LIFE_MIN], max: c[at + LIFE_MAX]}};
    }
}

/* Nanoseconds with the unit that fits. */
function formatTime(ns) {
    const units = [["d", 864e11], ["h", 36e11], ["min", 6e10], ["s", 1e9], ["ms", 1e6],
                   ["us", 1e3], ["ns", 1]];
    const [unit, size] = units.find(([, least]) => ns >= least) || ["ns", 1], span = ns / size;

    return `${fixed(span, span < 99.95 && span !== Math.floor(span) ? 1 : 0)} ${unit}`;
}

/* Of a set: "mean 1.5 ms, 2 us to 3 s". */
function lifeText({life}) {
    return `mean life ${formatTime(life.mean)}, ${formatTime(life.min)} to ` +
        formatTime(life.max);
}

/* The power of ten that a time begins with, or -1. */
function decadeOf(ns) {
    let decade = 0;

    if (!(ns > 0))
        return -1;
    for (let from = 1; from * 10 <= ns; from *= 10)
        decade++;
    return decade;
}

function decadeTitle(decade) {
    return decade < 0 ? "[not recorded]"
        : `${formatTime(10 ** decade)} to ${formatTime(10 ** (decade + 1))}`;
}

/* Rows of the table of lifetimes; the filter for lifetimes does not count for it. */
function lifeRows(profile, metric, filter) {
    const decades = [...new Set(profile.decadeOf)].sort((a, b) => a - b);
    const index = new Map(decades.map((decade, i) => [decade, i]));

    return rowsByColumn(profile, metric, {...filter, decade: null}, decades.map(decadeTitle),
                        (row) => index.get(profile.decadeOf[row]))
        .map((row) => ({...row, decade: decades[row.key]}));
}
