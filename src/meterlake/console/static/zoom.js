// Lets a person zoom in a chart over time. Without it the page has the server's picture and the table under it.
"use strict";

const soft = () => getComputedStyle(document.documentElement).getPropertyValue("--soft");

function colour(group) {
  const swatch = document.createElement("span");
  swatch.className = `group-${group % 8}`;
  document.body.append(swatch);
  const found = getComputedStyle(swatch).backgroundColor;
  swatch.remove();
  return found;
}

function button(label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "quiet";
  made.textContent = label;
  made.addEventListener("click", act);
  return made;
}

// Texts are the API's; numbers only say where a point is.
function draw(holder, told) {
  const places = told.labels.map((_, place) => place);
  const numbers = told.groups.map((each) => each.values.map((text) => (text === null ? null : Number(text))));
  const axis = { stroke: soft(), grid: { stroke: soft(), width: 0.25 }, ticks: { stroke: soft(), width: 0.25 } };
  const series = told.groups.map((each, group) => ({
    label: each.name || told.title,
    stroke: colour(group),
    width: 2,
    points: { show: told.labels.length < 100 },
    value: (_, number, at, place) => (place === null ? "" : each.shown[place] || "none"),
  }));
  return new uPlot({
    width: holder.clientWidth,
    height: 280,
    scales: { x: { time: false } },
    cursor: { drag: { x: true, y: false } },
    axes: [
      { ...axis, values: (_, splits) => splits.map((place) => told.labels[place] || "") },
      { ...axis, size: 80 },
    ],
    series: [{ label: "Time", value: (_, place) => (place === null ? "" : told.labels[place] || "") }, ...series],
  }, [places, ...numbers], holder);
}

function zoom(place) {
  const told = JSON.parse(place.dataset.zoom);
  const last = told.labels.length - 1;
  const holder = document.createElement("div");
  const buttons = document.createElement("p");
  const link = document.createElement("a");
  buttons.className = "links";
  place.querySelector("figure").hidden = true;
  place.append(holder, buttons);
  const plot = draw(holder, told);
  const show = (from, to) => {
    const width = Math.min(Math.max(to - from, 1), last);
    const start = Math.min(Math.max(from, 0), last - width);
    plot.setScale("x", { min: start, max: start + width });
  };
  const move = (share, factor) => () => {
    const { min, max } = plot.scales.x;
    const middle = (min + max) / 2 + (max - min) * share;
    const half = ((max - min) / 2) * factor;
    show(middle - half, middle + half);
  };
  plot.hooks.setScale = [() => {
    const { min, max } = plot.scales.x;
    const days = [told.days[Math.max(Math.ceil(min), 0)], told.days[Math.min(Math.floor(max), last)]];
    const address = new URL(location.href);
    address.searchParams.delete("time");
    address.searchParams.set("from", days[0]);
    address.searchParams.set("to", days[1]);
    link.href = address.href;
    link.textContent = `Ask for ${days[0]} to ${days[1]} alone`;
  }];
  buttons.append(
    button("Closer", move(0, 0.5)),
    button("Wider", move(0, 2)),
    button("Earlier", move(-0.5, 1)),
    button("Later", move(0.5, 1)),
    button("Whole time", () => show(0, last)),
    link,
  );
  show(0, last);
  addEventListener("resize", () => plot.setSize({ width: holder.clientWidth, height: 280 }));
  buttons.querySelector("button").focus();
}

for (const place of document.querySelectorAll("[data-zoom]")) {
  const open = button("Zoom in this chart", () => {
    open.remove();
    zoom(place);
  });
  place.append(open);
}
