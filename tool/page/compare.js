/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of a comparison of two profiles: what it says and shows of changes, in place of what a
 * page of one profile says of amounts.
 */

const WIDE_CHANGE = 1 / 3; /* a change by this share of the larger amount has the fullest colour */
const DEPTHS = 4; /* shades of a colour */

/* A colour "#rrggbb" of the style, on another one. */
function mixed(color, ground, share) {
    const part = (text, at) => parseInt(text.slice(at, at + 2), 16);
    const parts = [1, 3, 5].map((at) =>
        Math.round(share * part(color, at) + (1 - share) * part(ground, at)));

    return `rgb(${parts.join(" ")})`;
}

class Comparison {
    constructor(profile) {
        this.profile = profile;
        this.data = profile.data.compared;
        this.byChange = false;
        this.trees = new Map();
    }

    /* After another metric, filter or width. */
    setNumbers(metric, all) {
        this.metric = metric;
        this.about = this.data.metrics[metric];
        this.unit = this.profile.metrics[metric].unit;
        this.blocks = this.unit === "count";
        this.isSince = this.about.kind === "since";
        this.isKnown = this.about.kind !== "plain"; /* there are intervals */
        this.isJudged = this.isKnown && !this.isSince; /* a change may be chance */
        this.all = all;
        this.trees.clear();
    }

    weightOf({before, after}) {
        const {unseen} = this.profile.data;

        if (!this.blocks)
            return unseen.bytes ?? Infinity;
        return meanWeight(before, after) || this.about.weight;
    }

    /* A pair of sums as a change: {before, after, value, interval: or null, gone, come}. */
    changeOf(pair, isTotal = false) {
        const {before, after} = pair, {unseen} = this.profile.data;
        const between = this.isSince ? growthOf(pair) : pair;
        const samples = (of, other) => of.samples - of.solid + Math.max(0, of.solid - other.solid);
        const total = (this.blocks ? unseen.blocks : unseen.bytes) ?? Infinity;
        const known = this.isKnown && between && !before.unknown && !after.unknown;

        return {pair, before: before.value, after: after.value, value: after.value - before.value,
                gone: samples(before, after), come: samples(after, before),
                interval: known ? changeInterval(between, this.blocks, this.weightOf(between),
                                                 isTotal ? total : null, CHANGE_ERROR) : null};
    }

    /* Of a row of a table: as `sallocctl diff` has it. */
    directionOfRow(pair) {
        return this.isJudged
            ? directionOf(pair, this.blocks, this.weightOf(pair), this.about.error) : 0;
    }

    directionOfNode(tree, node) {
        if (!node || !this.isJudged)
            return 0;
        if (!this.trees.has(tree))
            this.trees.set(tree, new TreeChanges(tree, this.blocks,
                                                 (pair) => this.weightOf(pair)));
        return this.trees.get(tree).direction(node);
    }

    signed(value) {
        return (value > 0 ? "+" : "") + formatNumber(value, this.unit);
    }

    /* An interval in a cell: a unit that both ends have is there once. */
    rangeText({low, high}) {
        const [first, last] = [this.signed(low), this.signed(high)];
        const [number, unit] = first.split(" ");

        return low === high ? "exact"
            : `${unit === last.split(" ")[1] ? number : first} to ${last}`;
    }

    intervalText(change) {
        if (!change.interval)
            return "interval not known";
        const {low, high} = change.interval;

        return `95 % interval ${this.signed(low)} to ${this.signed(high)}`;
    }

    samplesText(change) {
        return `${formatCount(change.gone)} samples gone, ${formatCount(change.come)} new`;
    }

    verdict(direction) {
        return !this.isJudged ? ""
            : direction === NOT_KNOWN ? "whether chance explains it is not known"
            : direction ? "chance does not explain it" : "within chance";
    }

    /* All that is known of a node, in lines. */
    lines(tree, node) {
        const change = this.changeOf(tree.sumsOf(node), node === 0), {unit} = this;
        const lines = [`${this.signed(change.value)}: from ${formatNumber(change.before, unit)} ` +
                       `to ${formatNumber(change.after, unit)}`];

        if (!this.isKnown)
            return lines;
        lines.push(this.intervalText(change));
        if (this.about.kind === "in use")
            lines.push(this.samplesText(change));
        if (node && this.isJudged)
            lines.push(this.verdict(this.directionOfNode(tree, node)));
        return lines;
    }

    /* What is highlighted, in a line. */
    foundText(what, pair) {
        const change = this.changeOf(pair);

        return `${what}: ${this.signed(change.value)}, ` +
            (this.isJudged ? `${this.intervalText(change)}, ${this.samplesText(change)}`
                           : `from ${formatNumber(change.before, this.unit)} ` +
                             `to ${formatNumber(change.after, this.unit)}`);
    }

    /* The lines above the graph: [total, interval, the rest]. */
    totalTexts() {
        const change = this.changeOf(this.all, true), {unit, about} = this;
        const from = `${formatNumber(change.before, unit)} before, ` +
            `${formatNumber(change.after, unit)} after`;
        const interval = `${this.intervalText(change)}; ${from}`;
        const samples = about.kind !== "in use" ? ""
            : !change.interval ? "The samples behind these numbers are not known. "
            : about.common < 0 ? `Samples: ${formatCount(change.gone)} before, ` +
                `${formatCount(change.come)} after; which of them are the same is not known, so ` +
                "the intervals are wide. "
            : `Samples: ${formatCount(about.common)} in both, ` +
                `${formatCount(change.gone)} gone, ${formatCount(change.come)} new. `;
        const why = {since: "The change is what the process has allocated in between.",
                     allocated: "These are totals of two processes. ", "in use": samples,
                     plain: "These numbers have no intervals here."}[about.kind];

        return [this.signed(change.value), interval, why + (!this.isJudged ? ""
            : hasUnknown(this.all) ? "Hatched: whether chance explains it is not known."
            : "Grey: within chance. If nothing has changed, 95 % of comparisons have no colour " +
              "in the tables, and 95 % none in the graph.")];
    }

    /* How the graph is painted: {color, label} of nodes. */
    paint(flame) {
        return {
            color: (node) => this.colorOf(flame, node),
            label: (node) => this.signed(this.netOf(flame.tree, node)),
            isHatched: (node) => this.directionOfNode(flame.tree, node) === NOT_KNOWN,
        };
    }

    netOf(tree, node) {
        return tree.difference(1 + SCREENED.length, node) - tree.difference(1, node);
    }

    colorOf(flame, node) {
        const {tree} = flame, before = tree.difference(1, node), {color} = flame;
        const after = tree.difference(1 + SCREENED.length, node), net = after - before;
        const judged = this.isJudged ? this.directionOfNode(tree, node) : NOT_KNOWN;
        const direction = judged === NOT_KNOWN ? Math.sign(net) : judged;
        const share = Math.abs(net) / Math.max(Math.abs(before), Math.abs(after), 1) / WIDE_CHANGE;
        const depth = Math.min(DEPTHS - 1, Math.floor(share * DEPTHS));

        if (!direction)
            return color.chance;
        return mixed(color[direction > 0 ? "more" : "less"], color.ground,
                     0.4 + 0.6 * depth / (DEPTHS - 1));
    }

    legend(flame) {
        const items = [["more", "more"], ["less", "less"]];

        return this.isJudged ? [...items, ["within chance", "chance"]]
            .map(([text, name]) => [text, flame.color[name]])
            : items.map(([text, name]) => [text, flame.color[name]]);
    }
}

/* The table of changes: what chance does not explain first, the rest below a line of its own. */
class ChangeTable extends TableView {
    constructor(table, more, choose, comparison) {
        super(table, more, choose);
        this.comparison = comparison;
        this.by = "change";
        this.flat = false; /* functions: by what they allocate themselves */
        this.makeHead();
    }

    makeHead() {
        const heads = [["name", "Function"], ["before", "Before"], ["after", "After"],
                       ["change", "Change"], [null, "95 % interval"], [null, "Gone"],
                       [null, "New"]];

        this.table.tHead.rows[0].replaceChildren(...heads.map(([by, text]) => {
            const th = document.createElement("th");

            th.scope = "col";
            if (!by) {
                th.textContent = text;
                th.title = text === "Gone" ? "Samples of the earlier profile only"
                    : text === "New" ? "Samples of the later profile only" : "Of the change";
                return th;
            }
            const button = document.createElement("button");
            button.type = "button";
            button.dataset.by = by;
            button.textContent = text;
            button.addEventListener("click", () => {
                this.by = by;
                this.render();
            });
            th.append(button);
            return th;
        }));
    }

    set(rows, info) {
        const flat = this.flat && info.flat;

        super.set(rows.map((row) => ({...row, pair: flat ? row.flatSums() : row.sums()}))
            .filter((row) => row.pair)
            .map((row) => ({...row, before: row.pair.before.value, after: row.pair.after.value,
                            change: row.pair.after.value - row.pair.before.value,
                            direction: this.comparison.directionOfRow(row.pair)})), info);
    }

    sorted() {
        const {by} = this;
        const order = by === "name" ? () => 0
            : by === "change" ? (a, b) => Math.abs(b.change) - Math.abs(a.change) ||
                                          b.before + b.after - a.before - a.after
            : (a, b) => b[by] - a[by];

        return [...this.rows].sort((a, b) => Number(!a.direction) - Number(!b.direction) ||
                                             order(a, b) || a.key - b.key);
    }

    render() {
        const rows = this.sorted(), body = [], {isJudged} = this.comparison;

        this.showOrder();
        rows.slice(0, this.shown).forEach((row, i) => {
            if (isJudged && !row.direction && (!i || rows[i - 1].direction))
                body.push(this.makeLine());
            body.push(this.makeRow(row));
        });
        this.table.tBodies[0].replaceChildren(...body);
        this.showMore(rows.length);
    }

    makeLine() {
        const tr = document.createElement("tr"), th = document.createElement("th");

        th.colSpan = 7;
        th.scope = "rowgroup";
        th.textContent = "Within chance";
        tr.className = "chance-line";
        tr.append(th);
        return tr;
    }

    makeRow(row) {
        const {comparison, info} = this, tr = document.createElement("tr");
        const change = comparison.changeOf(row.pair), {interval} = change;

        tr.append(this.makeName(row, comparison.verdict(row.direction)));
        this.addCell(tr, formatNumber(change.before, info.unit), "before");
        this.addCell(tr, formatNumber(change.after, info.unit), "after");
        this.addCell(tr, comparison.signed(change.value), "change");
        this.addCell(tr, interval ? comparison.rangeText(interval) : "-", "interval");
        const counted = interval && comparison.about.kind === "in use";

        this.addCell(tr, counted ? formatCount(change.gone) : "-", "gone");
        this.addCell(tr, counted ? formatCount(change.come) : "-", "come");
        tr.className = !comparison.isJudged || row.direction === NOT_KNOWN ? ""
            : row.direction > 0 ? "more" : row.direction < 0 ? "less" : "chance";
        return tr;
    }
}
