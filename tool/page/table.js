/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables beside the flame graph: functions and libraries (flat, and with all they call), sizes,
 * threads. Rows that are not shown cost no interval.
 */

const TABLE_ROWS = 40; /* at first, and with each "more" */

/* Rows {key, label, title, flat, total}: sets of tables of sums. */
function functionRows(profile, stackSums) {
    const sums = sumsByFrame(profile, stackSums, profile.nameOf, profile.names.length);

    return rowsOf(profile.names.map((name) => name || "[unknown]"), sums, shortName);
}

/* The line of a place; functions whose lines are not known count as one. */
function lineTitle(profile, place) {
    return profile.sourceOf(place) || profile.names[profile.nameOf[profile.frameOf[place]]];
}

function lineRows(profile, stackSums) {
    const titles = [], keys = new Map(), sources = new Set();
    const keyOf = profile.frameOf.map((_, place) => {
        const title = lineTitle(profile, place);

        if (profile.sourceOf(place))
            sources.add(title);

        if (!keys.has(title))
            keys.set(title, titles.push(title) - 1);
        return keys.get(title);
    });

    return rowsOf(titles, sumsByFrame(profile, stackSums, keyOf, titles.length,
                                      profile.stackPlaces),
                  (title) => sources.has(title) ? baseName(title) : shortName(title));
}

function libraryRows(profile, stackSums) {
    const sums = sumsByFrame(profile, stackSums, profile.libraryOf, profile.libraries.length);

    return rowsOf(profile.libraries, sums, baseName);
}

function rowsOf(titles, sums, labelOf) {
    const rows = [];

    titles.forEach((title, key) => {
        if (!sums.total.isEmpty(key))
            rows.push({key, title, label: labelOf(title), flat: sums.flat.value(key),
                       total: sums.total.value(key), sums: () => sums.total.get(key),
                       flatSums: () => sums.flat.isEmpty(key) ? null : sums.flat.get(key)});
    });
    return rows;
}

/* Rows by something that a row of the file has: sizes, threads. */
function rowsByColumn(profile, metric, filter, labels, column) {
    const table = profile.newTable(labels.length);

    profile.addRows(metric, filter, column, table);
    return rowsOf(labels, {flat: table, total: table}, (label) => label);
}

function sizeRows(profile, metric, filter) {
    const index = new Map(profile.sizes.map((size, i) => [size, i]));

    return rowsByColumn(profile, metric, {...filter, least: 0, most: Infinity},
                        profile.sizes.map(formatSize), (row) => index.get(profile.sizeOf[row]));
}

function threadRows(profile, metric, filter) {
    const {data} = profile;

    return rowsByColumn(profile, metric, {...filter, thread: -1},
                        [...data.threads, "[not recorded]"],
                        (row) => data.thread[row] < 0 ? data.threads.length : data.thread[row]);
}

class TableView {
    /* choose(row): a row was clicked. */
    constructor(table, more, choose) {
        this.table = table;
        this.more = more;
        this.choose = choose;
        this.by = "total";
        this.shown = TABLE_ROWS;
        this.rows = [];
        more.addEventListener("click", () => {
            this.shown *= 5;
            this.render();
        });
        for (const button of table.tHead.querySelectorAll("button"))
            button.addEventListener("click", () => {
                this.by = button.dataset.by;
                this.render();
            });
    }

    /* info: {head, unit, all, flat: whether the table has a column for it, isChosen(row)}. */
    set(rows, info) {
        this.rows = rows;
        this.info = info;
        this.shown = TABLE_ROWS;
        this.render();
    }

    render() {
        const {by, info} = this;
        /* Keys are in the order of names. */
        const compare = (x, y) => Math.abs(y) - Math.abs(x) || y - x;
        const order = {flat: (a, b) => compare(a.flat, b.flat) || compare(a.total, b.total),
                       total: (a, b) => compare(a.total, b.total), name: () => 0}[by];
        const rows = [...this.rows].sort((a, b) => order(a, b) || a.key - b.key);

        this.table.classList.toggle("no-flat", !info.flat);
        this.table.classList.toggle("no-life", !info.lives);
        this.showOrder();
        this.table.tBodies[0].replaceChildren(
            ...rows.slice(0, this.shown).map((row) => this.makeRow(row)));
        this.showMore(rows.length);
    }

    /* The heads of the columns: by which one the rows are sorted. */
    showOrder() {
        const {by, info} = this;

        for (const button of this.table.tHead.querySelectorAll("button")) {
            const sorted = button.dataset.by === by;

            button.parentElement.ariaSort =
                sorted ? by === "name" ? "ascending" : "descending" : "none";
            if (button.dataset.by === "name")
                button.textContent = info.head;
        }
    }

    showMore(count) {
        this.more.hidden = count <= this.shown;
        this.more.textContent = `${formatCount(count - this.shown)} more`;
    }

    /* The cell with the name. note: what else a screen reader says of the row, or "". */
    makeName(row, note) {
        const th = document.createElement("th"), button = document.createElement("button");
        const name = document.createElement("bdi");

        th.scope = "row";
        name.textContent = row.label;
        button.append(name);
        button.title = row.title;
        button.ariaPressed = String(this.info.isChosen(row));
        button.addEventListener("click", () => this.choose(row));
        if (note)
            button.setAttribute("aria-description", note);
        th.append(button);
        return th;
    }

    makeRow(row) {
        const {info} = this, tr = document.createElement("tr");
        const sums = row.sums();
        const interval = row.interval ??= info.sampled ? intervalOf(sums, 0) : null;
        const weak = info.isWeak(sums);

        tr.append(this.makeName(row, weak ? "chance may explain it" : ""));
        this.addCell(tr, formatNumber(row.flat, info.unit), row.flat ? "flat" : "flat none");
        const total = this.addCell(tr, formatNumber(row.total, info.unit), "total");
        const share = info.all ? Math.min(Math.abs(row.total / info.all), 1) : 0;
        total.style.setProperty("--share", 100 * share + "%");
        total.title = formatShare(row.total, info.all) + " of all";
        this.addCell(tr, interval ? formatRange(interval, info.unit) : "-", "interval");
        this.addCell(tr, interval ? formatCount(sums.samples) : "-", "samples");
        if (info.lives) {
            const cell = this.addCell(tr, formatTime(sums.life.mean), "life");

            cell.title = lifeText(sums);
            cell.setAttribute("aria-description", lifeText(sums));
        }
        if (weak)
            tr.className = "weak";
        return tr;
    }

    addCell(tr, text, name) {
        const td = document.createElement("td");

        td.textContent = text;
        td.className = name;
        tr.append(td);
        return td;
    }
}
