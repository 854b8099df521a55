// Plots as SVG, made of rectangles and one path. Each is also a table, for whoever does not see it.

import { element, svg } from "./show.js";
import { number, tick, time } from "./text.js";

// On a phone a plot is drawn narrower, so that its words stay as large.
const isNarrow = matchMedia("(max-width: 1099px)");
const WIDTH = () => (isNarrow.matches ? 300 : 480);
const HEIGHT = 150;
const LEFT = 40;
const BOTTOM = 20;
const TOP = 8;

/** `series`: {name, of(point), look, isBelow}. Bars stand on each other, or hang below the line. */
export function barPlot(title, said, points, series) {
  const above = points.map((point) => sum(series.filter((s) => !s.isBelow), point));
  const below = points.map((point) => sum(series.filter((s) => s.isBelow), point));
  const [up, down] = [niceTop(Math.max(...above)), Math.max(...below) ? niceTop(Math.max(...below)) : 0];
  const width = WIDTH();
  const plot = frame(title, said, points, width);
  const scale = (HEIGHT - TOP - BOTTOM) / (up + down || 1);
  const zero = up + down ? TOP + up * scale : HEIGHT - BOTTOM;
  if (!up && !down) nothing(plot, width);
  const step = (width - LEFT) / points.length;
  axis(plot, width, zero, 0);
  if (up) axis(plot, width, TOP, up);
  if (down) axis(plot, width, zero + down * scale, down);
  points.forEach((point, index) => {
    let [high, low] = [zero, zero];
    const group = svg("g");
    for (const { name, of, look, isBelow } of series) {
      const tall = of(point) * scale;
      if (!tall) continue;
      const y = isBelow ? low : (high -= tall);
      if (isBelow) low += tall;
      group.append(
        svg("rect", { x: LEFT + index * step + 0.5, y, width: step - 1, height: tall, class: look }),
      );
    }
    if (group.childElementCount) {
      const told = series.map(({ name, of }) => `${number(of(point))} ${name}`).join(", ");
      group.prepend(svg("title", {}, `${time(point.at)}: ${told}`));
      plot.append(group);
    }
  });
  return figure(title, said, plot, points, series);
}

/** The running total of one value. */
export function totalPlot(title, said, points, one) {
  let total = 0;
  const totals = points.map((point) => (total += one.of(point)));
  const top = niceTop(total);
  const width = WIDTH();
  const plot = frame(title, said, points, width);
  const y = (value) => HEIGHT - BOTTOM - (value / (top || 1)) * (HEIGHT - TOP - BOTTOM);
  const step = (width - LEFT) / points.length;
  axis(plot, width, y(0), 0);
  if (top) axis(plot, width, y(top), top);
  const line = totals.map((value, n) => `L${LEFT + (n + 1) * step} ${y(value)}`).join("");
  const start = `M${LEFT} ${y(0)}`;
  if (!total) nothing(plot, width);
  else {
    plot.append(svg("path", { d: `${start}${line}L${width} ${y(0)}Z`, class: `${one.look} area` }));
    plot.append(svg("path", { d: start + line, class: `${one.look} line` }));
  }
  return figure(title, said, plot, points, [one], true);
}

const sum = (series, point) => series.reduce((all, { of }) => all + of(point), 0);

/** The next of 1, 2, 5, 10, 20, … so that an axis ends at a number that is easily read. */
export function niceTop(value) {
  if (value <= 0) return 0;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((each) => each * unit >= value) * unit;
}

const short = (value) =>
  value >= 1e6 ? `${value / 1e6}M` : value >= 1e3 ? `${value / 1e3}k` : String(value);

function frame(title, said, points, width) {
  const plot = svg("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`,
    role: "img",
    "aria-label": `${title}: ${said}`,
  });
  const places = [[0, "start"], [Math.floor(points.length / 2), "middle"], [points.length, "end"]];
  for (const [index, anchor] of places) {
    const x = LEFT + ((width - LEFT) * index) / points.length;
    const text = index === points.length ? "now" : tick(points[index].at, points[0].at);
    plot.append(svg("text", { x, y: HEIGHT - 4, "text-anchor": anchor }, text));
  }
  return plot;
}

function nothing(plot, width) {
  const middle = { x: LEFT + (width - LEFT) / 2, y: HEIGHT / 2, "text-anchor": "middle" };
  plot.append(svg("text", middle, "nothing in this time"));
}

function axis(plot, width, y, value) {
  plot.append(svg("line", { x1: LEFT, x2: width, y1: y, y2: y, class: value ? "grid" : "zero" }));
  plot.append(svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, short(value)));
}

function figure(title, said, plot, points, series, isTotal = false) {
  const legend = element("ul", { class: "legend", "aria-hidden": "true" });
  if (!isTotal) {
    for (const { name, look } of series) legend.append(element("li", { class: look }, name));
  }
  const told = points.filter((point) => series.some(({ of }) => of(point)));
  const head = element("tr", {}, ...["from", ...series.map(({ name }) => name)].map(
    (name) => element("th", { scope: "col" }, name)));
  const rows = told.map((point) => element("tr", {},
    element("th", { scope: "row" }, time(point.at)),
    ...series.map(({ of }) => element("td", {}, number(of(point))))));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  const details = element("details", {}, element("summary", {}, "as a table"), told.length
    ? table : element("p", { class: "quiet" }, "nothing in this time"));
  return element("figure", {},
    element("figcaption", {}, element("h3", {}, title), element("p", {}, said)),
    plot, element("div", { class: "under" }, legend, details));
}
