/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time line on a canvas: who held what, when, as bands on each other, and the interval of the
 * total. The moment that the page shows is a slider, for the mouse, keys and screen readers. The
 * list below it has the bands of that moment with their intervals.
 */

const BANDS_MOST = 7;
const LINE_TOP = 8, LINE_BOTTOM = 16; /* pixels around the bands */

class TimeLine {
    /* choose(moment): the page is to show another one. zoom(node): a band was clicked. */
    constructor(moments, choose, zoom) {
        Object.assign(this, {moments, choose, zoom, moment: 0, hover: -1});
        this.slider = element("slider");
        this.canvas = element("line");
        this.context = this.canvas.getContext("2d");
        this.setUp();
    }

    setUp() {
        const {slider, moments} = this, last = moments.count - 1;
        let down = false;

        element("timeline").hidden = false;
        slider.setAttribute("aria-valuemin", 0);
        slider.setAttribute("aria-valuemax", last);
        slider.addEventListener("pointerdown", (event) => {
            const {moment, band} = this.at(event);

            down = true;
            slider.setPointerCapture(event.pointerId);
            this.choose(moment);
            this.showTip(moment, band, event);
        });
        slider.addEventListener("pointermove", (event) => {
            const {moment, band} = this.at(event);

            if (down && moment !== this.moment)
                this.choose(moment);
            if (band !== this.hover) {
                this.hover = band;
                this.draw();
            }
            this.showTip(moment, band, event);
        });
        for (const name of ["pointerup", "pointercancel"])
            slider.addEventListener(name, () => { down = false; });
        slider.addEventListener("pointerleave", () => {
            this.hover = -1;
            hideTip();
            this.draw();
        });
        slider.addEventListener("keydown", (event) => {
            const steps = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10,
                           PageUp: 10, Home: -last, End: last};

            if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey)
                return;
            this.choose(Math.min(last, Math.max(0, this.moment + steps[event.key])));
            event.preventDefault();
        });
        this.measure();
        new ResizeObserver(() => {
            this.measure();
            this.draw();
        }).observe(slider);
    }

    /* After another metric, filter or zoom: what the bands are. */
    setBands(tree, node, metric, filter) {
        const {moments} = this, weights = moments.stackWeights(metric, filter);

        this.metric = metric;
        this.unit = profile.metrics[metric].unit;
        this.bands = bandsOf(tree, node, weights, BANDS_MOST);
        this.series = moments.series(metric, filter, this.bands.setOf, this.bands.of.length);
        this.totals = this.series.map((_, at) => this.interval(at, this.bands.of.length, true));
        this.most = Math.max(1, ...this.totals.map((ends) => isFinite(ends.high) ? ends.high
            : ends.value));
    }

    /* The value and the interval of a set at a moment. open: it may have what has no sample. */
    interval(at, set, open) {
        const sums = this.series[at].get(set);
        const unseen = this.moments.data.unseen[at][this.unit === "count" ? 1 : 0] ?? Infinity;

        return {value: sums.value, samples: sums.samples, ...intervalOf(sums, open ? unseen : 0)};
    }

    /* What the browser knows of the size is kept: to ask for it takes time. */
    measure() {
        this.width = this.slider.clientWidth;
        this.height = this.slider.clientHeight;
    }

    /* A moment as a time since the first one. */
    since(moment) {
        const {times} = this.moments, seconds = (times[moment] - times[0]) / 1000;

        return seconds < 100 ? `${fixed(seconds, 1)} s`
            : seconds < 6000 ? `${fixed(seconds / 60, 1)} min` : `${fixed(seconds / 3600, 1)} h`;
    }

    text(ends) {
        return `${formatAmount(ends.value, this.unit)} (${formatInterval(ends, this.unit)})`;
    }

    setMoment(moment) {
        const bands = this.bands.of, total = this.totals[moment];
        const rows = bands.map((band, i) => ({band, i, ends: this.interval(moment, i, false)}));
        const largest = [...rows].sort((a, b) => b.ends.value - a.ends.value).slice(0, 3);

        this.moment = moment;
        this.slider.setAttribute("aria-valuenow", moment);
        this.slider.setAttribute("aria-valuetext",
            `${this.since(moment)}: ${this.text(total)}. Largest: ` +
            largest.map(({band, ends}) => `${band.name} ${this.text(ends)}`).join("; "));
        element("moment").textContent =
            `${this.since(moment)} of ${this.since(this.moments.count - 1)}`;
        element("bands").replaceChildren(...rows.map((row) => this.bandItem(row)));
        this.draw();
    }

    bandItem({band, i, ends}) {
        const item = document.createElement("li"), button = document.createElement("button");
        const name = document.createElement("bdi"), amount = document.createElement("span");

        button.type = "button";
        button.title = `${band.name}: zooms to it`;
        name.textContent = shortName(band.name);
        amount.textContent = `${formatNumber(ends.value, this.unit)} ` +
            `(${formatRange(ends, this.unit)})`;
        button.append(name);
        button.addEventListener("click", () => this.zoom(band.node));
        button.addEventListener("pointerenter", () => { this.hover = i; this.draw(); });
        button.addEventListener("pointerleave", () => { this.hover = -1; this.draw(); });
        item.style.setProperty("--swatch", this.color(i));
        item.append(button, amount);
        return item;
    }

    color(band) {
        const rest = this.bands.of.length > BANDS_MOST ? BANDS_MOST : -1;

        return flame.palette[(band === rest ? HUES : band % HUES) * SHADES];
    }

    /* ---- Geometry ---- */

    x(moment) {
        const {times} = this.moments, span = times[times.length - 1] - times[0] || 1;

        return (times[moment] - times[0]) / span * (this.width - 1);
    }

    y(value) {
        const height = this.height - LINE_TOP - LINE_BOTTOM;

        return LINE_TOP + height * (1 - Math.min(value / this.most, 1));
    }

    /* What lies under the pointer: the nearest moment, and the band or -1. */
    at(event) {
        const around = this.slider.getBoundingClientRect(), {times} = this.moments;
        const share = (event.clientX - around.left) / Math.max(1, around.width - 1);
        const span = times[times.length - 1] - times[0];
        const moment = this.moments.nearest(times[0] + share * span);
        const y = event.clientY - around.top;
        let sum = 0;

        for (let band = 0; band < this.bands.of.length; band++) {
            const low = sum;

            sum += this.series[moment].value(band);
            if (y <= this.y(low) && y > this.y(sum))
                return {moment, band};
        }
        return {moment, band: -1};
    }

    showTip(moment, band, event) {
        const total = `All: ${this.text(this.totals[moment])}`;

        if (band < 0)
            showText(this.since(moment), [total], event.clientX, event.clientY);
        else
            showText(this.bands.of[band].name,
                     [this.text(this.interval(moment, band, false)),
                      `${this.since(moment)}. ${total}`], event.clientX, event.clientY);
    }

    /* ---- Drawing ---- */

    draw() {
        const {canvas, context} = this, ratio = window.devicePixelRatio || 1;
        const {width, height} = this;

        if (!this.series || !width)
            return;
        if (canvas.width !== Math.round(width * ratio) ||
            canvas.height !== Math.round(height * ratio)) {
            canvas.width = Math.round(width * ratio);
            canvas.height = Math.round(height * ratio);
            canvas.style.width = width + "px";
            canvas.style.height = height + "px";
        }
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, width, height);
        this.drawBands();
        this.drawTotal();
        if (this.hover >= 0)
            this.drawRibbon(this.hover);
        this.drawScale(width, height);
        this.drawMoment(height);
    }

    /* A closed shape between two lines of values. */
    shape(low, high) {
        const {context, series} = this;

        context.beginPath();
        series.forEach((_, i) => context.lineTo(this.x(i), this.y(high(i))));
        for (let i = series.length; i-- > 0;)
            context.lineTo(this.x(i), this.y(low(i)));
        context.closePath();
    }

    drawBands() {
        const {context, series} = this, base = new Float64Array(series.length);

        this.bands.of.forEach((_, band) => {
            const below = base.slice();

            series.forEach((table, i) => { base[i] += table.value(band); });
            context.globalAlpha = this.hover >= 0 && this.hover !== band ? 0.45 : 1;
            context.fillStyle = this.color(band);
            this.shape((i) => below[i], (i) => base[i]);
            context.fill();
        });
        context.globalAlpha = 1;
    }

    drawTotal() {
        const {context, totals} = this;
        const high = (ends) => isFinite(ends.high) ? ends.high : ends.value;

        context.fillStyle = flame.color.text;
        context.globalAlpha = 0.16;
        this.shape((i) => totals[i].low, (i) => high(totals[i]));
        context.fill();
        context.globalAlpha = 0.8;
        context.strokeStyle = flame.color.text;
        context.lineWidth = 1;
        context.beginPath();
        totals.forEach((ends, i) => context.lineTo(this.x(i), this.y(ends.value)));
        context.stroke();
        context.globalAlpha = 1;
    }

    /* The interval of a band, around its upper edge. */
    drawRibbon(band) {
        const {context, series} = this, below = (i) => {
            let sum = 0;

            for (let other = 0; other < band; other++)
                sum += series[i].value(other);
            return sum;
        };
        const ends = series.map((_, at) => this.interval(at, band, false));

        context.strokeStyle = flame.color.text;
        context.lineWidth = 1;
        context.setLineDash([3, 3]);
        for (const side of ["low", "high"]) {
            context.beginPath();
            series.forEach((_, i) => context.lineTo(this.x(i), this.y(below(i) + ends[i][side])));
            context.stroke();
        }
        context.setLineDash([]);
    }

    drawScale(width, height) {
        const {context} = this, last = this.moments.count - 1;

        context.font = FONT;
        context.fillStyle = flame.color["dim-text"];
        context.textBaseline = "alphabetic";
        context.textAlign = "left";
        context.fillText("0 s", 0, height - 3);
        context.fillText(formatNumber(this.most, this.unit), 2, LINE_TOP + 10);
        context.textAlign = "right";
        context.fillText(this.since(last), width, height - 3);
        context.textAlign = "left";
    }

    drawMoment(height) {
        const {context} = this, x = Math.round(this.x(this.moment)) + 0.5;

        context.strokeStyle = flame.color.focus;
        context.lineWidth = 2;
        context.beginPath();
        context.moveTo(x, 0);
        context.lineTo(x, height - LINE_BOTTOM + 2);
        context.stroke();
        context.fillStyle = flame.color.focus;
        context.beginPath();
        context.arc(x, this.y(this.totals[this.moment].value), 3.5, 0, 2 * Math.PI);
        context.fill();
    }
}
